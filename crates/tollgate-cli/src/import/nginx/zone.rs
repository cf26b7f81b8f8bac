//! Zones: what is counted, and at what rate.

use super::tree::Directive;
use super::variables::Variables;
use crate::import::condition::{Condition, quoted};
use crate::import::finding::Effect;

/// The key that a zone counts by, in the terms of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneKey {
    /// The requests with this key.
    pub(super) when: Condition,
    pub(super) per: Vec<String>,
    /// Whether each server has its own counters.
    pub(super) by_server: bool,
    /// The `missing_key` of the rule, if it is not the default.
    pub(super) missing_key: Option<&'static str>,
    /// What differs from nginx.
    pub(super) differences: Vec<(Effect, &'static str)>,
}

/// `limit_req_zone` or `limit_conn_zone`.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) name: String,
    /// The keys of all requests that have one, or why rules cannot express them.
    pub(super) keys: Result<Vec<ZoneKey>, String>,
    /// Thousandths of a request per second, rounded as in nginx; 0 for connections.
    pub(super) rate_milli: u64,
    pub(super) directive: Directive,
}

impl Zone {
    pub(super) fn read(directive: &Directive, variables: &Variables<'_>) -> Result<Zone, String> {
        let name = directive.option("zone").and_then(|zone| zone.split(':').next());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err("a zone needs a name, as in zone=one:10m".to_owned());
        };
        let rate_milli = match directive.name == "limit_req_zone" {
            true => rate_milli(directive.option("rate").unwrap_or("1r/s"))
                .ok_or("a rate is written as 10r/s or 30r/m")?,
            false => 0,
        };
        let is_key = |arg: &&String| !arg.contains('=') && *arg != "sync";
        let key: String = directive.args.iter().take_while(is_key).map(String::as_str).collect();
        let (name, keys) = (name.to_owned(), keys(&key, variables));
        Ok(Zone { name, keys, rate_milli, directive: directive.clone() })
    }

    /// Returns the rate as rules write it, with the rounding of nginx.
    pub(super) fn rate(&self) -> String {
        let milli = self.rate_milli;
        match self.directive.option("rate").and_then(|rate| rate.strip_suffix("r/m")) {
            _ if milli.is_multiple_of(1000) => format!("{}/s", milli / 1000),
            Some(minute)
                if minute.parse() == Ok(milli * 60 / 1000) && (milli * 60).is_multiple_of(1000) =>
            {
                format!("{minute}/min")
            }
            _ => format!("{milli}/1000s"),
        }
    }

    /// Returns whether nginx rounds the rate it was given.
    pub(super) fn is_rounded(&self) -> bool {
        self.rate_milli > 0 && self.rate().ends_with("/1000s")
    }
}

/// The maximum rate: ten million million requests per second.
const MAX_MILLI: u64 = 10_000_000_000_000_000;

/// Reads `10r/s` or `30r/m` as thousandths per second, rounded down as in nginx.
fn rate_milli(rate: &str) -> Option<u64> {
    let (amount, seconds) = match (rate.strip_suffix("r/s"), rate.strip_suffix("r/m")) {
        (Some(amount), _) => (amount, 1),
        (_, Some(amount)) => (amount, 60),
        _ => return None,
    };
    let amount: u64 = amount.parse().ok()?;
    let milli = amount.checked_mul(1000)? / seconds;
    (1..=MAX_MILLI).contains(&milli).then_some(milli)
}

/// A variable in a text: the text before it, its name and the text behind it.
fn first_variable(text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<(&str, &str, &str)> {
    for (at, _) in text.match_indices('$') {
        let rest = &text[at + 1..];
        let (name, behind) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}')?,
            None => rest.split_at(name_len(rest)),
        };
        if is_wanted(name) {
            return Some((&text[..at], name, behind));
        }
    }
    None
}

/// Reads a key. If it has a variable of a map, there is one key for each text of the variable.
fn keys(text: &str, variables: &Variables<'_>) -> Result<Vec<ZoneKey>, String> {
    let Some((before, name, behind)) = first_variable(text, |name| variables.has(name)) else {
        return Ok(vec![ZoneKey::read(text)?]);
    };
    if first_variable(behind, |name| variables.has(name)).is_some() {
        return Err("it combines several maps".to_owned());
    }
    let mut all = Vec::new();
    for case in variables.cases(name)? {
        let text = format!("{before}{}{behind}", case.text);
        // Requests with an empty key are not counted.
        if !text.is_empty() {
            let key = ZoneKey::read(&text)?;
            let when = case.when.and(key.when.clone());
            all.push(ZoneKey { when, ..key });
        }
    }
    Ok(all)
}

