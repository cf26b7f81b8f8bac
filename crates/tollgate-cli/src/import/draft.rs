//! The draft of a rules file, and how it is written as YAML.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write};

use tollgate_rules::yaml::{YamlFile, YamlNode};
use tollgate_rules::{Rules, Source};

use super::condition::Condition;
use super::finding::{Effect, ImportFinding, Origin};

/// The contents of one rules file.
#[derive(Clone, Debug, Default)]
pub(super) struct RulesDraft {
    /// The comments at the top.
    pub(super) header: Vec<String>,
    pub(super) domain: Option<String>,
    /// The settings under `defaults`: name, value and reason.
    pub(super) defaults: Vec<(&'static str, String, String)>,
    pub(super) trusted_proxies: Vec<String>,
    /// The names that callers send, which the rules read.
    pub(super) sent: BTreeSet<String>,
    /// The attributes: name and expression.
    pub(super) attributes: Vec<(String, String)>,
    /// The lists: name and entries.
    pub(super) lists: Vec<(String, Vec<String>)>,
    pub(super) rules: Vec<DraftRule>,
    pub(super) findings: Vec<ImportFinding>,
    /// The number of requests for each rule name.
    pub(super) names: HashMap<String, usize>,
}

/// One rule of a draft; empty fields are not written.
#[derive(Clone, Debug)]
pub(super) struct DraftRule {
    /// The comments above the rule: its origin and the original text.
    pub(super) comments: Vec<String>,
    pub(super) name: String,
    pub(super) routes: Vec<String>,
    pub(super) when: Condition,
    pub(super) per: Vec<String>,
    pub(super) limits: Vec<String>,
    pub(super) then: Option<String>,
    pub(super) shadow: bool,
    pub(super) bucket: Option<String>,
    pub(super) on_error: Option<&'static str>,
    pub(super) missing_key: Option<&'static str>,
}

impl DraftRule {
    /// Returns a rule for every request, with a comment that names its origin.
    pub(super) fn new(name: &str, origin: &Origin, what: &str) -> DraftRule {
        DraftRule {
            comments: vec![format!("{origin}: {what}")],
            name: slug(name),
            routes: Vec::new(),
            when: Condition::always(),
            per: Vec::new(),
            limits: Vec::new(),
            then: None,
            shadow: false,
            bucket: None,
            on_error: None,
            missing_key: None,
        }
    }

    /// Turns the attributes it counts by into conditions, for a rule that counts nothing.
    pub(super) fn require_keys(&mut self) {
        for key in std::mem::take(&mut self.per) {
            let when = std::mem::replace(&mut self.when, Condition::always());
            self.when = when.and(Condition::Missing(key).not());
        }
    }
}

impl RulesDraft {
    /// Adds a rule under a free name, or a finding if the rule is not valid.
    pub(super) fn add(&mut self, mut rule: DraftRule, origin: &Origin) {
        rule.when.hoist(&rule.name, &mut self.lists);
        let when = std::mem::replace(&mut rule.when, Condition::always());
        let attributes = &mut self.attributes;
        rule.when = when.shortened(&mut |expression| {
            if let Some((known, _)) = attributes.iter().find(|(_, other)| *other == expression) {
                return known.clone();
            }
            let name = format!("{}_part_{}", rule.name.replace('-', "_"), attributes.len() + 1);
            attributes.push((name.clone(), expression));
            name
        });
        let mut alone = self.alone(&rule);
        let source = Source::new("draft", alone.to_string());
        alone.sent = Rules::undeclared_attributes(source).into_iter().collect();
        if let Some(reason) = super::invalid(&alone) {
            let what = rule.comments.first().and_then(|comment| comment.split_once(": "));
            let what = what.map_or(rule.name.as_str(), |(_, what)| what);
            let message = format!("`{what}` is left out: {reason}");
            return self.find(Effect::MorePermissive, origin, message);
        }
        self.sent.append(&mut alone.sent);
        rule.name = self.free_name(rule.name);
        self.rules.push(rule);
    }

    /// Returns a draft of one rule with the lists and attributes it refers to.
    fn alone(&self, rule: &DraftRule) -> RulesDraft {
        let parts = self.attributes.iter().map(|(_, expression)| expression.as_str());
        let when = parts.fold(rule.when.expression(), |all, part| all + part);
        let named = |(name, _): &&(String, Vec<String>)| when.contains(name.as_str());
        RulesDraft {
            attributes: self.attributes.clone(),
            defaults: self.defaults.clone(),
            lists: self.lists.iter().filter(named).cloned().collect(),
            rules: vec![rule.clone()],
            ..RulesDraft::default()
        }
    }

