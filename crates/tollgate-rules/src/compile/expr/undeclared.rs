//! Errors about names that no request has, with what to write instead.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Scope, locate};
use crate::compile::attribute_catalogue::{GROUPS, names_to_suggest};
use crate::read::fault::Fault;

/// The code of the error.
const CODE: &str = "undeclared-name";

/// The maximum length of a name that is compared with others.
const MAX_COMPARED: usize = 40;
/// The maximum number of declared names that one is compared with, since comparing takes time.
const MAX_CANDIDATES: usize = 100;
/// The maximum length of a name in a message.
const MAX_SHOWN: usize = 60;

/// Names of other programs for attributes, with their parts joined by `_`.
const SYNONYMS: [(&str, &str); 37] = [
    ("ip_address", "ip"),
    ("ip_addr", "ip"),
    ("ipaddress", "ip"),
    ("client_ip", "ip"),
    ("clientip", "ip"),
    ("client_address", "ip"),
    ("remote_ip", "ip"),
    ("remote_addr", "ip"),
    ("remote_address", "ip"),
    ("binary_remote_addr", "ip"),
    ("source_ip", "ip"),
    ("source_address", "ip"),
    ("src_ip", "ip"),
    ("real_ip", "ip"),
    ("forwarded_for", "ip"),
    ("x_forwarded_for", "ip"),
    ("address", "ip"),
    ("addr", "ip"),
    ("verb", "method"),
    ("http_method", "method"),
    ("url", "path"),
    ("uri", "path"),
    ("url_path", "path"),
    ("pathname", "path"),
    ("hostname", "host"),
    ("http_host", "host"),
    ("authority", "host"),
    ("route", "endpoint"),
    ("status", "response.status"),
    ("status_code", "response.status"),
    ("api_key", "header[\"x-api-key\"]"),
    ("apikey", "header[\"x-api-key\"]"),
    ("x_api_key", "header[\"x-api-key\"]"),
    ("authorization", "header[\"authorization\"]"),
    ("user_agent", "header[\"user-agent\"]"),
    ("referer", "header[\"referer\"]"),
    ("content_length", "header[\"content-length\"]"),
];

/// Names of other programs for the maps of a request.
const MAP_SYNONYMS: [(&str, &str); 12] = [
    ("headers", "header"),
    ("header", "header"),
    ("http_headers", "header"),
    ("query", "query"),
    ("queries", "query"),
    ("query_params", "query"),
    ("args", "query"),
    ("cookies", "cookie"),
    ("cookie", "cookie"),
    ("params", "param"),
    ("path_params", "param"),
    ("claims", "jwt"),
];

/// Names under which other programs have the whole request.
const REQUEST_WORDS: [&str; 3] = ["request", "req", "http"];

/// What becomes of names that nothing declares: an error, or they are collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndeclaredNames(Option<Arc<Mutex<BTreeSet<String>>>>);

impl UndeclaredNames {
    /// Accepts all names, and remembers them.
    pub(crate) fn collected() -> UndeclaredNames {
        UndeclaredNames(Some(Arc::default()))
    }

    /// Remembers a name; returns whether it is accepted.
    pub(super) fn accept(&self, name: &str) -> bool {
        let Some(names) = &self.0 else { return false };
        names.lock().insert(name.to_owned());
        true
    }

    /// Returns the remembered names, sorted.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.0.map(|names| std::mem::take(&mut *names.lock())).into_iter().flatten().collect()
    }
}

/// Makes the error about a name of these parts, which nothing supplies and nothing declares.
pub(super) fn fault(parts: &[&str], text: &str, scope: &Scope) -> Fault {
    let name = parts.join(".");
    if let Some(fault) = word_fault(text) {
        return fault;
    }
    let range = locate::name(text, parts);
    if let [group] = parts
        && GROUPS.contains(group)
    {
        let example = if *group == "response" { "status" } else { "NAME" };
        return Fault::new(range, format!("which field of `{group}` is meant?"))
            .code(CODE)
            .help(format!("write `{group}.{example}`"));
    }
    let fault = Fault::new(range, format!("there is no attribute `{}`", shown(&name))).code(CODE);
    // A hostile file has many wrong names, and comparing each with all others takes time.
    let meant = if scope.budget.is_spent() { None } else { meant(parts, &name, scope) };
    match meant {
        Some(meant) if parts.iter().all(|part| part.bytes().all(is_name_byte)) => fault
            .help(format!("an attribute that callers send is declared: `attributes: [{name}]`"))
            .fix(meant),
        Some(meant) => fault.fix(meant),
        None => fault.help(declaration_help(&name)),
    }
}

