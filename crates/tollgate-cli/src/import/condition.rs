//! The condition of a rule, built piece by piece and written as its `when`.

use super::draft::scalar;

/// A text to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(String),
    /// `*` stands for any text.
    Glob(String),
}

/// A condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The attribute matches one of the patterns.
    Is(String, Vec<Pattern>),
    /// The attribute is in a list of the file.
    InList(String, String),
    /// The request lacks the attribute.
    Missing(String),
    /// The attribute matches a regular expression.
    Matches(String, String),
    /// An expression in the rule language.
    Expression(String),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// The maximum number of patterns in an expression; more are declared as a list.
const MAX_PATTERNS: usize = 8;

/// Makes one condition of several.
type JoinParts = fn(Vec<Condition>) -> Condition;

/// The maximum length of an expression in bytes, with some room below that of rules.
const MAX_EXPRESSION: usize = 1000;

impl Condition {
    /// Returns the condition that every request meets.
    pub(super) fn always() -> Condition {
        Condition::All(Vec::new())
    }

    pub(super) fn is(attribute: &str, value: &str) -> Condition {
        Condition::Is(attribute.to_owned(), vec![Pattern::Exact(value.to_owned())])
    }

    /// Returns the condition that an attribute begins with a text.
    pub(super) fn begins(attribute: &str, prefix: &str) -> Condition {
        match prefix.contains('*') {
            true => Condition::Expression(format!("{attribute}.startsWith({})", quoted(prefix))),
            false => Condition::Is(attribute.to_owned(), vec![Pattern::Glob(format!("{prefix}*"))]),
        }
    }

    pub(super) fn not(self) -> Condition {
        match self {
            Condition::Not(inner) => *inner,
            other => Condition::Not(Box::new(other)),
        }
    }

    /// Returns the condition that both hold.
    pub(super) fn and(self, other: Condition) -> Condition {
        let mut all: Vec<Condition> = Vec::new();
        for one in [self, other] {
            match one {
                Condition::All(inner) => inner.into_iter().for_each(|one| add(&mut all, one)),
                one => add(&mut all, one),
            }
        }
        match <[Condition; 1]>::try_from(all) {
            Ok([one]) => one,
            Err(all) => Condition::All(all),
        }
    }

    pub(super) fn is_always(&self) -> bool {
        matches!(self, Condition::All(all) if all.is_empty())
    }

