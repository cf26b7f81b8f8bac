//! The plot: allowed and denied requests over time, one panel for each algorithm, as SVG.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::panel::{Panel, TimeOrigin};
use super::timeline::{Axis, Counts};
use crate::text;

const WIDTH: u32 = 1_000;
/// The heights of the title and legend, a panel, and the time below the last panel.
const HEAD: u32 = 76;
const PANEL: u32 = 150;
const FOOT: u32 = 48;
/// The maximum number of bars in a panel.
const MAX_BARS: u64 = 180;
/// The number of characters of the title that fit beside the legend.
const TITLE: usize = 70;

/// Blue and orange of Okabe and Ito's palette, distinguishable with colour blindness. Blue is also
/// much darker than orange.
const ALLOWED: RGBColor = RGBColor(0, 114, 178);
const DENIED: RGBColor = RGBColor(230, 159, 0);
const INK: RGBColor = RGBColor(40, 40, 40);
const PALE: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(225, 225, 225);
const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns an error if a path cannot be written, before any work is done.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    if path.is_dir() {
        bail!("cannot write the plot {shown}: it is a directory, expected a file such as out.svg");
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            bail!("cannot write the plot {shown}: there is no directory {}", folder.display())
        }
        _ => Ok(()),
    }
}

/// Draws the panels one below the other and writes them to `path`.
pub(super) fn save(
    path: &Path,
    panels: &[Panel<'_>],
    name: &str,
    origin: TimeOrigin,
) -> anyhow::Result<()> {
    let drawing = draw(panels, name, origin)?;
    fs::write(path, drawing).with_context(|| format!("cannot write the plot {}", path.display()))
}

fn draw(panels: &[Panel<'_>], name: &str, origin: TimeOrigin) -> anyhow::Result<String> {
    let mut svg = String::new();
    let height = HEAD + PANEL * panels.len() as u32 + FOOT;
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    // An error of the backend borrows from it.
    let drawn = draw_all(&root, panels, name, origin);
    drawn.map_err(|error| anyhow!("cannot draw the plot: {error}"))?;
    drop(root);
    Ok(svg)
}

fn draw_all(
    root: &Canvas<'_>,
    panels: &[Panel<'_>],
    name: &str,
    origin: TimeOrigin,
) -> anyhow::Result<()> {
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    let Some(axis) = Axis::new(panels.iter().map(|panel| panel.timeline), MAX_BARS) else {
        let nothing = match origin {
            TimeOrigin::Trace => "No requests: the trace has no check and no reserve.",
            TimeOrigin::Date => "No requests: the log is empty.",
        };
        title(&head, name, nothing)?;
        root.present()?;
        return Ok(());
    };
    let scale = Scale::new(&axis, origin);
    let each = text::duration(axis.width_us);
    title(
        &head,
        name,
        &format!("Requests in each {each}; a delayed request counts when it passes"),
    )?;
    legend(&head)?;
    let cuts: Vec<i32> = (1..panels.len()).map(|i| (PANEL * i as u32) as i32).collect();
    let areas = body.split_by_breakpoints(&[] as &[i32], &cuts);
    for (index, (area, panel)) in areas.iter().zip(panels).enumerate() {
        bars(area, panel, &axis.rows[index], &scale, index + 1 == panels.len())?;
    }
    root.present()?;
    Ok(())
}

fn title(head: &Canvas<'_>, name: &str, subtitle: &str) -> anyhow::Result<()> {
    let mut shown: String = name.chars().take(TITLE).collect();
    if name.chars().nth(TITLE).is_some() {
        shown.push('…');
    }
    let size = if shown.chars().count() > 40 { 17 } else { 22 };
    head.draw(&Text::new(
        shown,
        (24, 16),
        (FONT, size).into_font().style(FontStyle::Bold).color(&INK),
    ))?;
    head.draw(&Text::new(subtitle.to_owned(), (24, 46), (FONT, 13).into_font().color(&PALE)))?;
    Ok(())
}

fn legend(head: &Canvas<'_>) -> anyhow::Result<()> {
    for (x, name, colour) in [(800, "allowed", ALLOWED), (900, "denied", DENIED)] {
        head.draw(&Rectangle::new([(x, 20), (x + 14, 34)], colour.filled()))?;
        head.draw(&Text::new(name, (x + 20, 20), (FONT, 14).into_font().color(&INK)))?;
    }
    Ok(())
}

/// The conversion from microseconds and requests to the axes.
struct Scale {
    /// The unit of the time axis, and its name.
    unit_us: f64,
    unit: &'static str,
    /// The zero of the time axis.
    zero_us: u64,
    start_us: u64,
    width_us: u64,
    end: f64,
    most: f64,
    origin: TimeOrigin,
}

impl Scale {
    fn new(axis: &Axis, origin: TimeOrigin) -> Scale {
        let bins = axis.rows.first().map_or(1, Vec::len) as u64;
        let span_us = axis.width_us.saturating_mul(bins);
        let (unit_us, unit) = match span_us {
            0..2_000 => (1.0, "microseconds"),
            2_000..2_000_000 => (1e3, "milliseconds"),
            2_000_000..300_000_000 => (1e6, "seconds"),
            300_000_000..18_000_000_000 => (6e7, "minutes"),
            18_000_000_000..432_000_000_000 => (3.6e9, "hours"),
            _ => (8.64e10, "days"),
        };
        let mut scale = Scale {
            unit_us,
            unit,
            zero_us: axis.zero_us(),
            start_us: axis.start_us,
            width_us: axis.width_us,
            end: 0.0,
            most: axis.most().max(1) as f64,
            origin,
        };
        scale.end = scale.at(bins as f64);
        scale
    }

    /// Returns the position of a bin on the time axis.
    fn at(&self, bins: f64) -> f64 {
        ((self.start_us - self.zero_us) as f64 + bins * self.width_us as f64) / self.unit_us
    }

    fn name(&self) -> String {
        match self.zero_us {
            0 => format!("time in {}", self.unit),
            zero_us => format!("{} after {}", self.unit, self.origin.describe(zero_us)),
        }
    }
}

fn bars(
    area: &Canvas<'_>,
    panel: &Panel<'_>,
    row: &[Counts],
    scale: &Scale,
    last: bool,
) -> anyhow::Result<()> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(30)
        .margin_left(12)
        .margin_right(24)
        .margin_bottom(if last { 6 } else { 10 })
        .y_label_area_size(44)
        .x_label_area_size(if last { FOOT - 4 } else { 0 })
        .build_cartesian_2d(scale.at(0.0)..scale.end, 0.0..scale.most * 1.04)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(PALE)
        .x_labels(12)
        .y_labels(4)
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|y| if y.fract() == 0.0 { plain(*y) } else { String::new() })
        .x_desc(scale.name())
        .label_style((FONT, 12).into_font().color(&INK))
        .axis_desc_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    // Few bars have a wider gap between them.
    let gap = if row.len() > 120 { 0.04 } else { 0.1 };
    let bar = |index: usize, from: u64, to: u64, colour: RGBColor| {
        let (left, right) = (index as f64 + gap, (index + 1) as f64 - gap);
        let corners = [(scale.at(left), from as f64), (scale.at(right), to as f64)];
        Rectangle::new(corners, colour.filled())
    };
    let counted = |(_, counts): &(usize, &Counts)| **counts != Counts::default();
    for (index, counts) in row.iter().enumerate().filter(counted) {
        let top = counts.allowed + counts.denied;
        if counts.allowed > 0 {
            chart.draw_series([bar(index, 0, counts.allowed, ALLOWED)])?;
        }
        if counts.denied > 0 {
            chart.draw_series([bar(index, counts.allowed, top, DENIED)])?;
        }
    }
    caption(area, panel)
}

/// Draws the name of the panel on the left, and its counts on the right.
fn caption(area: &Canvas<'_>, panel: &Panel<'_>) -> anyhow::Result<()> {
    let bold = (FONT, 14).into_font().style(FontStyle::Bold).color(&INK);
    let right = (FONT, 12).into_font().color(&PALE).pos(Pos::new(HPos::Right, VPos::Top));
    let Counts { allowed, denied } = panel.total;
    let outcome = format!("{allowed} allowed, {denied} denied");
    let name = panel.title.chars().take(90).collect::<String>();
    area.draw(&Text::new(name, (56, 8), bold))?;
    area.draw(&Text::new(outcome, (WIDTH as i32 - 24, 10), right))?;
    Ok(())
}

/// Formats a number without floating-point noise.
fn plain(x: f64) -> String {
    let text = format!("{x:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}
