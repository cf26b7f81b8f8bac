//! Parses a text into a syntax tree, within bounds.

use std::ops::Range;

use cel::common::ast::{EntryExpr, Expr as Ast, IdedExpr};
use cel::parser::PrattParser;
use cel::parser::pratt_parser::TokenKind;

use super::locate;
use crate::read::fault::Fault;

/// The maximum length of an expression in bytes.
const MAX_LENGTH: usize = 1024;

/// The maximum depth of a tree, which is walked by recursion.
const MAX_DEPTH: usize = 32;

/// The name of `has` while parsing.
///
/// `has` itself is a macro of the parser, which accepts `has(a.b)` only, neither `has(plan)` nor
/// `has(header["x-org"])`. The name is as long as the original, so that positions stay right.
pub(super) const HAS: &str = "hAs";

pub(super) fn parse(text: &str) -> Result<IdedExpr, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new(0..text.len(), "an expression is missing"));
    }
    if text.len() > MAX_LENGTH {
        return Err(Fault::new(
            0..text.len(),
            format!("an expression has at most {MAX_LENGTH} bytes"),
        ));
    }
    let parser = PrattParser::new().max_recursion_depth(MAX_DEPTH as u16).error_recovery_limit(0);
    let tree = parser.parse(&rename_has(text)).map_err(|errors| {
        let first = errors.errors.into_iter().find(|error| error.pos.0 > 0);
        match first {
            Some(error) => syntax(text, offset(text, error.pos), &error.msg),
            None => Fault::new(0..text.len(), "this is no expression"),
        }
    })?;
    match depth(&tree) {
        0..=MAX_DEPTH => Ok(tree),
        _ => Err(too_deep(text)),
    }
}

/// Renames `has(` to a plain function.
fn rename_has(text: &str) -> String {
    let mut renamed = text.to_owned();
    let tokens: Vec<_> = locate::tokens(text).collect();
    for pair in tokens.windows(2) {
        let range = pair[0].start..pair[0].end;
        if text.get(range.clone()) == Some("has") && pair[1].kind == TokenKind::TokLeftParen {
            renamed.replace_range(range, HAS);
        }
    }
    renamed
}

/// Returns the byte at a line and a column, both counted from 1.
fn offset(text: &str, (line, column): (isize, isize)) -> usize {
    let before: usize = text.split_inclusive('\n').take(line as usize - 1).map(str::len).sum();
    let mut offset = (before + column.max(1) as usize - 1).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn too_deep(text: &str) -> Fault {
    Fault::new(0..text.len(), format!("an expression is at most {MAX_DEPTH} levels deep"))
}

/// Converts an error of the parser to a fault, with a suggestion.
fn syntax(text: &str, at: usize, message: &str) -> Fault {
    if message.contains("ecursion") {
        return too_deep(text);
    }
    let rest = &text[at..];
    let word_end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let word = &rest[..word_end.unwrap_or(rest.len()).max(first)];
    let range: Range<usize> = at..at + word.len();
    let meant = match (word, word.to_ascii_lowercase().as_str()) {
        _ if rest.starts_with("=~") => {
            return Fault::new(at..at + 2, "`=~` is not known here")
                .help("write `x.matches(\"…\")`");
        }
        ("=", _) => Some("=="),
        ("&", _) | (_, "and") => Some("&&"),
        ("|", _) | (_, "or") => Some("||"),
        (_, "not") => Some("!"),
        _ => None,
    };
    match meant {
        Some(meant) => Fault::new(range, format!("`{word}` is written `{meant}`")).fix(meant),
        None if rest.is_empty() => Fault::new(at..at, "the expression ends too early"),
        None => {
            let reason = message.strip_prefix("Syntax error: ").unwrap_or(message);
            Fault::new(range, reason.replace("<EOF>", "the end"))
        }
    }
}

/// Returns the number of levels of a tree.
fn depth(tree: &IdedExpr) -> usize {
    1 + children(tree).map(depth).max().unwrap_or(0)
}

/// Returns the number of nodes of a tree.
pub(super) fn size(tree: &IdedExpr) -> usize {
    1 + children(tree).map(size).sum::<usize>()
}

/// Iterates over the children of a tree.
fn children(tree: &IdedExpr) -> impl Iterator<Item = &IdedExpr> {
    let mut all: Vec<&IdedExpr> = Vec::new();
    match &tree.expr {
        Ast::Call(call) => all.extend(call.target.as_deref().into_iter().chain(&call.args)),
        Ast::Select(select) => all.push(&select.operand),
        Ast::List(list) => all.extend(&list.elements),
        Ast::Map(map) => all.extend(map.entries.iter().flat_map(|entry| entries(&entry.expr))),
        Ast::Struct(one) => all.extend(one.entries.iter().flat_map(|entry| entries(&entry.expr))),
        Ast::Comprehension(inner) => all.extend([
            &inner.iter_range,
            &inner.accu_init,
            &inner.loop_cond,
            &inner.loop_step,
            &inner.result,
        ]),
        Ast::Ident(_) | Ast::Literal(_) | Ast::Unspecified => {}
    }
    all.into_iter()
}

fn entries(entry: &EntryExpr) -> impl Iterator<Item = &IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => [None, Some(&field.value)],
        EntryExpr::MapEntry(entry) => [Some(&entry.key), Some(&entry.value)],
    }
    .into_iter()
    .flatten()
}
