//! What a plugin's `config` says: limits, whose they are, what happens over them.

use crate::import::draft::Draft;
use crate::import::note::{Origin, Severity};
use crate::import::rate;
use crate::import::yaml::Node;

/// Settings of both plugins that say where counters are kept, not what is counted.
const STORE: [&str; 17] = [
    "policy",
    "strategy",
    "sync_rate",
    "namespace",
    "dictionary_name",
    "lock_dictionary_name",
    "redis",
    "redis_host",
    "redis_port",
    "redis_password",
    "redis_username",
    "redis_timeout",
    "redis_database",
    "redis_ssl",
    "redis_ssl_verify",
    "redis_server_name",
    "throttling",
];
const KNOWN: [&str; 20] = [
    "second",
    "minute",
    "hour",
    "day",
    "month",
    "year",
    "limit",
    "window_size",
    "window_type",
    "limit_by",
    "identifier",
    "header_name",
    "path",
    "fault_tolerant",
    "error_code",
    "error_message",
    "hide_client_headers",
    "disable_penalty",
    "retry_after_jitter_max",
    "enforce_consumer_groups",
];

/// Whose requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Consumer,
    Credential,
    Ip,
    Service,
    Header(String),
    Path(String),
}

/// A plugin's configuration.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) limits: Vec<String>,
    pub(super) by: By,
    pub(super) status: u16,
    pub(super) fault_tolerant: bool,
}

impl Config {
    pub(super) fn read(plugin: &Node, at: &Origin, draft: &mut Draft) -> Option<Config> {
        let Some(config) = plugin.get("config") else {
            draft.note(Severity::LeftOut, at, "the plugin has no `config`");
            return None;
        };
        let known = [KNOWN.as_slice(), &STORE].concat();
        draft.note_unknown(config, &known, &at.file, "the plugin");
        let advanced = plugin.text_of("name") == Some("rate-limiting-advanced");
        let limits = if advanced { windows(config) } else { periods(config) };
        let by = match by(config) {
            Ok(by) => by,
            Err(why) => {
                draft.note(Severity::LeftOut, at, why);
                return None;
            }
        };
        if limits.is_empty() {
            draft.note(Severity::LeftOut, at, "the plugin has no limits that could be read");
            return None;
        }
        note(config, advanced, at, draft);
        let status = config.get("error_code").and_then(Node::number);
        Some(Config {
            limits,
            by,
            status: status.and_then(|status| status.try_into().ok()).unwrap_or(429),
            fault_tolerant: !config.get("fault_tolerant").is_some_and(Node::is_false),
        })
    }
}

/// What is said and cannot be.
fn note(config: &Node, advanced: bool, at: &Origin, draft: &mut Draft) {
    let is = |key: &str| config.get(key).is_some_and(Node::is_true);
    if config.get("error_message").is_some() {
        draft.note(Severity::Note, at, "`error_message`: the door says what a refusal looks like");
    }
    if is("hide_client_headers") {
        draft.note(
            Severity::Note,
            at,
            "`hide_client_headers`: which headers are sent is a setting of the door",
        );
    }
    let elsewhere = |key: &str| config.text_of(key).is_some_and(|kind| kind != "local");
    if elsewhere("policy") || elsewhere("strategy") {
        draft.note(
            Severity::Note,
            at,
            "where counters are kept is a setting of the store, not of rules",
        );
    }
    if is("enforce_consumer_groups") {
        draft.note(Severity::LeftOut, at, "`enforce_consumer_groups`: write the groups as plans");
    }
    if config.get("retry_after_jitter_max").and_then(Node::number).is_some_and(|most| most > 0) {
        draft.note(
            Severity::Differs,
            at,
            "`retry_after_jitter_max`: the time to come back is exact here",
        );
    }
    if advanced && config.text_of("window_type") != Some("fixed") {
        let message = "sliding windows compare whole requests here, fractions there: at times one \
                       more passes";
        draft.note(Severity::Differs, at, message);
    }
}

/// `second: 5, hour: 1000`: windows of the clock and of the calendar.
fn periods(config: &Node) -> Vec<String> {
    let units = [
        ("second", "s fixed"),
        ("minute", "min fixed"),
        ("hour", "h fixed"),
        ("day", "day fixed"),
        ("month", "month calendar"),
        ("year", "year calendar"),
    ];
    let limit = |(key, unit): (&str, &str)| {
        let amount = config.get(key).and_then(Node::number)?;
        Some(format!("{amount}/{unit}"))
    };
    units.into_iter().filter_map(limit).collect()
}

/// `limit: [5, 100], window_size: [1, 60]`: pairs of them.
fn windows(config: &Node) -> Vec<String> {
    let numbers = |key: &str| -> Vec<u64> {
        config.texts_of(key).iter().filter_map(|text| text.parse().ok()).collect()
    };
    let fixed = config.text_of("window_type") == Some("fixed");
    let forgiving = config.get("disable_penalty").is_some_and(Node::is_true) && !fixed;
    let kind = if fixed { "fixed" } else { "sliding" };
    let penalty = if forgiving { "" } else { " count_denied" };
    let pairs = numbers("limit").into_iter().zip(numbers("window_size"));
    pairs
        .map(|(amount, seconds)| format!("{amount}/{} {kind}{penalty}", rate::period(seconds)))
        .collect()
}

fn by(config: &Node) -> Result<By, String> {
    let named = config.text_of("limit_by").or_else(|| config.text_of("identifier"));
    let needs = |key: &str| config.text_of(key).map(str::to_owned);
    Ok(match named.unwrap_or("consumer") {
        "consumer" => By::Consumer,
        "credential" => By::Credential,
        "ip" => By::Ip,
        "service" => By::Service,
        "header" => By::Header(needs("header_name").ok_or("`header_name` is missing")?),
        "path" => By::Path(needs("path").ok_or("`path` is missing")?),
        other => return Err(format!("counting by {other:?} has no equivalent")),
    })
}
