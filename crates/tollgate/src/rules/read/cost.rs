//! What a request costs: one expression, or a reservation that is settled later.

use super::Reader;
use crate::rules::written::Cost;
use crate::rules::yaml::{Node, Value};

impl Reader<'_> {
    pub(super) fn cost(&mut self, node: &Node<'_>) -> Option<Cost> {
        if !matches!(node.value, Value::Map(_)) {
            let what = "a number, an expression, or { reserve: …, settle: … }";
            let reserve = self.owned(node, what)?;
            return Some(Cost { reserve, otherwise: None, settle: None, expire: None });
        }
        let fields = self.fields(node, "`cost`", &["reserve", "else", "settle", "expire"])?;
        let example = "reserve: body.max_tokens` or, where nothing is known before, `reserve: 0";
        let reserve = self.require(&fields, "reserve", "`cost`", example);
        let reserve = reserve.and_then(|node| self.owned(node, "a number or an expression"));
        let otherwise = fields.get("else");
        let otherwise =
            otherwise.and_then(|node| self.number(node, "what is reserved then", 0..=u64::MAX));
        let settle = fields.get("settle");
        let settle = settle.and_then(|node| self.owned(node, "an expression"));
        let expire = fields.get("expire");
        let expire = expire.and_then(|node| self.duration(node, "a length of time such as 10min"));
        Some(Cost { reserve: reserve?, otherwise: otherwise.map(|at| at.value), settle, expire })
    }
}
