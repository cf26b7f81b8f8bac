//! Finds the rules that a request matches without checking every rule.
//!
//! Every rule is in one index: by its routes, or by the values of one attribute for which its
//! condition can hold (`org == "acme"`, `plan in ["free", "trial"]`, `user: "svc-*"`,
//! `ip in ["10.0.0.0/8"]`). A request is looked up once in each index, and the few rules found are
//! checked in full. Only rules that no index can hold are checked every time.
//!
//! - `index_choice.rs`: the index of a rule. The one shared with the fewest others is best: of
//!   thousands of rules on `/api/**`, each for one tenant, the tenant decides.
//! - `route_trie.rs`: routes by segment. Routers such as `matchit` find the best route; every rule
//!   that matches applies, so this one finds them all.
//! - `attribute_index.rs`: rules by the value of an attribute.
//!
//! Nothing is allocated on the way, up to sixteen rules that could match and eight that do.

mod attribute_index;
mod index_choice;
mod method_masks;
mod route_trie;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::compile::attribute::Attribute;
use crate::compile::expr::{Activation, Condition};
use crate::compile::lists::Lists;
use crate::compile::route::Route;
use crate::matching::request_facts::RequestFacts;
use attribute_index::AttributeIndex;
use index_choice::IndexChoice;
use method_masks::MethodMasks;
use route_trie::RouteTrie;

/// A rule that matches, and the number of the route by which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) rule: u32,
    pub(crate) route: Option<u32>,
}

/// The reason why a rule does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Route,
    When,
}

/// The rules that match, in the order of the file.
pub(crate) type Hits = SmallVec<[Hit; 8]>;

/// The routes and the condition of a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct MatchCriteria {
    /// The routes, one of which must match; every request matches if there are none.
    routes: Vec<Route>,
    pub(crate) when: Option<Condition>,
    /// Whether the rule lets requests pass that match, whatever other rules say. Such a rule must
    /// match however servers read a request; for any other rule, one reading is enough.
    exempts: bool,
    /// Whether the condition reads an attribute that servers may read differently.
    reads_ambiguous: bool,
}

impl MatchCriteria {
    pub(crate) fn new(routes: Vec<Route>, when: Option<Condition>) -> MatchCriteria {
        let is_ambiguous = |attribute: &Attribute| {
            matches!(attribute, Attribute::Path | Attribute::Query(_) | Attribute::Cookie(_))
        };
        let reads_ambiguous =
            when.as_ref().is_some_and(|when| when.attributes().into_iter().any(is_ambiguous));
        MatchCriteria { routes, when, exempts: false, reads_ambiguous }
    }

    pub(crate) fn exempting(self, exempts: bool) -> MatchCriteria {
        MatchCriteria { exempts, ..self }
    }

    /// Returns the number of the first route that a request matches.
    fn route_number(&self, facts: &RequestFacts<'_>) -> Option<usize> {
        let fits = |path: &str, route: &Route| route.matches(facts.method(), path);
        let position = |path: &str| self.routes.iter().position(|route| fits(path, route));
        let mut numbers = facts.paths().map(position);
        match self.exempts {
            false => numbers.flatten().next(),
            true => {
                let first = numbers.next()??;
                numbers.all(|number| number.is_some()).then_some(first)
            }
        }
    }
}

/// The index over all rules of a domain.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    matches: Vec<MatchCriteria>,
    methods: MethodMasks,
    routes: RouteTrie,
    attributes: AttributeIndex,
    /// The rules that no index can hold, in order.
    always: Vec<u32>,
}

/// A rule that could match, and the part that is known to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rule: u32,
    known: KnownPart,
}

/// The part of a candidate that is known to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KnownPart {
    /// The route of this number matches.
    Route(u32),
    /// The conjunct of this number holds.
    Holds(u32),
    Nothing,
}

impl Matcher {
    pub(crate) fn new(matches: Vec<MatchCriteria>) -> Matcher {
        let mut methods = MethodMasks::default();
        let mut routes = RouteTrie::default();
        let mut attributes = AttributeIndex::default();
        let mut always = Vec::new();
        for (rule, choice) in index_choice::choose(&matches).into_iter().enumerate() {
            let one = &matches[rule];
            let rule = rule as u32;
            match choice {
                IndexChoice::Always => always.push(rule),
                IndexChoice::Routes => {
                    for (number, route) in one.routes.iter().enumerate() {
                        let mask = methods.mask(route.methods());
                        routes.insert(
                            route.segments(),
                            route_trie::RouteLeaf { rule, route: number as u32, mask },
                        );
                    }
                }
                IndexChoice::Values(values) => attributes.insert(values, rule),
            }
        }
        Matcher { methods, routes, attributes, always, matches }
    }

