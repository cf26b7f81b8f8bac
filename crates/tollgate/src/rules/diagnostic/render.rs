//! Findings as people and programs read them.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::{Diagnostic, Diagnostics, Finding, Severity};

impl Diagnostics {
    /// Every finding with the lines it is about, in colour if asked for.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let reports: Vec<String> =
            self.list.iter().map(|found| self.render_one(&renderer, found)).collect();
        reports.join("\n\n")
    }

    fn render_one(&self, renderer: &Renderer, found: &Diagnostic) -> String {
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let Some(source) = self.sources.get(found.place.source as usize) else {
            return format!("{}[{}]: {}", severity(found.severity), found.code, found.message);
        };
        let range = found.place.range();
        let mut here = AnnotationKind::Primary.span(range);
        if let Some(label) = &found.label {
            here = here.label(label.as_str());
        }
        let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
        snippet = snippet.annotation(here);
        let mut group = level.primary_title(found.message.as_str()).id(found.code).element(snippet);
        if let Some((place, how)) = &found.related
            && let Some(source) = self.sources.get(place.source as usize)
        {
            let there = AnnotationKind::Context.span(place.range()).label(how.as_str());
            let snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
            group = group.element(snippet.annotation(there));
        }
        if let Some(help) = &found.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }

    /// The findings with their places looked up, for programs.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        self.list.iter().map(|found| {
            let (file, text) = match self.sources.get(found.place.source as usize) {
                Some(source) => (source.name.as_str(), source.text.as_str()),
                None => ("", ""),
            };
            let start = text.floor_char_boundary((found.place.start as usize).min(text.len()));
            let before = &text[..start];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            Finding {
                severity: found.severity,
                code: found.code,
                message: &found.message,
                file,
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                snippet: text[line_start..].lines().next().unwrap_or(""),
                help: found.help.as_deref(),
                replacement: found.fix.as_deref(),
            }
        })
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
