//! Tables whose columns line up, coloured or not.

use std::io::{self, Write};

use crate::style::{Style, Tone};

/// One cell: a text and what it is.
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

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under a head, held until all are known.
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

    /// Writes it, each line after `indent` spaces. Columns without a title have no head; if none
    /// has one, there is no line for it.
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
        // Spaces at the end of a line are noise, so a pad is only written before something.
        let mut pad = indent;
        for ((Cell(text, tone), (_, align)), width) in row.iter().zip(&self.head).zip(widths) {
            let room = width - text.chars().count();
            let (before, after) = if *align == Align::Left { (0, room) } else { (room, 0) };
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
    fn columns_line_up_and_no_line_ends_in_spaces() {
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
