//! Reads any text as a file of rules, and decides any requests.

use super::{check_decisions, check_findings, parts, requests};
use crate::{Request, Rules, Source};

/// Reads any text as a file of rules, and decides any requests.
pub fn rules(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let (text, lines) = parts(input);
    let rules = match Rules::read([Source::new("fuzz.yaml", text)]) {
        Ok(rules) => rules,
        Err(found) => return check_findings(&found, text),
    };
    check_findings(rules.warnings(), text);
    let mut sent = requests(lines);
    let peer = [203, 0, 113, 7].into();
    sent.push(Request::new("POST", "/login").peer(peer).header("x-org", "acme").cost(3));
    // Words of the file are likely values of its rules.
    for word in text.split_whitespace().rev().take(8) {
        sent.push(Request::new("GET", word).attribute("user", word).attribute("plan", word));
    }
    check_decisions(&rules, &sent);
    if cases_are_short(text) {
        rules.run_cases().iter().for_each(|case| check_findings(&case.failures, text));
    }
}

/// Returns whether the cases have few requests: a million of them would look like a hang.
fn cases_are_short(text: &str) -> bool {
    let Some((_, cases)) = text.split_once("tests") else { return false };
    let numbers = cases.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let long = |word: &str| word.len() > 3 && word.starts_with(|c: char| c.is_ascii_digit());
    !numbers.into_iter().any(long) && !cases.contains(['k', 'M', '*'])
}
