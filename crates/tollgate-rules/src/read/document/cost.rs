//! Reads `cost`: one expression, or a reservation that is settled later.

use super::DocumentReader;
use crate::read::definition::CostDefinition;
use crate::read::yaml::{YamlNode, YamlValue};

impl DocumentReader<'_> {
    pub(super) fn cost(&mut self, node: &YamlNode<'_>) -> Option<CostDefinition> {
        if !matches!(node.value, YamlValue::Map(_)) {
            let what = "a number, an expression, or { reserve: …, settle: … }";
            let reserve = self.owned(node, what)?;
            return Some(CostDefinition { reserve, otherwise: None, settle: None, expire: None });
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
        Some(CostDefinition {
            reserve: reserve?,
            otherwise: otherwise.map(|at| at.value),
            settle,
            expire,
        })
    }
}
