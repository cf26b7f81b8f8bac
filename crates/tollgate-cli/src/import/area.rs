//! Areas: which requests a place in a configuration is about, where the most specific place wins.
//!
//! nginx sends a request to one location and Kong to one route; what is said elsewhere does not
//! apply. Rules do not win over each other, all that match apply. So a rule made from a place
//! that is not the most specific one has to say what it leaves to others.

use super::condition::{Condition, Pattern};

/// What a path has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathIs {
    Any,
    /// This one.
    Exact(String),
    /// This one or below it.
    Below(String),
    /// One that matches a regular expression.
    Matches(String),
}

/// Requests that have something in common. An empty list is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// The next larger area it lies in.
    pub(super) parent: Option<usize>,
    pub(super) hosts: Vec<Pattern>,
    /// Whether it is for all hosts but these.
    pub(super) other_hosts: bool,
    pub(super) methods: Vec<String>,
    pub(super) path: PathIs,
}

/// A rule's worth of requests: an area less what it leaves to others.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) area: usize,
    pub(super) routes: Vec<String>,
    pub(super) when: Condition,
}

impl Area {
    /// Everything.
    pub(super) fn whole() -> Area {
        let (hosts, methods) = (Vec::new(), Vec::new());
        Area { parent: None, hosts, other_hosts: false, methods, path: PathIs::Any }
    }

    fn host(&self) -> Condition {
        let is = || Condition::Is("host".to_owned(), self.hosts.clone());
        match (self.hosts.is_empty(), self.other_hosts) {
            (true, _) => Condition::always(),
            (false, false) => is(),
            (false, true) => is().not(),
        }
    }

    fn method(&self) -> Condition {
        let exact = |method: &String| Pattern::Exact(method.clone());
        match self.methods.as_slice() {
            [] => Condition::always(),
            methods => Condition::Is("method".into(), methods.iter().map(exact).collect()),
        }
    }

    pub(super) fn path(&self) -> Condition {
        match &self.path {
            PathIs::Any => Condition::always(),
            PathIs::Exact(path) => Condition::is("path", path),
            PathIs::Below(path) => Condition::below(path),
            PathIs::Matches(regex) => Condition::Matches("path".to_owned(), regex.clone()),
        }
    }

    /// The area as a route, if it can be written as one.
    fn route(&self) -> Option<String> {
        let path = match &self.path {
            PathIs::Exact(path) => path.clone(),
            PathIs::Below(path) => format!("{path}/**"),
            PathIs::Any if !self.methods.is_empty() => "/**".to_owned(),
            PathIs::Any | PathIs::Matches(_) => return None,
        };
        let literal = |segment: &str| segment == "**" || !segment.contains(['*', '{', '}', ' ']);
        if !path.split('/').all(literal) {
            return None;
        }
        Some(match self.methods.as_slice() {
            [] => path,
            methods => format!("{} {path}", methods.join("|")),
        })
    }
}

/// The areas of a configuration; the first is the whole.
#[derive(Clone, Debug)]
pub(super) struct Areas {
    pub(super) areas: Vec<Area>,
}

impl Areas {
    /// The regions in which something applies, given whether it does in each area by itself.
    pub(super) fn regions(&self, applies: impl Fn(usize) -> bool) -> Vec<Region> {
        let begins = |index: usize| {
            let parent = self.areas[index].parent;
            applies(index) && !parent.is_some_and(&applies)
        };
        let region = |index: usize| {
            let area = &self.areas[index];
            let mut when = self.hosts_of(index);
            let routes: Vec<String> = area.route().into_iter().collect();
            if routes.is_empty() {
                when = when.and(area.method()).and(area.path());
            }
            for hole in self.holes(index, &applies) {
                when = when.and(hole.not());
            }
            Region { area: index, routes, when }
        };
        (0..self.areas.len()).filter(|index| begins(*index)).map(region).collect()
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        let areas = self.areas.iter().enumerate();
        areas.filter(move |(_, area)| area.parent == Some(of)).map(|(index, _)| index)
    }

    /// The hosts of an area: its own, or those of the area it lies in.
    fn hosts_of(&self, index: usize) -> Condition {
        let area = &self.areas[index];
        match (area.hosts.is_empty(), area.parent) {
            (true, Some(parent)) => self.hosts_of(parent),
            _ => area.host(),
        }
    }

    /// What within an area is left to others.
    fn holes(&self, index: usize, applies: &impl Fn(usize) -> bool) -> Vec<Condition> {
        let mut holes = Vec::new();
        for child in self.children(index) {
            let area = &self.areas[child];
            let own = area.host().and(area.method()).and(area.path());
            match applies(child) {
                false => holes.push(own),
                // Its holes are holes of ours, within it: a path says that by itself, a host
                // has to be named.
                true => {
                    let within = area.host();
                    let inner = self.holes(child, applies).into_iter();
                    holes.extend(inner.map(|hole| within.clone().and(hole)));
                }
            }
        }
        holes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(parent: usize, path: &str) -> Area {
        Area { parent: Some(parent), path: PathIs::Below(path.into()), ..Area::whole() }
    }

    #[test]
    fn what_belongs_to_others_is_left_out() {
        let areas =
            vec![Area::whole(), below(0, "/api"), below(1, "/api/login"), below(2, "/api/login/x")];
        let regions = Areas { areas }.regions(|index| index == 1 || index == 3);
        let shown: Vec<(String, String)> =
            regions.iter().map(|r| (r.routes.join(" "), r.when.expression())).collect();
        let hole = r#"!(path in ["/api/login", "/api/login/*"])"#;
        assert_eq!(shown[0], ("/api/**".to_owned(), hole.to_owned()));
        assert_eq!(shown[1], ("/api/login/x/**".to_owned(), "true".to_owned()));
    }

    #[test]
    fn what_applies_everywhere_is_one_region() {
        let areas = vec![Area::whole(), below(0, "/api"), below(1, "/api/login")];
        let regions = Areas { areas }.regions(|_| true);
        assert_eq!(regions.len(), 1);
        assert!(regions[0].when.is_always() && regions[0].routes.is_empty());
    }
}
