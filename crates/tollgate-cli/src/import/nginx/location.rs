//! The locations of a server in the order in which nginx tries them.
//!
//! nginx takes an exact location, or else remembers the longest prefix, and inside it looks for nested
//! locations. Unless that prefix is marked `^~`, the first regular expression that matches is taken in
//! its place. The result of [`choices`] is a list in which the first choice that matches is the one
//! that nginx takes, so that the requests of a location can be written as a condition.

use tollgate_rules::escape_path;

use super::tree::Directive;
use crate::import::condition::Condition;

/// A location, with those that are nested in it.
#[derive(Clone, Debug)]
pub(super) struct Location<'t> {
    pub(super) directive: &'t Directive,
    pub(super) name: LocationName,
    pub(super) nested: Vec<Location<'t>>,
}

/// The paths of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocationName {
    Exact(String),
    Prefix {
        text: String,
        /// Whether it precedes regular expressions: `^~`.
        first: bool,
    },
    Regex(String),
}

/// Why the paths of a location cannot be written as rules.
pub(super) type UnreadableLocation<'t> = (&'t Directive, &'static str);

/// Returns the locations in a block, and those that cannot be read.
pub(super) fn read<'t>(
    block: &'t [Directive],
    unread: &mut Vec<UnreadableLocation<'t>>,
) -> Vec<Location<'t>> {
    let mut locations = Vec::new();
    for directive in block.iter().filter(|directive| directive.name == "location") {
        match LocationName::read(directive) {
            Ok(name) => {
                let nested = read(&directive.block, unread);
                locations.push(Location { directive, name, nested });
            }
            Err(reason) => unread.push((directive, reason)),
        }
    }
    locations
}

impl LocationName {
    fn read(directive: &Directive) -> Result<LocationName, &'static str> {
        let (modifier, path) = match directive.args.as_slice() {
            [path] => split_modifier(path),
            [modifier, path] => (modifier.as_str(), path.as_str()),
            _ => return Err("it has no path"),
        };
        match modifier {
            "" if path.starts_with('@') => Err("a named location serves no paths itself"),
            "=" => Ok(LocationName::Exact(path.to_owned())),
            "" => Ok(LocationName::Prefix { text: path.to_owned(), first: false }),
            "^~" => Ok(LocationName::Prefix { text: path.to_owned(), first: true }),
            "~" | "~*" => {
                let regex = if modifier == "~*" { format!("(?i){path}") } else { path.to_owned() };
                // Paths are compared as URLs spell them.
                let is_escaped =
                    |c: char| !c.is_ascii_graphic() || matches!(c, '%' | '"' | '<' | '>');
                if path.contains(is_escaped) {
                    return Err("its regular expression has characters that are escaped in URLs");
                }
                match crate::import::is_regex(&regex) {
                    true => Ok(LocationName::Regex(regex)),
                    false => Err("rules do not support its regular expression"),
                }
            }
            _ => Err("its path cannot be read"),
        }
    }
}

/// Splits `=/login` and the like, which nginx accepts without a space.
fn split_modifier(path: &str) -> (&str, &str) {
    for modifier in ["^~", "~*", "~", "="] {
        if let Some(rest) = path.strip_prefix(modifier) {
            return (modifier, rest);
        }
    }
    ("", path)
}

/// All paths that begin with a text, but for some longer ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrefixArea {
    prefix: String,
    but: Vec<String>,
}

/// A test of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathTest {
    Exact(String),
    Within(PrefixArea),
    Outside(PrefixArea),
    Matches(String),
}

/// A location by its directive's number, and the tests that a path must pass to be served by it, if it
/// passes none of an earlier choice.
#[derive(Clone, Debug)]
pub(super) struct LocationChoice {
    pub(super) tests: Vec<PathTest>,
    /// None is the server itself.
    pub(super) location: Option<usize>,
}

