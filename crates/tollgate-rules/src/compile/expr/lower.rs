//! Lowers a syntax tree to the tree that is evaluated, with CEL expressions for the parts that need
//! the interpreter.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, Expr as Ast, IdedExpr, LiteralValue};
use regex::{Regex, RegexBuilder};

use super::cel::CelExpr;
use super::coercion::Arithmetic;
use super::names::{self, ResolvedName};
use super::node::{Comparison, ExprNode, Literal, MembershipSet, TextTest};
use super::parse::{self, HAS};
use super::{Expr, Scope, locate, undeclared};
use crate::compile::attribute::Attribute;
use crate::compile::lists::List;
use crate::read::fault::Fault;

/// The maximum number of steps of an expression, including those of the attributes in it: attributes
/// of attributes would otherwise double with each line.
const MOST_STEPS: usize = 4096;

/// The maximum length of a name with brackets, in bytes.
const MAX_NAME: usize = 256;

/// The sizes of compiled patterns in bytes. A small one is not charged as a large one.
const PATTERN_SIZES: [usize; 3] = [8 << 10, 32 << 10, 128 << 10];

pub(super) fn value(text: &str, scope: &Scope) -> Result<Expr, Fault> {
    let lowering = Lowering::new(text, scope);
    let (node, steps) = lowering.lower_text(Lowering::node)?;
    Ok(Expr { node: Arc::new(node), steps, is_secret: lowering.is_secret.get() })
}

pub(super) fn condition(text: &str, scope: &Scope) -> Result<ExprNode, Fault> {
    Lowering::new(text, scope).lower_text(Lowering::node).map(|(node, _)| node)
}

/// Lowers a name; anything else is refused.
pub(super) fn name(text: &str, scope: &Scope) -> Result<ExprNode, Fault> {
    let lowering = Lowering::new(text, scope);
    if let Some(parts) = names::plain(text) {
        return lowering.name(&parts);
    }
    if text.len() > MAX_NAME {
        return Err(lowering.fault("a name is not that long"));
    }
    let hyphens = undeclared::hyphen_fault(text).or_else(|| undeclared::word_fault(text));
    if let Some(fault) = hyphens {
        return Err(fault);
    }
    let tree = parse::parse(text)?;
    match names::parts(&tree) {
        Some(parts) => lowering.name(&parts),
        None => Err(lowering
            .fault("this is no attribute")
            .help("name it under `attributes:`, and write that name here")),
    }
}

/// Lowers an expression so that the interpreter evaluates all of it.
#[cfg(test)]
pub(super) fn interpreted(text: &str, scope: &Scope) -> Result<ExprNode, Fault> {
    Lowering::new(text, scope).lower_text(Lowering::cel).map(|(node, _)| node)
}

/// Lowers one expression.
pub(super) struct Lowering<'s> {
    pub(super) text: &'s str,
    pub(super) scope: &'s Scope,
    steps: Cell<usize>,
    /// Whether a name in it is that of a secret.
    is_secret: Cell<bool>,
}

