//! Tables with aligned columns.

use std::io::{self, Write};

use crate::style::{Style, Tone};

/// One cell: a text and its tone.
#[derive(Clone, Debug)]
pub(crate) struct Cell(String, Tone);

impl Cell {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Cell {
        Cell(text.into(), tone)
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell(text.to_string(), Tone::Plain)
    }
}

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table: its rows are collected first, since the widths depend on all of them.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    head: [(&'static str, Align); N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [(&'static str, Align); N]) -> Table<N> {
        Table { head, rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: [Cell; N]) {
        self.rows.push(row);
    }

    /// Writes the table, each line after `indent` spaces. Without any title there is no head line.
    pub(crate) fn write(
        &self,
        out: &mut impl Write,
        style: Style,
        indent: usize,
    ) -> io::Result<()> {
        let mut widths = self.head.map(|(title, _)| title.chars().count());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.0.chars().count());
            }
        }
        let head = self.head.map(|(title, _)| Cell::new(Tone::Dim, title));
        let has_head = self.head.iter().any(|(title, _)| !title.is_empty());
        for row in has_head.then_some(&head).into_iter().chain(&self.rows) {
            self.line(out, style, indent, row, &widths)?;
        }
        Ok(())
    }

    fn line(
        &self,
        out: &mut impl Write,
        style: Style,
        indent: usize,
        row: &[Cell; N],
        widths: &[usize; N],
    ) -> io::Result<()> {
        // Padding is written only before a text, so that no line ends in spaces.
        let mut pad = indent;
        for ((Cell(text, tone), (_, align)), width) in row.iter().zip(&self.head).zip(widths) {
            let padding = width - text.chars().count();
            let (before, after) = if *align == Align::Left { (0, padding) } else { (padding, 0) };
            if !text.is_empty() {
                write!(out, "{:1$}", "", pad + before)?;
                write!(out, "{}", style.tone(*tone, text))?;
                pad = 0;
            } else {
                pad += before;
            }
            pad += after + 2;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_line_ends_in_spaces() {
        let mut table = Table::new([("name", Align::Left), ("n", Align::Right), ("", Align::Left)]);
        table.push(["é".into(), 10.into(), "x".into()]);
        table.push(["longer".into(), 5.into(), "".into()]);
        table.push(["".into(), "".into(), "note".into()]);
        let mut text = Vec::new();
        table.write(&mut text, Style::when(false), 1).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, " name     n\n é       10  x\n longer   5\n             note\n");
    }
}