/// Returns the choices of a server. The last one is the server itself, without a test.
pub(super) fn choices(locations: &[Location<'_>]) -> Vec<LocationChoice> {
    let mut list = ChoiceList(Vec::new());
    list.all(locations, &[]);
    list.0.push(LocationChoice { tests: Vec::new(), location: None });
    list.0
}

struct ChoiceList(Vec<LocationChoice>);

impl ChoiceList {
    fn push(&mut self, tests: Vec<PathTest>, location: &Location<'_>) {
        let location = Some(location.directive.number);
        self.0.push(LocationChoice { tests, location });
    }

    /// Adds all choices of one level.
    fn all(&mut self, level: &[Location<'_>], guard: &[PathTest]) {
        self.exact(level, guard);
        self.certain_of_nested(level, guard);
        let prefixes = prefixes(level);
        // Those that regular expressions cannot replace.
        for (prefix, _) in prefixes.iter().filter(|(prefix, _)| prefix.is_first()) {
            let guard =
                with(guard, PathTest::Within(area(prefix, &prefixes, |other| !other.is_first())));
            self.possible(&prefix.nested, &guard);
            self.push(guard, prefix);
        }
        self.regexes(level, guard);
        for (prefix, _) in prefixes.iter().filter(|(prefix, _)| !prefix.is_first()) {
            let guard = with(guard, PathTest::Within(area(prefix, &prefixes, |_| false)));
            self.possible(&prefix.nested, &guard);
            self.push(guard, prefix);
        }
    }

    fn exact(&mut self, level: &[Location<'_>], guard: &[PathTest]) {
        for location in level {
            if let LocationName::Exact(path) = &location.name {
                self.push(with(guard, PathTest::Exact(path.clone())), location);
            }
        }
    }

    fn regexes(&mut self, level: &[Location<'_>], guard: &[PathTest]) {
        for location in level {
            if let LocationName::Regex(regex) = &location.name {
                let guard = with(guard, PathTest::Matches(regex.clone()));
                self.all(&location.nested, &guard);
                self.push(guard, location);
            }
        }
    }

    /// Adds the choices inside the prefixes of a level that no regular expression of it can replace.
    fn certain_of_nested(&mut self, level: &[Location<'_>], guard: &[PathTest]) {
        let prefixes = prefixes(level);
        for (prefix, _) in prefixes.iter().filter(|(prefix, _)| !prefix.nested.is_empty()) {
            let guard = with(guard, PathTest::Within(area(prefix, &prefixes, |_| true)));
            self.certain(&prefix.nested, &guard);
        }
    }

    /// Adds the choices of a nested level that no regular expression around it can replace.
    fn certain(&mut self, level: &[Location<'_>], guard: &[PathTest]) {
        self.exact(level, guard);
        self.certain_of_nested(level, guard);
        let prefixes = prefixes(level);
        let first = prefixes.iter().filter(|(prefix, _)| prefix.is_first());
        let outside = first.map(|(prefix, _)| {
            PathTest::Outside(area(prefix, &prefixes, |other| !other.is_first()))
        });
        let guard: Vec<PathTest> = guard.iter().cloned().chain(outside).collect();
        self.regexes(level, &guard);
    }

    /// Adds the choices of a nested level that regular expressions around it can replace.
    fn possible(&mut self, level: &[Location<'_>], guard: &[PathTest]) {
        let prefixes = prefixes(level);
        for (prefix, _) in &prefixes {
            let guard = with(guard, PathTest::Within(area(prefix, &prefixes, |_| false)));
            self.possible(&prefix.nested, &guard);
            self.push(guard, prefix);
        }
    }
}

impl Location<'_> {
    fn is_first(&self) -> bool {
        matches!(self.name, LocationName::Prefix { first: true, .. })
    }

    fn prefix(&self) -> Option<&str> {
        match &self.name {
            LocationName::Prefix { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// Returns the prefix locations of a level, longest first.
fn prefixes<'l, 't>(level: &'l [Location<'t>]) -> Vec<(&'l Location<'t>, &'l str)> {
    let mut all: Vec<(&Location<'t>, &str)> =
        level.iter().filter_map(|location| Some((location, location.prefix()?))).collect();
    all.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
    all
}

/// Returns the area of a prefix location, without the longer prefixes that `is_other` chooses.
fn area(
    location: &Location<'_>,
    level: &[(&Location<'_>, &str)],
    is_other: impl Fn(&Location<'_>) -> bool,
) -> PrefixArea {
    let prefix = location.prefix().unwrap_or_default();
    let longer = level
        .iter()
        .filter(|(other, text)| *text != prefix && text.starts_with(prefix) && is_other(other));
    PrefixArea {
        prefix: prefix.to_owned(),
        but: longer.map(|(_, text)| text.to_string()).collect(),
    }
}

fn with(guard: &[PathTest], test: PathTest) -> Vec<PathTest> {
    let mut tests = guard.to_vec();
    // A longer prefix implies the shorter one around it.
    let implied = match &test {
        PathTest::Within(PrefixArea { prefix: text, .. }) | PathTest::Exact(text) => text.as_str(),
        PathTest::Outside(_) | PathTest::Matches(_) => "",
    };
    tests.retain(|outer| match outer {
        PathTest::Within(outer) => !outer.is_whole() || !implied.starts_with(&outer.prefix),
        _ => true,
    });
    tests.push(test);
    tests
}

impl PrefixArea {
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether it has all paths that begin with the prefix.
    pub(super) fn is_whole(&self) -> bool {
        self.but.is_empty()
    }

    /// Whether a text that begins so can be in the area.
    fn may_contain(&self, text: &str) -> bool {
        text.starts_with(&self.prefix) || self.prefix.starts_with(text)
    }

    fn condition(&self) -> Condition {
        let begins = |prefix: &String| Condition::begins("path", &escape_path(prefix));
        self.but.iter().fold(begins(&self.prefix), |all, longer| all.and(begins(longer).not()))
    }
}

impl PathTest {
    pub(super) fn condition(&self) -> Condition {
        match self {
            PathTest::Exact(path) => Condition::is("path", &escape_path(path)),
            PathTest::Within(area) => area.condition(),
            PathTest::Outside(area) => area.condition().not(),
            PathTest::Matches(regex) => Condition::Matches("path".to_owned(), regex.clone()),
        }
    }
}

impl LocationChoice {
    /// Returns what all paths of the choice begin with, and whether that is the whole path.
    fn begins(&self) -> (&str, bool) {
        let exact = self.tests.iter().find_map(|test| match test {
            PathTest::Exact(path) => Some((path.as_str(), true)),
            _ => None,
        });
        let within = self.tests.iter().filter_map(|test| match test {
            PathTest::Within(area) => Some((area.prefix.as_str(), false)),
            _ => None,
        });
        exact.or_else(|| within.max_by_key(|(prefix, _)| prefix.len())).unwrap_or(("", false))
    }

    /// Whether a path may pass the tests of both.
    pub(super) fn may_overlap(&self, other: &LocationChoice) -> bool {
        let ((one, one_whole), (two, two_whole)) = (self.begins(), other.begins());
        match (one_whole, two_whole) {
            (true, true) => one == two,
            (true, false) => one.starts_with(two),
            (false, true) => two.starts_with(one),
            (false, false) => one.starts_with(two) || two.starts_with(one),
        }
    }

    /// Whether every path that passes the tests of `inner` passes these.
    pub(super) fn surrounds(&self, inner: &LocationChoice) -> bool {
        let (text, _) = inner.begins();
        self.tests.iter().all(|test| match test {
            PathTest::Within(area) => {
                inner.tests.contains(test)
                    || text.starts_with(&area.prefix)
                        && !area
                            .but
                            .iter()
                            .any(|but| text.starts_with(but.as_str()) || but.starts_with(text))
            }
            PathTest::Outside(area) => inner.tests.contains(test) || !area.may_contain(text),
            test => inner.tests.contains(test),
        })
    }

    /// Whether a path passes the tests. `matches` tells whether a regular expression matches it.
    pub(super) fn is_passed_by(&self, path: &str, matches: &impl Fn(&str, &str) -> bool) -> bool {
        let contains = |area: &PrefixArea| {
            path.starts_with(&area.prefix)
                && !area.but.iter().any(|longer| path.starts_with(longer.as_str()))
        };
        self.tests.iter().all(|test| match test {
            PathTest::Exact(exact) => path == exact,
            PathTest::Within(area) => contains(area),
            PathTest::Outside(area) => !contains(area),
            PathTest::Matches(regex) => matches(regex, path),
        })
    }

    pub(super) fn condition(&self) -> Condition {
        self.tests.iter().fold(Condition::always(), |all, test| all.and(test.condition()))
    }
}
