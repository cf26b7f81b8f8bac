//! nginx: `limit_req` and `limit_conn`.
//!
//! The `burst` of nginx excludes the one request that always passes, so the burst of the rule is one
//! more. Delayed requests are a leaky bucket, and `delay=N` lets N of them pass at once.

mod blocks;
mod lexer;
mod server;
mod tree;
mod zone;

use tollgate::limit::MAX_ENTRIES;
use tollgate_rules::Source;

use self::blocks::{BlockSettings, ConfigBlocks};
use self::tree::{ConfigReader, Directive};
use self::zone::Zone;
use super::area::{PathCondition, Region};
use super::condition::Condition;
use super::draft::{DraftRule, RulesDraft};
use super::note::{NoteSeverity, Origin};
use super::rate;

const NO_IPV6_GROUPS: (&str, &str, &str) =
    ("ipv6_prefix", "128", "nginx counts every address separately; 64 is safer");

/// Reads files, each a whole configuration or the contents of an `http` block.
pub(super) fn import(sources: &[Source]) -> anyhow::Result<RulesDraft> {
    let mut draft = RulesDraft::default();
    let (mut http, mut read) = (Vec::new(), 0);
    for source in sources {
        draft.header.push(format!("Imported from {} (nginx).", source.name));
        let main = source.name.clone();
        let mut reader = ConfigReader { draft: &mut draft, directives: read, main };
        let directives = reader.read(source, 0)?;
        read = reader.directives;
        for directive in directives {
            match directive.name.as_str() {
                "http" => http.extend(directive.block),
                "stream" => note_stream(&directive, &mut draft),
                "server" | "upstream" | "map" | "geo" => http.push(directive),
                name if is_relevant(name) => http.push(directive),
                _ => {}
            }
        }
    }
    trust(&http, &mut draft);
    let zones = zones(&http, &mut draft);
    let blocks = ConfigBlocks::read(&http, &mut draft);
    let mut import =
        NginxImport { zones: &zones, blocks: &blocks, draft: &mut draft, rule_zones: Vec::new() };
    import.all(LimitKind::Requests);
    import.all(LimitKind::Connections);
    import.share();
    note_prefixes(&blocks, &mut draft, sources);
    let per_address = |rule: &DraftRule| rule.per.iter().any(|part| part == "ip" || part == "peer");
    if draft.rules.iter().any(per_address) {
        let (key, value, reason) = NO_IPV6_GROUPS;
        draft.defaults.push((key, value.to_owned(), reason));
    }
    Ok(draft)
}

fn is_relevant(name: &str) -> bool {
    name.starts_with("limit_req")
        || name.starts_with("limit_conn")
        || name.starts_with("set_real_ip_from")
        || name.starts_with("real_ip_")
}

fn zones(http: &[Directive], draft: &mut RulesDraft) -> Vec<Zone> {
    let mut zones = Vec::new();
    let is_zone = |directive: &&Directive| {
        matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone")
    };
    for directive in http.iter().filter(is_zone) {
        match Zone::read(directive) {
            Ok(zone) => zones.push(zone),
            Err(reason) => {
                let message = format!("`{}`: {reason}", directive.text());
                draft.note(NoteSeverity::LeftOut, &directive.origin, message);
            }
        }
    }
    zones
}

/// Reads `set_real_ip_from`: the proxies that are trusted to report the client's address.
fn trust(http: &[Directive], draft: &mut RulesDraft) {
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
        let message =
            format!("the client's address comes from {header}; rules take it from X-Forwarded-For");
        draft.note(NoteSeverity::Differs, &origin, message);
    } else if last("real_ip_recursive").is_none_or(|directive| directive.arg(0) != "on") {
        let message = "without `real_ip_recursive` nginx takes the last forwarded address; rules \
                       take the last one that is not a trusted proxy's";
        draft.note(NoteSeverity::Differs, &origin, message);
    }
}

