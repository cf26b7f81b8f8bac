//! envoyproxy/ratelimit: a domain and a tree of descriptors.
//!
//! A descriptor's keys become attributes of the request. At each level their lookup takes the
//! exact value, then the first pattern that matches, then the bare key, and never goes back; so
//! a rule excludes what would have been taken before it.

use anyhow::bail;
use tollgate::rules::Source;

use super::condition::{Condition, Pattern, is_name};
use super::draft::{Draft, Rule};
use super::glob;
use super::note::{Origin, Severity};
use super::yaml::{self, Node};

const DESCRIPTOR: [&str; 10] = [
    "key",
    "value",
    "rate_limit",
    "rate_limits",
    "descriptors",
    "shadow_mode",
    "share_threshold",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
];
const RATE_LIMIT: [&str; 10] = [
    "unit",
    "requests_per_unit",
    "requests",
    "unlimited",
    "name",
    "replaces",
    "unit_multiplier",
    "algorithm",
    "burst",
    "shadow_mode",
];

/// Reads files; each is a domain, and those of one name are one.
pub(super) fn import(sources: &[Source]) -> anyhow::Result<Vec<Draft>> {
    let mut drafts: Vec<Draft> = Vec::new();
    for source in sources {
        for root in yaml::documents(source)? {
            let Some(domain) = root.text_of("domain").filter(|domain| !domain.is_empty()) else {
                bail!("{}:{}: a ratelimit file begins with its `domain`", source.name, root.line);
            };
            let known = drafts.iter().position(|draft| draft.domain.as_deref() == Some(domain));
            let index = known.unwrap_or_else(|| {
                drafts.push(new_draft(domain));
                drafts.len() - 1
            });
            let draft = &mut drafts[index];
            draft.header.push(format!("Imported from {} (Envoy ratelimit).", source.name));
            file(&root, &source.name, draft);
            note_depth(&root, &source.name, draft);
        }
    }
    Ok(drafts)
}

fn new_draft(domain: &str) -> Draft {
    let why = "a descriptor without the key does not match";
    Draft {
        domain: Some(domain.to_owned()),
        defaults: vec![("missing_key", "skip".to_owned(), why)],
        ..Draft::default()
    }
}

fn file(root: &Node, name: &str, draft: &mut Draft) {
    let mut import = Import { file: name, draft };
    // The short form has one descriptor, written at the top.
    if root.get("key").is_some() {
        let known = [DESCRIPTOR.as_slice(), &["domain", "strict"]].concat();
        import.draft.note_unknown(root, &known, name, "a descriptor");
        import.level(std::slice::from_ref(root), &Way::default());
        return;
    }
    import.draft.note_unknown(root, &["domain", "descriptors", "strict"], name, "the file");
    let descriptors = root.get("descriptors").map_or(&[][..], Node::items);
    import.known_fields(descriptors);
    import.level(descriptors, &Way::default());
}

/// A descriptor has exactly the keys that lead to its limit; a request may have more.
fn note_depth(root: &Node, name: &str, draft: &mut Draft) {
    let nested =
        |node: &Node| node.get("descriptors").is_some_and(|inner| !inner.items().is_empty());
    let descriptors = root.get("descriptors").map_or(&[][..], Node::items);
    if descriptors.iter().any(nested) && draft.rules.len() > 1 {
        let message = "a descriptor's keys become attributes of the request, and a rule applies to \
                       every request that has those it names, also if it has more: Envoy asks for a \
                       descriptor with these keys and no others";
        draft.note(Severity::Differs, &Origin::new(name, root.line), message);
    }
}

/// The way from the root to a descriptor.
#[derive(Clone, Debug)]
struct Way {
    when: Condition,
    per: Vec<String>,
    /// Keys and values, for names and comments.
    steps: Vec<String>,
}

impl Default for Way {
    fn default() -> Way {
        Way { when: Condition::always(), per: Vec::new(), steps: Vec::new() }
    }
}

struct Import<'a> {
    file: &'a str,
    draft: &'a mut Draft,
}

