//! Data beside the rules files: lists, overrides, bans and modes that change while they stay.

use serde::{Deserialize, Serialize};

/// Lists, overrides, bans and modes from outside the file.
///
/// They add to the file: a list replaces the file's list of that name, and an override takes
/// precedence over those of the file.
///
/// ```
/// use tollgate_rules::{Data, Rules, Source};
///
/// let rules = Rules::read([Source::new("shop.yaml", "
/// lists: { partners: [] }
/// attributes: [org]
/// rules:
///   - { name: api, per: org, limit: 100/h }
/// ")])?;
/// let data = Data {
///     overrides: vec![serde_json::from_str(
///         r#"{ "match": { "org": "acme" }, "rule": "api", "limit": "5k/h" }"#)?],
///     ..Data::default()
/// };
/// let rules = rules.with_data(&data)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// The overrides; a later one takes precedence over an earlier one.
    pub overrides: Vec<OverrideData>,
    /// The entries of lists.
    pub lists: Vec<ListData>,
    /// The keys that are refused regardless of their counters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bans: Vec<BanData>,
    /// The modes of rules, in place of those of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ModeData>,
}

/// The mode of a rule, set while running; of all rules it is a kill switch.
///
/// ```
/// use tollgate_rules::{Data, ModeData, Request, RuleLimiter, Rules};
///
/// let rules: Rules = "rules: [{ name: api, limit: 1/h }]".parse()?;
/// let off = ModeData { rule: "*".into(), mode: "off".into(), ..ModeData::default() };
/// let limiter = RuleLimiter::new(rules.with_data(&Data { modes: vec![off], ..Data::default() })?);
/// assert!((0..10).all(|_| limiter.decide_now(&Request::empty()).allowed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModeData {
    /// The domain. It may be left out if there is only one, and where the rule is `*`, which then
    /// means all rules of all domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The rule, or `*` for all rules, which takes precedence over the modes of single rules.
    pub rule: String,
    /// `enforce`, `shadow`, `enforce 10%` or `off`.
    pub mode: String,
    /// The end: `2027-01-01`, or with a time of day. Without it the mode stays until it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The reason, for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A ban: a key that a rule refuses.
///
/// ```
/// use tollgate_rules::{BanData, Data, Request, RuleLimiter, Rules};
///
/// let rules: Rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 100/h }]".parse()?;
/// let ban = BanData { rule: "api".into(), key: "mallory".into(), ..BanData::default() };
/// let limiter = RuleLimiter::new(rules.with_data(&Data { bans: vec![ban], ..Data::default() })?);
/// assert!(!limiter.decide_now(&Request::empty().attribute("user", "mallory")).allowed);
/// assert!(limiter.decide_now(&Request::empty().attribute("user", "ann")).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BanData {
    /// The domain; it may be left out if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The rule that refuses the key.
    pub rule: String,
    /// The key: the values of the rule's `per`, as [one text](crate::encode_key).
    pub key: String,
    /// The end: `2027-01-01`, or with a time of day. Without it the ban does not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The reason, for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An override: another limit or plan for the requests that match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverrideData {
    /// The domain; it may be left out if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The attributes and the values, or patterns with `*`, that they must have.
    #[serde(rename = "match")]
    pub matches: std::collections::BTreeMap<String, String>,
    /// The rule whose limit it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The limits that replace those of the rule.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub limit: Vec<String>,
    /// The plan that replaces that of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The end: `2027-01-01`, or with a time of day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The reason, for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The entries of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListData {
    /// The domain; it may be left out if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The name of the list.
    pub name: String,
    /// The addresses, networks, names, and patterns with `*`.
    pub entries: Vec<String>,
}

/// Deserialises `"10/s"` or `["10/s", "100/h"]`.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct OneOrMany;
    impl<'de> serde::de::Visitor<'de> for OneOrMany {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a limit or a list of limits")
        }

        fn visit_str<E>(self, one: &str) -> Result<Vec<String>, E> {
            Ok(vec![one.to_owned()])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut many: A,
        ) -> Result<Vec<String>, A::Error> {
            let mut limits = Vec::new();
            while let Some(limit) = many.next_element()? {
                limits.push(limit);
            }
            Ok(limits)
        }
    }
    from.deserialize_any(OneOrMany)
}

/// An error in an element of [`Data`].
///
/// ```
/// use tollgate_rules::{Data, ListData, Rules, Source};
/// let rules = Rules::read([Source::new("a.yaml", "rules: [{ name: api, limit: 1/s }]")])?;
/// let list = ListData { name: "office".into(), ..ListData::default() };
/// let error = rules.with_data(&Data { lists: vec![list], ..Data::default() }).unwrap_err();
/// assert_eq!(error.element, "lists[0]");
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataError {
    /// The path of the element: `overrides[3].limit`.
    pub element: String,
    /// The message: what is wrong, and what to do.
    pub message: String,
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.element, self.message)
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl std::fmt::Debug for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DataError {}
