//! Kong: the plugins `rate-limiting` and `rate-limiting-advanced` of a declarative file.
//!
//! Of several instances of a plugin only the most specific one runs, so a rule leaves out what a
//! more specific one is for. Who is no consumer is counted by address.

mod entity;
mod limits;

use tollgate::rules::Source;

use self::entity::{Entities, Plugin};
use self::limits::{By, Config};
use super::area::{Areas, Region};
use super::condition::{Condition, quoted};
use super::draft::{Draft, Rule};
use super::note::Severity;

pub(super) fn import(sources: &[Source]) -> anyhow::Result<Draft> {
    let mut draft = Draft::default();
    for source in sources {
        draft.header.push(format!("Imported from {} (Kong).", source.name));
    }
    let entities = Entities::read(sources, &mut draft)?;
    let (areas, owners) = entities.areas(&mut draft);
    let mut import = Import { entities: &entities, areas, owners, draft: &mut draft };
    for index in 0..entities.plugins.len() {
        import.plugin(index);
    }
    let per_address = |rule: &Rule| rule.per.iter().any(|part| part == "ip");
    if draft.rules.iter().any(per_address) || !draft.attributes.is_empty() {
        let why = "Kong counts every address by itself; 64 is safer";
        draft.defaults.push(("ipv6_prefix", "128".to_owned(), why));
    }
    Ok(draft)
}

struct Import<'a> {
    entities: &'a Entities,
    areas: Areas,
    /// The route of each area.
    owners: Vec<Option<usize>>,
    draft: &'a mut Draft,
}

/// What a rule counts by, and when.
struct Counted {
    when: Condition,
    per: Option<String>,
}

