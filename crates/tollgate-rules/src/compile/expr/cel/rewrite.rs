//! Rewrites CEL's tree so that names are variables and operators are functions of ours.

use cel::common::ast::operators as op;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr as Ast, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr,
};

use super::super::lower::Lowering;
use super::super::parse::HAS;
use super::super::{locate, names};
use super::{CelVariable, functions as f};
use crate::read::fault::Fault;
use crate::read::suggest;

/// Rewrites a tree, and returns it with its variables.
pub(super) fn rewrite(
    tree: &IdedExpr,
    lowering: &Lowering<'_>,
) -> Result<(IdedExpr, Vec<CelVariable>), Fault> {
    let mut rewriter = Rewriter { lowering, variables: Vec::new(), bound: Vec::new(), depth: 0 };
    let tree = rewriter.tree(tree)?;
    Ok((tree, rewriter.variables))
}

/// Rewrites one tree.
struct Rewriter<'l, 's> {
    lowering: &'l Lowering<'s>,
    variables: Vec<CelVariable>,
    /// The variables of the enclosing comprehension.
    bound: Vec<String>,
    /// The number of enclosing comprehensions.
    depth: u32,
}

fn call(name: &str, args: Vec<IdedExpr>) -> Ast {
    Ast::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}

impl Rewriter<'_, '_> {
    fn tree(&mut self, tree: &IdedExpr) -> Result<IdedExpr, Fault> {
        Ok(IdedExpr { id: tree.id, expr: self.expr(tree)? })
    }

    fn trees(&mut self, trees: &[IdedExpr]) -> Result<Vec<IdedExpr>, Fault> {
        trees.iter().map(|tree| self.tree(tree)).collect()
    }

    fn expr(&mut self, tree: &IdedExpr) -> Result<Ast, Fault> {
        if let Some(parts) = names::parts(tree)
            && !self.bound.iter().any(|bound| bound == parts[0])
        {
            let node = self.lowering.name(&parts)?;
            return Ok(self.variable(CelVariable::Value(node)));
        }
        match &tree.expr {
            Ast::Call(call) => self.call(call),
            Ast::Select(select) => Ok(Ast::Select(SelectExpr {
                operand: Box::new(self.tree(&select.operand)?),
                ..select.clone()
            })),
            Ast::List(list) => Ok(Ast::List(ListExpr {
                elements: self.trees(&list.elements)?,
                optional_indices: list.optional_indices.clone(),
            })),
            Ast::Map(map) => self.map(map),
            Ast::Comprehension(inner) => self.comprehension(inner),
            Ast::Struct(_) | Ast::Unspecified => {
                Err(self.lowering.fault("an expression cannot make such a value"))
            }
            Ast::Ident(_) | Ast::Literal(_) => Ok(tree.expr.clone()),
        }
    }

    fn variable(&mut self, variable: CelVariable) -> Ast {
        self.variables.push(variable);
        Ast::Ident(format!("@{}", self.variables.len() - 1))
    }

    fn call(&mut self, called: &CallExpr) -> Result<Ast, Fault> {
        let name = called.func_name.as_str();
        match (&called.target, called.args.as_slice()) {
            (None, [one]) if name == HAS => {
                let node = self.lowering.has(one)?;
                Ok(self.variable(CelVariable::Value(node)))
            }
            (None, [value, set]) if name == op::IN => self.membership(value, set),
            (None, [text, pattern]) if name == "matches" => self.matches(text, pattern),
            (Some(text), [pattern]) if name == "matches" => self.matches(text, pattern),
            (Some(text), [other]) if matches!(name, "startsWith" | "endsWith" | "contains") => {
                let (text, other) = (self.wrapped(f::TEXT, text)?, self.wrapped(f::TEXT, other)?);
                Ok(Ast::Call(CallExpr {
                    func_name: name.to_owned(),
                    target: Some(Box::new(text)),
                    args: vec![other],
                }))
            }
            (None, [left, right]) if matches!(name, op::EQUALS | op::NOT_EQUALS) => {
                self.equality(name, left, right)
            }
            (None, args) => match operator(name) {
                OperatorRewrite::Logic => self.logic(name, args),
                // `map` and `filter` append to their result this way; the interpreter expects it.
                OperatorRewrite::Function(_) if self.is_result(args.first()) => {
                    Ok(call(name, self.trees(args)?))
                }
                OperatorRewrite::Function(function) => Ok(call(function, self.trees(args)?)),
                OperatorRewrite::Unchanged => Ok(call(name, self.trees(args)?)),
                OperatorRewrite::None => self.function(called),
            },
            _ => self.function(called),
        }
    }

    fn equality(&mut self, name: &str, left: &IdedExpr, right: &IdedExpr) -> Result<Ast, Fault> {
        let mut sides = Vec::new();
        for (side, other) in [(left, right), (right, left)] {
            let is_free = !self.is_bound(other);
            let address = if is_free { self.lowering.address(name, side, other)? } else { None };
            sides.push(match address {
                Some(address) => {
                    let literal = LiteralValue::String(address.into());
                    IdedExpr { id: side.id, expr: Ast::Literal(literal) }
                }
                None => self.tree(side)?,
            });
        }
        Ok(call(if name == op::EQUALS { f::EQUAL } else { f::UNEQUAL }, sides))
    }

    /// Whether a tree is a variable of the comprehension, or a part of one.
    fn is_bound(&self, tree: &IdedExpr) -> bool {
        names::parts(tree).is_some_and(|parts| self.bound.iter().any(|bound| bound == parts[0]))
    }

