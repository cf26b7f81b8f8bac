//! nginx: `limit_req` and `limit_conn`.
//!
//! The `burst` of nginx excludes the one request that always passes, so the burst of the rule is one
//! more. Delayed requests are a leaky bucket, and `delay=N` lets N of them pass at once.

mod blocks;
mod hosts;
mod lexer;
mod location;
mod path_rules;
mod real_ip;
mod server;
mod tree;
mod variables;
mod zone;

use tollgate::limit::MAX_ENTRIES;
use tollgate_rules::Source;

use self::blocks::{BlockSettings, LimitAnswer, LimitKind, ServerBlock};
use self::path_rules::PathRule;
use self::server::Server;
use self::tree::{ConfigReader, Directive};
use self::variables::Variables;
use self::zone::{Zone, ZoneKey};
use super::area::exact_paths;
use super::draft::{DraftRule, RulesDraft};
use super::finding::{Effect, Origin};
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
                "stream" => find_stream(&directive, &mut draft),
                "server" | "upstream" | "map" | "geo" => http.push(directive),
                "location" => find_outside(&directive, &mut draft),
                name if is_relevant(name) => http.push(directive),
                _ => {}
            }
        }
    }
    real_ip::read(&http, &mut draft);
    let zones = zones(&http, &mut draft);
    let global = BlockSettings::default().within(&http);
    let servers = server::all(&http, &mut draft);
    let mut blocks: Vec<ServerBlock> =
        servers.iter().map(|server| ServerBlock::read(server, &global, &mut draft)).collect();
    if servers.is_empty() {
        blocks.push(ServerBlock::without_locations(global));
    }
    let counters = Vec::new();
    let mut import = NginxImport {
        zones: &zones,
        servers: &servers,
        blocks: &blocks,
        draft: &mut draft,
        counters,
    };
    import.all(LimitKind::Requests);
    import.all(LimitKind::Connections);
    import.share();
    find_both_kinds(&blocks, &mut draft);
    if !draft.rules.is_empty() {
        draft.defaults.extend(exact_paths("nginx"));
    }
    let per_address = |rule: &DraftRule| rule.per.iter().any(|part| part == "ip" || part == "peer");
    if draft.rules.iter().any(per_address) {
        let (key, value, reason) = NO_IPV6_GROUPS;
        draft.defaults.push((key, value.to_owned(), reason.to_owned()));
    }
    Ok(draft)
}

/// Returns the names of the directives of a text, without those of included files; none if it is no
/// configuration.
pub(super) fn directive_names(source: &Source) -> Option<Vec<String>> {
    tree::names(source).ok()
}

fn is_relevant(name: &str) -> bool {
    name.starts_with("limit_req")
        || name.starts_with("limit_conn")
        || name.starts_with("set_real_ip_from")
        || name.starts_with("real_ip_")
}

fn zones(http: &[Directive], draft: &mut RulesDraft) -> Vec<Zone> {
    let mut zones = Vec::new();
    let variables = Variables::read(http);
    let is_zone = |directive: &&Directive| {
        matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone")
    };
    for directive in http.iter().filter(is_zone) {
        match Zone::read(directive, &variables) {
            Ok(zone) => zones.push(zone),
            Err(reason) => {
                let message = format!("`{}` is left out: {reason}", directive.text());
                draft.find(Effect::MorePermissive, &directive.origin, message);
            }
        }
    }
    zones
}

fn find_stream(stream: &Directive, draft: &mut RulesDraft) {
    let is_limit = |directive: &&Directive| directive.name == "limit_conn";
    let servers = stream.block.iter().filter(|directive| directive.name == "server");
    for limit in stream.block.iter().chain(servers.flat_map(|s| &s.block)).filter(is_limit) {
        let message =
            format!("`{}` is left out: it limits connections that carry no requests", limit.text());
        draft.find(Effect::MorePermissive, &limit.origin, message);
    }
}

/// Reports a location that is in no server: a part of a configuration that another file includes.
fn find_outside(location: &Directive, draft: &mut RulesDraft) {
    let message = format!(
        "`{}` is left out: it is in no server. Import the file that includes this one",
        location.text()
    );
    draft.find(Effect::MorePermissive, &location.origin, message);
}

/// Reports places that have limits of both kinds: nginx charges a request to `limit_req` before it
/// looks at `limit_conn`.
fn find_both_kinds(blocks: &[ServerBlock], draft: &mut RulesDraft) {
    for settings in blocks.iter().flat_map(|block| block.settings.values()) {
        let (requests, connections) = (&settings.requests, &settings.connections);
        let refuses = !connections.answer.dry_run && !requests.answer.dry_run;
        if let (true, Some(limit), false) =
            (refuses, connections.limits.first(), requests.limits.is_empty())
        {
            let message = "a request that `limit_conn` refuses is charged to `limit_req` by nginx, but \
                           not by rules: a refused request costs nothing";
            draft.find(Effect::MorePermissive, &limit.origin, message);
        }
    }
}

/// A configuration on its way into a draft.
struct NginxImport<'a> {
    zones: &'a [Zone],
    servers: &'a [Server<'a>],
    blocks: &'a [ServerBlock],
    draft: &'a mut RulesDraft,
    /// The counters of each rule in the draft.
    counters: Vec<ZoneCounters>,
}

/// The counters that a rule uses: those of a zone, for one server if the key names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ZoneCounters {
    zone: String,
    server: Option<String>,
    per: Vec<String>,
}

