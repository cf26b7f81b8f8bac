//! Services, routes, consumers and plugins, as a declarative file has them.

use tollgate::rules::Source;

use crate::import::area::{Area, Areas, PathIs};
use crate::import::condition::Pattern;
use crate::import::draft::Draft;
use crate::import::glob;
use crate::import::note::{Origin, Severity};
use crate::import::yaml::{self, Node};

/// Plugins that say who a consumer is.
const AUTHENTICATION: [&str; 11] = [
    "key-auth",
    "basic-auth",
    "jwt",
    "oauth2",
    "hmac-auth",
    "ldap-auth",
    "ldap-auth-advanced",
    "openid-connect",
    "mtls-auth",
    "key-auth-enc",
    "session",
];

/// Everything that matters here.
#[derive(Debug, Default)]
pub(super) struct Entities {
    pub(super) services: Vec<Service>,
    pub(super) routes: Vec<Route>,
    pub(super) plugins: Vec<Plugin>,
    /// Whether anything could say who a consumer is.
    pub(super) authenticates: bool,
}

#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    id: Option<String>,
}

#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: String,
    id: Option<String>,
    pub(super) service: Option<usize>,
    node: Node,
    origin: Origin,
}

/// A plugin and what it is for; nothing is everything.
#[derive(Debug)]
pub(super) struct Plugin {
    pub(super) node: Node,
    pub(super) origin: Origin,
    pub(super) service: Option<usize>,
    pub(super) route: Option<usize>,
    pub(super) consumer: Option<String>,
}

/// What the entity a plugin is written inside says about it.
#[derive(Clone, Default)]
struct Inside {
    service: Option<usize>,
    route: Option<usize>,
    consumer: Option<String>,
}

impl Entities {
    pub(super) fn read(sources: &[Source], draft: &mut Draft) -> anyhow::Result<Entities> {
        let mut entities = Entities::default();
        let mut plugins: Vec<(Node, String, Inside)> = Vec::new();
        for source in sources {
            for root in yaml::documents(source)? {
                entities.file(&root, &source.name, &mut plugins, draft);
            }
        }
        for (node, file, inside) in plugins {
            entities.plugin(node, &file, inside, draft);
        }
        Ok(entities)
    }

    fn file(
        &mut self,
        root: &Node,
        file: &str,
        plugins: &mut Vec<(Node, String, Inside)>,
        draft: &mut Draft,
    ) {
        let mut keep = |node: &Node, inside: Inside| {
            let all = list(node, "plugins").iter();
            plugins.extend(all.map(|plugin| (plugin.clone(), file.to_owned(), inside.clone())));
        };
        for node in list(root, "services") {
            let service = Some(self.services.len());
            let name = node.text_of("name").unwrap_or("service").to_owned();
            self.services.push(Service { name, id: node.text_of("id").map(str::to_owned) });
            keep(node, Inside { service, ..Inside::default() });
            for route in list(node, "routes") {
                keep(route, Inside { route: Some(self.routes.len()), ..Inside::default() });
                self.route(route, file, service);
            }
        }
        for node in list(root, "routes") {
            let service = reference(node, "service").and_then(|name| self.service_named(&name));
            keep(node, Inside { route: Some(self.routes.len()), ..Inside::default() });
            self.route(node, file, service);
        }
        for node in list(root, "consumers") {
            self.authenticates = true;
            let consumer = node.text_of("username").or_else(|| node.text_of("custom_id"));
            keep(node, Inside { consumer: consumer.map(str::to_owned), ..Inside::default() });
        }
        keep(root, Inside::default());
        for node in list(root, "consumer_groups") {
            for plugin in list(node, "plugins").iter().filter(|plugin| is_limit(plugin)) {
                note_group(&Origin::new(file, plugin.line), draft);
            }
        }
    }

    fn route(&mut self, node: &Node, file: &str, service: Option<usize>) {
        let name = node.text_of("name").unwrap_or("route").to_owned();
        let id = node.text_of("id").map(str::to_owned);
        let origin = Origin::new(file, node.line);
        self.routes.push(Route { name, id, service, node: node.clone(), origin });
    }