impl Import<'_> {
    fn at(&self, line: usize) -> Origin {
        Origin::new(self.file, line)
    }

    fn known_fields(&mut self, descriptors: &[Node]) {
        for node in descriptors {
            self.draft.note_unknown(node, &DESCRIPTOR, self.file, "a descriptor");
        }
    }

    /// The descriptors of one level.
    fn level(&mut self, nodes: &[Node], way: &Way) {
        for (index, node) in nodes.iter().enumerate() {
            let at = self.at(node.line);
            let Some(key) = node.text_of("key").filter(|key| !key.is_empty()) else {
                let message = "a descriptor without a `key` was not carried over";
                self.draft.note(Severity::LeftOut, &at, message);
                continue;
            };
            if !is_name(key) {
                let message = format!("`{key}` cannot be the name of an attribute in a rule");
                self.draft.note(Severity::LeftOut, &at, message);
                continue;
            }
            let pattern = pattern(node);
            let mut next = way.clone();
            next.steps.push(match node.text_of("value") {
                Some(value) if !value.is_empty() => format!("{key}={value}"),
                _ => key.to_owned(),
            });
            if let Some(pattern) = &pattern {
                let is = Condition::Is(key.to_owned(), vec![pattern.clone()]);
                next.when = next.when.and(is);
            }
            for taken in taken_before(nodes, index, key, pattern.as_ref()) {
                next.when = next.when.and(Condition::Is(key.to_owned(), vec![taken]).not());
            }
            let shared = node.get("share_threshold").is_some_and(Node::is_true);
            let varies = !matches!(pattern, Some(Pattern::Exact(_))) && !shared;
            if varies && !next.per.iter().any(|known| known == key) {
                next.per.push(key.to_owned());
            }
            self.limits(node, &next);
            let inner = node.get("descriptors").map_or(&[][..], Node::items);
            self.known_fields(inner);
            self.level(inner, &next);
        }
    }

    /// The limits of one descriptor.
    fn limits(&mut self, node: &Node, way: &Way) {
        let several = node.get("rate_limits").map_or(&[][..], Node::items);
        let all: Vec<&Node> = node.get("rate_limit").into_iter().chain(several).collect();
        for rate in &all {
            let at = self.at(rate.line);
            self.draft.note_unknown(rate, &RATE_LIMIT, self.file, "a rate limit");
            let what = way.steps.join(", ");
            let name = rate.text_of("name").map_or_else(|| way.steps.join("-"), str::to_owned);
            let mut rule = Rule::new(&name, &at, &what);
            rule.when = way.when.clone();
            rule.per = way.per.clone();
            rule.shadow =
                [*rate, node].iter().any(|node| node.get("shadow_mode").is_some_and(Node::is_true));
            if !self.rate(rate, &mut rule, &at) {
                continue;
            }
            if node.get("quota_mode").is_some_and(Node::is_true) {
                let message = "`quota_mode` (over only if all quotas are) has no equivalent: this \
                               rule refuses by itself";
                self.draft.note(Severity::Differs, &at, message);
            }
            self.draft.add(rule, &at);
        }
    }

    /// Fills in the limit; false if there is none to speak of.
    fn rate(&mut self, rate: &Node, rule: &mut Rule, at: &Origin) -> bool {
        let replaced: Vec<&str> = rate
            .get("replaces")
            .map_or(&[][..], Node::items)
            .iter()
            .filter_map(|one| one.text_of("name").or(one.text()))
            .collect();
        if !replaced.is_empty() {
            let names = replaced.join(", ");
            let message = format!(
                "it `replaces` {names}: in a rules file all rules that match apply. Exclude its \
                 condition from those rules, or give theirs an override"
            );
            self.draft.note(Severity::LeftOut, at, message);
        }
        if rate.get("unlimited").is_some_and(Node::is_true) {
            rule.limits.push("unlimited".to_owned());
            return true;
        }
        let amount = rate.get("requests_per_unit").or_else(|| rate.get("requests"));
        let unit = rate.text_of("unit").and_then(unit);
        let (Some(amount), Some(unit)) = (amount.and_then(Node::number), unit) else {
            let message = "a rate limit needs `unit` and a whole `requests_per_unit`";
            self.draft.note(Severity::LeftOut, at, message);
            return false;
        };
        if amount == 0 {
            rule.comments.push("Nothing may pass.".to_owned());
            rule.require_keys();
            rule.then = Some("deny".to_owned());
            return true;
        }
        let count = match rate.get("unit_multiplier").and_then(Node::number) {
            Some(count) if count > 1 => count.to_string(),
            _ => String::new(),
        };
        // Envoy's own windows count refusals; what tollgate adds to its files does not.
        let algorithm = match (rate.text_of("algorithm"), rate.text_of("burst")) {
            (None, None) => " fixed count_denied".to_owned(),
            (None, Some(burst)) => format!(" burst {burst}"),
            (Some(algorithm), None) => format!(" {algorithm}"),
            (Some(algorithm), Some(burst)) => format!(" {algorithm} burst {burst}"),
        };
        rule.limits.push(format!("{amount}/{count}{unit}{algorithm}"));
        true
    }
}

/// What a descriptor's value has to be; none for a bare key.
fn pattern(node: &Node) -> Option<Pattern> {
    let value = node.text_of("value").filter(|value| !value.is_empty())?;
    Some(match value.contains('*') {
        true => Pattern::Glob(value.to_owned()),
        false => Pattern::Exact(value.to_owned()),
    })
}

/// The values of the same key that other descriptors of the level take first.
fn taken_before(nodes: &[Node], index: usize, key: &str, own: Option<&Pattern>) -> Vec<Pattern> {
    // Nothing comes before an exact value.
    if matches!(own, Some(Pattern::Exact(_))) {
        return Vec::new();
    }
    let same_key = nodes.iter().enumerate().filter(|(_, node)| node.text_of("key") == Some(key));
    let others = same_key.filter_map(|(other, node)| Some((other, pattern(node)?)));
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

fn unit(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "second" => "s",
        "minute" => "min",
        "hour" => "h",
        "day" => "day",
        "week" => "week",
        "month" => "month",
        "year" => "year",
        _ => return None,
    })
}
