//! The blocks that contain limits: http, its servers and their locations, and what they inherit.
//!
//! A block with its own limits inherits none. A request is served by one location, so the limits of
//! other locations do not apply.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use regex::Regex;

use super::location::{self, Location, LocationChoice};
use super::path_rules::{self, PathRule};
use super::server::Server;
use super::tree::Directive;
use crate::import::draft::RulesDraft;
use crate::import::finding::Effect;

/// The settings of a block, including inherited ones.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockSettings {
    pub(super) requests: LimitSettings,
    pub(super) connections: LimitSettings,
}

/// The settings of a block for one kind of limit.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitSettings {
    pub(super) limits: Vec<Directive>,
    pub(super) answer: LimitAnswer,
}

/// What happens over a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LimitAnswer {
    status: Option<u16>,
    pub(super) dry_run: bool,
}

impl LimitAnswer {
    pub(super) fn status(self) -> u16 {
        self.status.unwrap_or(503)
    }
}

impl LimitSettings {
    fn within(&self, block: &[Directive], name: &str) -> LimitSettings {
        let own: Vec<Directive> =
            block.iter().filter(|directive| directive.name == name).cloned().collect();
        let last = |suffix: &str| {
            let name = format!("{name}_{suffix}");
            block.iter().rev().find(|directive| directive.name == name)
        };
        let inherited = self.answer;
        LimitSettings {
            limits: if own.is_empty() { self.limits.clone() } else { own },
            answer: LimitAnswer {
                status: last("status").map_or(inherited.status, |one| one.arg(0).parse().ok()),
                dry_run: last("dry_run").map_or(inherited.dry_run, |one| one.arg(0) == "on"),
            },
        }
    }

    fn has(&self, directive: &Directive) -> bool {
        self.limits.iter().any(|other| other.number == directive.number)
    }

    fn is_same(&self, other: &LimitSettings) -> bool {
        let numbers = |settings: &LimitSettings| -> Vec<usize> {
            settings.limits.iter().map(|limit| limit.number).collect()
        };
        numbers(self) == numbers(other) && self.answer == other.answer
    }
}

impl BlockSettings {
    /// Returns the settings of a block inside one with these settings.
    pub(super) fn within(&self, block: &[Directive]) -> BlockSettings {
        BlockSettings {
            requests: self.requests.within(block, "limit_req"),
            connections: self.connections.within(block, "limit_conn"),
        }
    }

    fn is_same(&self, other: &BlockSettings) -> bool {
        self.requests.is_same(&other.requests) && self.connections.is_same(&other.connections)
    }

    fn has_limits(&self) -> bool {
        !self.requests.limits.is_empty() || !self.connections.limits.is_empty()
    }
}

/// The kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitKind {
    Requests,
    Connections,
}

impl LimitKind {
    pub(super) fn of(self, settings: &BlockSettings) -> &LimitSettings {
        match self {
            LimitKind::Requests => &settings.requests,
            LimitKind::Connections => &settings.connections,
        }
    }
}

/// A server with its locations.
#[derive(Clone, Debug)]
pub(super) struct ServerBlock {
    choices: Vec<LocationChoice>,
    /// The settings of each location, by the number of its directive; none is the server itself.
    pub(super) settings: BTreeMap<Option<usize>, BlockSettings>,
}

/// Returns whether a block answers by itself, before any limit is checked.
fn answers(block: &[Directive]) -> bool {
    block.iter().any(|directive| directive.name == "return")
}

impl ServerBlock {
    /// Returns the block of a configuration whose servers are not known.
    pub(super) fn without_locations(settings: BlockSettings) -> ServerBlock {
        ServerBlock { choices: location::choices(&[]), settings: [(None, settings)].into() }
    }

    pub(super) fn read(
        server: &Server<'_>,
        global: &BlockSettings,
        draft: &mut RulesDraft,
    ) -> ServerBlock {
        let block = &server.directive.block;
        let own = global.within(block);
        let mut unread = Vec::new();
        let locations = location::read(block, &mut unread);
        let mut read =
            ServerBlock { choices: location::choices(&locations), settings: BTreeMap::new() };
        read.settings.insert(None, own.clone());
        read.collect(&locations, &own);
        if answers(block) {
            read.settings.values_mut().for_each(|settings| *settings = BlockSettings::default());
            return read;
        }
        let mut named = NamedLocations::default();
        for (directive, reason) in unread {
            // Locations inside others inherit from them; the limits of the server are a good guess.
            let settings = own.within(&directive.block);
            match directive.arg(0).starts_with('@') {
                true => named.all.push((directive, settings)),
                false => read.find_unread(directive, &settings, reason, draft),
            }
        }
        read.follow(&locations, &mut named, draft);
        find_rewrites(block, &read, draft);
        named.find_unused(draft);
        read
    }

