//! The `config` of a plugin: its limits, what they count by, and what happens over them.

use tollgate_rules::yaml::YamlNode;

use super::entities::Plugin;
use crate::import::draft::RulesDraft;
use crate::import::finding::{Effect, Origin};
use crate::import::rate;

/// Settings of both plugins about the store of the counters.
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
/// Settings of both plugins that the import reads or notes.
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

/// The attribute that requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CountedBy {
    Consumer,
    Credential,
    Ip,
    Service,
    Header(String),
    Path(String),
}

/// The configuration of a plugin.
#[derive(Clone, Debug)]
pub(super) struct PluginConfig {
    pub(super) limits: Vec<String>,
    pub(super) by: CountedBy,
    pub(super) status: u16,
    pub(super) fault_tolerant: bool,
}

impl PluginConfig {
    pub(super) fn read(plugin: &Plugin<'_>, draft: &mut RulesDraft) -> Option<PluginConfig> {
        let at = &plugin.origin;
        let Some(config) = plugin.node.get("config") else {
            draft.find(Effect::MorePermissive, at, "left out: the plugin has no `config`");
            return None;
        };
        let known = [KNOWN.as_slice(), &STORE].concat();
        draft.find_unknown(config, &known, plugin.file, "the plugin");
        let advanced = plugin.node.text_of("name") == Some("rate-limiting-advanced");
        let limits = if advanced { windows(config) } else { periods(config) };
        let by = match by(config) {
            Ok(by) => by,
            Err(reason) => {
                draft.find(Effect::MorePermissive, at, format!("left out: {reason}"));
                return None;
            }
        };
        if limits.is_empty() {
            let message = "left out: the plugin has no limits that could be read";
            draft.find(Effect::MorePermissive, at, message);
            return None;
        }
        find_differences(config, advanced, at, draft);
        let status = config.get("error_code").and_then(YamlNode::number);
        Some(PluginConfig {
            limits,
            by,
            status: status.and_then(|status| status.try_into().ok()).unwrap_or(429),
            fault_tolerant: !config.get("fault_tolerant").is_some_and(YamlNode::is_false),
        })
    }
}

/// Reports the settings that rules do not have.
fn find_differences(config: &YamlNode<'_>, advanced: bool, at: &Origin, draft: &mut RulesDraft) {
    let is = |key: &str| config.get(key).is_some_and(YamlNode::is_true);
    if config.get("error_message").is_some() {
        draft.find(
            Effect::Equal,
            at,
            "`error_message`: the body of a refusal is a setting of the door",
        );
    }
    if is("hide_client_headers") {
        draft.find(
            Effect::Equal,
            at,
            "`hide_client_headers`: which headers are sent is a setting of the door",
        );
    }
    let elsewhere = |key: &str| config.text_of(key).is_some_and(|kind| kind != "local");
    if elsewhere("policy") || elsewhere("strategy") {
        draft.find(
            Effect::Equal,
            at,
            "the store of the counters is a setting of the server, not of rules",
        );
    }
    if is("enforce_consumer_groups") {
        draft.find(
            Effect::MorePermissive,
            at,
            "left out: `enforce_consumer_groups`. Write the groups as plans",
        );
    }
    if config.get("retry_after_jitter_max").and_then(YamlNode::number).is_some_and(|most| most > 0)
    {
        draft.find(Effect::Equal, at, "`retry_after_jitter_max`: the time to retry is exact");
    }
    if advanced && config.text_of("window_type") != Some("fixed") {
        let message = "sliding windows compare whole requests, those of Kong fractions: sometimes one \
                       request more passes";
        draft.find(Effect::MorePermissive, at, message);
    }
}

/// Reads `second: 5, hour: 1000`: windows of the clock and of the calendar.
fn periods(config: &YamlNode<'_>) -> Vec<String> {
    let units = [
        ("second", "s fixed"),
        ("minute", "min fixed"),
        ("hour", "h fixed"),
        ("day", "day fixed"),
        ("month", "month calendar"),
        ("year", "year calendar"),
    ];
    let limit = |(key, unit): (&str, &str)| {
        let amount = config.get(key).and_then(YamlNode::number)?;
        Some(format!("{amount}/{unit}"))
    };
    units.into_iter().filter_map(limit).collect()
}

/// Reads `limit: [5, 100], window_size: [1, 60]`: one limit for each pair.
fn windows(config: &YamlNode<'_>) -> Vec<String> {
    let numbers = |key: &str| -> Vec<u64> {
        config.texts_of(key).iter().filter_map(|text| text.parse().ok()).collect()
    };
    let fixed = config.text_of("window_type") == Some("fixed");
    let forgiving = config.get("disable_penalty").is_some_and(YamlNode::is_true) && !fixed;
    let kind = if fixed { "fixed" } else { "sliding" };
    let penalty = if forgiving { "" } else { " count_denied" };
    let pairs = numbers("limit").into_iter().zip(numbers("window_size"));
    pairs
        .map(|(amount, seconds)| format!("{amount}/{} {kind}{penalty}", rate::period(seconds)))
        .collect()
}

fn by(config: &YamlNode<'_>) -> Result<CountedBy, String> {
    let named = config.text_of("limit_by").or_else(|| config.text_of("identifier"));
    let needs = |key: &str| config.text_of(key).map(str::to_owned);
    Ok(match named.unwrap_or("consumer") {
        "consumer" => CountedBy::Consumer,
        "credential" => CountedBy::Credential,
        "ip" => CountedBy::Ip,
        "service" => CountedBy::Service,
        "header" => CountedBy::Header(needs("header_name").ok_or("`header_name` is missing")?),
        "path" => CountedBy::Path(needs("path").ok_or("`path` is missing")?),
        other => return Err(format!("counting by {other:?} has no equivalent")),
    })
}
