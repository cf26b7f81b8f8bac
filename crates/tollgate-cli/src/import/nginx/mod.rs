//! nginx: `limit_req` and `limit_conn`.
//!
//! `burst` counts what comes on top of the one request that always passes, so ours is one more.
//! What is held back is a leaky bucket, and `delay=N` lets N more of it go on at once.

mod lexer;
mod place;
mod server;
mod tree;
mod zone;

use tollgate::rules::Source;

use self::place::{Places, Settings};
use self::tree::{Directive, Reader};
use self::zone::Zone;
use super::area::{PathIs, Region};
use super::condition::Condition;
use super::draft::{Draft, Rule};
use super::note::{Origin, Severity};
use super::rate;

const NO_IPV6_GROUPS: (&str, &str, &str) =
    ("ipv6_prefix", "128", "nginx counts every address by itself; 64 is safer");

/// Reads files, each as a whole configuration or the inside of its `http` block.
pub(super) fn import(sources: &[Source]) -> anyhow::Result<Draft> {
    let mut draft = Draft::default();
    let (mut http, mut read) = (Vec::new(), 0);
    for source in sources {
        draft.header.push(format!("Imported from {} (nginx).", source.name));
        let main = source.name.clone();
        let mut reader = Reader { draft: &mut draft, directives: read, main };
        let directives = reader.read(source, 0)?;
        read = reader.directives;
        for directive in directives {
            match directive.name.as_str() {
                "http" => http.extend(directive.block),
                "stream" => note_stream(&directive, &mut draft),
                "server" | "upstream" | "map" | "geo" => http.push(directive),
                name if is_ours(name) => http.push(directive),
                _ => {}
            }
        }
    }
    trust(&http, &mut draft);
    let zones = zones(&http, &mut draft);
    let places = Places::read(&http, &mut draft);
    let mut import = Import { zones: &zones, places: &places, draft: &mut draft, made: Vec::new() };
    import.all(Kind::Requests);
    import.all(Kind::Connections);
    import.share();
    note_prefixes(&places, &mut draft, sources);
    let per_address = |rule: &Rule| rule.per.iter().any(|part| part == "ip" || part == "peer");
    if draft.rules.iter().any(per_address) {
        let (key, value, why) = NO_IPV6_GROUPS;
        draft.defaults.push((key, value.to_owned(), why));
    }
    Ok(draft)
}

fn is_ours(name: &str) -> bool {
    name.starts_with("limit_req")
        || name.starts_with("limit_conn")
        || name.starts_with("set_real_ip_from")
        || name.starts_with("real_ip_")
}

fn zones(http: &[Directive], draft: &mut Draft) -> Vec<Zone> {
    let mut zones = Vec::new();
    let is_zone = |directive: &&Directive| {
        matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone")
    };
    for directive in http.iter().filter(is_zone) {
        match Zone::read(directive) {
            Ok(zone) => zones.push(zone),
            Err(why) => {
                let message = format!("`{}`: {why}", directive.text());
                draft.note(Severity::LeftOut, &directive.origin, message);
            }
        }
    }
    zones
}

/// `set_real_ip_from`: the proxies whose word about the client's address counts.
fn trust(http: &[Directive], draft: &mut Draft) {
    let last = |name: &str| http.iter().rev().find(|directive| directive.name == name);
    let proxies = http.iter().filter(|directive| directive.name == "set_real_ip_from");
    for proxy in proxies {
        match proxy.arg(0) {
            "unix:" => {}
            address => draft.trusted_proxies.push(address.to_owned()),
        }
    }
    if draft.trusted_proxies.is_empty() {
        return;
    }
    let header = last("real_ip_header").map_or("X-Real-IP", |directive| directive.arg(0));
    let origin = match last("real_ip_header").or_else(|| last("set_real_ip_from")) {
        Some(directive) => directive.origin.clone(),
        None => return,
    };
    if !header.eq_ignore_ascii_case("x-forwarded-for") {
        let message = format!(
            "the client's address comes from {header}, for rules it comes from \
                               X-Forwarded-For"
        );
        draft.note(Severity::Differs, &origin, message);
    } else if last("real_ip_recursive").is_none_or(|directive| directive.arg(0) != "on") {
        let message = "without `real_ip_recursive` nginx takes the last forwarded address; rules \
                       take the last one that is not a trusted proxy's";
        draft.note(Severity::Differs, &origin, message);
    }
}