/// Makes the error about a text that is one word with hyphens: `x-api-key`.
pub(super) fn word_fault(text: &str) -> Option<Fault> {
    let word = hyphenated_word(text)?;
    let meant = format!("header[\"{}\"]", word.to_ascii_lowercase());
    let fault = Fault::new(0..text.len(), format!("there is no attribute `{}`", shown(word)));
    Some(fault.code(CODE).help(format!("if it is a header, write `{meant}`")).fix(meant))
}

/// Makes the error about a name with hyphens behind a dot, which would be a subtraction.
pub(super) fn hyphen_fault(text: &str) -> Option<Fault> {
    let (range, map, key) = hyphenated_entry(text)?;
    let meant = format!("{map}[\"{key}\"]");
    let message = format!("a name with a hyphen is written in brackets: `{meant}`");
    Some(Fault::new(range, message).help("put blanks around a minus, as in `a - b`").fix(meant))
}

fn shown(name: &str) -> String {
    let mut characters = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    let start: String = characters.by_ref().take(MAX_SHOWN).collect();
    if characters.next().is_some() { format!("{start}…") } else { start }
}

fn declaration_help(name: &str) -> String {
    let name = shown(name);
    let last = name.rsplit('.').next().unwrap_or(&name).replace('_', "-").to_ascii_lowercase();
    format!(
        "if callers send it with the request, declare it: `attributes: [{name}]`; \
         if it is in a header: `attributes: {{ {}: 'header[\"x-{last}\"]' }}`",
        name.replace('.', "_")
    )
}

/// Returns the attribute that was probably meant.
fn meant(parts: &[&str], name: &str, scope: &Scope) -> Option<String> {
    if name.len() > MAX_COMPARED {
        return None;
    }
    let lower: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
    // `request.headers["x"]` and `http.request.headers["x"]` are `header["x"]`.
    let is_request = |part: &&String| REQUEST_WORDS.contains(&part.as_str());
    let skipped = lower.iter().take_while(is_request).count();
    if let [map, .., key] = &lower[skipped..] {
        let known = MAP_SYNONYMS.iter().find(|(other, _)| other == map);
        if let Some((_, ours)) = known.filter(|(other, ours)| skipped > 0 || other != ours) {
            let key = if *ours == "header" { key } else { *parts.last()? };
            return Some(format!("{ours}[\"{key}\"]"));
        }
    }
    let declared = scope.attributes.iter().map(|(name, _)| &**name).take(MAX_CANDIDATES);
    let mut candidates: Vec<&str> = declared.collect();
    names_to_suggest().for_each(|name| candidates.push(name));
    let joined = lower[skipped..].join("_");
    let same = candidates.iter().find(|known| {
        known.eq_ignore_ascii_case(name) || (skipped > 0 && known.eq_ignore_ascii_case(&joined))
    });
    if let Some(same) = same {
        return Some((*same).to_owned());
    }
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == joined);
    if let Some((_, ours)) = synonym {
        return Some((*ours).to_owned());
    }
    // One letter, or two in a long name: `user` is not a misspelled `peer`.
    let most = if name.len() >= 8 { 2 } else { usize::from(name.len() > 3) };
    let lower_name = name.to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&lower_name, &known.to_lowercase());
    let is_close = |known: &&str| known.len().abs_diff(name.len()) <= most;
    let measured = candidates.into_iter().filter(is_close).map(|known| (distance(known), known));
    let nearest = measured.min_by_key(|(distance, _)| *distance);
    nearest.filter(|(distance, _)| *distance <= most).map(|(_, known)| known.to_owned())
}