    /// Whether a tree is the variable in which a comprehension collects its result.
    fn is_result(&self, tree: Option<&IdedExpr>) -> bool {
        matches!(tree.map(|tree| &tree.expr), Some(Ast::Ident(name)) if name.starts_with('@'))
    }

    /// Rewrites `&&`, `||`, `!` and `?:`, whose conditions are converted to true or false.
    fn logic(&mut self, name: &str, args: &[IdedExpr]) -> Result<Ast, Fault> {
        let conditions = if name == op::CONDITIONAL { 1 } else { args.len() };
        let mut rewritten = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let is_condition = index < conditions && !self.is_result(Some(arg));
            rewritten.push(if is_condition {
                self.wrapped(f::TRUTH, arg)?
            } else {
                self.tree(arg)?
            });
        }
        Ok(call(name, rewritten))
    }

    fn wrapped(&mut self, function: &str, tree: &IdedExpr) -> Result<IdedExpr, Fault> {
        let inner = self.tree(tree)?;
        Ok(IdedExpr { id: tree.id, expr: call(function, vec![inner]) })
    }

    fn membership(&mut self, value: &IdedExpr, set: &IdedExpr) -> Result<Ast, Fault> {
        let known = if self.is_bound(set) { None } else { self.lowering.set(set)? };
        let value = self.tree(value)?;
        match known {
            Some(known) => {
                let variable =
                    IdedExpr { id: set.id, expr: self.variable(CelVariable::Set(known)) };
                Ok(call(op::IN, vec![value, variable]))
            }
            None => {
                let set = self.tree(set)?;
                Ok(call(f::MEMBER, vec![value, set]))
            }
        }
    }

    fn matches(&mut self, text: &IdedExpr, pattern: &IdedExpr) -> Result<Ast, Fault> {
        let Ast::Literal(LiteralValue::String(literal)) = &pattern.expr else {
            let range = locate::word(self.lowering.text, "matches");
            return Err(Fault::new(range, "the pattern of `matches` is a literal text")
                .help("patterns are compiled when the rules are read"));
        };
        let regex = self.lowering.regex(literal.inner())?;
        let text = self.wrapped(f::TEXT, text)?;
        let variable =
            IdedExpr { id: pattern.id, expr: self.variable(CelVariable::Pattern(regex)) };
        Ok(call(op::IN, vec![text, variable]))
    }

    fn function(&mut self, called: &CallExpr) -> Result<Ast, Fault> {
        let name = called.func_name.as_str();
        if !f::KNOWN.contains(&name) {
            return Err(self.unknown(name));
        }
        let target = called.target.as_ref().map(|target| self.tree(target)).transpose()?;
        Ok(Ast::Call(CallExpr {
            func_name: name.to_owned(),
            target: target.map(Box::new),
            args: self.trees(&called.args)?,
        }))
    }

    fn unknown(&self, name: &str) -> Fault {
        let name = if name == HAS { "has" } else { name };
        let range = locate::word(self.lowering.text, name);
        if f::MACROS.contains(&name) {
            return Fault::new(range, format!("`{name}` is called with the wrong arguments"));
        }
        let fault = Fault::new(range, format!("there is no function `{name}`"));
        match suggest::closest(name, f::KNOWN.into_iter().chain(f::MACROS)) {
            Some(close) => fault.help(format!("did you mean `{close}`?")).fix(close),
            None => fault,
        }
    }

    fn map(&mut self, map: &MapExpr) -> Result<Ast, Fault> {
        let mut map = map.clone();
        for entry in &mut map.entries {
            if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                entry.key = self.tree(&entry.key)?;
                entry.value = self.tree(&entry.value)?;
            }
        }
        Ok(Ast::Map(map))
    }

    fn comprehension(&mut self, inner: &ComprehensionExpr) -> Result<Ast, Fault> {
        if self.depth > 0 {
            return Err(self
                .lowering
                .fault("a comprehension stands in no other")
                .help("`all`, `exists`, `exists_one`, `map` and `filter` cannot be nested"));
        }
        let iter_range = self.tree(&inner.iter_range)?;
        let outside = self.bound.len();
        self.bound.extend([inner.iter_var.clone(), inner.accu_var.clone()]);
        self.bound.extend(inner.iter_var2.clone());
        self.depth += 1;
        let rewritten = ComprehensionExpr {
            iter_range,
            accu_init: self.tree(&inner.accu_init)?,
            loop_cond: self.tree(&inner.loop_cond)?,
            loop_step: self.tree(&inner.loop_step)?,
            result: self.tree(&inner.result)?,
            ..inner.clone()
        };
        self.depth -= 1;
        self.bound.truncate(outside);
        Ok(Ast::Comprehension(Box::new(rewritten)))
    }
}

/// The way in which an operator is rewritten.
enum OperatorRewrite {
    /// The operator takes true or false.
    Logic,
    /// The operator becomes this function.
    Function(&'static str),
    Unchanged,
    None,
}

fn operator(name: &str) -> OperatorRewrite {
    OperatorRewrite::Function(match name {
        op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT | op::CONDITIONAL => {
            return OperatorRewrite::Logic;
        }
        op::INDEX | op::NOT_STRICTLY_FALSE => return OperatorRewrite::Unchanged,
        op::LESS => f::LESS,
        op::LESS_EQUALS => f::LESS_OR_EQUAL,
        op::GREATER => f::GREATER,
        op::GREATER_EQUALS => f::GREATER_OR_EQUAL,
        op::ADD => f::ADD,
        op::SUBSTRACT => f::SUBTRACT,
        op::MULTIPLY => f::MULTIPLY,
        op::DIVIDE => f::DIVIDE,
        op::MODULO => f::REMAINDER,
        op::NEGATE => f::NEGATE,
        _ => return OperatorRewrite::None,
    })
}
