//! Which rules a request matches, without asking every rule.
//!
//! Every rule is filed in one place: under its routes, or under the values of one attribute for
//! which its condition can hold (`org == "acme"`, `plan in ["free", "trial"]`, `user: "svc-*"`,
//! `ip in ["10.0.0.0/8"]`). A request asks each index once and gets the few rules that could match;
//! those are checked in full. Only rules that say nothing an index can use are asked every time.
//!
//! - `place.rs`: where a rule is filed. The place shared with the fewest others is best: of
//!   thousands of rules on `/api/**`, each for one tenant, the tenant decides.
//! - `trie.rs`: routes by segment. Routers such as `matchit` find the best route; every rule that
//!   matches applies, so this one finds them all.
//! - `attributes.rs`: rules by the value of an attribute.
//!
//! Nothing is allocated on the way, up to sixteen rules that could match and eight that do.

mod attributes;
mod methods;
mod place;
mod trie;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::expr::{Condition, On};
use super::facts::Facts;
use super::lists::Lists;
use super::route::Route;
use attributes::Attributes;
use methods::Methods;
use place::Place;
use trie::Trie;

/// A rule that matches, and the number of the route by which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) rule: u32,
    pub(crate) route: Option<u32>,
}

/// Why a rule does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Route,
    When,
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
    methods: Methods,
    routes: Trie,
    attributes: Attributes,
    /// Rules that no index can rule out, in order.
    always: Vec<u32>,
}

/// A rule that could match, and what is known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rule: u32,
    known: Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// This route fits.
    Route(u32),
    /// This part of the condition holds.
    Holds(u32),
    Nothing,
}

impl Matcher {
    pub(crate) fn new(matches: Vec<Match>) -> Matcher {
        let mut methods = Methods::default();
        let mut routes = Trie::default();
        let mut attributes = Attributes::default();
        let mut always = Vec::new();
        for (rule, place) in place::places(&matches).into_iter().enumerate() {
            let one = &matches[rule];
            let rule = rule as u32;
            match place {
                Place::Always => always.push(rule),
                Place::Routes => {
                    for (number, route) in one.routes.iter().enumerate() {
                        let mask = methods.mask(route.methods());
                        routes.insert(
                            route.segments(),
                            trie::Leaf { rule, route: number as u32, mask },
                        );
                    }
                }
                Place::Values(values) => attributes.insert(values, rule),
            }
        }
        Matcher { methods, routes, attributes, always, matches }
    }

    /// The rules a request matches.
    pub(crate) fn find(&self, facts: &Facts<'_>, lists: &Lists) -> Hits {
        let mut found: SmallVec<[Candidate; 16]> = SmallVec::new();
        self.attributes.find(facts, &mut |candidate| found.push(candidate));
        if !self.routes.is_empty()
            && let Some(path) = facts.path()
        {
            let bit = self.methods.bit(facts.method());
            self.routes.find(path, bit, &mut |leaf| {
                found.push(Candidate { rule: leaf.rule, known: Known::Route(leaf.route) });
            });
        }
        found.sort_unstable();
        found.dedup_by_key(|candidate| candidate.rule);

        let mut hits = Hits::new();
        let unknown = |&rule: &u32| Candidate { rule, known: Known::Nothing };
        let mut always = self.always.iter().map(unknown).peekable();
        let mut check = |candidate| hits.extend(self.check(candidate, facts, lists));
        for candidate in found {
            while let Some(before) = always.next_if(|always| always.rule < candidate.rule) {
                check(before);
            }
            check(candidate);
        }
        always.for_each(check);
        hits
    }

    /// Why a rule does not match; none if it does.
    pub(crate) fn miss(&self, rule: u32, facts: &Facts<'_>, lists: &Lists) -> Option<Miss> {
        self.check(Candidate { rule, known: Known::Nothing }, facts, lists).err()
    }

    /// Whether a rule that could match does.
    fn check(&self, candidate: Candidate, facts: &Facts<'_>, lists: &Lists) -> Result<Hit, Miss> {
        let one = &self.matches[candidate.rule as usize];
        let fits =
            |route: &Route| facts.path().is_some_and(|path| route.matches(facts.method(), path));
        let route = match candidate.known {
            Known::Route(number) if self.methods.is_exact() => Some(number),
            _ if one.routes.is_empty() => None,
            _ => Some(one.routes.iter().position(fits).ok_or(Miss::Route)? as u32),
        };
        let hit = Hit { rule: candidate.rule, route };
        let on = On { facts, route: self.route(hit), lists };
        let known = match candidate.known {
            Known::Holds(part) => Some(part),
            _ => None,
        };
        match one.when.as_ref().is_none_or(|when| when.holds_but_for(known, on)) {
            true => Ok(hit),
            false => Err(Miss::When),
        }
    }

    /// The route by which a rule matches, if it does.
    pub(crate) fn route_of(&self, rule: u32, facts: &Facts<'_>) -> Option<&Route> {
        let path = facts.path()?;
        let mut routes = self.matches[rule as usize].routes.iter();
        routes.find(|route| route.matches(facts.method(), path))
    }

    /// Whether the route of a request is one that a rule is about.
    pub(crate) fn has_route_for(&self, rule: u32, facts: &Facts<'_>) -> bool {
        self.matches[rule as usize].routes.is_empty() || self.route_of(rule, facts).is_some()
    }

    /// The route by which a rule matched.
    pub(crate) fn route(&self, hit: Hit) -> Option<&Route> {
        self.matches[hit.rule as usize].routes.get(hit.route? as usize)
    }
}