    fn service_named(&self, name: &str) -> Option<usize> {
        let is = |service: &Service| service.name == name || service.id.as_deref() == Some(name);
        self.services.iter().position(is)
    }

    fn route_named(&self, name: &str) -> Option<usize> {
        let is = |route: &Route| route.name == name || route.id.as_deref() == Some(name);
        self.routes.iter().position(is)
    }

    fn plugin(&mut self, node: Node, file: &str, inside: Inside, draft: &mut Draft) {
        let origin = Origin::new(file, node.line);
        let name = node.text_of("name").unwrap_or_default();
        self.authenticates |= AUTHENTICATION.contains(&name);
        if !is_limit(&node) {
            if name.contains("ratelimit") || name.contains("rate-limit") {
                let message = format!("the plugin {name:?} is of another kind");
                draft.note(Severity::LeftOut, &origin, message);
            }
            return;
        }
        if node.get("enabled").is_some_and(Node::is_false) {
            return draft.note(Severity::Note, &origin, format!("{name:?} is not enabled"));
        }
        if reference(&node, "consumer_group").is_some() {
            return note_group(&origin, draft);
        }
        let (mut service, mut route) = (inside.service, inside.route);
        for (key, found) in [("service", &mut service), ("route", &mut route)] {
            let Some(wanted) = reference(&node, key) else { continue };
            *found = match key {
                "service" => self.service_named(&wanted),
                _ => self.route_named(&wanted),
            };
            if found.is_none() {
                let message = format!("{name:?} is for the {key} {wanted:?}, which is not here");
                return draft.note(Severity::LeftOut, &origin, message);
            }
        }
        let consumer = inside.consumer.or_else(|| reference(&node, "consumer"));
        self.plugins.push(Plugin { node, origin, service, route, consumer });
    }

    /// The areas of all routes, and the route each belongs to.
    pub(super) fn areas(&self, draft: &mut Draft) -> (Areas, Vec<Option<usize>>) {
        let mut found: Vec<(Area, usize)> = Vec::new();
        for (index, route) in self.routes.iter().enumerate() {
            found.extend(route.areas(draft).into_iter().map(|area| (area, index)));
        }
        found.sort_by_key(|(area, _)| weight(area));
        for (index, (area, owner)) in found.iter().enumerate() {
            for (other, known) in found[..index].iter().filter(|(_, known)| known != owner) {
                if cross(area, other) {
                    let (one, two) = (&self.routes[*owner], &self.routes[*known]);
                    let message = format!(
                        "a request can fit both routes {:?} and {:?}: Kong takes one, rules of \
                         both apply",
                        one.name, two.name
                    );
                    draft.note(Severity::Differs, &one.origin, message);
                }
            }
        }
        let (mut areas, mut owners) = (vec![Area::whole()], vec![None]);
        for (mut area, owner) in found {
            area.parent = (0..areas.len()).rev().find(|index| surrounds(&areas[*index], &area));
            let same = |known: &Area| {
                (&known.hosts, &known.methods, &known.path)
                    == (&area.hosts, &area.methods, &area.path)
            };
            match areas.iter().position(same) {
                Some(known) if owners[known].is_none() => owners[known] = Some(owner),
                Some(_) => {
                    let message = format!(
                        "the route {:?} is for the same requests as another one",
                        self.routes[owner].name
                    );
                    draft.note(Severity::Differs, &self.routes[owner].origin, message);
                }
                None => {
                    areas.push(area);
                    owners.push(Some(owner));
                }
            }
        }
        (Areas { areas }, owners)
    }
}

