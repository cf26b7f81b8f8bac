//! Charts and comparisons for a terminal of 80 columns.

use std::io::{self, Write};

use super::algorithm_run::AlgorithmRun;
use super::panel::{Panel, TimeOrigin};
use super::timeline::{Axis, Counts};
use crate::style::Style;
use crate::text;

const WIDTH: usize = 80;
/// The widths of the names on the left of a chart: the algorithm, and the row.
const NAME: usize = 15;
const ROW: usize = 9;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the allowed and the denied requests of each panel.
pub(super) fn charts(
    out: &mut impl Write,
    style: Style,
    panels: &[Panel<'_>],
    origin: TimeOrigin,
) -> io::Result<()> {
    let timelines = panels.iter().map(|panel| panel.timeline);
    let Some(axis) = Axis::new(timelines, (WIDTH - NAME - ROW) as u64) else {
        return writeln!(out, "No requests: the trace has no check and no reserve.\n");
    };
    let most = axis.most();
    for (panel, row) in panels.iter().zip(&axis.rows) {
        let bars = |value: fn(&Counts) -> u64| -> String {
            row.iter().map(|counts| bar(value(counts), most)).collect()
        };
        let (allowed, denied) = (bars(|c| c.allowed), bars(|c| c.denied));
        let name: String = panel.label.chars().take(NAME - 1).collect();
        let name = format!("{name:<NAME$}");
        let (allowed, denied) = (allowed.trim_end(), denied.trim_end());
        writeln!(out, "{}{:<ROW$}{}", style.bold(name), "allowed", style.allowed(allowed))?;
        writeln!(out, "{:<NAME$}{:<ROW$}{}", "", "denied", style.denied(denied))?;
    }
    writeln!(out, "{}", style.dim(ruler(&axis)))?;
    let (indent, each) = (NAME + ROW, text::duration(axis.width_us));
    let mut note =
        format!("One column is {each}; the highest bar is {}.", text::count(most, "request"));
    if axis.zero_us() > 0 {
        note.push_str(&format!(
            "\n{:indent$}Time counts from {}.",
            "",
            origin.describe(axis.zero_us())
        ));
    }
    writeln!(out, "{:indent$}{}\n", "", style.dim(note))
}

/// Returns the bar of a value: the lowest for any request, the highest for the maximum.
fn bar(value: u64, most: u64) -> char {
    let steps = BARS.len() as u128 - 1;
    let height = (u128::from(value) * steps).div_ceil(u128::from(most.max(1)));
    BARS[height as usize]
}

/// Returns the time marks below the bars, one every ten columns.
fn ruler(axis: &Axis) -> String {
    let count = axis.rows.first().map_or(0, Vec::len);
    let mut ruler = " ".repeat(NAME + ROW);
    for column in (0..count).step_by(10) {
        let since = axis.start_us - axis.zero_us();
        let at = since.saturating_add(axis.width_us.saturating_mul(column as u64));
        let mark = format!("|{}", text::duration(at));
        // A mark that overlaps the next one or the edge is omitted.
        let fits = (NAME + ROW + column).max(ruler.chars().count()) == NAME + ROW + column
            && NAME + ROW + column + mark.chars().count() <= WIDTH;
        if fits {
            let pad = NAME + ROW + column - ruler.chars().count();
            ruler.push_str(&" ".repeat(pad));
            ruler.push_str(&mark);
        }
    }
    ruler
}

/// Writes the counts of each run. The peak is measured in windows of `window_us`.
pub(super) fn comparison(
    out: &mut impl Write,
    style: Style,
    runs: &mut [AlgorithmRun],
    window_us: u64,
) -> io::Result<()> {
    let window = text::duration(window_us);
    let note = format!(
        "Longest run: denials in a row on one key. Peak: the most that passed on one key\nin any {window}."
    );
    let window = format!("peak in {window}");
    let head = ["allowed", "denied", "longest run", &window];
    let widths = head.map(|title| title.chars().count() + 2);
    let line = |cells: [String; 4]| -> String {
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect()
    };
    let titles = line(head.map(String::from));
    writeln!(out, "{}", style.dim(format!("{:<NAME$}{titles}", "")))?;
    for run in runs {
        let (longest, peak) = (run.tally.longest_run(), run.tally.peak());
        let Counts { allowed, denied } = run.tally.total;
        let cells = line([allowed, denied, longest, peak].map(|n| n.to_string()));
        let name = format!("{:<NAME$}", run.label());
        writeln!(out, "{}{cells}  {}", style.bold(name), style.dim(&run.limits))?;
    }
    writeln!(out, "{}", style.dim(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_request_has_a_bar_and_the_maximum_is_full() {
        assert_eq!([0, 1, 50, 99, 100].map(|n| bar(n, 100)), [' ', '▁', '▄', '█', '█']);
        assert_eq!(bar(0, 0), ' ');
        assert_eq!(bar(u64::MAX, u64::MAX), '█');
    }
}
