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

/// Why a rule does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// None of its routes fits.
    Route,
    /// Its condition does not hold.
    When,
}

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
        let rules = 0..self.matches.len() as u32;
        rules.filter_map(|rule| self.test(rule, facts, lists).ok()).collect()
    }

    /// Why a request does not match a rule; `None` if it does.
    pub(crate) fn miss(&self, rule: u32, facts: &Facts<'_>, lists: &Lists) -> Option<Miss> {
        self.test(rule, facts, lists).err()
    }

    fn test(&self, rule: u32, facts: &Facts<'_>, lists: &Lists) -> Result<Hit, Miss> {
        let one = &self.matches[rule as usize];
        let route = match (&one.routes[..], facts.path()) {
            ([], _) => None,
            (_, None) => return Err(Miss::Route),
            (routes, Some(path)) => {
                let fits = |route: &Route| route.matches(facts.method(), path);
                let index = routes.iter().position(fits).ok_or(Miss::Route)?;
                Some(index as u32)
            }
        };
        let hit = Hit { rule, route };
        let on = On { facts, route: self.route(hit), lists };
        match one.when.as_ref().is_none_or(|when| when.holds(on)) {
            true => Ok(hit),
            false => Err(Miss::When),
        }
    }

    /// The route by which a rule matched.
    pub(crate) fn route(&self, hit: Hit) -> Option<&Route> {
        self.matches[hit.rule as usize].routes.get(hit.route? as usize)
    }
}
