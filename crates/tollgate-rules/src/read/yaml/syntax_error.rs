//! Diagnostics for a text that is not YAML, with what to write instead.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError, Tag};

use crate::read::diagnostic::Diagnostic;
use crate::read::source::SourceSpan;

/// Makes a diagnostic of an error of the parser.
pub(super) fn not_yaml(text: &str, source: u32, max_depth: usize, error: &ScanError) -> Diagnostic {
    let at = text.floor_char_boundary(error.marker().byte_offset().unwrap_or(0).min(text.len()));
    let here = text[at..].chars().next().filter(|c| !c.is_control()).map_or(0, char::len_utf8);
    let span = SourceSpan::new(source, at, at + here);
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    let diagnostic = |message: &str| Diagnostic::error("yaml", span, message);
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(span, max_depth),
        ErrorKind::TabInIndentation
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabAtBlockScalarStart => {
            diagnostic("YAML is indented with spaces, here is a tab").help("replace the tab by spaces")
        }
        ErrorKind::UnknownAnchor => Diagnostic::error("bad-alias", span, "this alias stands for nothing")
            .help("in YAML a text that begins with `*` is an alias; a pattern goes in quotes: \"*.example.com\""),
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            match unquoted(line, at - line_start) {
                Some(range) => {
                    let span = SourceSpan::new(source, line_start + range.start, line_start + range.end);
                    let message = "a text that contains brackets is not in quotes";
                    Diagnostic::error("unquoted", span, message)
                        .help("YAML needs quotes around such a text between { } and [ ]")
                        .fix(quoted(&line[range]))
                }
                None => diagnostic(&format!("this is not YAML: {}", error.info())),
            }
        }
        ErrorKind::DirectiveDisallowed => {
            diagnostic("rules have no YAML directives").help("leave out lines that begin with `%`")
        }
        ErrorKind::UnexpectedCharacter { .. } => {
            let message = format!("this is not YAML: {}", error.info());
            diagnostic(&message).help("a text that begins with a special character goes in quotes")
        }
        ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::InvalidIndentation => {
            diagnostic("this line does not belong to anything above it")
                .help("fields of one mapping, and entries of one list, begin in the same column")
        }
        _ => diagnostic(&format!("this is not YAML: {}", error.info())),
    }
}

/// Returns the range of a text that a bracket at `at` breaks off, as in `{ when: ip in ["a"], … }`.
fn unquoted(line: &str, at: usize) -> Option<Range<usize>> {
    if line.len() > 1_000 || !line[at..].starts_with(['[', '{']) {
        return None;
    }
    let before = &line[..at];
    let ends = [(": ", 2), (", ", 2), ("{", 1), ("[", 1)];
    let start = ends.iter().filter_map(|(end, len)| Some(before.rfind(end)? + len)).max()?;
    let start = at - line[start..at].trim_start().len();
    let mut depth = 0;
    for (offset, c) in line[at..].char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' | ',' if depth == 0 => {
                return Some(start..start + line[start..at + offset].trim_end().len());
            }
            ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn quoted(text: &str) -> String {
    match text.contains('"') {
        false => format!("\"{text}\""),
        true => format!("'{}'", text.replace('\'', "''")),
    }
}

pub(super) fn too_deep(span: SourceSpan, max_depth: usize) -> Diagnostic {
    let message = format!("nested more than {max_depth} deep");
    Diagnostic::error("too-deep", span, message).help("rules need six levels")
}

/// Makes a diagnostic of a tag that is not one of YAML's own.
pub(super) fn tag(text: &str, source: u32, tag: &Tag, at: &Range<usize>) -> Diagnostic {
    let original = tag.original();
    let line_start = text[..at.start].rfind('\n').map_or(0, |newline| newline + 1);
    // The span of the node begins behind its tag.
    let start = text[line_start..at.start].rfind('!').map_or(at.start, |bang| line_start + bang);
    let end = (start + original.len()).clamp(start, at.end.max(start));
    let excerpt: String = original.chars().take(40).collect();
    Diagnostic::error("tag", SourceSpan::new(source, start, end), format!("rules have no tags such as {excerpt}"))
        .help("in YAML a text that begins with `!` is a tag; an expression goes in quotes: when: \"!(…)\"")
}