impl Route {
    /// One area for each path.
    fn areas(&self, draft: &mut Draft) -> Vec<Area> {
        let pattern = |host: &&str| match host.contains('*') {
            true => Pattern::Glob(host.to_ascii_lowercase()),
            false => Pattern::Exact(host.to_ascii_lowercase()),
        };
        let hosts: Vec<Pattern> = self.node.texts_of("hosts").iter().map(pattern).collect();
        let methods = self.node.texts_of("methods");
        let methods: Vec<String> =
            methods.iter().map(|method| method.to_ascii_uppercase()).collect();
        let area =
            |path| Area { hosts: hosts.clone(), methods: methods.clone(), path, ..Area::whole() };
        for key in ["headers", "snis", "sources", "destinations", "expression"] {
            if self.node.get(key).is_some() {
                let message = format!(
                    "the route {:?} is also chosen by its `{key}`, which the rules do not ask for",
                    self.name
                );
                draft.note(Severity::Differs, &self.origin, message);
            }
        }
        let paths = self.node.texts_of("paths");
        if paths.is_empty() {
            return vec![area(PathIs::Any)];
        }
        let path = |path: &&str| match path.strip_prefix('~') {
            // Kong's expressions match from the start of the path.
            Some(regex) => {
                let anchored = format!("^(?:{regex})");
                if crate::import::is_regex(&anchored) {
                    return Some(PathIs::Matches(anchored));
                }
                let message = format!("the path {path:?} is of a kind rules do not have");
                draft.note(Severity::LeftOut, &self.origin, message);
                None
            }
            None => Some(match path.trim_end_matches('/') {
                "" => PathIs::Any,
                path => PathIs::Below(path.to_owned()),
            }),
        };
        paths.iter().filter_map(path).map(area).collect()
    }
}

/// Sorts areas so that larger ones come first.
fn weight(area: &Area) -> (usize, bool, bool) {
    let length = match &area.path {
        PathIs::Any => 0,
        PathIs::Below(path) | PathIs::Exact(path) => path.len(),
        PathIs::Matches(_) => usize::MAX,
    };
    (length, !area.hosts.is_empty(), !area.methods.is_empty())
}

fn surrounds(outer: &Area, inner: &Area) -> bool {
    let path = match (&outer.path, &inner.path) {
        (PathIs::Any, _) => true,
        (PathIs::Below(outer), PathIs::Below(inner)) => {
            let rest = inner.strip_prefix(outer.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        _ => false,
    };
    let covers = |inner: &Pattern| {
        let (Pattern::Exact(text) | Pattern::Glob(text)) = inner;
        outer.hosts.iter().any(|outer| {
            outer == inner || matches!(outer, Pattern::Glob(outer) if glob::matches(outer, text))
        })
    };
    let subset = |outer: &[String], inner: &[String]| {
        outer.is_empty() || !inner.is_empty() && inner.iter().all(|one| outer.contains(one))
    };
    path && subset(&outer.methods, &inner.methods)
        && (outer.hosts.is_empty() || !inner.hosts.is_empty() && inner.hosts.iter().all(covers))
}

/// Whether a request can be in both, neither lying in the other.
fn cross(one: &Area, two: &Area) -> bool {
    let paths = |outer: &Area, inner: &Area| {
        let bare = |area: &Area| Area { path: area.path.clone(), ..Area::whole() };
        surrounds(&bare(outer), &bare(inner))
    };
    let one_has_hosts = one.hosts.is_empty() != two.hosts.is_empty();
    let one_has_methods = one.methods.is_empty() != two.methods.is_empty();
    let nested = surrounds(one, two) || surrounds(two, one);
    (one_has_hosts || one_has_methods) && (paths(one, two) || paths(two, one)) && !nested
}

fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    node.get(key).map_or(&[], Node::items)
}

/// What an entity refers to: `service: shop` or `service: { name: shop }`.
fn reference(node: &Node, key: &str) -> Option<String> {
    let node = node.get(key)?;
    let named = || ["name", "username", "id"].iter().find_map(|key| node.text_of(key));
    node.text().or_else(named).map(str::to_owned)
}

fn is_limit(plugin: &Node) -> bool {
    matches!(plugin.text_of("name"), Some("rate-limiting" | "rate-limiting-advanced"))
}

fn note_group(origin: &Origin, draft: &mut Draft) {
    let message = "limits of a consumer group: write them as a plan, and have the attribute `plan` \
                   say a request's group";
    draft.note(Severity::LeftOut, origin, message);
}