    /// Returns the attribute and the patterns of a condition that only excludes patterns.
    fn excluded(&self) -> Option<(&str, &[Pattern])> {
        match self {
            Condition::Not(inner) => match &**inner {
                Condition::Is(attribute, patterns) => Some((attribute, patterns)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Moves long lists of patterns out of an expression into named lists.
    pub(super) fn hoist(&mut self, name: &str, lists: &mut Vec<(String, Vec<String>)>) {
        if self.fields().is_none() {
            self.hoist_all(name, lists);
        }
    }

    fn hoist_all(&mut self, name: &str, lists: &mut Vec<(String, Vec<String>)>) {
        match self {
            Condition::Is(attribute, patterns) => {
                if patterns.len() <= MAX_PATTERNS || patterns.iter().any(is_literal_star) {
                    return;
                }
                let text = |(Pattern::Exact(text) | Pattern::Glob(text)): &Pattern| text.clone();
                let entries: Vec<String> = patterns.iter().map(text).collect();
                let known = lists.iter().find(|(_, known)| *known == entries);
                let list = known.map(|(list, _)| list.clone()).unwrap_or_else(|| {
                    let taken = |name: &str| lists.iter().any(|(known, _)| known == name);
                    let names = (1..).map(|n| format!("{}_{n}", name.replace('-', "_")));
                    let free = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
                    lists.push((free.clone(), entries));
                    free
                });
                *self = Condition::InList(attribute.clone(), list);
            }
            Condition::Not(inner) => inner.hoist_all(name, lists),
            Condition::All(all) | Condition::Any(all) => {
                all.iter_mut().for_each(|one| one.hoist_all(name, lists));
            }
            _ => {}
        }
    }

    /// Splits a long expression: parts of it become attributes, which `declare` names.
    pub(super) fn shortened(self, declare: &mut impl FnMut(String) -> String) -> Condition {
        match self.fields() {
            Some(_) => self,
            None => self.within(MAX_EXPRESSION, declare),
        }
    }

    fn within(self, most: usize, declare: &mut impl FnMut(String) -> String) -> Condition {
        if self.expression().len() <= most {
            return self;
        }
        let (parts, join): (Vec<Condition>, JoinParts) = match self {
            Condition::Not(inner) => return inner.within(most - 3, declare).not(),
            Condition::All(parts) => (parts, Condition::All),
            Condition::Any(parts) => (parts, Condition::Any),
            other => return other,
        };
        let (mut names, mut chunk) = (Vec::new(), Vec::new());
        for part in parts {
            let part = part.within(most / 2, declare);
            chunk.push(part);
            if join(chunk.clone()).expression().len() > most
                && let Some(last) = chunk.pop()
            {
                let full = std::mem::replace(&mut chunk, vec![last]);
                names.push(Condition::Expression(declare(join(full).expression())));
            }
        }
        names.append(&mut chunk);
        join(names)
    }

    /// Returns the value of `when`; none for a condition that always holds.
    pub(super) fn written(&self) -> Option<String> {
        if self.is_always() {
            return None;
        }
        Some(self.fields().unwrap_or_else(|| scalar(&self.expression())))
    }

    /// Returns the condition as `{ attribute: pattern }`, if it can be written that way.
    fn fields(&self) -> Option<String> {
        let all = match self {
            Condition::All(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (mut seen, mut fields): (Vec<&str>, Vec<String>) = Default::default();
        for one in all {
            let Condition::Is(attribute, patterns) = one else { return None };
            // A mapping has each key once.
            let again = seen.contains(&attribute.as_str());
            if again || !is_name(attribute) || patterns.iter().any(is_literal_star) {
                return None;
            }
            seen.push(attribute);
            let text = |(Pattern::Exact(text) | Pattern::Glob(text)): &Pattern| scalar(text);
            let texts: Vec<String> = patterns.iter().map(text).collect();
            fields.push(match texts.as_slice() {
                [text] => format!("{attribute}: {text}"),
                _ => format!("{attribute}: [{}]", texts.join(", ")),
            });
        }
        Some(format!("{{ {} }}", fields.join(", ")))
    }

    /// Returns the condition as an expression.
    pub(super) fn expression(&self) -> String {
        match self {
            Condition::Is(attribute, patterns) => is(attribute, patterns),
            Condition::InList(attribute, list) => format!("{attribute} in lists.{list}"),
            Condition::Missing(attribute) => format!("!has({attribute})"),
            Condition::Matches(attribute, regex) => {
                format!("{attribute}.matches({})", quoted(regex))
            }
            Condition::Expression(text) => text.clone(),
            Condition::Not(inner) => match &**inner {
                Condition::Is(attribute, patterns) => match patterns.as_slice() {
                    [Pattern::Exact(text)] => format!("{attribute} != {}", quoted(text)),
                    _ => format!("!({})", is(attribute, patterns)),
                },
                Condition::Missing(attribute) => format!("has({attribute})"),
                Condition::Matches(..) => format!("!{}", inner.expression()),
                inner => format!("!({})", inner.expression()),
            },
            Condition::All(all) if all.is_empty() => "true".to_owned(),
            Condition::All(all) => joined(all, " && "),
            Condition::Any(any) => joined(any, " || "),
        }
    }
}

/// Adds a condition to a conjunction; exclusions of one attribute are combined.
fn add(all: &mut Vec<Condition>, one: Condition) {
    if let Some((attribute, patterns)) = one.excluded() {
        let is_same_attribute =
            |known: &&mut Condition| known.excluded().is_some_and(|(a, _)| a == attribute);
        if let Some(Condition::Not(known)) = all.iter_mut().find(is_same_attribute) {
            if let Condition::Is(_, more) = &mut **known {
                for pattern in patterns {
                    if !more.contains(pattern) {
                        more.push(pattern.clone());
                    }
                }
            }
            return;
        }
    }
    if !all.contains(&one) {
        all.push(one);
    }
}

fn joined(parts: &[Condition], operator: &str) -> String {
    let part = |part: &Condition| match part {
        Condition::All(_) | Condition::Any(_) | Condition::Expression(_) => {
            format!("({})", part.expression())
        }
        part => part.expression(),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(operator)
}

/// Compares an attribute with patterns. An exact text with a star in it is no pattern.
fn is(attribute: &str, patterns: &[Pattern]) -> String {
    let equals = |text: &str| format!("{attribute} == {}", quoted(text));
    if let [Pattern::Exact(text)] = patterns {
        return equals(text);
    }
    let (mut listed, mut tests) = (Vec::new(), Vec::new());
    for pattern in patterns {
        match pattern {
            Pattern::Exact(text) if text.contains('*') => tests.push(equals(text)),
            Pattern::Exact(text) | Pattern::Glob(text) => listed.push(quoted(text)),
        }
    }
    if !listed.is_empty() {
        tests.push(format!("{attribute} in [{}]", listed.join(", ")));
    }
    match tests.as_slice() {
        [one] => one.clone(),
        many => format!("({})", many.join(" || ")),
    }
}

fn is_literal_star(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Exact(text) if text.contains('*'))
}

/// Returns a text as a string literal of an expression, which has the escapes of JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns whether a text can be the name of an attribute in an expression.
pub(super) fn is_name(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_conditions_are_fields() {
        let host = Condition::is("host", "a.com").and(Condition::is("plan", "true"));
        assert_eq!(host.written().unwrap(), r#"{ host: a.com, plan: "true" }"#);
        assert_eq!(Condition::always().written(), None);
    }

    #[test]
    fn other_conditions_are_expressions() {
        let glob = |text: &str| Condition::Is("user".into(), vec![Pattern::Glob(text.into())]);
        assert_eq!(glob("svc-*").not().expression(), r#"!(user in ["svc-*"])"#);
        assert_eq!(Condition::is("a", "*").written().unwrap(), r#"'a == "*"'"#);
        let both = Condition::is("a", "x").not().and(Condition::begins("path", "/api").not());
        assert_eq!(both.expression(), r#"a != "x" && !(path in ["/api*"])"#);
        assert_eq!(both.clone().and(both.clone()), both);
    }

    #[test]
    fn exclusions_are_combined() {
        let holes =
            Condition::begins("path", "/a").not().and(Condition::begins("path", "/b").not());
        assert_eq!(holes.expression(), r#"!(path in ["/a*", "/b*"])"#);
    }

    #[test]
    fn long_expressions_are_split_into_attributes() {
        let part = |n: usize| Condition::Matches("path".into(), format!("^/some/long/path/{n}/x"));
        let long = Condition::All((0..60).map(|n| part(n).not()).collect());
        let whole = long.expression();
        let mut declared: Vec<String> = Vec::new();
        let short = long.shortened(&mut |expression| {
            declared.push(expression);
            format!("part_{}", declared.len())
        });
        let text = short.expression();
        assert!(text.len() <= MAX_EXPRESSION && text.contains("(part_2)"), "{text}");
        assert!(declared.iter().all(|part| part.len() <= MAX_EXPRESSION));
        let restored = declared
            .iter()
            .enumerate()
            .fold(text, |text, (n, part)| text.replacen(&format!("part_{}", n + 1), part, 1));
        assert_eq!(restored.replace(['(', ')'], ""), whole.replace(['(', ')'], ""));
        assert_eq!(part(1).shortened(&mut |_| unreachable!("it is short")), part(1));
    }

    #[test]
    fn long_lists_get_a_name() {
        let paths = (0..10).map(|n| Condition::begins("path", &format!("/{n}")).not());
        let mut when = paths.fold(Condition::always(), Condition::and);
        let mut lists = Vec::new();
        when.hoist("api-x", &mut lists);
        assert_eq!(when.expression(), "!(path in lists.api_x_1)");
        assert_eq!((lists[0].0.as_str(), lists[0].1.len()), ("api_x_1", 10));
        let mut hosts = Condition::Is("host".into(), vec![Pattern::Exact("a".into()); 20]);
        hosts.hoist("x", &mut lists);
        assert!(matches!(hosts, Condition::Is(..)), "fields may be long");
    }
}
