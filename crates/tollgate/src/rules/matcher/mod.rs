//! Which rules a request matches, without asking every rule.

use smallvec::SmallVec;

use super::expr::{Condition, On};
use super::facts::Facts;
use super::lists::Lists;
use super::route::Route;

/// A rule that matches, and the number of the route by which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) rule: u32,
    pub(crate) route: Option<u32>,
}

/// The rules that match, in the order of the file.
pub(crate) type Hits = SmallVec<[Hit; 8]>;

/// What a rule is matched by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Match {
    /// Any of these; everything matches if there is none.
    pub(crate) routes: Vec<Route>,
    pub(crate) when: Option<Condition>,
}

/// The index over all rules of a domain.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    matches: Vec<Match>,
}

impl Matcher {
    pub(crate) fn new(matches: Vec<Match>) -> Matcher {
        Matcher { matches }
    }

    /// The rules a request matches.
    pub(crate) fn find(&self, facts: &Facts<'_>, lists: &Lists) -> Hits {
        let mut hits = Hits::new();
        for (rule, one) in self.matches.iter().enumerate() {
            let route = match (&one.routes[..], facts.path()) {
                ([], _) => None,
                (_, None) => continue,
                (routes, Some(path)) => {
                    let fits = |route: &Route| route.matches(facts.method(), path);
                    match routes.iter().position(fits) {
                        Some(index) => Some(index as u32),
                        None => continue,
                    }
                }
            };
            let hit = Hit { rule: rule as u32, route };
            let on = On { facts, route: self.route(hit), lists };
            if one.when.as_ref().is_none_or(|when| when.holds(on)) {
                hits.push(hit);
            }
        }
        hits
    }

    /// The route by which a rule matched.
    pub(crate) fn route(&self, hit: Hit) -> Option<&Route> {
        self.matches[hit.rule as usize].routes.get(hit.route? as usize)
    }
}