impl ZoneKey {
    /// Reads a key made of variables and text in between.
    fn read(text: &str) -> Result<ZoneKey, String> {
        let mut key = ZoneKey {
            when: Condition::always(),
            per: Vec::new(),
            by_server: false,
            missing_key: None,
            differences: Vec::new(),
        };
        let mut always_present = text.is_empty();
        for part in text.split('$').skip(1) {
            let (name, literal) = match part.strip_prefix('{') {
                Some(part) => part.split_once('}').ok_or("a variable is not closed")?,
                None => part.split_at(name_len(part)),
            };
            always_present |= !literal.is_empty();
            if name == "server_name" {
                key.by_server = true;
                always_present = true;
                continue;
            }
            key.find_differences(name);
            let (attribute, present) = attribute_of(name)?;
            always_present |= present;
            if !key.per.contains(&attribute) {
                key.per.push(attribute);
            }
        }
        always_present |= text.split('$').next().is_some_and(|literal| !literal.is_empty());
        match (always_present, key.per.as_slice()) {
            (true, _) | (false, []) => {}
            (false, [_]) => key.missing_key = Some("skip"),
            // Requests without any of the values are not counted.
            (false, several) => {
                let present = |name: &String| Condition::Missing(name.clone()).not();
                key.when = Condition::Any(several.iter().map(present).collect());
            }
        }
        Ok(key)
    }

    /// Records how an attribute differs from a variable.
    fn find_differences(&mut self, name: &str) {
        let difference = match name {
            "request_uri" => {
                (Effect::Stricter, "`$request_uri` includes the query, `path` does not")
            }
            "http_host" => (Effect::Stricter, "`$http_host` includes the port, `host` does not"),
            "remote_user" => {
                (Effect::MorePermissive, "requests must send the attribute `remote_user`")
            }
            _ => return,
        };
        self.differences.push(difference);
    }
}

/// Returns the attribute of a variable, and whether every request has it.
pub(super) fn attribute_of(name: &str) -> Result<(String, bool), String> {
    let plain = match name {
        "binary_remote_addr" | "remote_addr" => Some("ip"),
        "realip_remote_addr" => Some("peer"),
        "host" | "http_host" => Some("host"),
        "uri" | "document_uri" | "request_uri" => Some("path"),
        "request_method" => Some("method"),
        _ => None,
    };
    if let Some(plain) = plain {
        return Ok((plain.to_owned(), true));
    }
    if name == "remote_user" {
        return Ok((name.to_owned(), false));
    }
    for (prefix, map) in [("http_", "header"), ("arg_", "query"), ("cookie_", "cookie")] {
        if let Some(entry) = name.strip_prefix(prefix) {
            let entry = if map == "header" { entry.replace('_', "-") } else { entry.into() };
            return Ok((format!("{map}[{}]", quoted(&entry)), false));
        }
    }
    Err(format!("a request has no attribute for `${name}`"))
}

fn name_len(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::finding::Origin;

    fn zone(args: &[&str]) -> Zone {
        let args = args.iter().map(|arg| arg.to_string()).collect();
        let origin = Origin::new("t", 1);
        let name = "limit_req_zone".to_owned();
        let directive = Directive { name, args, block: Vec::new(), origin, number: 0 };
        Zone::read(&directive, &Variables::default()).unwrap()
    }

    #[test]
    fn rates_are_rounded_as_in_nginx() {
        for (rate, expected) in
            [("10r/s", "10/s"), ("60r/m", "1/s"), ("30r/m", "30/min"), ("7r/m", "116/1000s")]
        {
            let rate = format!("rate={rate}");
            assert_eq!(zone(&["$uri", "zone=a:1m", &rate]).rate(), expected);
        }
        assert_eq!(rate_milli("10/s"), None);
        assert_eq!(rate_milli("0r/s"), None);
    }

    #[test]
    fn keys_are_attributes() {
        let key = |text: &str| ZoneKey::read(text).map(|key| (key.per.join(" "), key.missing_key));
        assert_eq!(key("$binary_remote_addr"), Ok(("ip".into(), None)));
        let header = ("header[\"x-api-key\"]".to_owned(), Some("skip"));
        assert_eq!(key("$http_x_api_key"), Ok(header));
        assert_eq!(key("${host}:$uri"), Ok(("host path".into(), None)));
        assert_eq!(key("all"), Ok((String::new(), None)));
        assert!(key("$limit_key").is_err());
        let two = ZoneKey::read("$arg_a$cookie_B").unwrap();
        let when = r#"has(query["a"]) || has(cookie["B"])"#;
        assert_eq!((two.missing_key, two.when.expression().as_str()), (None, when));
        assert!(ZoneKey::read("$server_name").unwrap().by_server);
    }
}