    fn free_name(&mut self, wanted: String) -> String {
        let count = self.names.entry(wanted.clone()).or_default();
        *count += 1;
        if *count == 1 {
            return wanted;
        }
        // The configuration may have a rule named `api-2` already.
        let numbered = format!("{wanted}-{count}");
        self.free_name(numbered)
    }

    /// Adds a finding unless it is there already.
    pub(super) fn find(&mut self, effect: Effect, origin: &Origin, message: impl Into<String>) {
        let (file, line) = (origin.file.clone(), Some(origin.line).filter(|line| *line > 0));
        let finding = ImportFinding { effect, file, line, message: message.into() };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Adds a finding for each key of a mapping that is not in `known`.
    pub(super) fn find_unknown(
        &mut self,
        node: &YamlNode<'_>,
        known: &[&str],
        file: &YamlFile<'_>,
        what: &str,
    ) {
        for node in node.keys() {
            let Some(key) = node.text().filter(|key| !known.contains(key)) else { continue };
            let message = format!("`{key}` of {what} is not known and was not converted");
            self.find(Effect::MorePermissive, &Origin::at(file, node), message);
        }
    }

    /// Returns the comments about the findings at the place of a rule.
    fn findings_at(&self, rule: &DraftRule) -> impl Iterator<Item = String> {
        let is_here = |finding: &&ImportFinding| {
            finding.line.is_some() && {
                let place = finding.place();
                rule.comments.iter().any(|comment| comment.starts_with(&place))
            }
        };
        self.findings.iter().filter(is_here).map(finding_comment)
    }

    /// Returns the comments about the findings that are at the place of no rule.
    fn other_findings(&self) -> impl Iterator<Item = String> {
        let has_rule = |finding: &ImportFinding| {
            let place = finding.place();
            let comments = self.rules.iter().flat_map(|rule| &rule.comments);
            finding.line.is_some()
                && comments.into_iter().any(|comment| comment.starts_with(&place))
        };
        let others = self.findings.iter().filter(move |finding| !has_rule(finding));
        others
            .filter(|finding| finding.effect != Effect::Equal)
            .map(|finding| format!("{}{}", finding.place(), finding_comment(finding)))
    }
}

fn finding_comment(finding: &ImportFinding) -> String {
    match finding.effect {
        Effect::MorePermissive => format!("MORE PERMISSIVE: {}", finding.message),
        Effect::Stricter => format!("Stricter: {}", finding.message),
        Effect::Equal => format!("Note: {}", finding.message),
    }
}

impl fmt::Display for RulesDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.iter().try_for_each(|line| comment(f, "", line))?;
        self.other_findings().try_for_each(|line| comment(f, "", &line))?;
        writeln!(f, "version: 1")?;
        if let Some(domain) = &self.domain {
            writeln!(f, "domain: {}", scalar(domain))?;
        }
        if !self.defaults.is_empty() {
            writeln!(f, "defaults:")?;
            for (key, value, reason) in &self.defaults {
                writeln!(f, "  {key}: {value} # {reason}")?;
            }
        }
        if !self.trusted_proxies.is_empty() {
            writeln!(f, "trusted_proxies: {}", list(&self.trusted_proxies))?;
        }
        if self.attributes.is_empty() && !self.sent.is_empty() {
            let names: Vec<String> = self.sent.iter().cloned().collect();
            writeln!(f, "\nattributes: {} # sent by callers", list(&names))?;
        } else if !self.attributes.is_empty() {
            writeln!(f, "\nattributes:")?;
            for name in &self.sent {
                writeln!(f, "  {name}: {{}} # sent by callers")?;
            }
            for (name, expression) in &self.attributes {
                writeln!(f, "  {name}: {}", scalar(expression))?;
            }
        }
        if !self.lists.is_empty() {
            writeln!(f, "\nlists:")?;
            for (name, entries) in &self.lists {
                writeln!(f, "  {name}:")?;
                entries.iter().try_for_each(|entry| writeln!(f, "    - {}", scalar(entry)))?;
            }
        }
        match self.rules.is_empty() {
            true => writeln!(f, "\nrules: []"),
            false => {
                write!(f, "\nrules:")?;
                self.rules.iter().try_for_each(|rule| {
                    f.write_char('\n')?;
                    rule.comments.iter().try_for_each(|line| comment(f, "  ", line))?;
                    self.findings_at(rule).try_for_each(|line| comment(f, "  ", &line))?;
                    rule.fmt(f)
                })
            }
        }
    }
}

