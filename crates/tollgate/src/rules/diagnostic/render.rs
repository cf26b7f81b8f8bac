//! Findings as people and programs read them.

use std::ops::Range;

use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet, normalize_untrusted_str,
};

use super::whereabouts::{Cursor, Spot};
use super::{Diagnostic, Diagnostics, Finding, Severity};
use crate::rules::source::Place;

/// The most findings shown: nobody mends more at a time.
const MAX_SHOWN: usize = 100;
/// The longest replacement shown.
const MAX_FIX: usize = 200;

impl Diagnostics {
    /// Every finding with the lines it is about, in colour if asked for. Of more than a hundred
    /// the rest is counted.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut cursor = Cursor::default();
        let shown = self.list.iter().take(MAX_SHOWN);
        let mut reports: Vec<String> =
            shown.map(|found| self.render_one(&renderer, found, &mut cursor)).collect();
        if self.len() > reports.len() {
            let least = if self.is_full() { "at least " } else { "" };
            reports.push(format!("and {least}{} more", self.len() - reports.len()));
        }
        // The renderer makes control characters visible, except those above ASCII.
        reports.join("\n\n").replace(|c| matches!(c, '\u{80}'..='\u{9f}'), "\u{fffd}")
    }

    fn render_one(&self, renderer: &Renderer, found: &Diagnostic, cursor: &mut Cursor) -> String {
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level.primary_title(found.message.as_str()).id(found.code);
        let Some(spot) = cursor.find(&self.sources, found.place) else {
            return renderer.render(&[Group::with_title(title)]);
        };
        let mut group = Group::with_title(title);
        let near = found.aside.related.as_ref().filter(|(place, _)| is_near(found.place, *place));
        group = match shows(&spot) {
            false => group.element(origin(&spot)),
            true => {
                let window =
                    near.map_or(spot.line_start..spot.line_end, |(place, _)| window(&spot, *place));
                let first = spot.line - breaks(&spot.source.text[window.start..spot.line_start]);
                let mut here = AnnotationKind::Primary.span(within(&spot, found.place, &window));
                if let Some(label) = &found.aside.label {
                    here = here.label(label.as_str());
                }
                let mut snippet = snippet(&spot, &window, first).annotation(here);
                if let Some((place, how)) = near {
                    let range = one_line(&spot.source.text, place.range());
                    let range = range.start - window.start..range.end - window.start;
                    snippet =
                        snippet.annotation(AnnotationKind::Context.span(range).label(how.as_str()));
                }
                group.element(snippet)
            }
        };
        if let (None, Some((place, how))) = (near, &found.aside.related)
            && let Some(spot) = Cursor::default().find(&self.sources, *place)
        {
            group = match shows(&spot) {
                false => group.element(origin(&spot)),
                true => {
                    let window = spot.line_start..spot.line_end;
                    let there = AnnotationKind::Context.span(within(&spot, *place, &window));
                    group.element(
                        snippet(&spot, &window, spot.line).annotation(there.label(how.as_str())),
                    )
                }
            };
        }
        // Some say in words what the suggestion below shows.
        let said = |help: &&String| found.fix.is_some() && help.starts_with("did you mean");
        if let Some(help) = found.help.as_ref().filter(|help| !said(help)) {
            group = group.element(Level::HELP.message(normalize_untrusted_str(help)));
        }
        let mut groups = vec![group];
        if let Some(fix) = &found.fix {
            groups.extend(self.suggestion(found, fix));
        }
        renderer.render(&groups)
    }

    /// What to write instead, as a change of the line if it is one.
    fn suggestion<'s>(&'s self, found: &'s Diagnostic, fix: &'s str) -> Option<Group<'s>> {
        let place = found.aside.fix_place.unwrap_or(found.place);
        let spot = Cursor::default().find(&self.sources, place)?;
        let whole = found.aside.fix_place.is_none_or(|place| place == found.place);
        let title = match whole && fix.len() <= MAX_FIX {
            true => format!("did you mean `{}`?", normalize_untrusted_str(fix)),
            false => "write it like this".to_owned(),
        };
        let title = Level::HELP.secondary_title(title);
        let range = place.range();
        let one_line = range.end <= spot.line_end && !fix.contains('\n') && fix.len() <= MAX_FIX;
        if !one_line || !shows(&spot) {
            return whole.then(|| Group::with_title(title));
        }
        let window = spot.line_start..spot.line_end;
        let patch = Patch::new(within(&spot, place, &window), fix);
        Some(
            title.element(
                Snippet::source(&spot.source.text[window]).line_start(spot.line).patch(patch),
            ),
        )
    }

    /// The findings with their places looked up, for programs.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        let mut cursor = Cursor::default();
        self.list.iter().map(move |found| {
            let spot = cursor.find(&self.sources, found.place);
            let place = found.aside.fix_place.unwrap_or(found.place).range();
            Finding {
                severity: found.severity,
                code: found.code,
                message: &found.message,
                file: spot.as_ref().map_or("", |spot| spot.source.name.as_str()),
                line: spot.as_ref().map_or(1, |spot| spot.line),
                column: spot.as_ref().map_or(1, |spot| spot.column),
                snippet: spot.as_ref().map_or("", |spot| spot.text()),
                help: found.help.as_deref(),
                replacement: found.fix.as_deref(),
                from: place.start,
                to: place.end,
            }
        })
    }
}

/// Whether its line can be shown.
fn shows(spot: &Spot<'_>) -> bool {
    !spot.is_overlong() && spot.line_end > spot.line_start
}

fn origin<'s>(spot: &Spot<'s>) -> Origin<'s> {
    Origin::path(spot.source.name.as_str()).line(spot.line).char_column(spot.column)
}

fn snippet<'s>(
    spot: &Spot<'s>,
    window: &Range<usize>,
    line: usize,
) -> Snippet<'s, annotate_snippets::Annotation<'s>> {
    let text = &spot.source.text[window.clone()];
    Snippet::source(text).path(spot.source.name.as_str()).line_start(line)
}

/// What of a place to underline, counted from the window's start: no more than its first line,
/// and not the carriage returns at its end, which are not shown.
fn within(spot: &Spot<'_>, place: Place, window: &Range<usize>) -> Range<usize> {
    let range = one_line(&spot.source.text, place.range());
    let at = |offset: usize| offset.clamp(window.start, window.end) - window.start;
    at(range.start)..at(range.end)
}

fn one_line(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(range.start.min(text.len()));
    let end = text.floor_char_boundary(range.end.clamp(start, text.len()));
    let line = text[start..end].find('\n').map_or(end, |newline| start + newline);
    start..start + text[start..line].trim_end_matches('\r').len()
}

/// Whether two places are shown in one piece.
fn is_near(one: Place, other: Place) -> bool {
    one.source == other.source && one.start.abs_diff(other.start) <= 4_000
}

/// The lines from one place to another.
fn window(spot: &Spot<'_>, other: Place) -> Range<usize> {
    let text = &spot.source.text;
    let at = text.floor_char_boundary((other.start as usize).min(text.len()));
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1).min(spot.line_start);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline).max(spot.line_end);
    start..end
}

fn breaks(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
