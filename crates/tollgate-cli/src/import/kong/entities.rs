//! The services, routes, consumers and plugins of declarative files.

use tollgate_rules::yaml::{YamlFile, YamlNode};

use crate::import::area::{Area, Areas, PathCondition};
use crate::import::condition::Pattern;
use crate::import::draft::RulesDraft;
use crate::import::finding::{Effect, Origin};
use crate::import::glob;

/// Plugins that identify consumers.
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

/// The entities of all files that matter for limits.
#[derive(Debug, Default)]
pub(super) struct Entities<'f> {
    pub(super) services: Vec<Service>,
    pub(super) routes: Vec<Route<'f>>,
    pub(super) plugins: Vec<Plugin<'f>>,
    /// Whether consumers can be identified.
    pub(super) authenticates: bool,
}

/// A service, which routes belong to.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    id: Option<String>,
}

/// A route to a service.
#[derive(Debug)]
pub(super) struct Route<'f> {
    pub(super) name: String,
    id: Option<String>,
    pub(super) service: Option<usize>,
    node: &'f YamlNode<'f>,
    origin: Origin,
}

/// A plugin and what it applies to: everything unless a field narrows it.
#[derive(Debug)]
pub(super) struct Plugin<'f> {
    pub(super) file: &'f YamlFile<'f>,
    pub(super) node: &'f YamlNode<'f>,
    pub(super) origin: Origin,
    pub(super) service: Option<usize>,
    pub(super) route: Option<usize>,
    pub(super) consumer: Option<String>,
}

/// The entity that a plugin is written in.
#[derive(Clone, Default)]
struct PluginScope {
    service: Option<usize>,
    route: Option<usize>,
    consumer: Option<String>,
}

/// A plugin as it is written, before the entities it refers to are known.
type WrittenPlugin<'f> = (&'f YamlNode<'f>, &'f YamlFile<'f>, PluginScope);

impl<'f> Entities<'f> {
    pub(super) fn read(files: &'f [YamlFile<'f>], draft: &mut RulesDraft) -> Entities<'f> {
        let mut entities = Entities::default();
        let mut plugins: Vec<WrittenPlugin<'f>> = Vec::new();
        for file in files {
            for root in file.documents() {
                entities.file(root, file, &mut plugins, draft);
            }
        }
        for (node, file, scope) in plugins {
            entities.plugin(node, file, scope, draft);
        }
        entities
    }

    fn file(
        &mut self,
        root: &'f YamlNode<'f>,
        file: &'f YamlFile<'f>,
        plugins: &mut Vec<WrittenPlugin<'f>>,
        draft: &mut RulesDraft,
    ) {
        let mut collect = |node: &'f YamlNode<'f>, scope: PluginScope| {
            let all = list(node, "plugins").iter();
            plugins.extend(all.map(|plugin| (plugin, file, scope.clone())));
        };
        for node in list(root, "services") {
            let service = Some(self.services.len());
            let name = node.text_of("name").unwrap_or("service").to_owned();
            self.services.push(Service { name, id: node.text_of("id").map(str::to_owned) });
            collect(node, PluginScope { service, ..PluginScope::default() });
            for route in list(node, "routes") {
                collect(
                    route,
                    PluginScope { route: Some(self.routes.len()), ..PluginScope::default() },
                );
                self.route(route, file, service);
            }
        }
        for node in list(root, "routes") {
            let service = reference(node, "service").and_then(|name| self.service_named(&name));
            collect(node, PluginScope { route: Some(self.routes.len()), ..PluginScope::default() });
            self.route(node, file, service);
        }
        for node in list(root, "consumers") {
            self.authenticates = true;
            let consumer = node.text_of("username").or_else(|| node.text_of("custom_id"));
            collect(
                node,
                PluginScope { consumer: consumer.map(str::to_owned), ..PluginScope::default() },
            );
        }
        collect(root, PluginScope::default());
        for node in list(root, "consumer_groups") {
            for plugin in list(node, "plugins").iter().filter(|plugin| is_limit(plugin)) {
                find_group(&Origin::at(file, plugin), draft);
            }
        }
    }

    fn route(&mut self, node: &'f YamlNode<'f>, file: &YamlFile<'_>, service: Option<usize>) {
        let name = node.text_of("name").unwrap_or("route").to_owned();
        let id = node.text_of("id").map(str::to_owned);
        let origin = Origin::at(file, node);
        self.routes.push(Route { name, id, service, node, origin });
    }

    fn service_named(&self, name: &str) -> Option<usize> {
        let is = |service: &Service| service.name == name || service.id.as_deref() == Some(name);
        self.services.iter().position(is)
    }

    fn route_named(&self, name: &str) -> Option<usize> {
        let is = |route: &Route<'_>| route.name == name || route.id.as_deref() == Some(name);
        self.routes.iter().position(is)
    }

    fn plugin(
        &mut self,
        node: &'f YamlNode<'f>,
        file: &'f YamlFile<'f>,
        scope: PluginScope,
        draft: &mut RulesDraft,
    ) {
        let origin = Origin::at(file, node);
        let name = node.text_of("name").unwrap_or_default();
        self.authenticates |= AUTHENTICATION.contains(&name);
        if !is_limit(node) {
            if name.contains("ratelimit") || name.contains("rate-limit") {
                let message = format!("left out: the plugin {name:?} has no equivalent");
                draft.find(Effect::MorePermissive, &origin, message);
            }
            return;
        }
        if node.get("enabled").is_some_and(YamlNode::is_false) {
            return draft.find(Effect::Equal, &origin, format!("{name:?} is not enabled"));
        }
        if reference(node, "consumer_group").is_some() {
            return find_group(&origin, draft);
        }
        let (mut service, mut route) = (scope.service, scope.route);
        for (key, found) in [("service", &mut service), ("route", &mut route)] {
            let Some(wanted) = reference(node, key) else { continue };
            *found = match key {
                "service" => self.service_named(&wanted),
                _ => self.route_named(&wanted),
            };
            if found.is_none() {
                let message = format!(
                    "left out: {name:?} is for the {key} {wanted:?}, which the files do not have"
                );
                return draft.find(Effect::MorePermissive, &origin, message);
            }
        }
        let consumer = scope.consumer.or_else(|| reference(node, "consumer"));
        self.plugins.push(Plugin { file, node, origin, service, route, consumer });
    }

    /// Returns the areas of all routes, and the route of each.
    pub(super) fn areas(&self, draft: &mut RulesDraft) -> (Areas, Vec<Option<usize>>) {
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
                        "a request can match both routes {:?} and {:?}: Kong takes one, rules of \
                         both apply",
                        one.name, two.name
                    );
                    draft.find(Effect::Stricter, &one.origin, message);
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
                        "left out: the route {:?} is for the same requests as another one",
                        self.routes[owner].name
                    );
                    draft.find(Effect::MorePermissive, &self.routes[owner].origin, message);
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