/// Returns a text that is one word with hyphens: `x-api-key`.
fn hyphenated_word(text: &str) -> Option<&str> {
    let word = text.trim();
    let is_name = |part: &str| !part.is_empty() && part.bytes().all(is_name_byte);
    let starts = word.starts_with(|first: char| first.is_ascii_alphabetic());
    (starts && word.contains('-') && word.len() <= MAX_COMPARED && word.split('-').all(is_name))
        .then_some(word)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Finds `header.x-api-key` outside literals: its range, the map and the name in it.
fn hyphenated_entry(text: &str) -> Option<(Range<usize>, &str, &str)> {
    if !text.contains('-') {
        return None;
    }
    let tokens: Vec<_> = locate::tokens(text).map(|token| token.start..token.end).collect();
    let is_word = |range: &Range<usize>| {
        let word = text.get(range.clone()).unwrap_or_default();
        !word.is_empty() && word.bytes().all(is_name_byte)
    };
    let is = |range: &Range<usize>, sign: &str| text.get(range.clone()) == Some(sign);
    let mut first = 0;
    while first < tokens.len() {
        // A chain of words and dots without blanks, then hyphens and words without blanks.
        let mut last = first;
        let mut dot = None;
        let touches = |index: usize| {
            tokens.get(index + 1).is_some_and(|next| tokens[index].end == next.start)
        };
        while is_word(&tokens[last])
            && touches(last)
            && touches(last + 1)
            && is(&tokens[last + 1], ".")
            && is_word(&tokens[last + 2])
        {
            dot = Some(last + 1);
            last += 2;
        }
        let mut end = last;
        while dot.is_some()
            && touches(end)
            && touches(end + 1)
            && is(&tokens[end + 1], "-")
            && is_word(&tokens[end + 2])
        {
            end += 2;
        }
        if let Some(dot) = dot.filter(|_| end > last) {
            let range = tokens[first].start..tokens[end].end;
            let key = tokens[dot].end..range.end;
            return Some((range.clone(), &text[range.start..tokens[dot].start], &text[key]));
        }
        first = last + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::attribute::Attribute;
    use crate::compile::expr::Expr;

    fn fix(text: &str) -> Option<String> {
        let declared =
            |name: &str| (name.into(), Expr::of_attribute(Attribute::Named(name.into())));
        let scope = Scope { attributes: vec![declared("organisation")], ..Scope::default() };
        let fault = Expr::compile(text, &scope).expect_err(text);
        fault
            .fix
            .map(|fix| format!("{}{fix}{}", &text[..fault.range.start], &text[fault.range.end..]))
    }

    #[test]
    fn typos_and_names_of_other_programs_have_a_suggestion() {
        for (text, meant) in [
            ("IP", "ip"),
            ("ip_address", "ip"),
            ("client.ip", "ip"),
            ("request.remote_addr", "ip"),
            ("header.x-api-key", r#"header["x-api-key"]"#),
            ("x-api-key", r#"header["x-api-key"]"#),
            (r#"request.headers["X-Api-Key"]"#, r#"header["x-api-key"]"#),
            (r#"headers["x-api-key"]"#, r#"header["x-api-key"]"#),
            (r#"http.request.headers["a"]"#, r#"header["a"]"#),
            (r#"request.query["Page"] == "1""#, r#"query["Page"] == "1""#),
            ("request.method", "method"),
            ("response.staus", "response.status"),
            ("organsation", "organisation"),
            ("claims.sub", r#"jwt["sub"]"#),
            (
                r#"ip == "::1" && header.x-org == "a-b""#,
                r#"ip == "::1" && header["x-org"] == "a-b""#,
            ),
            ("response.header.x-cost * 2", r#"response.header["x-cost"] * 2"#),
        ] {
            assert_eq!(fix(text).as_deref(), Some(meant), "{text}");
        }
        for unrelated in ["user", "org", "body", "jwt", "response", "requests.path.x"] {
            assert_eq!(fix(unrelated), None, "{unrelated}");
        }
    }

    #[test]
    fn a_minus_between_blanks_subtracts() {
        for text in ["cost - 1", "body.a - body.b", "cost-1", "body.a -1", r#"query["a-b"]"#] {
            assert!(Expr::compile(text, &Scope::default()).is_ok(), "{text}");
        }
    }
}