impl fmt::Display for DraftRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  - name: {}", scalar(&self.name))?;
        let mut field = |name: &str, value: Option<String>| match value {
            Some(value) => writeln!(f, "    {name}: {value}"),
            None => Ok(()),
        };
        field("route", one_or_list(&self.routes))?;
        field("when", self.when.written())?;
        field("per", one_or_list(&self.per))?;
        field("limit", one_or_list(&self.limits))?;
        field("then", self.then.as_deref().map(scalar))?;
        field("mode", self.shadow.then(|| "shadow".to_owned()))?;
        field("bucket", self.bucket.as_deref().map(scalar))?;
        field("on_error", self.on_error.map(scalar))?;
        field("missing_key", self.missing_key.map(scalar))
    }
}

/// Writes a comment of one line. Line breaks in the text would end it, so they become spaces.
fn comment(f: &mut fmt::Formatter<'_>, indent: &str, text: &str) -> fmt::Result {
    let text: String = text.chars().map(|c| if is_break(c) { ' ' } else { c }).collect();
    match text.trim_end() {
        "" => writeln!(f, "{indent}#"),
        text => writeln!(f, "{indent}# {text}"),
    }
}

fn is_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn one_or_list(texts: &[String]) -> Option<String> {
    match texts {
        [] => None,
        [one] => Some(scalar(one)),
        many => Some(list(many)),
    }
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| scalar(text)).collect::<Vec<_>>().join(", "))
}

/// Writes a text as YAML: plain where that cannot be misread, quoted otherwise.
pub(super) fn scalar(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-./*+ ".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_'))
        && text.chars().all(word)
        && !text.ends_with(' ')
        && text.parse::<f64>().is_err()
        && !looks_special(text);
    match plain {
        true => text.to_owned(),
        // Expressions contain double quotes.
        false if text.contains('"') && !text.contains('\'') && !text.contains(is_break) => {
            format!("'{text}'")
        }
        // JSON does not escape some characters that YAML does not allow.
        false => {
            let json = serde_json::Value::from(text).to_string();
            let escape = |c: char| match c {
                '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                    format!("\\u{:04x}", u32::from(c))
                }
                c => c.to_string(),
            };
            json.chars().map(escape).collect()
        }
    }
}

/// Returns whether a YAML reader takes a text for a boolean, a number or null.
fn looks_special(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let digits = |c: char| c.is_ascii_digit() || "_.+-".contains(c);
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        || text.starts_with("0x")
        || text.starts_with("0o")
        || text.chars().all(digits)
}

/// Returns a name made of letters, digits and dashes.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() || c == '_' {
            true => slug.push(c.to_ascii_lowercase()),
            false if slug.is_empty() || slug.ends_with('-') => {}
            false => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    let slug = if slug.is_empty() { "rule" } else { slug };
    slug[..slug.len().min(60)].trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_texts_are_quoted() {
        for plain in ["10/s burst 6", "/api/**", "ip", "deny 503", "example.com", "POST /login"] {
            assert_eq!(scalar(plain), plain);
        }
        for quoted in ["*.a.com", "true", "10", "1.5", "a: b", "#x", "", "a ", "1_0", "{x}", "a\nb"]
        {
            assert!(scalar(quoted).starts_with('"'), "{quoted:?}");
        }
        assert_eq!(scalar("a\u{85}b"), "\"a\\u0085b\"");
    }

    #[test]
    fn a_comment_cannot_be_ended_by_what_it_quotes() {
        let origin = Origin::new("evil\nfile", 1);
        let mut draft = RulesDraft::default();
        let mut rule = DraftRule::new("Über\nall", &origin, "x\r\nrules: []");
        rule.then = Some("deny".to_owned());
        draft.add(rule, &origin);
        let text = draft.to_string();
        assert!(text.contains("# evil file:1: x  rules: []\n  - name: ber-all\n"), "{text}");
    }

    #[test]
    fn rule_names_are_unique() {
        let origin = Origin::new("f", 1);
        let mut draft = RulesDraft::default();
        for _ in 0..3 {
            let mut rule = DraftRule::new("api", &origin, "x");
            rule.limits.push("1/s".to_owned());
            draft.add(rule, &origin);
        }
        let names: Vec<&str> = draft.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["api", "api-2", "api-3"]);
    }
}
