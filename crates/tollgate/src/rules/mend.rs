//! Texts with brackets between brackets, as in `{ settle: response.header["x-tokens"] }`: YAML wants
//! quotes around them, people forget. What was meant is plain, so it is read, and said.

use super::Source;
use super::diagnostic::Diagnostic;
use super::yaml;

/// The longest text that is mended; each mend reads it once more.
const MAX_BYTES: usize = 64 << 10;
/// The most mends in one text.
const MAX_MENDS: usize = 32;

/// Puts quotes where YAML misses them; what was done goes to `found`.
pub(crate) fn mend(source: &mut Source, number: u32, found: &mut Vec<Diagnostic>) {
    if source.text.len() > MAX_BYTES {
        return;
    }
    for _ in 0..MAX_MENDS {
        let Err(problem) = yaml::parse(&source.text, number) else { return };
        let (true, Some(text)) = (problem.code == "unquoted", problem.fix.clone()) else { return };
        source.text.replace_range(problem.place.range(), &text);
        let message =
            format!("read as {text}: between {{ }} and [ ] a text with brackets goes in quotes");
        found.push(Diagnostic::warning("unquoted", problem.place, message));
    }
}