impl NginxImport<'_> {
    /// Imports each directive once, wherever it is in force.
    fn all(&mut self, kind: LimitKind) {
        let settings = self.blocks.iter().flat_map(|block| block.settings.values());
        let mut directives: Vec<&Directive> =
            settings.flat_map(|settings| &kind.of(settings).limits).collect();
        directives.sort_by_key(|directive| directive.number);
        directives.dedup_by_key(|directive| directive.number);
        for directive in directives {
            self.directive(kind, directive);
        }
    }

    fn directive(&mut self, kind: LimitKind, directive: &Directive) {
        let at = &directive.origin;
        let name = match kind {
            LimitKind::Requests => directive.option("zone").unwrap_or_default(),
            LimitKind::Connections => directive.arg(0),
        };
        let Some(zone) = self.zones.iter().find(|zone| zone.name == name) else {
            let message =
                format!("`{}` is left out: the files have no zone {name:?}", directive.text());
            return self.draft.find(Effect::MorePermissive, at, message);
        };
        let keys = match &zone.keys {
            Ok(keys) => keys,
            Err(reason) => {
                let message = format!(
                    "`{}` is left out: it counts by `{}`, and {reason}",
                    directive.text(),
                    zone.directive.arg(0)
                );
                return self.draft.find(Effect::MorePermissive, at, message);
            }
        };
        for key in keys {
            for (effect, message) in &key.differences {
                self.draft.find(*effect, &zone.directive.origin, *message);
            }
            let answers = self.blocks.iter().flat_map(|block| block.answers_of(kind, directive));
            let mut answers: Vec<LimitAnswer> = answers.collect();
            answers.sort_by_key(|answer| (answer.dry_run, answer.status()));
            answers.dedup();
            for answer in answers {
                if let Err(reason) = self.rules(kind, directive, zone, key, answer) {
                    let message = format!("`{}` is left out: {reason}", directive.text());
                    return self.draft.find(Effect::MorePermissive, at, message);
                }
            }
        }
    }

    /// Adds the rules of a directive for one key and one answer.
    fn rules(
        &mut self,
        kind: LimitKind,
        directive: &Directive,
        zone: &Zone,
        key: &ZoneKey,
        answer: LimitAnswer,
    ) -> Result<(), &'static str> {
        // Servers with the same paths need one rule.
        let mut groups: Vec<(Vec<PathRule>, Option<String>, Vec<usize>)> = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            let paths = block.rules(kind, directive, answer);
            let name = (key.by_server && self.servers.len() > 1)
                .then(|| self.servers[index].first_name().to_owned());
            match groups.iter_mut().find(|(known, server, _)| (known, server) == (&paths, &name)) {
                Some((_, _, servers)) => servers.push(index),
                None => groups.push((paths, name, vec![index])),
            }
        }
        for (paths, server, servers) in groups {
            let host = hosts::condition(self.servers, &servers);
            for path in paths {
                let mut rule = DraftRule::new(&zone.name, &directive.origin, &directive.text());
                rule.comments.push(format!("{}: {}", zone.directive.origin, zone.directive.text()));
                rule.routes = path.route.into_iter().collect();
                rule.when = host.clone().and(path.when).and(key.when.clone());
                rule.per = key.per.clone();
                rule.missing_key = key.missing_key;
                match kind {
                    LimitKind::Requests => requests(directive, zone, answer, &mut rule)?,
                    LimitKind::Connections => connections(directive, answer, &mut rule)?,
                }
                let before = self.draft.rules.len();
                self.draft.add(rule, &directive.origin);
                if self.draft.rules.len() > before {
                    let (zone, server, per) = (zone.name.clone(), server.clone(), key.per.clone());
                    self.counters.push(ZoneCounters { zone, server, per });
                }
            }
        }
        Ok(())
    }

    /// Gives the rules of one zone common counters if they have the same limit.
    fn share(&mut self) {
        let mut rest: Vec<usize> = (0..self.counters.len()).collect();
        let mut seen: Vec<ZoneCounters> = Vec::new();
        while let Some(first) = rest.first().copied() {
            let rules = &mut self.draft.rules;
            let (bucket, limits) = (rules[first].name.clone(), rules[first].limits.clone());
            let counters = self.counters[first].clone();
            let (same, others): (Vec<usize>, Vec<usize>) = rest.into_iter().partition(|index| {
                self.counters[*index] == counters && rules[*index].limits == limits
            });
            if same.len() > 1 {
                same.iter().for_each(|index| rules[*index].bucket = Some(bucket.clone()));
            }
            rest = others;
            if seen.contains(&counters) {
                let message = format!(
                    "the zone {:?} is used with different bursts: each has its own counter",
                    counters.zone
                );
                let zone = self.zones.iter().find(|zone| zone.name == counters.zone);
                let origin = zone.map_or(Origin::new("", 0), |zone| zone.directive.origin.clone());
                self.draft.find(Effect::MorePermissive, &origin, message);
            }
            seen.push(counters);
        }
    }
}

/// Writes `limit_req` as the limit of a rule.
fn requests(
    directive: &Directive,
    zone: &Zone,
    answer: LimitAnswer,
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
    let status = answer.status();
    rule.shadow = answer.dry_run;
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
    rule.then = Some(match status {
        429 => format!("delay up to {longest}"),
        status => format!("delay up to {longest} or deny {status}"),
    });
    Ok(())
}

/// Writes `limit_conn` as the limit of a rule.
fn connections(
    directive: &Directive,
    answer: LimitAnswer,
    rule: &mut DraftRule,
) -> Result<(), &'static str> {
    let most: u64 = directive.arg(1).parse().map_err(|_| "a number is expected")?;
    if most > MAX_ENTRIES {
        return Err("a limit has at most 10000 requests in flight");
    }
    rule.shadow = answer.dry_run;
    rule.limits.push(format!("{most} concurrent lease 1h"));
    rule.then = Some(format!("deny {}", answer.status()));
    Ok(())
}
