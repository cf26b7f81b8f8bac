//! envoyproxy/ratelimit: a domain and a tree of descriptors.
//!
//! The keys of a descriptor become attributes of the request. At each level Envoy takes the
//! descriptor with the exact value, then the first pattern that matches, then the bare key, and
//! never tries another one. So a rule excludes the values that an earlier descriptor takes.

use anyhow::{anyhow, bail};
use tollgate_rules::envoy::{DescriptorOutline, DomainOutline, LimitOutline, RateOutline, Unit};
use tollgate_rules::{Diagnostics, Source};

use super::condition::{Condition, Pattern, is_name};
use super::draft::{DraftRule, RulesDraft};
use super::finding::{Effect, Origin};
use super::glob;

/// Reads files; each document is a domain, and documents of one domain become one draft.
pub(super) fn import(sources: &[Source]) -> anyhow::Result<Vec<RulesDraft>> {
    let mut drafts: Vec<RulesDraft> = Vec::new();
    for source in sources {
        let (domains, found) = match DomainOutline::read(source) {
            Ok(read) => read,
            Err(found) => return Err(anyhow!(super::first_error(&found))),
        };
        for (index, domain) in domains.iter().enumerate() {
            if domain.domain.is_empty() {
                let (file, line) = (&source.name, domain.line);
                bail!("{file}:{line}: this file has no `domain`: add one, as in domain: shop");
            }
            let draft = draft_of(&mut drafts, &domain.domain);
            draft.header.push(format!("Imported from {} (Envoy ratelimit).", source.name));
            if index == 0 {
                find_faults(&found, draft);
            }
            let mut import = EnvoyImport { file: &source.name, draft };
            import.level(&domain.descriptors, &DescriptorPath::default());
            find_depth(domain, &source.name, draft);
        }
    }
    Ok(drafts)
}

/// Returns the draft of a domain, a new one if there is none.
fn draft_of<'d>(drafts: &'d mut Vec<RulesDraft>, domain: &str) -> &'d mut RulesDraft {
    let known = drafts.iter().position(|draft| draft.domain.as_deref() == Some(domain));
    let index = known.unwrap_or_else(|| {
        let reason = "a descriptor without the key does not match".to_owned();
        drafts.push(RulesDraft {
            domain: Some(domain.to_owned()),
            defaults: vec![("missing_key", "skip".to_owned(), reason)],
            ..RulesDraft::default()
        });
        drafts.len() - 1
    });
    &mut drafts[index]
}

/// Reports everything that is wrong with a file. Envoy refuses a file with an error, and what has the
/// error is not in the rules; a warning is about something that Envoy ignores as well.
fn find_faults(found: &Diagnostics, draft: &mut RulesDraft) {
    for finding in found.findings() {
        let effect = match finding.severity {
            tollgate_rules::Severity::Error => Effect::MorePermissive,
            _ => Effect::Equal,
        };
        let origin = Origin::new(finding.file, finding.line);
        draft.find(effect, &origin, finding.message);
    }
}

/// Reports that rules also match requests with more keys than a descriptor has.
fn find_depth(domain: &DomainOutline, file: &str, draft: &mut RulesDraft) {
    let nested = |descriptor: &DescriptorOutline| !descriptor.descriptors.is_empty();
    if domain.descriptors.iter().any(nested) && draft.rules.len() > 1 {
        let message = "a descriptor's keys become attributes of the request, and a rule applies to \
                       every request that has those it names, also if it has more: Envoy looks for a \
                       descriptor with these keys and no others";
        draft.find(Effect::Stricter, &Origin::new(file, domain.line), message);
    }
}

/// The way from the root to a descriptor.
#[derive(Clone, Debug)]
struct DescriptorPath {
    when: Condition,
    per: Vec<String>,
    /// Keys and values, for names and comments.
    entries: Vec<String>,
}

impl Default for DescriptorPath {
    fn default() -> DescriptorPath {
        DescriptorPath { when: Condition::always(), per: Vec::new(), entries: Vec::new() }
    }
}

/// One file on its way into a draft.
struct EnvoyImport<'a> {
    file: &'a str,
    draft: &'a mut RulesDraft,
}

