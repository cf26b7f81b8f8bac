//! Keys of requests that lack an attribute of `per`, and so share one counter.

use crate::compile::domain::{CompiledRule, KeyPart};
use crate::decide::decision::Decision;

/// A rule that counts a request under a key with missing parts, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IncompleteKeyParts {
    pub(crate) rule: u32,
    /// The missing parts of the key, as bits; the first part is bit 0.
    pub(crate) parts: u16,
    pub(crate) enforced: bool,
}

/// A rule that counts a request under a key with missing parts.
///
/// All requests that lack the attributes share that counter (`missing_key: shared`).
#[derive(Clone, Copy, Debug)]
pub struct IncompleteKey<'d> {
    rule: &'d CompiledRule,
    parts: u16,
    enforced: bool,
}

impl<'d> IncompleteKey<'d> {
    /// Returns the name of the rule.
    pub fn rule(&self) -> &'d str {
        &self.rule.name
    }

    /// Whether a refusal by the rule is enforced.
    pub fn is_enforced(&self) -> bool {
        self.enforced
    }

    /// Whether the address of the client is missing.
    pub fn lacks_address(&self) -> bool {
        self.missing_parts().any(|part| matches!(part, KeyPart::Ip { .. }))
    }

    /// Returns the attributes of the key parts that the request lacks, as rules spell them.
    pub fn attributes(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.missing_parts().flat_map(KeyPart::attribute_names).collect();
        names.dedup();
        names
    }

    fn missing_parts(&self) -> impl Iterator<Item = &'d KeyPart> {
        let parts = self.parts;
        let numbered = self.rule.per.iter().zip(0_u32..);
        numbered.filter(move |(_, number)| parts >> number & 1 == 1).map(|(part, _)| part)
    }
}

impl KeyPart {
    fn attribute_names(&self) -> Vec<String> {
        match self {
            KeyPart::Value(expr) => expr.attributes().iter().map(ToString::to_string).collect(),
            KeyPart::Ip { attribute, .. } => vec![attribute.to_string()],
            KeyPart::Endpoint => vec!["path".to_owned()],
        }
    }
}

impl Decision {
    /// Returns the rules that count the request under a key with missing parts; usually none.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("
    /// attributes: [user]
    /// rules: [{ name: api, per: [ip, user], limit: 10/s }]
    /// ".parse()?);
    /// let request = Request::empty().attribute("ip", "192.0.2.1");
    /// let decision = limiter.decide_now(&request);
    /// let incomplete: Vec<_> = decision.incomplete_keys().collect();
    /// assert_eq!((incomplete[0].rule(), incomplete[0].attributes()), ("api", vec!["user".to_owned()]));
    /// assert_eq!(limiter.decide_now(&request.attribute("user", "ann")).incomplete_keys().count(), 0);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn incomplete_keys(&self) -> impl Iterator<Item = IncompleteKey<'_>> {
        let rules = self.rules.as_ref().map_or(&[][..], |rules| &rules.rules);
        self.incomplete_keys.iter().flatten().filter_map(|it| {
            let rule = rules.get(it.rule as usize)?;
            Some(IncompleteKey { rule, parts: it.parts, enforced: it.enforced })
        })
    }

    /// Whether a rule counts the request under a key with missing parts.
    #[inline]
    pub fn has_incomplete_keys(&self) -> bool {
        self.incomplete_keys.is_some()
    }
}
