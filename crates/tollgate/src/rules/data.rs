//! Rules that are data: lists, overrides, bans and modes that come and go while the file stays.

use serde::{Deserialize, Serialize};

/// Lists, overrides, bans and modes from outside the file. They add to what the file says; a list replaces
/// the file's of the same name, an override goes before the file's about the same clients.
///
/// ```
/// use tollgate::rules::{Data, Rules, Source};
///
/// let rules = Rules::read([Source::new("shop.yaml", "
/// lists: { partners: [] }
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
    /// Exceptions, the later before the earlier.
    pub overrides: Vec<OverrideData>,
    /// Lists.
    pub lists: Vec<ListData>,
    /// Keys that are refused whatever their counters say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bans: Vec<BanData>,
    /// Modes of rules, instead of those in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ModeData>,
}

/// The mode of a rule, set while running; of all rules it is a kill switch.
///
/// ```
/// use tollgate::rules::{Data, ModeData, Rules};
/// use tollgate::{Limiter, Request};
///
/// let rules: Rules = "rules: [{ name: api, limit: 1/h }]".parse()?;
/// let off = ModeData { rule: "*".into(), mode: "off".into(), ..ModeData::default() };
/// let limiter = Limiter::from_rules(rules.with_data(&Data { modes: vec![off], ..Data::default() })?);
/// assert!((0..10).all(|_| limiter.decide(&Request::empty()).allowed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModeData {
    /// Which domain it is in. May be left out if there is only one, and where the rule is `*`, which
    /// then means all rules of all domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The rule, or `*` for all of them, which goes before the modes of single rules.
    pub rule: String,
    /// `enforce`, `shadow`, `enforce 10%` or `off`.
    pub mode: String,
    /// Until when: `2027-01-01`, or with a time of day. Until it is removed if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A key that a rule refuses.
///
/// ```
/// use tollgate::rules::{BanData, Data, Rules};
/// use tollgate::{Limiter, Request};
///
/// let rules: Rules = "rules: [{ name: api, per: user, limit: 100/h }]".parse()?;
/// let ban = BanData { rule: "api".into(), key: "mallory".into(), ..BanData::default() };
/// let limiter = Limiter::from_rules(rules.with_data(&Data { bans: vec![ban], ..Data::default() })?);
/// assert!(!limiter.decide(&Request::empty().attribute("user", "mallory")).allowed);
/// assert!(limiter.decide(&Request::empty().attribute("user", "ann")).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BanData {
    /// Which domain it is in; may be left out if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The rule that refuses it.
    pub rule: String,
    /// Whose requests: the values of the rule's `per`, as [one text](super::encode_key).
    pub key: String,
    /// Until when: `2027-01-01`, or with a time of day. For good if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One exception.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverrideData {
    /// Which domain it is in; may be left out if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Attributes and the values, or patterns with `*`, that they must have.
    #[serde(rename = "match")]
    pub matches: std::collections::BTreeMap<String, String>,
    /// The rule whose limit it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The limits instead.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub limit: Vec<String>,
    /// Or the plan instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Until when: `2027-01-01`, or with a time of day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The entries of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListData {
    /// Which domain it is in; may be left out if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its name.
    pub name: String,
    /// Addresses, networks, names, patterns with `*`.
    pub entries: Vec<String>,
}

/// `"10/s"` or `["10/s", "100/h"]`.
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

/// What is wrong with an element of [`Data`].
///
/// ```
/// use tollgate::rules::{Data, ListData, Rules, Source};
/// let rules = Rules::read([Source::new("a.yaml", "rules: [{ name: api, limit: 1/s }]")])?;
/// let list = ListData { name: "office".into(), ..ListData::default() };
/// let error = rules.with_data(&Data { lists: vec![list], ..Data::default() }).unwrap_err();
/// assert_eq!(error.element, "lists[0]");
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataError {
    /// Which element: `overrides[3].limit`.
    pub element: String,
    /// What is wrong with it, and what to do.
    pub message: String,
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.element, self.message)
    }
}

impl std::error::Error for DataError {}