    fn collect(&mut self, locations: &[Location<'_>], around: &BlockSettings) {
        for location in locations {
            let block = &location.directive.block;
            let settings = around.within(block);
            let own = if answers(block) { BlockSettings::default() } else { settings.clone() };
            self.settings.insert(Some(location.directive.number), own);
            self.collect(&location.nested, &settings);
        }
    }

    /// Reports a location whose paths cannot be written as rules, if they have other limits than the
    /// paths around them.
    fn find_unread(
        &self,
        directive: &Directive,
        settings: &BlockSettings,
        reason: &str,
        draft: &mut RulesDraft,
    ) {
        if self.settings.values().any(|other| !other.is_same(settings)) {
            let message = format!("`{}` is left out: {reason}", directive.text());
            draft.find(Effect::MorePermissive, &directive.origin, message);
        }
    }

    /// Returns the location that serves a path.
    fn location_of(&self, path: &str) -> Option<usize> {
        let matches =
            |regex: &str, path: &str| Regex::new(regex).is_ok_and(|regex| regex.is_match(path));
        self.choices.iter().find(|choice| choice.is_passed_by(path, &matches))?.location
    }

    /// Gives locations the limits of those that requests are passed on to: `try_files`, `index`. nginx
    /// checks the limits of the first location on the way that has some.
    fn follow(
        &mut self,
        locations: &[Location<'_>],
        named: &mut NamedLocations<'_>,
        draft: &mut RulesDraft,
    ) {
        for location in locations {
            let directive = location.directive;
            let number = Some(directive.number);
            for (target, always) in targets(directive) {
                let settings = match target.strip_prefix('@') {
                    Some(_) => named.settings_of(target),
                    None => self.settings.get(&self.location_of(target)).cloned(),
                };
                let (Some(theirs), Some(own)) = (settings, self.settings.get_mut(&number)) else {
                    continue;
                };
                let adds = |own: &LimitSettings, theirs: &LimitSettings| {
                    own.limits.is_empty() && !theirs.limits.is_empty()
                };
                let (requests, connections) = (
                    adds(&own.requests, &theirs.requests),
                    adds(&own.connections, &theirs.connections),
                );
                if !requests && !connections {
                    continue;
                }
                let text = directive.text();
                if !always {
                    let message = format!(
                        "`{text}` passes some requests on to {target:?}, whose limits the rules do not \
                         apply to them"
                    );
                    draft.find(Effect::MorePermissive, &directive.origin, message);
                    continue;
                }
                if requests {
                    own.requests = theirs.requests.clone();
                }
                if connections {
                    own.connections = theirs.connections.clone();
                }
                let message = format!(
                    "the limits of {target:?} apply to all requests of `{text}`, also where nginx \
                     finds a file"
                );
                draft.find(Effect::Stricter, &directive.origin, message);
            }
            self.follow(&location.nested, named, draft);
        }
    }

    /// Returns the answers of a directive, wherever it is in force.
    pub(super) fn answers_of(
        &self,
        kind: LimitKind,
        directive: &Directive,
    ) -> BTreeSet<LimitAnswer> {
        let settings = self.settings.values().map(|settings| kind.of(settings));
        settings.filter(|settings| settings.has(directive)).map(|one| one.answer).collect()
    }

    /// Returns rules for the paths on which a directive is in force with an answer.
    pub(super) fn rules(
        &self,
        kind: LimitKind,
        directive: &Directive,
        answer: LimitAnswer,
    ) -> Vec<PathRule> {
        let is_in_force = |settings: &BlockSettings| {
            let settings = kind.of(settings);
            settings.has(directive) && settings.answer == answer
        };
        let locations = self.settings.iter().filter(|(_, settings)| is_in_force(settings));
        path_rules::rules(&self.choices, &locations.map(|(location, _)| *location).collect())
    }
}

/// Locations that only other locations lead to: `@backend`.
#[derive(Default)]
struct NamedLocations<'t> {
    all: Vec<(&'t Directive, BlockSettings)>,
    /// The names that locations lead to.
    used: HashSet<String>,
}

impl NamedLocations<'_> {
    /// Returns the settings of a location that another one leads to.
    fn settings_of(&mut self, name: &str) -> Option<BlockSettings> {
        self.used.insert(name.to_owned());
        let named = self.all.iter().find(|(directive, _)| directive.arg(0) == name);
        named.map(|(_, settings)| settings.clone())
    }

    /// Reports limits of locations that only modules can lead to.
    fn find_unused(&self, draft: &mut RulesDraft) {
        for (directive, settings) in &self.all {
            let is_own =
                |inner: &Directive| matches!(inner.name.as_str(), "limit_req" | "limit_conn");
            let is_used = self.used.contains(directive.arg(0));
            if settings.has_limits() && directive.block.iter().any(is_own) && !is_used {
                let message = format!(
                    "the limits of `{}` are left out: a named location serves no paths itself",
                    directive.text()
                );
                draft.find(Effect::MorePermissive, &directive.origin, message);
            }
        }
    }
}

/// Returns where a location passes requests on to, and whether that is so for all requests that reach
/// a program.
fn targets(location: &Directive) -> Vec<(&str, bool)> {
    let path_of = |text: &'_ str| text.split(['?', '$']).next().unwrap_or_default().len();
    let mut targets = Vec::new();
    for directive in &location.block {
        match directive.name.as_str() {
            "try_files" => {
                if let Some(last) = directive.args.last() {
                    targets.push((&last[..path_of(last)], true));
                }
            }
            "error_page" => {
                if let Some(last) = directive.args.last() {
                    targets.push((&last[..path_of(last)], false));
                }
            }
            _ => {}
        }
    }
    targets.retain(|(target, _)| target.starts_with(['/', '@']));
    targets
}

/// Reports `rewrite` where it changes the location of a request.
fn find_rewrites(block: &[Directive], server: &ServerBlock, draft: &mut RulesDraft) {
    let mut settings = server.settings.values();
    let Some(first) = settings.next() else { return };
    if settings.all(|other| other.is_same(first)) {
        return;
    }
    for directive in block {
        let moves = directive.name == "rewrite"
            && !matches!(directive.arg(2), "permanent" | "redirect" | "break")
            && !directive.arg(1).starts_with("http");
        if moves {
            let message = format!(
                "`{}` moves requests to another location; rules see the path before that",
                directive.text()
            );
            draft.find(Effect::MorePermissive, &directive.origin, message);
        }
        if matches!(directive.name.as_str(), "location" | "if") {
            find_rewrites(&directive.block, server, draft);
        }
    }
}
