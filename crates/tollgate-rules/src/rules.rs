//! The rule set: its sources, read, checked and compiled.

#[cfg_attr(not(feature = "envoy"), path = "rules/without_envoy.rs")]
mod envoy_trees;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::compile::compiler::{self, AppliedData, DEFAULT_DOMAIN};
use crate::compile::domain::Domain;
use crate::compile::expr::UndeclaredNames;
use crate::decide::cases::DomainCase;
use crate::matching::key_hasher::KeyHasher;
use crate::read::diagnostic::Diagnostic;
use crate::read::document;
use crate::read::source::SourceSpan;
use crate::read::yaml;
use crate::{Data, DataError, Diagnostics, Request, Source};
use envoy_trees::{EnvoyTreeReader, EnvoyTrees};

/// A set of rules that was read, checked and compiled. Clones share it.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules: Rules = "
/// domain: shop
/// rules:
///   - { name: edge, per: ip, limit: 10/s burst 20 }
/// ".parse()?;
/// assert!(rules.warnings().is_empty());
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rules(Arc<RuleSet>);

#[derive(Clone, Debug)]
struct RuleSet {
    domains: Vec<Domain>,
    /// The index of each domain in `domains`.
    by_name: HashMap<Box<str>, usize>,
    trees: EnvoyTrees,
    cases: Vec<DomainCase>,
    /// The sources and the warnings about them.
    diagnostics: Diagnostics,
}

impl Rules {
    /// Reads sources, each of which is a domain of its own.
    pub fn read(sources: impl IntoIterator<Item = Source>) -> Result<Rules, Diagnostics> {
        Rules::read_with(sources.into_iter().collect(), false, &UndeclaredNames::default())
    }

    /// Reads sources of which several may describe one domain, if they are files of Envoy's rate
    /// limit service. It has the setting `MERGE_DOMAIN_CONFIG` for this.
    ///
    /// ```
    /// # #[cfg(feature = "envoy")] {
    /// use tollgate_rules::{Rules, Source};
    /// let limit = "rate_limit: { unit: day, requests_per_unit: 5 }";
    /// let files = ["user", "org"].map(|key| {
    ///     Source::new(key, format!("{{ domain: d, descriptors: [{{ key: {key}, {limit} }}] }}"))
    /// });
    /// assert!(Rules::read(files.clone()).is_err());
    /// assert_eq!(Rules::read_merged(files)?.domain_names().count(), 1);
    /// # }
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn read_merged(sources: impl IntoIterator<Item = Source>) -> Result<Rules, Diagnostics> {
        Rules::read_with(sources.into_iter().collect(), true, &UndeclaredNames::default())
    }

    /// Returns the names that the rules of a source read and that nothing declares, sorted: what a
    /// program that writes rules has to declare under `attributes:`.
    ///
    /// ```
    /// use tollgate_rules::{Rules, Source};
    /// let source = Source::new("draft", "rules: [{ name: api, per: [ip, org], limit: 10/s }]");
    /// assert!(Rules::read([source.clone()]).is_err());
    /// assert_eq!(Rules::undeclared_attributes(source), ["org"]);
    /// ```
    pub fn undeclared_attributes(source: Source) -> Vec<String> {
        let undeclared = UndeclaredNames::collected();
        let sources: Arc<[Source]> = [source].into_iter().collect();
        // Other errors are reported by reading the source once it is complete.
        let _ = Rules::read_with(sources, false, &undeclared);
        undeclared.into_names()
    }

    fn read_with(
        sources: Arc<[Source]>,
        merge_domains: bool,
        undeclared: &UndeclaredNames,
    ) -> Result<Rules, Diagnostics> {
        let mut diagnostics = Diagnostics::new(sources.clone());
        let mut domains = Vec::new();
        let mut by_name = HashMap::new();
        let mut cases = Vec::new();
        let mut trees = EnvoyTreeReader::default();
        for (number, source) in sources.iter().enumerate() {
            let root = match yaml::parse(&source.text, number as u32) {
                Ok(root) => root,
                Err(error) => {
                    diagnostics.push(error);
                    continue;
                }
            };
            if trees.read(&root, &mut diagnostics) {
                continue;
            }
            let document = document::read(&root, &mut diagnostics);
            drop(root); // The tree is freed before compiling to bound the memory in use.
            let domain = compiler::compile(&document, undeclared, &mut diagnostics);
            if !document.has_unknown_domain
                && by_name.insert(domain.name.clone(), domains.len()).is_some()
            {
                let span = document.domain.as_ref().map_or(document.span, |name| name.span);
                diagnostics.push(duplicate_domain(&domain.name, span));
            }
            let case = |case| DomainCase { domain: domain.name.clone(), case };
            cases.extend(document.cases.into_iter().map(case));
            domains.push(domain);
        }
        let trees = trees.finish(merge_domains, &by_name, &mut diagnostics);
        diagnostics.sort();
        match diagnostics.has_errors() {
            true => Err(diagnostics),
            false => Ok(Rules(Arc::new(RuleSet { domains, by_name, trees, cases, diagnostics }))),
        }
    }