fn note_stream(stream: &Directive, draft: &mut Draft) {
    let is_limit = |directive: &&Directive| directive.name == "limit_conn";
    let servers = stream.block.iter().filter(|directive| directive.name == "server");
    for limit in stream.block.iter().chain(servers.flat_map(|s| &s.block)).filter(is_limit) {
        let message = format!("`{}` is about connections that carry no requests", limit.text());
        draft.note(Severity::LeftOut, &limit.origin, message);
    }
}

/// A prefix is compared segment by segment here, letter by letter there.
fn note_prefixes(places: &Places, draft: &mut Draft, sources: &[Source]) {
    let by_prefix = |rule: &Rule| rule.routes.iter().any(|route| route.ends_with("/**"));
    let any = places.areas.areas.iter().any(|area| matches!(area.path, PathIs::Below(_)));
    if let (true, true, Some(source)) = (any, draft.rules.iter().any(by_prefix), sources.first()) {
        let message = "a location such as /api is taken as /api and what is below it: nginx also \
                       means /apiary";
        draft.note(Severity::Note, &Origin::new(&source.name, 0), message);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Requests,
    Connections,
}

impl Kind {
    fn of(self, settings: &Settings) -> &[Directive] {
        match self {
            Kind::Requests => &settings.requests,
            Kind::Connections => &settings.connections,
        }
    }
}

struct Import<'a> {
    zones: &'a [Zone],
    places: &'a Places,
    draft: &'a mut Draft,
    /// The zones of rules made so far, by their place in the draft.
    made: Vec<String>,
}