impl<'s> Lowering<'s> {
    fn new(text: &'s str, scope: &'s Scope) -> Lowering<'s> {
        Lowering { text, scope, steps: Cell::new(0), is_secret: Cell::new(false) }
    }

    /// Lowers the whole text, and returns its tree and its number of steps.
    fn lower_text(
        &self,
        lower: impl Fn(&Self, &IdedExpr) -> Result<ExprNode, Fault>,
    ) -> Result<(ExprNode, usize), Fault> {
        if let Some(parts) = names::plain(self.text) {
            let name = self.name(&parts).map(|node| (node, self.steps.get()));
            return name.inspect_err(|_| self.scope.budget.take_error());
        }
        if self.scope.budget.is_spent() {
            return Err(self.fault("all expressions of a file together are too long"));
        }
        let hyphens = undeclared::hyphen_fault(self.text);
        let parsed = hyphens.map_or_else(|| parse::parse(self.text), Err);
        let lowered = parsed.and_then(|tree| {
            self.charge(parse::size(&tree))?;
            lower(self, &tree)
        });
        match lowered {
            Ok(node) => Ok((node, self.steps.get())),
            Err(fault) => {
                self.scope.budget.take_error();
                Err(fault)
            }
        }
    }

    /// Counts the steps of the text itself, which are also parts of the file.
    fn charge(&self, parts: usize) -> Result<(), Fault> {
        self.steps.set(parts);
        match self.scope.budget.take(parts) {
            true => Ok(()),
            false => Err(self.fault("all expressions of a file together are too long")),
        }
    }

    /// Makes a fault about the whole expression.
    pub(super) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(0..self.text.len(), message)
    }

    fn node(&self, tree: &IdedExpr) -> Result<ExprNode, Fault> {
        match self.plain(tree)? {
            Some(node) => Ok(node),
            None => self.cel(tree),
        }
    }

    fn cel(&self, tree: &IdedExpr) -> Result<ExprNode, Fault> {
        Ok(ExprNode::Cel(Box::new(CelExpr::new(tree, self)?)))
    }

    /// Lowers a tree that needs the interpreter for nothing but conditions in it.
    fn plain(&self, tree: &IdedExpr) -> Result<Option<ExprNode>, Fault> {
        if let Some(parts) = names::parts(tree) {
            return self.name(&parts).map(Some);
        }
        match &tree.expr {
            Ast::Literal(value) => Ok(literal(value).map(ExprNode::Literal)),
            Ast::Call(call) => self.call(call),
            _ => Ok(None),
        }
    }

    /// Lowers a name that is no list.
    pub(super) fn name(&self, parts: &[&str]) -> Result<ExprNode, Fault> {
        match names::resolve(parts, self.text, self.scope)? {
            ResolvedName::Value(node, steps, is_secret) => {
                self.is_secret.set(self.is_secret.get() | is_secret);
                self.steps.set(self.steps.get().saturating_add(steps));
                match self.steps.get() {
                    0..=MOST_STEPS => Ok(node),
                    _ => Err(self.fault("this takes too many steps, with what it is made of")),
                }
            }
            ResolvedName::List(_) => {
                let range = locate::word(self.text, "lists");
                Err(Fault::new(range, "a list can only stand behind `in`"))
            }
        }
    }

    fn call(&self, call: &CallExpr) -> Result<Option<ExprNode>, Fault> {
        let name = call.func_name.as_str();
        match (&call.target, call.args.as_slice()) {
            (None, [one]) if name == op::LOGICAL_NOT => {
                Ok(Some(ExprNode::Not(Box::new(self.node(one)?))))
            }
            (None, [one]) if name == op::NEGATE => {
                Ok(self.plain(one)?.map(|node| ExprNode::Negate(Box::new(node))))
            }
            (None, [one]) if name == HAS => self.has(one).map(Some),
            (None, [left, right]) if name == op::LOGICAL_AND => {
                self.flat(left, right, ExprNode::And, |node| match node {
                    ExprNode::And(all) => Ok(all),
                    other => Err(other),
                })
            }
            (None, [left, right]) if name == op::LOGICAL_OR => {
                self.flat(left, right, ExprNode::Or, |node| match node {
                    ExprNode::Or(any) => Ok(any),
                    other => Err(other),
                })
            }
            (None, [value, set]) if name == op::IN => {
                let (Some(value), Some(set)) = (self.plain(value)?, self.set(set)?) else {
                    return Ok(None);
                };
                Ok(Some(ExprNode::In(Box::new(value), set)))
            }
            (None, [left, right]) if name != "matches" => self.binary(name, left, right),
            (None, [condition, yes, no]) if name == op::CONDITIONAL => {
                let (Some(yes), Some(no)) = (self.plain(yes)?, self.plain(no)?) else {
                    return Ok(None);
                };
                Ok(Some(ExprNode::If(Box::new([self.node(condition)?, yes, no]))))
            }
            (Some(text), [other]) => self.text_test(name, text, other),
            (None, [text, other]) => self.text_test(name, text, other),
            _ => Ok(None),
        }
    }

    fn flat(
        &self,
        left: &IdedExpr,
        right: &IdedExpr,
        join: fn(Vec<ExprNode>) -> ExprNode,
        parts: fn(ExprNode) -> Result<Vec<ExprNode>, ExprNode>,
    ) -> Result<Option<ExprNode>, Fault> {
        let mut all = Vec::new();
        for side in [left, right] {
            all.extend(parts(self.node(side)?).unwrap_or_else(|one| vec![one]));
        }
        Ok(Some(join(all)))
    }

    fn binary(
        &self,
        name: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Result<Option<ExprNode>, Fault> {
        type Make = fn(Box<[ExprNode; 2]>) -> ExprNode;
        let make: Make = match name {
            op::EQUALS => |sides| ExprNode::Equal(true, sides),
            op::NOT_EQUALS => |sides| ExprNode::Equal(false, sides),
            op::LESS => |sides| ExprNode::Order(Comparison::Less, sides),
            op::LESS_EQUALS => |sides| ExprNode::Order(Comparison::LessOrEqual, sides),
            op::GREATER => |sides| ExprNode::Order(Comparison::Greater, sides),
            op::GREATER_EQUALS => |sides| ExprNode::Order(Comparison::GreaterOrEqual, sides),
            op::ADD => |sides| ExprNode::Arithmetic(Arithmetic::Add, sides),
            op::SUBSTRACT => |sides| ExprNode::Arithmetic(Arithmetic::Subtract, sides),
            op::MULTIPLY => |sides| ExprNode::Arithmetic(Arithmetic::Multiply, sides),
            op::DIVIDE => |sides| ExprNode::Arithmetic(Arithmetic::Divide, sides),
            op::MODULO => |sides| ExprNode::Arithmetic(Arithmetic::Remainder, sides),
            _ => return Ok(None),
        };
        let mut sides = Vec::new();
        for (side, other) in [(left, right), (right, left)] {
            sides.push(match self.address(name, side, other)? {
                Some(address) => Some(ExprNode::Literal(Literal::Text(address.into()))),
                None => self.plain(side)?,
            });
        }
        let sides = sides.into_iter().collect::<Option<Vec<ExprNode>>>();
        Ok(sides.and_then(|sides| sides.try_into().ok()).map(make))
    }

    /// Returns the address in `ip == "::ffff:10.0.0.1"` in the spelling of `ip`, or it would never be
    /// equal.
    pub(super) fn address(
        &self,
        operator: &str,
        side: &IdedExpr,
        other: &IdedExpr,
    ) -> Result<Option<String>, Fault> {
        let Ast::Literal(LiteralValue::String(literal)) = &side.expr else { return Ok(None) };
        let Some(parts) = names::parts(other) else { return Ok(None) };
        let is_equality = matches!(operator, op::EQUALS | op::NOT_EQUALS);
        let name = names::resolve(&parts, self.text, self.scope)?;
        if !is_equality
            || !matches!(name, ResolvedName::Value(ExprNode::Attribute(Attribute::Ip), ..))
        {
            return Ok(None);
        }
        let literal = literal.inner();
        match literal.parse::<IpAddr>() {
            Ok(address) => Ok(Some(address.to_canonical().to_string())),
            Err(_) => Err(Fault::new(locate::quoted(self.text, literal), "this is no address")
                .help(format!("write `ip in [{literal:?}]` for a network"))),
        }
    }

    /// Lowers `has(name)`.
    pub(super) fn has(&self, tree: &IdedExpr) -> Result<ExprNode, Fault> {
        match names::parts(tree) {
            Some(parts) => {
                // Whether a secret is there is none.
                let is_secret = self.is_secret.get();
                let node = self.name(&parts)?;
                self.is_secret.set(is_secret);
                Ok(ExprNode::Has(Box::new(node)))
            }
            None => Err(Fault::new(locate::word(self.text, "has"), "`has` takes an attribute")
                .help("write it as in `has(header[\"x-org\"])`")),
        }
    }

    /// Lowers the right side of `in`, if it is a list of the file or of literals.
    pub(super) fn set(&self, tree: &IdedExpr) -> Result<Option<MembershipSet>, Fault> {
        if let Some(parts) = names::parts(tree) {
            let name = names::resolve(&parts, self.text, self.scope)?;
            return Ok(match name {
                ResolvedName::List(id) => Some(MembershipSet::Named(id)),
                ResolvedName::Value(..) => None,
            });
        }
        let Ast::List(list) = &tree.expr else { return Ok(None) };
        let scalar = |element: &IdedExpr| match &element.expr {
            Ast::Literal(value) => literal(value),
            _ => None,
        };
        match list.elements.iter().map(scalar).collect::<Option<Vec<Literal>>>() {
            Some(literals) => self.literals(literals).map(Some),
            None => Ok(None),
        }
    }

    fn literals(&self, literals: Vec<Literal>) -> Result<MembershipSet, Fault> {
        let texts: Vec<&str> = literals
            .iter()
            .filter_map(|literal| match literal {
                Literal::Text(text) => Some(&**text),
                Literal::Flag(true) => Some("true"),
                Literal::Flag(false) => Some("false"),
                Literal::Number(_) => None,
            })
            .collect();
        let numbers = literals.iter().filter_map(|literal| match literal {
            Literal::Number(number) => Some(*number),
            _ => None,
        });
        let list = List::new(texts.iter().copied()).map_err(|(index, fault)| Fault {
            range: locate::quoted(self.text, texts[index]),
            ..fault
        })?;
        Ok(MembershipSet::literal(list.with_numbers(numbers), literals))
    }

    fn text_test(
        &self,
        name: &str,
        text: &IdedExpr,
        other: &IdedExpr,
    ) -> Result<Option<ExprNode>, Fault> {
        let Ast::Literal(LiteralValue::String(literal)) = &other.expr else { return Ok(None) };
        let literal = literal.inner();
        let test = match name {
            "startsWith" => TextTest::StartsWith(literal.into()),
            "endsWith" => TextTest::EndsWith(literal.into()),
            "contains" => TextTest::Contains(literal.into()),
            "matches" => TextTest::Matches(self.regex(literal)?),
            _ => return Ok(None),
        };
        Ok(self.plain(text)?.map(|text| ExprNode::Text(Box::new(text), test)))
    }

    /// Compiles a pattern within bounds.
    pub(super) fn regex(&self, pattern: &str) -> Result<Arc<Regex>, Fault> {
        let fault = |message: &str| Fault::new(locate::quoted(self.text, pattern), message);
        if let Some(known) = self.scope.budget.compiled_pattern(pattern) {
            return Ok(known);
        }
        for size in PATTERN_SIZES {
            if !self.scope.budget.take_pattern(size) {
                return Err(fault("all patterns of a file together are too large"));
            }
            let mut builder = RegexBuilder::new(pattern);
            match builder.size_limit(size).dfa_size_limit(size).nest_limit(16).build() {
                Ok(regex) => {
                    let regex = Arc::new(regex);
                    self.scope.budget.keep_pattern(pattern, &regex);
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => {
                    // The last line is the message; those before draw the pattern.
                    let message = error.to_string();
                    let message = message.lines().last().unwrap_or_default();
                    return Err(fault(message.trim_start_matches("error: ")));
                }
            }
        }
        Err(fault("this pattern is too large"))
    }
}

/// Converts a literal that is a text, a whole number or a flag.
fn literal(value: &LiteralValue) -> Option<Literal> {
    match value {
        LiteralValue::Boolean(flag) => Some(Literal::Flag(*flag.inner())),
        LiteralValue::Int(number) => Some(Literal::Number(*number.inner())),
        LiteralValue::UInt(number) => i64::try_from(*number.inner()).ok().map(Literal::Number),
        LiteralValue::String(text) => Some(Literal::Text(text.inner().into())),
        LiteralValue::Double(_) | LiteralValue::Bytes(_) | LiteralValue::Null => None,
    }
}
