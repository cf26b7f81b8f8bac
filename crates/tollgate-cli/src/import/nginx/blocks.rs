//! The blocks that contain limits: http, its servers and their locations, and what they inherit.
//!
//! A block with its own limits inherits none. A request is served by one location, the one whose path
//! matches best, so the limits of other locations do not apply.

use super::server::{self, Server};
use super::tree::Directive;
use crate::import::area::{Area, Areas, PathCondition};
use crate::import::draft::RulesDraft;
use crate::import::note::NoteSeverity;

/// The settings of a block, including inherited ones.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockSettings {
    pub(super) requests: Vec<Directive>,
    pub(super) connections: Vec<Directive>,
    pub(super) request_status: Option<u16>,
    pub(super) connection_status: Option<u16>,
    pub(super) request_dry_run: bool,
    pub(super) connection_dry_run: bool,
}

impl BlockSettings {
    /// Returns the settings of a block inside one with these settings.
    pub(super) fn within(&self, block: &[Directive]) -> BlockSettings {
        let all = |name: &str| -> Vec<Directive> {
            block.iter().filter(|directive| directive.name == name).cloned().collect()
        };
        let or_inherited = |own: Vec<Directive>, inherited: &Vec<Directive>| {
            if own.is_empty() { inherited.clone() } else { own }
        };
        let last = |name: &str| block.iter().rev().find(|directive| directive.name == name);
        let status =
            |name: &str, inherited| last(name).map_or(inherited, |one| one.arg(0).parse().ok());
        let flag = |name: &str, inherited| last(name).map_or(inherited, |one| one.arg(0) == "on");
        // `return` answers before any limit is checked.
        if last("return").is_some() {
            return BlockSettings::default();
        }
        BlockSettings {
            requests: or_inherited(all("limit_req"), &self.requests),
            connections: or_inherited(all("limit_conn"), &self.connections),
            request_status: status("limit_req_status", self.request_status),
            connection_status: status("limit_conn_status", self.connection_status),
            request_dry_run: flag("limit_req_dry_run", self.request_dry_run),
            connection_dry_run: flag("limit_conn_dry_run", self.connection_dry_run),
        }
    }
}

/// All areas of a configuration and the settings in each.
#[derive(Clone, Debug)]
pub(super) struct ConfigBlocks {
    pub(super) areas: Areas,
    /// The settings of each area.
    pub(super) settings: Vec<BlockSettings>,
    /// Areas of regular-expression locations, which precede the prefix locations of a server.
    pub(super) regexes: Vec<usize>,
    /// Areas of locations that precede those by regular expression.
    pub(super) before_regexes: Vec<usize>,
    /// The areas of servers. A single server has all requests.
    servers: Vec<usize>,
}

/// A location as it is written, with its settings.
struct Location<'t> {
    directive: &'t Directive,
    settings: BlockSettings,
}

impl ConfigBlocks {
    pub(super) fn read(http: &[Directive], draft: &mut RulesDraft) -> ConfigBlocks {
        let global = BlockSettings::default().within(http);
        let mut blocks = ConfigBlocks {
            areas: Areas { areas: vec![Area::whole()] },
            settings: vec![global.clone()],
            regexes: Vec::new(),
            before_regexes: Vec::new(),
            servers: Vec::new(),
        };
        let servers = server::all(http, draft);
        for server in &servers {
            let settings = global.within(&server.directive.block);
            let area = blocks.server(server, &servers, settings.clone());
            blocks.servers.push(area);
            let mut locations = Vec::new();
            flatten(&server.directive.block, &settings, &mut locations);
            blocks.locations(area, &locations, draft);
        }
        blocks
    }

    fn add(&mut self, area: Area, settings: BlockSettings) -> usize {
        self.areas.areas.push(area);
        self.settings.push(settings);
        self.settings.len() - 1
    }