impl Import<'_> {
    /// The instance that runs for a route and a consumer.
    fn winner(&self, kind: &str, route: Option<usize>, consumer: Option<&str>) -> Option<usize> {
        let service = route.and_then(|route| self.entities.routes[route].service);
        let fits = |plugin: &Plugin| {
            plugin.node.text_of("name") == Some(kind)
                && plugin.route.is_none_or(|wanted| route == Some(wanted))
                && plugin.service.is_none_or(|wanted| service == Some(wanted))
                && plugin.consumer.as_deref().is_none_or(|wanted| consumer == Some(wanted))
        };
        let all = self.entities.plugins.iter().enumerate().filter(|(_, plugin)| fits(plugin));
        all.min_by_key(|(_, plugin)| rank(plugin)).map(|(index, _)| index)
    }

    fn plugin(&mut self, index: usize) {
        let entities = self.entities;
        let plugin = &entities.plugins[index];
        let Some(config) = Config::read(&plugin.node, &plugin.origin, self.draft) else { return };
        // A service's counter is its own, whatever the plugin is for.
        let services: Vec<Option<usize>> = match (&config.by, plugin.service, plugin.route) {
            (By::Service, None, None) => (0..entities.services.len()).map(Some).collect(),
            _ => vec![None],
        };
        for service in services {
            self.rules(index, &config, service);
        }
    }

    /// The rules of a plugin, within one service if one is given.
    fn rules(&mut self, index: usize, config: &Config, service: Option<usize>) {
        let entities = self.entities;
        let plugin = &entities.plugins[index];
        let kind = plugin.node.text_of("name").unwrap_or_default();
        let consumer = plugin.consumer.as_deref();
        let runs = |area: usize, consumer: Option<&str>| {
            let route = self.owners[area];
            let inside = service.is_none()
                || route.is_some_and(|route| entities.routes[route].service == service);
            inside && self.winner(kind, route, consumer) == Some(index)
        };
        let applies = |area: usize| runs(area, consumer);
        let mut who = match consumer {
            Some(consumer) => Condition::is("consumer", consumer),
            None => Condition::always(),
        };
        let others: Vec<&str> = match consumer {
            Some(_) => Vec::new(),
            None => entities.plugins.iter().filter_map(|p| p.consumer.as_deref()).collect(),
        };
        let mut partly = Vec::new();
        for other in others {
            let areas: Vec<usize> = (0..self.owners.len()).filter(|area| applies(*area)).collect();
            let kept = areas.iter().filter(|area| runs(**area, Some(other))).count();
            if kept == 0 && !areas.is_empty() {
                who = who.and(not_consumer(other));
            } else if kept < areas.len() {
                partly.push(other);
            }
        }
        let regions = merged(self.areas.regions(applies));
        for other in partly {
            let message = format!(
                "the consumer {other:?} has limits of its own on some routes only: there both apply"
            );
            self.draft.note(Severity::Differs, &plugin.origin, message);
        }
        let name = self.name_of(plugin, service);
        let what = format!("{kind} of {name}");
        let counted = self.counted(config, consumer.is_some());
        let several = regions.len() * counted.len() > 1;
        for region in regions {
            for counted in &counted {
                let mut rule = Rule::new(&name, &plugin.origin, &what);
                rule.routes = region.routes.clone();
                rule.when = region.when.clone().and(who.clone()).and(counted.when.clone());
                rule.per = counted.per.clone().into_iter().collect();
                rule.limits = config.limits.clone();
                rule.then = (config.status != 429).then(|| format!("deny {}", config.status));
                rule.on_error = (!config.fault_tolerant).then_some("deny");
                // What is one counter there is one here.
                if several && counted.when.is_always() {
                    rule.bucket = Some(super::draft::slug(&name));
                }
                self.draft.add(rule, &plugin.origin);
            }
        }
    }

    fn name_of(&self, plugin: &Plugin, service: Option<usize>) -> String {
        let entities = self.entities;
        let route = plugin.route.map(|route| entities.routes[route].name.as_str());
        let service =
            plugin.service.or(service).map(|index| entities.services[index].name.as_str());
        let scope = [plugin.consumer.as_deref(), route, service];
        let scope: Vec<&str> = scope.into_iter().flatten().collect();
        match (plugin.node.text_of("instance_name"), scope.is_empty()) {
            (Some(name), _) => name.to_owned(),
            (None, true) => "global".to_owned(),
            (None, false) => scope.join("-"),
        }
    }

    /// Whose requests are counted together.
    fn counted(&mut self, config: &Config, one_consumer: bool) -> Vec<Counted> {
        let by = |per: Option<String>| vec![Counted { when: Condition::always(), per }];
        let authenticates = self.entities.authenticates;
        match &config.by {
            By::Ip => by(Some("ip".to_owned())),
            By::Service => by(None),
            By::Consumer if one_consumer => by(None),
            // Nothing says who a consumer is: all are counted by address.
            By::Consumer | By::Credential if !authenticates => by(Some("ip".to_owned())),
            By::Consumer => by(Some(self.or_address("client", "consumer"))),
            By::Credential => by(Some(self.or_address("credential_or_ip", "credential"))),
            By::Header(header) => {
                let header = header.to_ascii_lowercase();
                let name = super::draft::slug(&header).replace('-', "_");
                by(Some(
                    self.or_address(
                        &format!("{name}_or_ip"),
                        &format!("header[{}]", quoted(&header)),
                    ),
                ))
            }
            By::Path(path) => {
                let path = Condition::is("path", path);
                let others = path.clone().not();
                vec![
                    Counted { when: path, per: None },
                    Counted { when: others, per: Some("ip".to_owned()) },
                ]
            }
        }
    }

    /// An attribute that is the address where another is missing.
    fn or_address(&mut self, name: &str, of: &str) -> String {
        let expression = format!("has({of}) ? {of} : ip");
        if !self.draft.attributes.iter().any(|(known, _)| known == name) {
            self.draft.attributes.push((name.to_owned(), expression));
        }
        name.to_owned()
    }
}

/// Regions that differ only in their route can be one rule.
fn merged(regions: Vec<Region>) -> Vec<Region> {
    let mut merged: Vec<Region> = Vec::new();
    for region in regions {
        let fits = |known: &&mut Region| {
            !known.routes.is_empty() && !region.routes.is_empty() && known.when == region.when
        };
        match merged.iter_mut().find(fits) {
            Some(known) => known.routes.extend(region.routes),
            None => merged.push(region),
        }
    }
    merged
}

/// Somebody else, or nobody known.
fn not_consumer(name: &str) -> Condition {
    let missing = Condition::Missing("consumer".to_owned());
    Condition::Any(vec![missing, Condition::is("consumer", name).not()])
}

/// Which of several instances runs: the one with the least.
fn rank(plugin: &Plugin) -> u8 {
    match (plugin.consumer.is_some(), plugin.route.is_some(), plugin.service.is_some()) {
        (true, true, true) => 0,
        (true, true, false) => 1,
        (true, false, true) => 2,
        (false, true, true) => 3,
        (true, false, false) => 4,
        (false, true, false) => 5,
        (false, false, true) => 6,
        (false, false, false) => 7,
    }
}