    /// Returns these rules with other data in place of any data given before.
    ///
    /// Data are lists, overrides, bans and modes that are not part of the file.
    pub fn with_data(&self, data: &Data) -> Result<Rules, DataError> {
        let (rules, mut errors) = self.with_fitting_data(data);
        if errors.is_empty() { Ok(rules) } else { Err(errors.swap_remove(0)) }
    }

    /// Returns these rules with the data that fit them, and an error for each element left out.
    ///
    /// ```
    /// use tollgate_rules::{BanData, Data, Rules};
    /// let rules: Rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/s }]".parse()?;
    /// let ban = |rule: &str| BanData { rule: rule.into(), ..BanData::default() };
    /// let data = Data { bans: vec![ban("gone"), ban("api")], ..Data::default() };
    /// let (_, left_out) = rules.with_fitting_data(&data);
    /// assert_eq!(left_out[0].element, "bans[0]");
    /// assert_eq!(left_out.len(), 1);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn with_fitting_data(&self, data: &Data) -> (Rules, Vec<DataError>) {
        let AppliedData { domains, disabled_trees, errors } =
            compiler::apply_data(&self.0.domains, &self.0.trees.domain_names(), data);
        let trees = self.0.trees.with_disabled(disabled_trees);
        (Rules(Arc::new(RuleSet { domains, trees, ..(*self.0).clone() })), errors)
    }

    /// Returns these rules with other hashes of the secrets in keys.
    pub(crate) fn with_hasher(&self, hasher: &Arc<KeyHasher>) -> Rules {
        let is_done =
            |domain: &Domain| !domain.compiled.has_secrets || Arc::ptr_eq(&domain.hasher, hasher);
        if self.0.domains.iter().all(is_done) {
            return self.clone();
        }
        let hashed =
            self.0.domains.iter().map(|domain| {
                Domain { hasher: hasher.clone(), ..domain.clone() }.with_hashed_bans()
            });
        Rules(Arc::new(RuleSet { domains: hashed.collect(), ..(*self.0).clone() }))
    }

    /// Returns the sources the rules were read from.
    pub fn sources(&self) -> &[Source] {
        &self.0.diagnostics.sources
    }

    /// Returns the warnings about the rules.
    pub fn warnings(&self) -> &Diagnostics {
        &self.0.diagnostics
    }

    /// Returns the names of the domains.
    pub fn domain_names(&self) -> impl Iterator<Item = &str> {
        let trees = self.0.trees.domain_names();
        self.0.domains.iter().map(|domain| &*domain.name).chain(trees)
    }

    /// Whether there is a domain of this name.
    pub fn has_domain(&self, name: &str) -> bool {
        self.0.by_name.contains_key(name) || self.0.trees.contains(name)
    }

    /// Returns the networks of the proxies that a domain trusts (`trusted_proxies`).
    ///
    /// Without a name, the only domain is used.
    pub fn trusted_proxies(&self, domain: Option<&str>) -> &[IpNet] {
        let request = Request { domain, ..Request::empty() };
        self.domain_of(&request).map_or(&[], |domain| &domain.compiled.reading.trust.networks)
    }

    /// Returns the number of rules; of a domain written for Envoy, of descriptors with limits.
    pub fn len(&self) -> usize {
        let rules: usize = self.0.domains.iter().map(|domain| domain.compiled.rules.len()).sum();
        rules + self.0.trees.limit_counts().0
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of limits of all rules; one that depends on the plan counts once.
    pub fn limit_count(&self) -> usize {
        let rules = self.0.domains.iter().flat_map(|domain| &domain.compiled.rules);
        let limits: usize = rules.map(|rule| rule.limits.len()).sum();
        limits + self.0.trees.limit_counts().1
    }

    pub(crate) fn cases(&self) -> &[DomainCase] {
        &self.0.cases
    }

    pub(crate) fn domains(&self) -> &[Domain] {
        &self.0.domains
    }

    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        self.0.by_name.get(name).map(|index| &self.0.domains[*index])
    }

    /// Returns the domain whose rules apply to a request: the one it names, or the only one.
    pub(crate) fn domain_of(&self, request: &Request<'_>) -> Option<&Domain> {
        match (request.domain, &self.0.domains[..]) {
            (Some(name), _) => self.domain(name),
            (None, [only]) if self.0.trees.is_empty() => Some(only),
            (None, _) => self.domain(DEFAULT_DOMAIN),
        }
    }
}

fn duplicate_domain(name: &str, span: SourceSpan) -> Diagnostic {
    let message = format!("there is another file for the domain {name:?}");
    let help = "give each file a `domain` of its own";
    Diagnostic::error("duplicate-domain", span, message).help(help)
}

impl FromStr for Rules {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Rules, Diagnostics> {
        Rules::read([Source::new("rules", text)])
    }
}
