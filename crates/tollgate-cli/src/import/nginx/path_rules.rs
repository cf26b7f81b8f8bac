//! The paths on which a limit is in force, as the routes and conditions of rules.

use std::collections::HashSet;

use super::location::{LocationChoice, PathTest};
use crate::import::area::prefix_route;
use crate::import::condition::Condition;

/// The paths of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathRule {
    pub(super) route: Option<String>,
    pub(super) when: Condition,
}

/// A choice that became a rule.
struct WrittenChoice<'c> {
    index: usize,
    choice: &'c LocationChoice,
    /// Earlier choices, taken by other locations.
    taken: Vec<&'c LocationChoice>,
}

impl WrittenChoice<'_> {
    fn condition(&self) -> Condition {
        let taken = self.taken.iter().map(|other| other.condition().not());
        taken.fold(self.choice.condition(), Condition::and)
    }

    fn rule(&self) -> PathRule {
        let (route, own) = match self.choice.tests.as_slice() {
            [PathTest::Within(area)] if area.is_whole() => match prefix_route(area.prefix()) {
                Some(route) => (Some(route), Condition::always()),
                // Every path begins with a slash.
                None if area.prefix() == "/" => (None, Condition::always()),
                None => (None, self.choice.condition()),
            },
            _ => (None, self.choice.condition()),
        };
        let taken = self.taken.iter().map(|other| other.condition().not());
        PathRule { route, when: taken.fold(own, Condition::and) }
    }
}

/// Returns rules for the paths that nginx serves by one of some locations. No path has two of them.
///
/// A path is served by the first choice that it passes the tests of. So it is served by one of the
/// locations if it passes the tests of one of theirs, and of no earlier one of another location.
pub(super) fn rules(
    choices: &[LocationChoice],
    locations: &HashSet<Option<usize>>,
) -> Vec<PathRule> {
    let is_chosen = |choice: &LocationChoice| locations.contains(&choice.location);
    let mut written: Vec<WrittenChoice<'_>> = Vec::new();
    let mut rules: Vec<PathRule> = Vec::new();
    // The last choices have the most paths, and make rules for earlier ones unnecessary.
    for (index, choice) in choices.iter().enumerate().rev().filter(|(_, choice)| is_chosen(choice))
    {
        let overlaps = |other: &&LocationChoice| !is_chosen(other) && other.may_overlap(choice);
        let is_covered = |later: &WrittenChoice<'_>| {
            later.choice.surrounds(choice)
                && !choices[index..later.index].iter().any(|other| overlaps(&other))
        };
        if written.iter().any(is_covered) {
            continue;
        }
        let taken = choices[..index].iter().filter(overlaps).collect();
        let this = WrittenChoice { index, choice, taken };
        let mut rule = this.rule();
        for later in written.iter().filter(|later| later.choice.may_overlap(choice)) {
            rule.when = rule.when.and(later.condition().not());
        }
        rules.push(rule);
        written.push(this);
    }
    rules.reverse();
    rules
}

#[cfg(test)]
mod tests {
    use super::super::location::{self, choices};
    use super::super::tree::{ConfigReader, Directive};
    use super::*;
    use crate::import::draft::RulesDraft;
    use tollgate_rules::Source;

    fn directives(text: &str) -> Vec<Directive> {
        let mut draft = RulesDraft::default();
        let mut reader = ConfigReader { draft: &mut draft, directives: 0, main: "t".to_owned() };
        reader.read(&Source::new("t", text), 0).unwrap()
    }

    /// Returns the rules for the locations that contain `limit_req`.
    fn limited(text: &str) -> Vec<String> {
        fn collect(block: &[Directive], chosen: &mut HashSet<Option<usize>>) {
            for directive in block.iter().filter(|directive| directive.name == "location") {
                if directive.block.iter().any(|inner| inner.name == "limit_req") {
                    chosen.insert(Some(directive.number));
                }
                collect(&directive.block, chosen);
            }
        }
        let block = directives(text);
        let mut chosen = HashSet::new();
        if block.iter().any(|inner| inner.name == "limit_req") {
            chosen.insert(None);
        }
        collect(&block, &mut chosen);
        let mut unread = Vec::new();
        let list = choices(&location::read(&block, &mut unread));
        let show = |rule: &PathRule| {
            format!("{} {}", rule.route.as_deref().unwrap_or("-"), rule.when.expression())
        };
        rules(&list, &chosen).iter().map(show).collect()
    }

    #[test]
    fn a_prefix_is_compared_letter_by_letter() {
        assert_eq!(limited("location /login { limit_req; } location / { }"), ["/login** true"]);
        assert_eq!(limited("location /api/ { limit_req; }"), [r#"- path in ["/api/*"]"#]);
        assert_eq!(limited("location = /a { limit_req; }"), [r#"- path == "/a""#]);
    }

    #[test]
    fn longer_prefixes_and_regular_expressions_take_their_paths() {
        assert_eq!(
            limited(
                "location /a { limit_req; } location /a/b { } location ~ x { } location ^~ /a/c { }"
            ),
            [r#"/a** !(path in ["/a/c*", "/a/b*"]) && !path.matches("x")"#]
        );
        assert_eq!(
            limited("limit_req; location / { limit_req; } location ~ x { } location = /y { }"),
            [r#"- path != "/y" && !path.matches("x")"#]
        );
        // A prefix that precedes regular expressions does so for longer prefixes of its own only.
        assert_eq!(
            limited("location ^~ /a { } location /a/b { } location ~ x { limit_req; }"),
            [r#"- path.matches("x") && !(path in ["/a*"] && !(path in ["/a/b*"]))"#]
        );
    }

    #[test]
    fn an_exact_location_with_the_same_limit_needs_no_rule_of_its_own() {
        assert_eq!(limited("limit_req; location = /a { limit_req; }"), ["- true"]);
        // Unless a location in between has another limit.
        assert_eq!(
            limited("limit_req; location = /a { limit_req; } location ~ a { }"),
            [r#"- path == "/a" && path.matches("a")"#, r#"- !path.matches("a")"#,]
        );
    }
}
