//! Resolves the names in expressions.

use std::ops::Range;

use cel::common::ast::operators::INDEX;
use cel::common::ast::{Expr as Ast, IdedExpr, LiteralValue};

use super::node::ExprNode;
use super::undeclared;
use super::{Scope, locate};
use crate::compile::attribute::Attribute;
use crate::compile::attribute_catalogue::{self, BUILT_IN, MAPS};
use crate::compile::lists::ListId;
use crate::read::fault::Fault;
use crate::read::suggest;

/// The prefix of the name of a list.
const LISTS: &str = "lists";

/// The prefix of the entries of a descriptor: `descriptors[0]["user"]`.
const DESCRIPTORS: &str = "descriptors";

/// The numbers of descriptors that rules can name.
const NUMBERS: [&str; 16] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

/// The reserved words, which are no names.
const WORDS: [&str; 18] = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "return", "while",
];

const MOST_PARTS: usize = 16;

/// The meaning of a name.
pub(super) enum ResolvedName {
    /// An attribute, or the expression of one, its number of steps and whether it is a secret.
    Value(ExprNode, usize, bool),
    List(ListId),
}

/// Returns the parts of a name of letters, digits and dots, which needs no parser.
pub(super) fn plain(text: &str) -> Option<Vec<&str>> {
    let is_word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !WORDS.contains(&part)
    };
    let parts: Vec<&str> = text.trim().split('.').take(MOST_PARTS + 1).collect();
    (parts.len() <= MOST_PARTS && parts.iter().all(|part| is_word(part))).then_some(parts)
}

/// Returns the parts of a name: `header`, `x-org` of `header["x-org"]`. None if it is no name.
pub(super) fn parts(tree: &IdedExpr) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = tree;
    loop {
        rest = match &rest.expr {
            Ast::Ident(name) => {
                parts.push(name.as_str());
                parts.reverse();
                return Some(parts);
            }
            Ast::Select(select) if !select.test => {
                parts.push(&select.field);
                &select.operand
            }
            Ast::Call(call) if call.func_name == INDEX && call.target.is_none() => {
                let [map, key] = call.args.as_slice() else { return None };
                parts.push(match &key.expr {
                    Ast::Literal(LiteralValue::String(key)) => key.inner(),
                    Ast::Literal(LiteralValue::Int(number)) if is_descriptors(map) => {
                        NUMBERS.get(usize::try_from(*number.inner()).ok()?)?
                    }
                    _ => return None,
                });
                map
            }
            _ => return None,
        };
    }
}

/// Whether a tree is the name `descriptors`, whose elements have numbers.
fn is_descriptors(tree: &IdedExpr) -> bool {
    matches!(&tree.expr, Ast::Ident(name) if name == DESCRIPTORS)
}

/// Resolves `descriptors[0]["user"]`, given what follows `descriptors`.
fn descriptor_entry(rest: &[&str], text: &str, scope: &Scope) -> Result<Attribute, Fault> {
    let range = locate::word(text, DESCRIPTORS);
    match rest {
        [number, entry @ ..] if NUMBERS.contains(number) && !entry.is_empty() => {
            match scope.joins_descriptors {
                true => Ok(Attribute::descriptor_entry(number, &entry.join("."))),
                false => Err(Fault::new(range, "here each descriptor is a request of its own")
                    .help("decide all of them together: `defaults: { descriptors: together }`")),
            }
        }
        _ => Err(Fault::new(range, "which entry of which descriptor is meant?")
            .help("write `descriptors[0][\"user\"]`; numbers go from 0 to 15")),
    }
}

/// Resolves a name. `text` is the expression it is in.
pub(super) fn resolve(parts: &[&str], text: &str, scope: &Scope) -> Result<ResolvedName, Fault> {
    let whole = parts.join(".");
    if let Some((_, expr)) = scope.attributes.iter().find(|(name, _)| **name == *whole) {
        return Ok(ResolvedName::Value(ExprNode::shared(&expr.node), expr.steps, expr.is_secret));
    }
    let (first, rest) = parts.split_first().unwrap_or((&"", &[]));
    if *first == LISTS {
        return list(rest, text, scope).map(ResolvedName::List);
    }
    if *first == DESCRIPTORS {
        let attribute = descriptor_entry(rest, text, scope)?;
        let is_secret = attribute.is_secret();
        return Ok(ResolvedName::Value(ExprNode::Attribute(attribute), 1, is_secret));
    }
    let value = |attribute: Attribute| {
        if let Attribute::Named(name) = &attribute
            && !attribute_catalogue::is_known(name)
            && !scope.declares(name)
            && !scope.undeclared.accept(name)
        {
            return Err(undeclared::fault(parts, text, scope));
        }
        let is_secret = attribute.is_secret();
        Ok(ResolvedName::Value(ExprNode::Attribute(attribute), 1, is_secret))
    };
    let range: Range<usize> = locate::word(text, first);
    match rest {
        [] if MAPS.contains(first) => Err(Fault::new(range, format!("which {first} is meant?"))
            .help(match *first {
                "param" => "write `param.id` for what stands for `{id}` in the route".into(),
                _ => format!("write `{first}[\"name\"]`"),
            })),
        [] => value(Attribute::named(first)),
        [key] if MAPS.contains(first) => value(Attribute::entry(first, key)),
        [..] if BUILT_IN.contains(first) => {
            let has = if MAPS.contains(first) { "one name, not several" } else { "no parts" };
            Err(Fault::new(range, format!("`{first}` has {has}")))
        }
        // Names of headers are case-insensitive, in every map of headers.
        [middle @ .., key] => match middle.last() {
            Some(&"header") => {
                let map = parts[..parts.len() - 1].join(".");
                value(Attribute::entry(&map, &key.to_ascii_lowercase()))
            }
            _ => value(Attribute::Named(whole.into())),
        },
    }
}

fn list(rest: &[&str], text: &str, scope: &Scope) -> Result<ListId, Fault> {
    let [name] = rest else {
        return Err(Fault::new(locate::word(text, LISTS), "a list is `lists.NAME`"));
    };
    scope.lists.named(name).ok_or_else(|| {
        let range = locate::word(text, name);
        let fault = Fault::new(range, format!("there is no list {name:?}"));
        match suggest::closest(name, scope.lists.names()) {
            Some(close) => fault.help(format!("did you mean `lists.{close}`?")).fix(close),
            None => fault.help("lists are declared under `lists:`"),
        }
    })
}
