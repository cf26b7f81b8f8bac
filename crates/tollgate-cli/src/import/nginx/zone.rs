//! Zones: what is counted, and at what rate.

use super::tree::Directive;
use crate::import::condition::quoted;

/// The key that a zone counts by, in the terms of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneKey {
    pub(super) per: Vec<String>,
    /// The `missing_key` of the rule, if it is not the default.
    pub(super) missing_key: Option<&'static str>,
    /// Notes about what differs from nginx.
    pub(super) differs: Vec<String>,
}

/// `limit_req_zone` or `limit_conn_zone`.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) name: String,
    /// The key, or why rules cannot express it.
    pub(super) key: Result<ZoneKey, String>,
    /// Thousandths of a request per second, rounded as in nginx; 0 for connections.
    pub(super) rate_milli: u64,
    pub(super) directive: Directive,
}

impl Zone {
    pub(super) fn read(directive: &Directive) -> Result<Zone, String> {
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
        let (name, key) = (name.to_owned(), ZoneKey::read(&key));
        Ok(Zone { name, key, rate_milli, directive: directive.clone() })
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

impl ZoneKey {
    /// Reads a key made of variables and text in between.
    fn read(text: &str) -> Result<ZoneKey, String> {
        let mut key = ZoneKey { per: Vec::new(), missing_key: None, differs: Vec::new() };
        let mut always_present = text.is_empty();
        for part in text.split('$').skip(1) {
            let (name, literal) = match part.strip_prefix('{') {
                Some(part) => part.split_once('}').ok_or("a variable is not closed")?,
                None => part.split_at(name_len(part)),
            };
            always_present |= !literal.is_empty();
            let (attribute, present) = key.attribute(name)?;
            always_present |= present;
            if !key.per.contains(&attribute) {
                key.per.push(attribute);
            }
        }
        always_present |= text.split('$').next().is_some_and(|literal| !literal.is_empty());
        match (always_present, key.per.len()) {
            (true, _) => {}
            (false, 1) => key.missing_key = Some("skip"),
            (false, _) => key.differs.push(
                "nginx does not count requests without any of these values; the rule counts them \
                 together"
                    .to_owned(),
            ),
        }
        Ok(key)
    }

    /// Returns the attribute of a variable, and whether every request has it.
    fn attribute(&mut self, name: &str) -> Result<(String, bool), String> {
        let plain = match name {
            "binary_remote_addr" | "remote_addr" => Some("ip"),
            "realip_remote_addr" => Some("peer"),
            "host" | "http_host" | "server_name" => Some("host"),
            "uri" | "document_uri" | "request_uri" => Some("path"),
            "request_method" => Some("method"),
            _ => None,
        };
        if name == "request_uri" {
            self.differs.push("`$request_uri` includes the query, `path` does not".to_owned());
        }
        if name == "server_name" {
            let message =
                "`$server_name` is the first name of the server, `host` is the requested host";
            self.differs.push(message.to_owned());
        }
        if let Some(plain) = plain {
            return Ok((plain.to_owned(), true));
        }
        if name == "remote_user" {
            self.differs.push("`remote_user` must be set by the caller".to_owned());
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
}

fn name_len(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::note::Origin;

    fn zone(args: &[&str]) -> Zone {
        let args = args.iter().map(|arg| arg.to_string()).collect();
        let origin = Origin::new("t", 1);
        let name = "limit_req_zone".to_owned();
        Zone::read(&Directive { name, args, block: Vec::new(), origin, number: 0 }).unwrap()
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
        assert_eq!(key("${server_name}:$uri"), Ok(("host path".into(), None)));
        assert_eq!(key("all"), Ok((String::new(), None)));
        assert_eq!(key("$arg_a$cookie_B").unwrap().1, None);
        assert!(key("$limit_key").is_err());
    }
}
