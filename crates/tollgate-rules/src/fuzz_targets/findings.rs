//! Diagnostics must be valid themselves: printable, and with positions inside the text.

use crate::{CODES, Diagnostics};

/// Renders the findings about a text and checks their positions.
///
/// # Panics
/// If a position is not in the text, or the output contains control characters.
pub(super) fn check_findings(found: &Diagnostics, text: &str) {
    let plain = found.render(false);
    assert_eq!(plain.is_empty(), found.is_empty());
    let printable = |c: char| c == '\n' || !c.is_control();
    assert!(plain.chars().all(printable), "control characters reach the terminal: {plain:?}");
    assert!(found.render(true).len() >= plain.len());
    for finding in found.findings() {
        assert!(CODES.iter().any(|(code, ..)| *code == finding.code), "{finding:?}");
        assert!(finding.from <= finding.to, "{finding:?}");
        assert!(text.get(finding.from..finding.to).is_some(), "{finding:?}");
        let line = text.split('\n').nth(finding.line - 1);
        let line = line.unwrap_or_else(|| panic!("no such line: {finding:?}"));
        assert!(line.starts_with(finding.snippet), "{finding:?}");
        let end = line.chars().count() + 1;
        assert!((1..=end).contains(&finding.column), "{finding:?}");
        assert!(!finding.message.is_empty());
    }
}
