//! Kong: the plugins `rate-limiting` and `rate-limiting-advanced` of a declarative file.
//!
//! Of several instances of a plugin only the most specific one runs, so a rule excludes the requests
//! of more specific ones. Requests without a consumer are counted by address.

mod entities;
mod plugin_config;

use tollgate_rules::Source;

use self::entities::{Entities, Plugin};
use self::plugin_config::{CountedBy, PluginConfig};
use super::area::{Areas, Region, exact_paths};
use super::condition::{Condition, quoted};
use super::draft::{DraftRule, RulesDraft};
use super::finding::{Effect, Origin};

pub(super) fn import(sources: &[Source]) -> anyhow::Result<RulesDraft> {
    let mut draft = RulesDraft::default();
    for source in sources {
        draft.header.push(format!("Imported from {} (Kong).", source.name));
    }
    let files = super::yaml_files(sources)?;
    let entities = Entities::read(&files, &mut draft);
    let (areas, owners) = entities.areas(&mut draft);
    let mut import = KongImport { entities: &entities, areas, owners, draft: &mut draft };
    for index in 0..entities.plugins.len() {
        import.plugin(index);
    }
    for attribute in ["consumer", "credential"] {
        let reads = |rule: &DraftRule| rule.when.expression().contains(attribute);
        let is_part = |(_, expression): &(String, String)| expression.contains(attribute);
        if draft.rules.iter().any(reads) || draft.attributes.iter().any(is_part) {
            let message = format!(
                "requests must send the attribute `{attribute}`, which Kong finds by its plugins for \
                 authentication: without it they are counted by address"
            );
            let origin = Origin::new(sources.first().map_or("", |source| &source.name), 0);
            draft.find(Effect::MorePermissive, &origin, message);
        }
    }
    if !draft.rules.is_empty() {
        draft.defaults.extend(exact_paths("Kong"));
    }
    let per_address = |rule: &DraftRule| rule.per.iter().any(|part| part == "ip");
    if draft.rules.iter().any(per_address) || !draft.attributes.is_empty() {
        let reason = "Kong counts every address separately; 64 is safer";
        draft.defaults.push(("ipv6_prefix", "128".to_owned(), reason.to_owned()));
    }
    Ok(draft)
}

/// The entities on their way into a draft.
struct KongImport<'a> {
    entities: &'a Entities<'a>,
    areas: Areas,
    /// The route of each area.
    owners: Vec<Option<usize>>,
    draft: &'a mut RulesDraft,
}

/// The requests that share a counter.
struct CounterScope {
    when: Condition,
    per: Option<String>,
}

impl KongImport<'_> {
    /// Returns the instance of a plugin that runs for a route and a consumer.
    fn winner(&self, kind: &str, route: Option<usize>, consumer: Option<&str>) -> Option<usize> {
        let service = route.and_then(|route| self.entities.routes[route].service);
        let fits = |plugin: &Plugin<'_>| {
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
        let Some(config) = PluginConfig::read(plugin, self.draft) else { return };
        // Each service has its own counter, whatever the plugin applies to.
        let services: Vec<Option<usize>> = match (&config.by, plugin.service, plugin.route) {
            (CountedBy::Service, None, None) => (0..entities.services.len()).map(Some).collect(),
            _ => vec![None],
        };
        for service in services {
            self.rules(index, &config, service);
        }
    }

    /// Adds the rules of a plugin, within one service if one is given.
    fn rules(&mut self, index: usize, config: &PluginConfig, service: Option<usize>) {
        let entities = self.entities;
        let plugin = &entities.plugins[index];
        let kind = plugin.node.text_of("name").unwrap_or_default();
        let consumer = plugin.consumer.as_deref();
        let runs = |area: usize, consumer: Option<&str>| {
            let route = self.owners[area];
            let in_service = service.is_none()
                || route.is_some_and(|route| entities.routes[route].service == service);
            in_service && self.winner(kind, route, consumer) == Some(index)
        };
        let applies = |area: usize| runs(area, consumer);
        let mut consumers = match consumer {
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
            let running = areas.iter().filter(|area| runs(**area, Some(other))).count();
            if running == 0 && !areas.is_empty() {
                consumers = consumers.and(not_consumer(other));
            } else if running < areas.len() {
                partly.push(other);
            }
        }
        let regions = merged(self.areas.regions(applies));
        for other in partly {
            let message = format!(
                "the consumer {other:?} has its own limits on some routes only: there both apply"
            );
            self.draft.find(Effect::Stricter, &plugin.origin, message);
        }
        let name = self.name_of(plugin, service);
        let what = format!("{kind} of {name}");
        let counted = self.counted(config, consumer.is_some());
        let several = regions.len() * counted.len() > 1;
        for region in regions {
            for counted in &counted {
                let mut rule = DraftRule::new(&name, &plugin.origin, &what);
                rule.routes = region.routes.clone();
                rule.when = region.when.clone().and(consumers.clone()).and(counted.when.clone());
                rule.per = counted.per.clone().into_iter().collect();
                rule.limits = config.limits.clone();
                rule.then = (config.status != 429).then(|| format!("deny {}", config.status));
                rule.on_error = (!config.fault_tolerant).then_some("deny");
                // A counter of Kong becomes one counter of tollgate.
                if several && counted.when.is_always() {
                    rule.bucket = Some(super::draft::slug(&name));
                }
                self.draft.add(rule, &plugin.origin);
            }
        }
    }

    fn name_of(&self, plugin: &Plugin<'_>, service: Option<usize>) -> String {
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

    /// Returns which requests share a counter.
    fn counted(&mut self, config: &PluginConfig, one_consumer: bool) -> Vec<CounterScope> {
        let by = |per: Option<String>| vec![CounterScope { when: Condition::always(), per }];
        let authenticates = self.entities.authenticates;
        match &config.by {
            CountedBy::Ip => by(Some("ip".to_owned())),
            CountedBy::Service => by(None),
            CountedBy::Consumer if one_consumer => by(None),
            // Consumers cannot be identified, so all requests are counted by address.
            CountedBy::Consumer | CountedBy::Credential if !authenticates => {
                by(Some("ip".to_owned()))
            }
            CountedBy::Consumer => by(Some(self.or_address("client", "consumer"))),
            CountedBy::Credential => by(Some(self.or_address("credential_or_ip", "credential"))),
            CountedBy::Header(header) => {
                let header = header.to_ascii_lowercase();
                let name = super::draft::slug(&header).replace('-', "_");
                by(Some(
                    self.or_address(
                        &format!("{name}_or_ip"),
                        &format!("header[{}]", quoted(&header)),
                    ),
                ))
            }
            CountedBy::Path(path) => {
                let path = Condition::is("path", path);
                let others = path.clone().not();
                vec![
                    CounterScope { when: path, per: None },
                    CounterScope { when: others, per: Some("ip".to_owned()) },
                ]
            }
        }
    }

    /// Declares an attribute that falls back to the address where another one is missing.
    fn or_address(&mut self, name: &str, of: &str) -> String {
        let expression = format!("has({of}) ? {of} : ip");
        if !self.draft.attributes.iter().any(|(known, _)| known == name) {
            self.draft.attributes.push((name.to_owned(), expression));
        }
        name.to_owned()
    }
}

/// Merges regions that differ only in their route.
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

/// Returns the condition that the request is not of this consumer.
fn not_consumer(name: &str) -> Condition {
    let missing = Condition::Missing("consumer".to_owned());
    Condition::Any(vec![missing, Condition::is("consumer", name).not()])
}

/// Returns the precedence of an instance: the lowest runs.
fn rank(plugin: &Plugin<'_>) -> u8 {
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