impl Import<'_> {
    /// Each directive once, wherever it is in force.
    fn all(&mut self, kind: Kind) {
        let mut seen: Vec<usize> = Vec::new();
        let places = self.places;
        for settings in &places.settings {
            for directive in kind.of(settings) {
                if !seen.contains(&directive.number) {
                    seen.push(directive.number);
                    self.directive(kind, directive);
                }
            }
        }
    }

    fn directive(&mut self, kind: Kind, directive: &Directive) {
        let at = &directive.origin;
        let name = match kind {
            Kind::Requests => directive.option("zone").unwrap_or_default(),
            Kind::Connections => directive.arg(0),
        };
        let Some(zone) = self.zones.iter().find(|zone| zone.name == name) else {
            let message = format!("`{}`: there is no zone {name:?} here", directive.text());
            return self.draft.note(Severity::LeftOut, at, message);
        };
        let key = match &zone.key {
            Ok(key) => key,
            Err(why) => {
                let message = format!(
                    "`{}` counts by `{}`: {why}. If a map or geo block makes it, say what it means \
                     as a list and a condition",
                    directive.text(),
                    zone.directive.arg(0)
                );
                return self.draft.note(Severity::LeftOut, at, message);
            }
        };
        for differs in &key.differs {
            self.draft.note(Severity::Differs, &zone.directive.origin, differs.clone());
        }
        let places = self.places;
        let in_force = |area: usize| places.in_force(area, directive);
        self.note_regexes(directive, in_force);
        for region in places.areas.regions(in_force) {
            let settings = &places.settings[region.area];
            let mut rule = Rule::new(&zone.name, at, &directive.text());
            rule.comments.push(format!("{}: {}", zone.directive.origin, zone.directive.text()));
            rule.routes = region.routes.clone();
            rule.when = self.without_first(&region, in_force);
            rule.per = key.per.clone();
            rule.missing_key = key.missing_key;
            let limited = match kind {
                Kind::Requests => self.requests(directive, zone, settings, &mut rule),
                Kind::Connections => self.connections(directive, settings, &mut rule),
            };
            if let Err(why) = limited {
                let message = format!("`{}`: {why}", directive.text());
                return self.draft.note(Severity::LeftOut, at, message);
            }
            let before = self.draft.rules.len();
            self.draft.add(rule, at);
            if self.draft.rules.len() > before {
                self.made.push(zone.name.clone());
            }
        }
    }

    /// A region's condition, without what locations that come first take. First come those of
    /// one path and those marked `^~`, then regular expressions in their order, then the rest.
    fn without_first(&self, region: &Region, in_force: impl Fn(usize) -> bool) -> Condition {
        let places = self.places;
        let server = places.server_of(region.area);
        let is_regex = places.regexes.contains(&region.area);
        let mut first: Vec<usize> = Vec::new();
        if is_regex {
            let before = places.before_regexes.iter();
            first.extend(
                before.chain(places.regexes.iter().take_while(|area| **area != region.area)),
            );
        } else if region.area != server && !places.before_regexes.contains(&region.area) {
            first.extend(&places.regexes);
        }
        let ours = |area: &usize| places.server_of(*area) == server && !in_force(*area);
        first
            .into_iter()
            .filter(ours)
            .fold(region.when.clone(), |when, area| when.and(places.areas.areas[area].path().not()))
    }

    /// A location by regular expression that inherits a limit has it also on paths of locations
    /// that do not: a rule cannot say both at once.
    fn note_regexes(&mut self, directive: &Directive, in_force: impl Fn(usize) -> bool) {
        let places = self.places;
        for regex in places.regexes.iter().filter(|area| in_force(**area)) {
            let server = places.server_of(*regex);
            let other = |area: &usize| {
                !in_force(*area)
                    && places.server_of(*area) == server
                    && !places.regexes.contains(area)
                    && !places.before_regexes.contains(area)
            };
            if in_force(server) && (0..places.settings.len()).any(|area| other(&area)) {
                let message = format!(
                    "`{}` does not hold where a location by regular expression takes a path from a \
                     location with limits of its own",
                    directive.text()
                );
                self.draft.note(Severity::Differs, &directive.origin, message);
            }
        }
    }

    fn requests(
        &mut self,
        directive: &Directive,
        zone: &Zone,
        settings: &Settings,
        rule: &mut Rule,
    ) -> Result<(), &'static str> {
        let number = |name: &str| match directive.option(name) {
            None => Ok(0),
            Some(text) => text.parse::<u64>().map_err(|_| "a number is expected"),
        };
        let (burst, delay) = (number("burst")?, number("delay")?);
        if zone.rate_milli == 0 {
            return Err("this zone counts connections, not requests");
        }
        let never_delays = directive.args.iter().any(|arg| arg == "nodelay") || delay >= burst;
        let (rate, most) = (zone.rate(), burst.saturating_add(1));
        let status = settings.request_status.unwrap_or(503);
        rule.shadow = settings.request_dry_run;
        if zone.is_rounded() {
            rule.comments.push("nginx rounds this rate down to thousandths a second.".to_owned());
        }
        if never_delays {
            rule.limits.push(format!("{rate} burst {most}"));
            rule.then = Some(format!("deny {status}"));
            return Ok(());
        }
        let free = if delay > 0 { format!(" free {}", delay + 1) } else { String::new() };
        rule.limits.push(format!("{rate} leaky burst {most}{free}"));
        let longest = rate::time_of((burst - delay).saturating_mul(1000), zone.rate_milli);
        rule.then = Some(format!("delay up to {longest}"));
        if status != 429 {
            let message = format!(
                "a request refused after `delay` is answered 429, not {status}: `then` says either \
                 how long to hold back or what to answer"
            );
            self.draft.note(Severity::Differs, &directive.origin, message);
        }
        Ok(())
    }

    fn connections(
        &mut self,
        directive: &Directive,
        settings: &Settings,
        rule: &mut Rule,
    ) -> Result<(), &'static str> {
        let most: u64 = directive.arg(1).parse().map_err(|_| "a number is expected")?;
        let status = settings.connection_status.unwrap_or(503);
        rule.shadow = settings.connection_dry_run;
        rule.limits.push(format!("{most} concurrent lease 1h"));
        rule.then = Some(format!("deny {status}"));
        Ok(())
    }

    /// A zone that several rules use has one counter, as long as they have one limit.
    fn share(&mut self) {
        for zone in self.zones {
            let made = self.made.iter().enumerate().filter(|(_, name)| **name == zone.name);
            let mut rest: Vec<usize> = made.map(|(index, _)| index).collect();
            let mut groups = 0;
            while let Some(first) = rest.first().copied() {
                let rules = &mut self.draft.rules;
                let (bucket, limits) = (rules[first].name.clone(), rules[first].limits.clone());
                let (same, others): (Vec<usize>, Vec<usize>) =
                    rest.into_iter().partition(|index| rules[*index].limits == limits);
                if same.len() > 1 {
                    same.iter().for_each(|index| rules[*index].bucket = Some(bucket.clone()));
                }
                rest = others;
                groups += 1;
            }
            if groups > 1 {
                let message = format!(
                    "the zone {:?} is used with different bursts: each is counted by itself",
                    zone.name
                );
                self.draft.note(Severity::Differs, &zone.directive.origin, message);
            }
        }
    }
}