impl Route<'_> {
    /// Returns one area for each path.
    fn areas(&self, draft: &mut RulesDraft) -> Vec<Area> {
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
                    "the route {:?} also depends on its `{key}`, which the rules ignore: they take \
                     requests from other routes",
                    self.name
                );
                draft.find(Effect::MorePermissive, &self.origin, message);
            }
        }
        let paths = self.node.texts_of("paths");
        if paths.is_empty() {
            return vec![area(PathCondition::Any)];
        }
        let path = |path: &&str| match path.strip_prefix('~') {
            // Kong's expressions match from the start of the path.
            Some(regex) => {
                let anchored = format!("^(?:{regex})");
                if crate::import::is_regex(&anchored) {
                    return Some(PathCondition::Matches(anchored));
                }
                let message =
                    format!("left out: rules do not support the regular expression {path:?}");
                draft.find(Effect::MorePermissive, &self.origin, message);
                None
            }
            None => Some(match *path {
                "" | "/" => PathCondition::Any,
                path => PathCondition::Prefix(path.to_owned()),
            }),
        };
        paths.iter().filter_map(path).map(area).collect()
    }
}

/// Returns a sort key that puts larger areas first.
fn weight(area: &Area) -> (usize, bool, bool) {
    let length = match &area.path {
        PathCondition::Any => 0,
        PathCondition::Prefix(path) => path.len(),
        PathCondition::Matches(_) => usize::MAX,
    };
    (length, !area.hosts.is_empty(), !area.methods.is_empty())
}

/// Returns whether every request of `inner` is in `outer`.
fn surrounds(outer: &Area, inner: &Area) -> bool {
    let path = match (&outer.path, &inner.path) {
        (PathCondition::Any, _) => true,
        (PathCondition::Prefix(outer), PathCondition::Prefix(inner)) => {
            inner.starts_with(outer.as_str())
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

/// Returns whether a request can be in both areas, and neither contains the other.
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

fn list<'n>(node: &'n YamlNode<'n>, key: &str) -> &'n [YamlNode<'n>] {
    node.get(key).map_or(&[], YamlNode::items)
}

/// Returns the name of a referenced entity: `service: shop` or `service: { name: shop }`.
fn reference(node: &YamlNode<'_>, key: &str) -> Option<String> {
    let node = node.get(key)?;
    let named = || ["name", "username", "id"].iter().find_map(|key| node.text_of(key));
    node.text().or_else(named).map(str::to_owned)
}

fn is_limit(plugin: &YamlNode<'_>) -> bool {
    matches!(plugin.text_of("name"), Some("rate-limiting" | "rate-limiting-advanced"))
}

fn find_group(origin: &Origin, draft: &mut RulesDraft) {
    let message = "left out: limits of a consumer group. Write them as a plan, and set the attribute `plan` to \
                   the group of a request";
    draft.find(Effect::MorePermissive, origin, message);
}
