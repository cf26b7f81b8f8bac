//! Where limits are said: http, its servers, their locations, and what each passes on.
//!
//! A block that names limits itself takes none from the block around it. A request is served
//! by one location, the one whose path fits best, so what other locations say does not apply.

use super::server::{self, Server};
use super::tree::Directive;
use crate::import::area::{Area, Areas, PathIs};
use crate::import::draft::Draft;
use crate::import::note::Severity;

/// The settings of a block, with what it takes from the one around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) requests: Vec<Directive>,
    pub(super) connections: Vec<Directive>,
    pub(super) request_status: Option<u16>,
    pub(super) connection_status: Option<u16>,
    pub(super) request_dry_run: bool,
    pub(super) connection_dry_run: bool,
}

impl Settings {
    /// Of a block inside one with these settings.
    pub(super) fn within(&self, block: &[Directive]) -> Settings {
        let all = |name: &str| -> Vec<Directive> {
            block.iter().filter(|directive| directive.name == name).cloned().collect()
        };
        let or_ours = |own: Vec<Directive>, ours: &Vec<Directive>| {
            if own.is_empty() { ours.clone() } else { own }
        };
        let last = |name: &str| block.iter().rev().find(|directive| directive.name == name);
        let status = |name: &str, ours| last(name).map_or(ours, |one| one.arg(0).parse().ok());
        let flag = |name: &str, ours| last(name).map_or(ours, |one| one.arg(0) == "on");
        // `return` answers before any limit is looked at.
        if last("return").is_some() {
            return Settings::default();
        }
        Settings {
            requests: or_ours(all("limit_req"), &self.requests),
            connections: or_ours(all("limit_conn"), &self.connections),
            request_status: status("limit_req_status", self.request_status),
            connection_status: status("limit_conn_status", self.connection_status),
            request_dry_run: flag("limit_req_dry_run", self.request_dry_run),
            connection_dry_run: flag("limit_conn_dry_run", self.connection_dry_run),
        }
    }
}

/// All areas of a configuration and the settings in each.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) areas: Areas,
    /// One for each area.
    pub(super) settings: Vec<Settings>,
    /// Areas of locations by regular expression, which come before those by prefix of the
    /// same server; and areas that come before them.
    pub(super) regexes: Vec<usize>,
    pub(super) before_regexes: Vec<usize>,
    /// The areas of servers. A single one is for everything.
    servers: Vec<usize>,
}

/// A location as it was written, and what it inherits.
struct Location<'t> {
    directive: &'t Directive,
    settings: Settings,
}

impl Places {
    pub(super) fn read(http: &[Directive], draft: &mut Draft) -> Places {
        let ours = Settings::default().within(http);
        let mut places = Places {
            areas: Areas { areas: vec![Area::whole()] },
            settings: vec![ours.clone()],
            regexes: Vec::new(),
            before_regexes: Vec::new(),
            servers: Vec::new(),
        };
        let servers = server::all(http, draft);
        for server in &servers {
            let settings = ours.within(&server.directive.block);
            let area = places.server(server, &servers, settings.clone());
            places.servers.push(area);
            let mut locations = Vec::new();
            flatten(&server.directive.block, &settings, &mut locations);
            places.locations(area, &locations, draft);
        }
        places
    }

    fn add(&mut self, area: Area, settings: Settings) -> usize {
        self.areas.areas.push(area);
        self.settings.push(settings);
        self.settings.len() - 1
    }