    /// Returns the condition of a rule.
    pub(crate) fn condition(&self, rule: u32) -> Option<&Condition> {
        self.matches.get(rule as usize)?.when.as_ref()
    }

    /// Returns the rules that a request matches.
    pub(crate) fn find(&self, facts: &RequestFacts<'_>, lists: &Lists) -> Hits {
        let mut candidates: SmallVec<[Candidate; 16]> = SmallVec::new();
        self.attributes.find(facts, &mut |candidate| candidates.push(candidate));
        if !self.routes.is_empty() {
            let bit = self.methods.bit(facts.method());
            for path in facts.paths() {
                self.routes.find(path, bit, &mut |leaf| {
                    let known = KnownPart::Route(leaf.route);
                    candidates.push(Candidate { rule: leaf.rule, known });
                });
            }
        }
        candidates.sort_unstable();
        candidates.dedup_by_key(|candidate| candidate.rule);

        let mut hits = Hits::new();
        let unknown = |&rule: &u32| Candidate { rule, known: KnownPart::Nothing };
        let mut always = self.always.iter().map(unknown).peekable();
        let mut check = |candidate| hits.extend(self.check(candidate, facts, lists));
        for candidate in candidates {
            while let Some(before) = always.next_if(|always| always.rule < candidate.rule) {
                check(before);
            }
            check(candidate);
        }
        always.for_each(check);
        hits
    }

    /// Returns why a rule does not match; none if it does.
    pub(crate) fn miss(&self, rule: u32, facts: &RequestFacts<'_>, lists: &Lists) -> Option<Miss> {
        self.check(Candidate { rule, known: KnownPart::Nothing }, facts, lists).err()
    }

    /// Checks a candidate in full.
    fn check(
        &self,
        candidate: Candidate,
        facts: &RequestFacts<'_>,
        lists: &Lists,
    ) -> Result<Hit, Miss> {
        let one = &self.matches[candidate.rule as usize];
        let route = match candidate.known {
            KnownPart::Route(number) if self.is_certain(one, facts) => Some(number),
            _ if one.routes.is_empty() => None,
            _ => Some(one.route_number(facts).ok_or(Miss::Route)? as u32),
        };
        let hit = Hit { rule: candidate.rule, route };
        let activation = Activation { facts, route: self.route(hit), lists };
        let known = match candidate.known {
            KnownPart::Holds(part) => Some(part),
            _ => None,
        };
        let Some(when) = &one.when else { return Ok(hit) };
        let known = known.filter(|_| !one.reads_ambiguous || !facts.is_ambiguous());
        let mut holds = when.holds_but_for(known, activation);
        if one.reads_ambiguous && holds == one.exempts && facts.is_ambiguous() {
            holds = facts.holds_under(one.exempts, || when.holds(activation));
        }
        if holds { Ok(hit) } else { Err(Miss::When) }
    }

    /// Whether a route that the index found is that of the rule, without another look.
    fn is_certain(&self, one: &MatchCriteria, facts: &RequestFacts<'_>) -> bool {
        self.methods.is_exact() && !(one.exempts && facts.is_ambiguous())
    }

    /// Returns the route by which a rule matches, if it does.
    pub(crate) fn route_of(&self, rule: u32, facts: &RequestFacts<'_>) -> Option<&Route> {
        let one = &self.matches[rule as usize];
        one.routes.get(one.route_number(facts)?)
    }

    /// Whether one of a rule's routes matches a request.
    pub(crate) fn has_route_for(&self, rule: u32, facts: &RequestFacts<'_>) -> bool {
        self.matches[rule as usize].routes.is_empty() || self.route_of(rule, facts).is_some()
    }

    /// Returns the route by which a rule matched.
    pub(crate) fn route(&self, hit: Hit) -> Option<&Route> {
        self.matches[hit.rule as usize].routes.get(hit.route? as usize)
    }
}