impl EnvoyImport<'_> {
    /// Imports the descriptors of one level.
    fn level(&mut self, descriptors: &[DescriptorOutline], path: &DescriptorPath) {
        for (index, descriptor) in descriptors.iter().enumerate() {
            let key = descriptor.key.as_str();
            if key.is_empty() {
                continue; // The reader reports it.
            }
            if !is_name(key) {
                let message =
                    format!("left out: `{key}` cannot be the name of an attribute in a rule");
                let origin = Origin::new(self.file, descriptor.line);
                self.draft.find(Effect::MorePermissive, &origin, message);
                continue;
            }
            let pattern = pattern(descriptor);
            let mut next = path.clone();
            next.entries.push(match descriptor.value.as_str() {
                "" => key.to_owned(),
                value => format!("{key}={value}"),
            });
            if let Some(pattern) = &pattern {
                let is = Condition::Is(key.to_owned(), vec![pattern.clone()]);
                next.when = next.when.and(is);
            }
            for taken in taken_before(descriptors, index, key, pattern.as_ref()) {
                next.when = next.when.and(Condition::Is(key.to_owned(), vec![taken]).not());
            }
            let varies = !matches!(pattern, Some(Pattern::Exact(_))) && !descriptor.shared;
            if varies && !next.per.iter().any(|known| known == key) {
                next.per.push(key.to_owned());
            }
            for limit in &descriptor.limits {
                self.limit(descriptor, limit, &next);
            }
            self.level(&descriptor.descriptors, &next);
        }
    }

    /// Adds the rule of one limit.
    fn limit(
        &mut self,
        descriptor: &DescriptorOutline,
        limit: &LimitOutline,
        path: &DescriptorPath,
    ) {
        let origin = Origin::new(self.file, limit.line);
        let what = path.entries.join(", ");
        let name = limit.name.clone().unwrap_or_else(|| path.entries.join("-"));
        let mut rule = DraftRule::new(&name, &origin, &what);
        rule.when = path.when.clone();
        rule.per = path.per.clone();
        rule.shadow = descriptor.shadow;
        if !limit.replaces.is_empty() {
            let names = limit.replaces.join(", ");
            let message = format!(
                "it `replaces` {names}: in a rules file all rules that match apply. Exclude its \
                 condition from those rules, or give theirs an override"
            );
            self.draft.find(Effect::Stricter, &origin, message);
        }
        match &limit.rate {
            None => rule.limits.push("unlimited".to_owned()),
            Some(rate) if rate.requests == 0 => {
                rule.comments.push("Nothing may pass.".to_owned());
                rule.require_keys();
                rule.then = Some("deny".to_owned());
            }
            Some(rate) => rule.limits.push(limit_text(rate)),
        }
        if descriptor.quota {
            let message = "`quota_mode` (over only if all quotas are) has no equivalent: this rule \
                           refuses by itself";
            self.draft.find(Effect::Stricter, &origin, message);
        }
        self.draft.add(rule, &origin);
    }
}

/// Returns a rate as rules write it: `5/15min fixed count_denied`.
fn limit_text(rate: &RateOutline) -> String {
    let unit = match rate.unit {
        Unit::Second => "s",
        Unit::Minute => "min",
        Unit::Hour => "h",
        Unit::Day => "day",
        Unit::Week => "week",
        Unit::Month => "month",
        Unit::Year => "year",
    };
    let count = if rate.multiplier > 1 { rate.multiplier.to_string() } else { String::new() };
    format!("{}/{count}{unit} {}", rate.requests, rate.options).trim_end().to_owned()
}

/// Returns what the value of a descriptor must match; none for a bare key.
fn pattern(descriptor: &DescriptorOutline) -> Option<Pattern> {
    let value = Some(&descriptor.value).filter(|value| !value.is_empty())?;
    Some(match value.contains('*') {
        true => Pattern::Glob(value.to_owned()),
        false => Pattern::Exact(value.to_owned()),
    })
}

/// Returns the values of a key that other descriptors of the level take first.
fn taken_before(
    descriptors: &[DescriptorOutline],
    index: usize,
    key: &str,
    own: Option<&Pattern>,
) -> Vec<Pattern> {
    // No descriptor comes before an exact value.
    if matches!(own, Some(Pattern::Exact(_))) {
        return Vec::new();
    }
    let same_key = descriptors.iter().enumerate().filter(|(_, other)| other.key == key);
    let others = same_key.filter_map(|(other, descriptor)| Some((other, pattern(descriptor)?)));
    let taken = |(other, pattern): (usize, Pattern)| {
        let first = match (own, &pattern) {
            (None, _) => true,
            (Some(Pattern::Exact(_)), _) => false,
            (Some(Pattern::Glob(glob)), Pattern::Exact(value)) => glob::matches(glob, value),
            (Some(Pattern::Glob(glob)), Pattern::Glob(theirs)) => {
                other < index && glob::may_overlap(glob, theirs)
            }
        };
        first.then_some(pattern)
    };
    others.filter_map(taken).collect()
}