    fn server(
        &mut self,
        server: &Server<'_>,
        all: &[Server<'_>],
        settings: BlockSettings,
    ) -> usize {
        if let [_] = all {
            self.settings[0] = settings;
            return 0;
        }
        // The default server gets every host that no other server has.
        if server.is_default {
            let others = all.iter().filter(|other| !other.is_default);
            let hosts = others.flat_map(|other| other.hosts.clone()).collect();
            let area = Area { parent: Some(0), hosts, other_hosts: true, ..Area::whole() };
            return self.add(area, settings);
        }
        let hosts = server.hosts.clone();
        let is_wider = |area: &Area| !area.other_hosts && server::is_wider(&area.hosts, &hosts);
        let parent = self.areas.areas.iter().position(is_wider).or(Some(0));
        self.add(Area { parent, hosts, ..Area::whole() }, settings)
    }

    fn locations(&mut self, server: usize, locations: &[Location<'_>], draft: &mut RulesDraft) {
        // Shorter paths come first, so that the area around each one exists before it.
        let mut by_path: Vec<(&Location<'_>, PathCondition)> = Vec::new();
        for location in locations {
            match path_of(location.directive) {
                Ok(path) => by_path.push((location, path)),
                Err(reason) => note(location, &reason, draft),
            }
        }
        let length = |path: &PathCondition| match path {
            PathCondition::Any => 0,
            PathCondition::Below(path) => path.len(),
            PathCondition::Exact(path) => path.len() + 1,
            PathCondition::Matches(_) => usize::MAX,
        };
        by_path.sort_by_key(|(_, path)| length(path));
        let mut own: Vec<usize> = vec![server];
        for (location, path) in by_path {
            let settings = location.settings.clone();
            if path == PathCondition::Any {
                self.settings[server] = settings;
                continue;
            }
            let around =
                own.iter().rev().find(|area| surrounds(&self.areas.areas[**area].path, &path));
            let parent = Some(*around.unwrap_or(&server));
            let is_regex = matches!(path, PathCondition::Matches(_));
            let is_first =
                matches!(path, PathCondition::Exact(_)) || location.directive.arg(0) == "^~";
            let area = self.add(Area { parent, path, ..Area::whole() }, settings);
            match is_regex {
                true => self.regexes.push(area),
                false => own.push(area),
            }
            if is_first {
                self.before_regexes.push(area);
            }
        }
    }

    /// Returns whether a directive is in force in an area.
    ///
    /// In the area of all requests, it must be in force in all servers.
    pub(super) fn in_force(&self, area: usize, directive: &Directive) -> bool {
        let in_area = |area: usize| {
            let settings = &self.settings[area];
            let mut all = settings.requests.iter().chain(&settings.connections);
            all.any(|other| other.number == directive.number)
        };
        match self.servers.as_slice() {
            [_, _, ..] if area == 0 => self.servers.iter().all(|server| in_area(*server)),
            _ => in_area(area),
        }
    }

    /// Returns the server of an area.
    pub(super) fn server_of(&self, area: usize) -> usize {
        match self.areas.areas[area].parent {
            Some(parent) if self.areas.areas[area].path != PathCondition::Any => {
                self.server_of(parent)
            }
            _ => area,
        }
    }
}

/// Collects every location of a server, including nested ones.
fn flatten<'t>(block: &'t [Directive], around: &BlockSettings, all: &mut Vec<Location<'t>>) {
    for directive in block.iter().filter(|directive| directive.name == "location") {
        let settings = around.within(&directive.block);
        all.push(Location { directive, settings: settings.clone() });
        flatten(&directive.block, &settings, all);
    }
}

/// Returns the paths of a location, or why rules cannot express them.
fn path_of(directive: &Directive) -> Result<PathCondition, String> {
    let (modifier, path) = match directive.args.as_slice() {
        [path] => ("", path.as_str()),
        [modifier, path] => (modifier.as_str(), path.as_str()),
        _ => return Err("it has no path".to_owned()),
    };
    let trimmed = || path.trim_end_matches('/').to_owned();
    match modifier {
        "" if path.starts_with('@') => Err("a named location serves no paths itself".into()),
        "=" if path.starts_with('/') => {
            let path = trimmed();
            Ok(PathCondition::Exact(if path.is_empty() { "/".to_owned() } else { path }))
        }
        "" | "^~" if trimmed().is_empty() => Ok(PathCondition::Any),
        "" | "^~" if path.starts_with('/') => Ok(PathCondition::Below(trimmed())),
        "~" | "~*" => {
            let pattern = if modifier == "~*" { format!("(?i){path}") } else { path.to_owned() };
            match crate::import::is_regex(&pattern) {
                true => Ok(PathCondition::Matches(pattern)),
                false => Err("rules do not support its regular expression".to_owned()),
            }
        }
        _ => Err("its path cannot be read".to_owned()),
    }
}

/// Returns whether every path of `inner` is in `outer`.
fn surrounds(outer: &PathCondition, inner: &PathCondition) -> bool {
    let (PathCondition::Below(outer), PathCondition::Below(inner) | PathCondition::Exact(inner)) =
        (outer, inner)
    else {
        return false;
    };
    inner.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Notes a location without an area if it has limits itself.
fn note(location: &Location<'_>, reason: &str, draft: &mut RulesDraft) {
    let own =
        |directive: &&Directive| matches!(directive.name.as_str(), "limit_req" | "limit_conn");
    let text = location.directive.text();
    if let Some(limit) = location.directive.block.iter().find(own) {
        let message = format!("`{}` in `{text}`: {reason}", limit.text());
        draft.note(NoteSeverity::LeftOut, &limit.origin, message);
    }
}