    fn server(&mut self, server: &Server<'_>, all: &[Server<'_>], settings: Settings) -> usize {
        if let [_] = all {
            self.settings[0] = settings;
            return 0;
        }
        // Whatever host nobody else has is the default server's.
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

    fn locations(&mut self, server: usize, locations: &[Location<'_>], draft: &mut Draft) {
        // Shorter paths first, so that the area around each is there before it.
        let mut by_path: Vec<(&Location<'_>, PathIs)> = Vec::new();
        for location in locations {
            match path_of(location.directive) {
                Ok(path) => by_path.push((location, path)),
                Err(why) => note(location, &why, draft),
            }
        }
        let length = |path: &PathIs| match path {
            PathIs::Any => 0,
            PathIs::Below(path) => path.len(),
            PathIs::Exact(path) => path.len() + 1,
            PathIs::Matches(_) => usize::MAX,
        };
        by_path.sort_by_key(|(_, path)| length(path));
        let mut own: Vec<usize> = vec![server];
        for (location, path) in by_path {
            let settings = location.settings.clone();
            if path == PathIs::Any {
                self.settings[server] = settings;
                continue;
            }
            let around =
                own.iter().rev().find(|area| surrounds(&self.areas.areas[**area].path, &path));
            let parent = Some(*around.unwrap_or(&server));
            let is_regex = matches!(path, PathIs::Matches(_));
            let is_first = matches!(path, PathIs::Exact(_)) || location.directive.arg(0) == "^~";
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

    /// Whether a directive is in force in an area; in the whole, if it is in all servers.
    pub(super) fn in_force(&self, area: usize, directive: &Directive) -> bool {
        let here = |area: usize| {
            let settings = &self.settings[area];
            let mut all = settings.requests.iter().chain(&settings.connections);
            all.any(|other| other.number == directive.number)
        };
        match self.servers.as_slice() {
            [_, _, ..] if area == 0 => self.servers.iter().all(|server| here(*server)),
            _ => here(area),
        }
    }

    /// The server an area belongs to.
    pub(super) fn server_of(&self, area: usize) -> usize {
        match self.areas.areas[area].parent {
            Some(parent) if self.areas.areas[area].path != PathIs::Any => self.server_of(parent),
            _ => area,
        }
    }
}

/// Every location of a server, also those inside others.
fn flatten<'t>(block: &'t [Directive], around: &Settings, all: &mut Vec<Location<'t>>) {
    for directive in block.iter().filter(|directive| directive.name == "location") {
        let settings = around.within(&directive.block);
        all.push(Location { directive, settings: settings.clone() });
        flatten(&directive.block, &settings, all);
    }
}

/// The paths of a location, or why rules cannot have it.
fn path_of(directive: &Directive) -> Result<PathIs, String> {
    let (how, path) = match directive.args.as_slice() {
        [path] => ("", path.as_str()),
        [how, path] => (how.as_str(), path.as_str()),
        _ => return Err("it has no path".to_owned()),
    };
    let trimmed = || path.trim_end_matches('/').to_owned();
    match how {
        "" if path.starts_with('@') => Err("a named location serves no paths of its own".into()),
        "=" if path.starts_with('/') => {
            let path = trimmed();
            Ok(PathIs::Exact(if path.is_empty() { "/".to_owned() } else { path }))
        }
        "" | "^~" if trimmed().is_empty() => Ok(PathIs::Any),
        "" | "^~" if path.starts_with('/') => Ok(PathIs::Below(trimmed())),
        "~" | "~*" => {
            let pattern = if how == "~*" { format!("(?i){path}") } else { path.to_owned() };
            match crate::import::is_regex(&pattern) {
                true => Ok(PathIs::Matches(pattern)),
                false => Err("its regular expression is of a kind rules do not have".to_owned()),
            }
        }
        _ => Err("its path cannot be read".to_owned()),
    }
}

fn surrounds(outer: &PathIs, inner: &PathIs) -> bool {
    let (PathIs::Below(outer), PathIs::Below(inner) | PathIs::Exact(inner)) = (outer, inner) else {
        return false;
    };
    inner.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A location that has no area: worth a word if it has limits itself.
fn note(location: &Location<'_>, why: &str, draft: &mut Draft) {
    let own =
        |directive: &&Directive| matches!(directive.name.as_str(), "limit_req" | "limit_conn");
    let text = location.directive.text();
    if let Some(limit) = location.directive.block.iter().find(own) {
        let message = format!("`{}` in `{text}`: {why}", limit.text());
        draft.note(Severity::LeftOut, &limit.origin, message);
    }
}
