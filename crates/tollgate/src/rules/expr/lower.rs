//! From a syntax tree to a tree that is evaluated: what needs no interpreter, and islands of what
//! does.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, Expr as Ast, IdedExpr, LiteralValue};
use regex::{Regex, RegexBuilder};

use super::super::attribute::Attribute;
use super::super::fault::Fault;
use super::super::lists::List;
use super::cel::Island;
use super::loose::Arithmetic;
use super::names::{self, Name};
use super::parse::{self, HAS};
use super::tree::{Comparison, Literal, Node, Set, TextTest};
use super::{Expr, Scope, locate};

/// How many steps an expression takes at most, with all it is made of: attributes made of
/// attributes made of attributes would otherwise double with each line.
const MOST_STEPS: usize = 4096;

/// Of a name that is no plain one, in bytes.
const LONGEST_NAME: usize = 256;

/// What a pattern may take once compiled, in bytes. A small one is not charged as a large one.
const PATTERN_SIZES: [usize; 3] = [8 << 10, 32 << 10, 128 << 10];

pub(super) fn value(text: &str, scope: &Scope) -> Result<Expr, Fault> {
    let (node, steps) = Lowering::new(text, scope).whole(Lowering::node)?;
    Ok(Expr { node: Arc::new(node), steps })
}

pub(super) fn condition(text: &str, scope: &Scope) -> Result<Node, Fault> {
    Lowering::new(text, scope).whole(Lowering::node).map(|(node, _)| node)
}

/// What a name stands for; anything else is refused.
pub(super) fn name(text: &str, scope: &Scope) -> Result<Node, Fault> {
    let lowering = Lowering::new(text, scope);
    if let Some(parts) = names::plain(text) {
        return lowering.name(&parts);
    }
    if text.len() > LONGEST_NAME {
        return Err(lowering.fault("a name is not that long"));
    }
    let tree = parse::parse(text)?;
    match names::parts(&tree) {
        Some(parts) => lowering.name(&parts),
        None => Err(lowering
            .fault("this is no attribute")
            .help("name it under `attributes:`, and write that name here")),
    }
}

/// The same, all of it by the interpreter.
#[cfg(test)]
pub(super) fn interpreted(text: &str, scope: &Scope) -> Result<Node, Fault> {
    Lowering::new(text, scope).whole(Lowering::island).map(|(node, _)| node)
}

/// One expression on its way.
pub(super) struct Lowering<'s> {
    pub(super) text: &'s str,
    pub(super) scope: &'s Scope,
    steps: Cell<usize>,
}

