//! Areas: the requests that a block of a configuration applies to.
//!
//! nginx sends a request to one location and Kong to one route, the most specific one, and settings
//! of other blocks do not apply. Of rules, all that match apply. So the rule of a block excludes
//! the requests of more specific blocks.

use tollgate_rules::escape_path;

use super::condition::{Condition, Pattern};

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathCondition {
    Any,
    /// The path begins with this text.
    Prefix(String),
    /// The path matches a regular expression.
    Matches(String),
}

/// A set of requests. An empty list is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// The smallest area around it.
    pub(super) parent: Option<usize>,
    pub(super) hosts: Vec<Pattern>,
    /// Whether it has all hosts except these.
    pub(super) other_hosts: bool,
    pub(super) methods: Vec<String>,
    pub(super) path: PathCondition,
}

/// The requests of one rule: an area without the areas it excludes.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) routes: Vec<String>,
    pub(super) when: Condition,
}

impl Area {
    /// Returns the area of all requests.
    pub(super) fn whole() -> Area {
        let (hosts, methods) = (Vec::new(), Vec::new());
        Area { parent: None, hosts, other_hosts: false, methods, path: PathCondition::Any }
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
            PathCondition::Any => Condition::always(),
            PathCondition::Prefix(prefix) => Condition::begins("path", &escape_path(prefix)),
            PathCondition::Matches(regex) => Condition::Matches("path".to_owned(), regex.clone()),
        }
    }

    /// Returns the area as a route, if it can be written as one.
    fn route(&self) -> Option<String> {
        let path = match &self.path {
            PathCondition::Prefix(prefix) => prefix_route(prefix)?,
            PathCondition::Any if !self.methods.is_empty() => "/**".to_owned(),
            PathCondition::Any | PathCondition::Matches(_) => return None,
        };
        Some(match self.methods.as_slice() {
            [] => path,
            methods => format!("{} {path}", methods.join("|")),
        })
    }
}

/// Returns the route of all paths that begin with a text, if that can be written as one. A prefix that
/// ends in a slash cannot: `/api/**` also matches `/api`.
pub(super) fn prefix_route(prefix: &str) -> Option<String> {
    let is_plain = |segment: &str| {
        !segment.contains(['*', '{', '}', '?', '#', ';']) && !segment.starts_with(':')
    };
    let mut segments = prefix.strip_prefix('/')?.split('/');
    let is_route = segments.all(|segment| !matches!(segment, "" | "." | "..") && is_plain(segment));
    is_route.then(|| format!("{}**", escape_path(prefix)))
}

/// The settings by which `path` is what other servers compare: with its case, its parameters and the
/// slash at its end.
pub(super) fn exact_paths(system: &'static str) -> [(&'static str, String, String); 3] {
    let reason = |what: &str| format!("{system} distinguishes {what}");
    [
        ("path_case", "exact".to_owned(), reason("/a and /A")),
        ("path_params", "keep".to_owned(), reason("/a and /a;b")),
        ("path_slash", "keep".to_owned(), reason("/a and /a/")),
    ]
}

/// The areas of a configuration; the first contains all requests.
#[derive(Clone, Debug)]
pub(super) struct Areas {
    pub(super) areas: Vec<Area>,
}

impl Areas {
    /// Returns the regions in which a setting applies, given whether it applies in each area.
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
            for exclusion in self.exclusions(index, &applies) {
                when = when.and(exclusion.not());
            }
            Region { routes, when }
        };
        (0..self.areas.len()).filter(|index| begins(*index)).map(region).collect()
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        let areas = self.areas.iter().enumerate();
        areas.filter(move |(_, area)| area.parent == Some(of)).map(|(index, _)| index)
    }

    /// Returns the hosts of an area: its own, or those of the area around it.
    fn hosts_of(&self, index: usize) -> Condition {
        let area = &self.areas[index];
        match (area.hosts.is_empty(), area.parent) {
            (true, Some(parent)) => self.hosts_of(parent),
            _ => area.host(),
        }
    }

    /// Returns the parts of an area in which the setting does not apply.
    fn exclusions(&self, index: usize, applies: &impl Fn(usize) -> bool) -> Vec<Condition> {
        let mut exclusions = Vec::new();
        for child in self.children(index) {
            let area = &self.areas[child];
            let own = area.host().and(area.method()).and(area.path());
            match applies(child) {
                false => exclusions.push(own),
                // The exclusions of a child are exclusions of the area, limited to the child. A path
                // implies that; a host must be named.
                true => {
                    let within = area.host();
                    let inner = self.exclusions(child, applies).into_iter();
                    exclusions.extend(inner.map(|exclusion| within.clone().and(exclusion)));
                }
            }
        }
        exclusions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(parent: usize, path: &str) -> Area {
        Area { parent: Some(parent), path: PathCondition::Prefix(path.into()), ..Area::whole() }
    }

    #[test]
    fn areas_of_other_settings_are_excluded() {
        let areas =
            vec![Area::whole(), below(0, "/api"), below(1, "/api/login"), below(2, "/api/login/x")];
        let regions = Areas { areas }.regions(|index| index == 1 || index == 3);
        let shown: Vec<(String, String)> =
            regions.iter().map(|r| (r.routes.join(" "), r.when.expression())).collect();
        let exclusion = r#"!(path in ["/api/login*"])"#;
        assert_eq!(shown[0], ("/api**".to_owned(), exclusion.to_owned()));
        assert_eq!(shown[1], ("/api/login/x**".to_owned(), "true".to_owned()));
    }

    #[test]
    fn a_prefix_is_a_route_unless_a_route_would_match_more() {
        for (prefix, route) in [
            ("/api", Some("/api**")),
            ("/api/v1", Some("/api/v1**")),
            ("/a b", Some("/a%20b**")),
            ("/.git", Some("/.git**")),
            ("/api/", None),
            ("/", None),
            ("/a/../b", None),
            ("/a*", None),
            ("/{x}", None),
            ("/:x", None),
        ] {
            assert_eq!(prefix_route(prefix).as_deref(), route, "{prefix}");
        }
    }

    #[test]
    fn a_setting_that_applies_everywhere_has_one_region() {
        let areas = vec![Area::whole(), below(0, "/api"), below(1, "/api/login")];
        let regions = Areas { areas }.regions(|_| true);
        assert_eq!(regions.len(), 1);
        assert!(regions[0].when.is_always() && regions[0].routes.is_empty());
    }
}