fn note_stream(stream: &Directive, draft: &mut RulesDraft) {
    let is_limit = |directive: &&Directive| directive.name == "limit_conn";
    let servers = stream.block.iter().filter(|directive| directive.name == "server");
    for limit in stream.block.iter().chain(servers.flat_map(|s| &s.block)).filter(is_limit) {
        let message = format!("`{}` limits connections that carry no requests", limit.text());
        draft.note(NoteSeverity::LeftOut, &limit.origin, message);
    }
}

/// Notes that rules compare prefixes by segment, where nginx compares them by letter.
fn note_prefixes(blocks: &ConfigBlocks, draft: &mut RulesDraft, sources: &[Source]) {
    let by_prefix = |rule: &DraftRule| rule.routes.iter().any(|route| route.ends_with("/**"));
    let any = blocks.areas.areas.iter().any(|area| matches!(area.path, PathCondition::Below(_)));
    if let (true, true, Some(source)) = (any, draft.rules.iter().any(by_prefix), sources.first()) {
        let message = "a location such as /api becomes /api and the paths below it: in nginx it also \
                       matches /apiary";
        draft.note(NoteSeverity::Note, &Origin::new(&source.name, 0), message);
    }
}

/// The kind of a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitKind {
    Requests,
    Connections,
}

impl LimitKind {
    fn directives(self, settings: &BlockSettings) -> &[Directive] {
        match self {
            LimitKind::Requests => &settings.requests,
            LimitKind::Connections => &settings.connections,
        }
    }
}

/// A configuration on its way into a draft.
struct NginxImport<'a> {
    zones: &'a [Zone],
    blocks: &'a ConfigBlocks,
    draft: &'a mut RulesDraft,
    /// The zone of each rule in the draft.
    rule_zones: Vec<String>,
}