impl<'s> Lowering<'s> {
    fn new(text: &'s str, scope: &'s Scope) -> Lowering<'s> {
        Lowering { text, scope, steps: Cell::new(0) }
    }

    fn whole(
        &self,
        lower: impl Fn(&Self, &IdedExpr) -> Result<Node, Fault>,
    ) -> Result<(Node, usize), Fault> {
        if let Some(parts) = names::plain(self.text) {
            return self.name(&parts).map(|node| (node, self.steps.get()));
        }
        if self.scope.budget.is_spent() {
            return Err(self.fault("all expressions of a file together are too long"));
        }
        let lowered = parse::parse(self.text).and_then(|tree| {
            self.charge(parse::size(&tree))?;
            lower(self, &tree)
        });
        match lowered {
            Ok(node) => Ok((node, self.steps.get())),
            Err(fault) => {
                self.scope.budget.take_mistake();
                Err(fault)
            }
        }
    }

    /// Counts steps; those in the text itself are also parts of the file.
    fn charge(&self, parts: usize) -> Result<(), Fault> {
        self.steps.set(parts);
        match self.scope.budget.take(parts) {
            true => Ok(()),
            false => Err(self.fault("all expressions of a file together are too long")),
        }
    }

    /// About the whole expression.
    pub(super) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(0..self.text.len(), message)
    }

    fn node(&self, tree: &IdedExpr) -> Result<Node, Fault> {
        match self.plain(tree)? {
            Some(node) => Ok(node),
            None => self.island(tree),
        }
    }

    fn island(&self, tree: &IdedExpr) -> Result<Node, Fault> {
        Ok(Node::Cel(Box::new(Island::new(tree, self)?)))
    }

    /// The tree, if no interpreter is needed but for conditions in it.
    fn plain(&self, tree: &IdedExpr) -> Result<Option<Node>, Fault> {
        if let Some(parts) = names::parts(tree) {
            return self.name(&parts).map(Some);
        }
        match &tree.expr {
            Ast::Literal(value) => Ok(literal(value).map(Node::Literal)),
            Ast::Call(call) => self.call(call),
            _ => Ok(None),
        }
    }

    /// What a name that is no list stands for.
    pub(super) fn name(&self, parts: &[&str]) -> Result<Node, Fault> {
        match names::resolve(parts, self.text, self.scope)? {
            Name::Value(node, steps) => {
                self.steps.set(self.steps.get().saturating_add(steps));
                match self.steps.get() {
                    0..=MOST_STEPS => Ok(node),
                    _ => Err(self.fault("this takes too many steps, with what it is made of")),
                }
            }
            Name::List(_) => {
                let place = locate::word(self.text, "lists");
                Err(Fault::new(place, "a list can only stand behind `in`"))
            }
        }
    }

    fn call(&self, call: &CallExpr) -> Result<Option<Node>, Fault> {
        let name = call.func_name.as_str();
        match (&call.target, call.args.as_slice()) {
            (None, [one]) if name == op::LOGICAL_NOT => {
                Ok(Some(Node::Not(Box::new(self.node(one)?))))
            }
            (None, [one]) if name == op::NEGATE => {
                Ok(self.plain(one)?.map(|node| Node::Negate(Box::new(node))))
            }
            (None, [one]) if name == HAS => self.has(one).map(Some),
            (None, [left, right]) if name == op::LOGICAL_AND => {
                self.flat(left, right, Node::And, |node| match node {
                    Node::And(all) => Ok(all),
                    other => Err(other),
                })
            }
            (None, [left, right]) if name == op::LOGICAL_OR => {
                self.flat(left, right, Node::Or, |node| match node {
                    Node::Or(any) => Ok(any),
                    other => Err(other),
                })
            }
            (None, [value, set]) if name == op::IN => {
                let (Some(value), Some(set)) = (self.plain(value)?, self.set(set)?) else {
                    return Ok(None);
                };
                Ok(Some(Node::In(Box::new(value), set)))
            }
            (None, [left, right]) if name != "matches" => self.binary(name, left, right),
            (None, [condition, yes, no]) if name == op::CONDITIONAL => {
                let (Some(yes), Some(no)) = (self.plain(yes)?, self.plain(no)?) else {
                    return Ok(None);
                };
                Ok(Some(Node::If(Box::new([self.node(condition)?, yes, no]))))
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
        join: fn(Vec<Node>) -> Node,
        parts: fn(Node) -> Result<Vec<Node>, Node>,
    ) -> Result<Option<Node>, Fault> {
        let mut all = Vec::new();
        for side in [left, right] {
            all.extend(parts(self.node(side)?).unwrap_or_else(|one| vec![one]));
        }
        Ok(Some(join(all)))
    }

    fn binary(&self, name: &str, left: &IdedExpr, right: &IdedExpr) -> Result<Option<Node>, Fault> {
        type Make = fn(Box<[Node; 2]>) -> Node;
        let make: Make = match name {
            op::EQUALS => |sides| Node::Equal(true, sides),
            op::NOT_EQUALS => |sides| Node::Equal(false, sides),
            op::LESS => |sides| Node::Order(Comparison::Less, sides),
            op::LESS_EQUALS => |sides| Node::Order(Comparison::LessOrEqual, sides),
            op::GREATER => |sides| Node::Order(Comparison::Greater, sides),
            op::GREATER_EQUALS => |sides| Node::Order(Comparison::GreaterOrEqual, sides),
            op::ADD => |sides| Node::Arithmetic(Arithmetic::Add, sides),
            op::SUBSTRACT => |sides| Node::Arithmetic(Arithmetic::Subtract, sides),
            op::MULTIPLY => |sides| Node::Arithmetic(Arithmetic::Multiply, sides),
            op::DIVIDE => |sides| Node::Arithmetic(Arithmetic::Divide, sides),
            op::MODULO => |sides| Node::Arithmetic(Arithmetic::Remainder, sides),
            _ => return Ok(None),
        };
        let mut sides = Vec::new();
        for (side, other) in [(left, right), (right, left)] {
            sides.push(match self.address(name, side, other)? {
                Some(address) => Some(Node::Literal(Literal::Text(address.into()))),
                None => self.plain(side)?,
            });
        }
        let sides = sides.into_iter().collect::<Option<Vec<Node>>>();
        Ok(sides.and_then(|sides| sides.try_into().ok()).map(make))
    }

    /// The address in `ip == "::ffff:10.0.0.1"` spelled as `ip` is, or it would never be equal.
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
        if !is_equality || !matches!(name, Name::Value(Node::Attribute(Attribute::Ip), _)) {
            return Ok(None);
        }
        let literal = literal.inner();
        match literal.parse::<IpAddr>() {
            Ok(address) => Ok(Some(address.to_canonical().to_string())),
            Err(_) => Err(Fault::new(locate::quoted(self.text, literal), "this is no address")
                .help(format!("write `ip in [{literal:?}]` for a network"))),
        }
    }

    /// Whether the request has what a name stands for.
    pub(super) fn has(&self, tree: &IdedExpr) -> Result<Node, Fault> {
        match names::parts(tree) {
            Some(parts) => Ok(Node::Has(Box::new(self.name(&parts)?))),
            None => Err(Fault::new(locate::word(self.text, "has"), "`has` takes an attribute")
                .help("write it as in `has(header[\"x-org\"])`")),
        }
    }

    /// What stands behind `in`, if it is a list of the file or of literals.
    pub(super) fn set(&self, tree: &IdedExpr) -> Result<Option<Set>, Fault> {
        if let Some(parts) = names::parts(tree) {
            let name = names::resolve(&parts, self.text, self.scope)?;
            return Ok(match name {
                Name::List(id) => Some(Set::Named(id)),
                Name::Value(..) => None,
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

    fn literals(&self, literals: Vec<Literal>) -> Result<Set, Fault> {
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
        Ok(Set::literal(list.with_numbers(numbers), literals))
    }

    fn text_test(
        &self,
        name: &str,
        text: &IdedExpr,
        other: &IdedExpr,
    ) -> Result<Option<Node>, Fault> {
        let Ast::Literal(LiteralValue::String(literal)) = &other.expr else { return Ok(None) };
        let literal = literal.inner();
        let test = match name {
            "startsWith" => TextTest::StartsWith(literal.into()),
            "endsWith" => TextTest::EndsWith(literal.into()),
            "contains" => TextTest::Contains(literal.into()),
            "matches" => TextTest::Matches(self.regex(literal)?),
            _ => return Ok(None),
        };
        Ok(self.plain(text)?.map(|text| Node::Text(Box::new(text), test)))
    }

    /// A pattern, compiled within bounds.
    pub(super) fn regex(&self, pattern: &str) -> Result<Arc<Regex>, Fault> {
        let fault = |said: &str| Fault::new(locate::quoted(self.text, pattern), said);
        for size in PATTERN_SIZES {
            if !self.scope.budget.take_pattern(size) {
                return Err(fault("all patterns of a file together are too large"));
            }
            let mut builder = RegexBuilder::new(pattern);
            match builder.size_limit(size).dfa_size_limit(size).nest_limit(16).build() {
                Ok(regex) => return Ok(Arc::new(regex)),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => {
                    // The last line says what is wrong; those before draw it.
                    let said = error.to_string();
                    let said = said.lines().last().unwrap_or_default();
                    return Err(fault(said.trim_start_matches("error: ")));
                }
            }
        }
        Err(fault("this pattern is too large"))
    }
}

/// A literal our values can hold.
fn literal(value: &LiteralValue) -> Option<Literal> {
    match value {
        LiteralValue::Boolean(flag) => Some(Literal::Flag(*flag.inner())),
        LiteralValue::Int(number) => Some(Literal::Number(*number.inner())),
        LiteralValue::UInt(number) => i64::try_from(*number.inner()).ok().map(Literal::Number),
        LiteralValue::String(text) => Some(Literal::Text(text.inner().into())),
        LiteralValue::Double(_) | LiteralValue::Bytes(_) | LiteralValue::Null => None,
    }
}
