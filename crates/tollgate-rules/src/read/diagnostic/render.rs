//! Renders diagnostics for people and for programs.

use std::ops::Range;

use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet, normalize_untrusted_str,
};

use super::line_cursor::{LineCursor, SourceLocation};
use super::{Diagnostic, Diagnostics, Finding, Severity};
use crate::read::source::SourceSpan;

/// The maximum number of diagnostics rendered.
const MAX_SHOWN: usize = 100;
/// The maximum length of a replacement that is rendered, in bytes.
const MAX_FIX: usize = 200;

impl Diagnostics {
    /// Renders the diagnostics with the lines they are about, in colour on request.
    ///
    /// After the first hundred it only counts.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut cursor = LineCursor::default();
        let shown = self.list.iter().take(MAX_SHOWN);
        let mut reports: Vec<String> =
            shown.map(|diagnostic| self.render_one(&renderer, diagnostic, &mut cursor)).collect();
        if self.len() > reports.len() {
            let least = if self.is_full() { "at least " } else { "" };
            reports.push(format!("and {least}{} more", self.len() - reports.len()));
        }
        // The renderer makes control characters visible, except those above ASCII.
        reports.join("\n\n").replace(|c| matches!(c, '\u{80}'..='\u{9f}'), "\u{fffd}")
    }

    fn render_one(
        &self,
        renderer: &Renderer,
        diagnostic: &Diagnostic,
        cursor: &mut LineCursor,
    ) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code);
        let Some(location) = cursor.find(&self.sources, diagnostic.span) else {
            return renderer.render(&[Group::with_title(title)]);
        };
        let mut group = Group::with_title(title);
        let near =
            diagnostic.extras.related.as_ref().filter(|(span, _)| is_near(diagnostic.span, *span));
        group = match shows(&location) {
            false => group.element(origin(&location)),
            true => {
                let window = near.map_or(location.line_start..location.line_end, |(span, _)| {
                    window(&location, *span)
                });
                let first = location.line
                    - breaks(&location.source.text[window.start..location.line_start]);
                let mut here =
                    AnnotationKind::Primary.span(within(&location, diagnostic.span, &window));
                if let Some(label) = &diagnostic.extras.label {
                    here = here.label(label.as_str());
                }
                let mut snippet = snippet(&location, &window, first).annotation(here);
                if let Some((span, note)) = near {
                    let range = one_line(&location.source.text, span.range());
                    let range = range.start - window.start..range.end - window.start;
                    snippet = snippet
                        .annotation(AnnotationKind::Context.span(range).label(note.as_str()));
                }
                group.element(snippet)
            }
        };
        if let (None, Some((span, note))) = (near, &diagnostic.extras.related)
            && let Some(location) = LineCursor::default().find(&self.sources, *span)
        {
            group = match shows(&location) {
                false => group.element(origin(&location)),
                true => {
                    let window = location.line_start..location.line_end;
                    let there = AnnotationKind::Context.span(within(&location, *span, &window));
                    group.element(
                        snippet(&location, &window, location.line)
                            .annotation(there.label(note.as_str())),
                    )
                }
            };
        }
        // The suggestion below replaces such a help.
        let is_shown =
            |help: &&String| diagnostic.fix.is_some() && help.starts_with("did you mean");
        if let Some(help) = diagnostic.help.as_ref().filter(|help| !is_shown(help)) {
            group = group.element(Level::HELP.message(normalize_untrusted_str(help)));
        }
        let mut groups = vec![group];
        if let Some(fix) = &diagnostic.fix {
            groups.extend(self.suggestion(diagnostic, fix));
        }
        renderer.render(&groups)
    }

    /// Renders the text to write instead, as a change of the line if it is within one.
    fn suggestion<'s>(&'s self, diagnostic: &'s Diagnostic, fix: &'s str) -> Option<Group<'s>> {
        let span = diagnostic.extras.fix_span.unwrap_or(diagnostic.span);
        let location = LineCursor::default().find(&self.sources, span)?;
        let whole = diagnostic.extras.fix_span.is_none_or(|span| span == diagnostic.span);
        let title = match whole && fix.len() <= MAX_FIX {
            true => format!("did you mean `{}`?", normalize_untrusted_str(fix)),
            false => "write it like this".to_owned(),
        };
        let title = Level::HELP.secondary_title(title);
        let range = span.range();
        let one_line =
            range.end <= location.line_end && !fix.contains('\n') && fix.len() <= MAX_FIX;
        if !one_line || !shows(&location) {
            return whole.then(|| Group::with_title(title));
        }
        let window = location.line_start..location.line_end;
        let patch = Patch::new(within(&location, span, &window), fix);
        Some(title.element(
            Snippet::source(&location.source.text[window]).line_start(location.line).patch(patch),
        ))
    }

    /// Iterates over the diagnostics with their lines and columns, for programs.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        let mut cursor = LineCursor::default();
        self.list.iter().map(move |diagnostic| {
            let location = cursor.find(&self.sources, diagnostic.span);
            let span = diagnostic.extras.fix_span.unwrap_or(diagnostic.span).range();
            Finding {
                severity: diagnostic.severity,
                code: diagnostic.code,
                message: &diagnostic.message,
                file: location.as_ref().map_or("", |location| location.source.name.as_str()),
                line: location.as_ref().map_or(1, |location| location.line),
                column: location.as_ref().map_or(1, |location| location.column),
                snippet: location.as_ref().map_or("", |location| location.text()),
                help: diagnostic.help.as_deref(),
                replacement: diagnostic.fix.as_deref(),
                from: span.start,
                to: span.end,
            }
        })
    }
}

/// Whether the line of a location can be shown.
fn shows(location: &SourceLocation<'_>) -> bool {
    !location.is_overlong() && location.line_end > location.line_start
}

fn origin<'s>(location: &SourceLocation<'s>) -> Origin<'s> {
    Origin::path(location.source.name.as_str()).line(location.line).char_column(location.column)
}

fn snippet<'s>(
    location: &SourceLocation<'s>,
    window: &Range<usize>,
    line: usize,
) -> Snippet<'s, annotate_snippets::Annotation<'s>> {
    let text = &location.source.text[window.clone()];
    Snippet::source(text).path(location.source.name.as_str()).line_start(line)
}

/// Returns the part of a span to underline, counted from the start of the window.
///
/// The range ends with the first line, before the carriage returns at its end, which are not shown.
fn within(location: &SourceLocation<'_>, span: SourceSpan, window: &Range<usize>) -> Range<usize> {
    let range = one_line(&location.source.text, span.range());
    let at = |offset: usize| offset.clamp(window.start, window.end) - window.start;
    at(range.start)..at(range.end)
}

fn one_line(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(range.start.min(text.len()));
    let end = text.floor_char_boundary(range.end.clamp(start, text.len()));
    let line = text[start..end].find('\n').map_or(end, |newline| start + newline);
    start..start + text[start..line].trim_end_matches('\r').len()
}

/// Whether two spans are near enough to be shown in one snippet.
fn is_near(one: SourceSpan, other: SourceSpan) -> bool {
    one.source == other.source && one.start.abs_diff(other.start) <= 4_000
}

/// Returns the lines from a location to another span.
fn window(location: &SourceLocation<'_>, other: SourceSpan) -> Range<usize> {
    let text = &location.source.text;
    let at = text.floor_char_boundary((other.start as usize).min(text.len()));
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1).min(location.line_start);
    let end =
        text[at..].find('\n').map_or(text.len(), |newline| at + newline).max(location.line_end);
    start..end
}

fn breaks(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
