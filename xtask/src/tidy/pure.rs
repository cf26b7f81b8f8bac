//! Rules for `tollgate-core`: no float, no clock, no lock, no I/O (architecture invariant 1).
//!
//! The manifest cannot say this, since `std` has all of them; so it is said here.

use super::Finding;
use super::lex::{Source, Token, is_word, tokens};

/// What core may not name, with what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("std::time::Instant", "core reads no clock: take `now` from the caller"),
    ("std::time::SystemTime", "core reads no clock: take `now` from the caller"),
    ("std::time::UNIX_EPOCH", "core reads no clock: take `now` from the caller"),
    ("std::sync", "core takes no lock and shares nothing: the store does"),
    ("std::thread", "core starts no thread: the store or the caller does"),
    ("std::fs", "core does no I/O: pass the data in"),
    ("std::io", "core does no I/O: pass the data in"),
    ("std::net", "core does no I/O: pass the data in"),
];

pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let tokens = tokens(&source.code);
    let mut findings = Vec::new();
    for token in floats(&tokens) {
        let what = format!("a float, at `{}`: decisions are made in integers, exactly", token.text);
        findings.push(Finding::new(path, token.line, what));
    }
    for (line, named) in std_paths(&tokens) {
        if let Some((banned, instead)) = BANNED.iter().find(|(banned, _)| reaches(&named, banned)) {
            findings.push(Finding::new(path, line, format!("`{banned}`: {instead}")));
        }
    }
    findings
}

/// Whether naming `named` lets one use `banned`: it is that, or inside it, or all around it.
fn reaches(named: &str, banned: &str) -> bool {
    let is_in = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let whole = named.strip_suffix("::*").or(named.strip_suffix("::self")).unwrap_or(named);
    is_in(named, banned) || is_in(banned, whole)
}

/// Float types and literals: `f64`, `1f32`, `0.5`, `1.`, `1e9`.
fn floats<'a>(tokens: &'a [Token<'a>]) -> impl Iterator<Item = &'a Token<'a>> {
    let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| token.text);
    let is_float = move |at: usize| {
        let token = tokens[at].text;
        // `a.0` has a field, `0..1` has numbers.
        let is_field = text(at.checked_sub(1)) == "." && text(at.checked_sub(2)) != ".";
        let is_number = token.starts_with(|c: char| c.is_ascii_digit()) && !is_field;
        // `1.5` and `1.` have a point; `0..5` and `1.max(2)` do not.
        let has_point = text(Some(at + 1)) == "."
            && !text(Some(at + 2)).starts_with(|c: char| c == '.' || c == '_' || c.is_alphabetic());
        matches!(token, "f32" | "f64") || is_number && (has_point || is_float_token(token))
    };
    (0..tokens.len()).filter(move |&at| is_float(at)).map(|at| &tokens[at])
}

/// A number without a point that is a float all the same.
fn is_float_token(token: &str) -> bool {
    let is_hex = token.starts_with("0x");
    let is_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '_');
    let has_exponent =
        token.split_once(['e', 'E']).is_some_and(|(a, b)| is_digits(a) && is_digits(b));
    !is_hex && (token.ends_with("f32") || token.ends_with("f64") || has_exponent)
}

/// Every path under `std` (or `core`, read as `std`) with its line; `use` groups are expanded.
fn std_paths(tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        // `tollgate::core::x` is not ours to judge.
        let before = |n| at.checked_sub(n).map_or("", |at| tokens[at].text);
        let is_root = before(1) != "::" || before(2) == "use" || !before(2).starts_with(is_word);
        if matches!(token.text, "std" | "core")
            && is_root
            && tokens.get(at + 1).is_some_and(|t| t.text == "::")
        {
            path_tree(tokens, at + 2, "std", &mut paths);
        }
    }
    paths
}

/// Reads `a`, `a::b`, `*` or `{a, b::c}` at `at`; returns where it ends.
fn path_tree(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &str,
    paths: &mut Vec<(usize, String)>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    match text(at) {
        "{" => {
            at += 1;
            while !matches!(text(at), "}" | ";" | "") {
                at = path_tree(tokens, at, prefix, paths).max(at + 1);
            }
            at + 1
        }
        // The comma between two, or the two words of a renaming.
        "," => at + 1,
        "as" => at + 2,
        "" => at,
        name => {
            let path = format!("{prefix}::{name}");
            if text(at + 1) == "::" {
                return path_tree(tokens, at + 2, &path, paths);
            }
            paths.push((tokens[at].line, path));
            at + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(code: &str) -> Vec<usize> {
        check("crates/tollgate-core/src/a.rs", &Source::new(code)).iter().map(|f| f.line).collect()
    }

    #[test]
    fn floats_are_found_in_types_and_literals() {
        for code in ["x: f64", "x as f32", "2f64", "1.5", "(1.)", "1e9", "0..=1.5", "1_000.0"] {
            assert_eq!(lines(code), [1], "{code}");
        }
    }

    #[test]
    fn integers_fields_and_ranges_are_not_floats() {
        for code in
            ["a.0.1", "0..5", "0..=9", "1.max(2)", "0x1e9", "0xf64", "1u64", "a[1].0", "1_u8"]
        {
            assert!(lines(code).is_empty(), "{code}");
        }
        assert!(lines("// an f64 would be 0.5\nlet text = \"1.5\";").is_empty());
    }

    #[test]
    fn clocks_locks_and_io_are_found_however_imported() {
        for code in [
            "std::time::Instant::now()",
            "use std::time::{Duration, Instant};",
            "use std::{fmt, time::Instant as Then};",
            "use std::time;",
            "use std::time::*;",
            "use std::time::{self, Duration};",
            "use ::std::sync::Arc;",
            "use std::sync::atomic::{AtomicU64, Ordering};",
            "use core::sync::atomic::AtomicU64;",
            "use std::{fmt, sync::{Mutex}};",
            "std::fs::read(p)",
        ] {
            assert!(!lines(code).is_empty(), "{code}");
        }
        assert_eq!(lines("use std::{\n    fmt,\n    sync::Arc,\n};"), [3]);
    }

    #[test]
    fn the_rest_of_std_is_fine() {
        for code in [
            "use std::time::Duration;",
            "use core::time::Duration;",
            "use std::{cmp::{max, min}, fmt as f, num::NonZeroU64};",
            "impl std::error::Error for E {}",
            "use tollgate::core::sync;",
            "struct Instant(u64); fn sync(std: u8) {}",
        ] {
            assert!(lines(code).is_empty(), "{code}");
        }
    }
}
