//! Reads any text as an expression, in every position of a rule file, and decides any requests.

use super::{check_decisions, check_findings, parts, requests};
use crate::{Request, Rules, Source};

/// Files with an expression at `@`.
const FILES: [&str; 6] = [
    "attributes: [user, org, a, b]\nrules: [{ name: a, when: @, limit: 2/h }]",
    "attributes: [user, org, a, b]\nrules: [{ name: a, per: [ip, @], limit: 2/h }]",
    "attributes: [user, org, a, b]\nrules: [{ name: a, per: user, cost: @, limit: 10/h }]",
    "attributes: [user, org, a, b]\nrules: [{ name: a, cost: { reserve: 3, settle: @ }, limit: 10/h }]",
    "attributes: [user, org, a, b]\nrules: [{ name: a, count: @, limit: 2/h }]",
    "attributes: { user: {}, org: {}, it: @ }\nrules: [{ name: a, when: has(it), per: it, limit: 2/h }]",
];

/// Reads any text as an expression, in every position of a rule file, and decides any requests.
pub fn expression(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let (expression, lines) = parts(input);
    let quoted = quoted(expression);
    let mut sent = requests(lines);
    sent.push(Request::new("POST", "/login").attribute("user", "ann").header("x-org", "acme"));
    sent.push(sent[0].clone());
    for file in FILES {
        let text = format!("lists: {{ office: [203.0.113.0/24, 'a*'] }}\n{file}\n");
        let text = text.replacen('@', &quoted, 1);
        match Rules::read([Source::new("fuzz.yaml", text.as_str())]) {
            Ok(rules) => {
                check_findings(rules.warnings(), &text);
                check_decisions(&rules, &sent);
            }
            Err(found) => check_findings(&found, &text),
        }
    }
}

/// Quotes the text as YAML, unchanged if possible, so that findings point into it.
fn quoted(text: &str) -> String {
    if !text.contains(|c: char| c == '\'' || c.is_control()) {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