impl NginxImport<'_> {
    /// Imports each directive once, wherever it is in force.
    fn all(&mut self, kind: LimitKind) {
        let mut seen: Vec<usize> = Vec::new();
        let blocks = self.blocks;
        for settings in &blocks.settings {
            for directive in kind.directives(settings) {
                if !seen.contains(&directive.number) {
                    seen.push(directive.number);
                    self.directive(kind, directive);
                }
            }
        }
    }

    fn directive(&mut self, kind: LimitKind, directive: &Directive) {
        let at = &directive.origin;
        let name = match kind {
            LimitKind::Requests => directive.option("zone").unwrap_or_default(),
            LimitKind::Connections => directive.arg(0),
        };
        let Some(zone) = self.zones.iter().find(|zone| zone.name == name) else {
            let message = format!("`{}`: the files have no zone {name:?}", directive.text());
            return self.draft.note(NoteSeverity::LeftOut, at, message);
        };
        let key = match &zone.key {
            Ok(key) => key,
            Err(reason) => {
                let message = format!(
                    "`{}` counts by `{}`: {reason}. If a map or geo block defines it, write it as a \
                     list and a condition",
                    directive.text(),
                    zone.directive.arg(0)
                );
                return self.draft.note(NoteSeverity::LeftOut, at, message);
            }
        };
        for differs in &key.differs {
            self.draft.note(NoteSeverity::Differs, &zone.directive.origin, differs.clone());
        }
        let blocks = self.blocks;
        let in_force = |area: usize| blocks.in_force(area, directive);
        self.note_regexes(directive, in_force);
        for region in blocks.areas.regions(in_force) {
            let settings = &blocks.settings[region.area];
            let mut rule = DraftRule::new(&zone.name, at, &directive.text());
            rule.comments.push(format!("{}: {}", zone.directive.origin, zone.directive.text()));
            rule.routes = region.routes.clone();
            rule.when = self.without_first(&region, in_force);
            rule.per = key.per.clone();
            rule.missing_key = key.missing_key;
            let limited = match kind {
                LimitKind::Requests => self.requests(directive, zone, settings, &mut rule),
                LimitKind::Connections => self.connections(directive, settings, &mut rule),
            };
            if let Err(reason) = limited {
                let message = format!("`{}`: {reason}", directive.text());
                return self.draft.note(NoteSeverity::LeftOut, at, message);
            }
            let before = self.draft.rules.len();
            self.draft.add(rule, at);
            if self.draft.rules.len() > before {
                self.rule_zones.push(zone.name.clone());
            }
        }
    }

    /// Returns the condition of a region without the paths of locations that take precedence: exact
    /// paths and those marked `^~`, then regular expressions in their order, then the rest.
    fn without_first(&self, region: &Region, in_force: impl Fn(usize) -> bool) -> Condition {
        let blocks = self.blocks;
        let server = blocks.server_of(region.area);
        let is_regex = blocks.regexes.contains(&region.area);
        let mut first: Vec<usize> = Vec::new();
        if is_regex {
            let before = blocks.before_regexes.iter();
            first.extend(
                before.chain(blocks.regexes.iter().take_while(|area| **area != region.area)),
            );
        } else if region.area != server && !blocks.before_regexes.contains(&region.area) {
            first.extend(&blocks.regexes);
        }
        let is_other = |area: &usize| blocks.server_of(*area) == server && !in_force(*area);
        first
            .into_iter()
            .filter(is_other)
            .fold(region.when.clone(), |when, area| when.and(blocks.areas.areas[area].path().not()))
    }

    /// Notes a regular-expression location that inherits a limit: in nginx it also has the limit on
    /// paths of locations without it, which a rule cannot express.
    fn note_regexes(&mut self, directive: &Directive, in_force: impl Fn(usize) -> bool) {
        let blocks = self.blocks;
        for regex in blocks.regexes.iter().filter(|area| in_force(**area)) {
            let server = blocks.server_of(*regex);
            let other = |area: &usize| {
                !in_force(*area)
                    && blocks.server_of(*area) == server
                    && !blocks.regexes.contains(area)
                    && !blocks.before_regexes.contains(area)
            };
            if in_force(server) && (0..blocks.settings.len()).any(|area| other(&area)) {
                let message = format!(
                    "`{}` does not apply where a regular-expression location takes a path from a \
                     location with its own limits",
                    directive.text()
                );
                self.draft.note(NoteSeverity::Differs, &directive.origin, message);
            }
        }
    }

    fn requests(
        &mut self,
        directive: &Directive,
        zone: &Zone,
        settings: &BlockSettings,
        rule: &mut DraftRule,
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
                "a request refused after `delay` gets the status 429, not {status}: `then` has \
                 either a delay or a status"
            );
            self.draft.note(NoteSeverity::Differs, &directive.origin, message);
        }
        Ok(())
    }

    fn connections(
        &mut self,
        directive: &Directive,
        settings: &BlockSettings,
        rule: &mut DraftRule,
    ) -> Result<(), &'static str> {
        let most: u64 = directive.arg(1).parse().map_err(|_| "a number is expected")?;
        if most > MAX_ENTRIES {
            return Err("a limit has at most 10000 requests in flight");
        }
        let status = settings.connection_status.unwrap_or(503);
        rule.shadow = settings.connection_dry_run;
        rule.limits.push(format!("{most} concurrent lease 1h"));
        rule.then = Some(format!("deny {status}"));
        Ok(())
    }

    /// Gives the rules of one zone a common counter if they have the same limit.
    fn share(&mut self) {
        for zone in self.zones {
            let of_zone =
                self.rule_zones.iter().enumerate().filter(|(_, name)| **name == zone.name);
            let mut rest: Vec<usize> = of_zone.map(|(index, _)| index).collect();
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
                    "the zone {:?} is used with different bursts: each has its own counter",
                    zone.name
                );
                self.draft.note(NoteSeverity::Differs, &zone.directive.origin, message);
            }
        }
    }
}
