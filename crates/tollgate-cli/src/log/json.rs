//! Lines of JSON, whatever their fields are called.

use serde_json::{Map, Number, Value as Json};
use tollgate::Time;
use tollgate::rules::Value;

use super::entry::Entry;
use super::fields::{self, Meaning, Rename};
use super::stamp;

/// How deep objects may be nested; what is deeper is left out.
const DEPTH: usize = 4;

/// What was found for one meaning, and how good its name is.
type Best<T> = Option<(usize, T)>;

#[derive(Default)]
struct Found {
    at: Best<Time>,
    address: Best<Value<'static>>,
    line: Best<(String, String)>,
    /// Attributes rules know, by name.
    known: Vec<(&'static str, usize, Value<'static>)>,
    others: Vec<(String, Value<'static>)>,
}

pub(super) fn parse(line: &str, renames: &[Rename]) -> Result<Entry, String> {
    let object: Map<String, Json> = match serde_json::from_str(line) {
        Ok(Json::Object(object)) => object,
        Ok(_) => return Err("no JSON object".into()),
        Err(error) => return Err(format!("no JSON object: {error}")),
    };
    let mut found = Found::default();
    found.object("", &object, renames, 0);
    let (_, at) = found.at.ok_or("no time: expected a field such as time, timestamp or ts")?;
    let mut entry = Entry::new(at);
    let knows = |name: &str| found.known.iter().any(|(known, ..)| *known == name);
    if let Some((_, (method, target))) = found.line {
        if !knows("method") {
            entry.set("method", method);
        }
        if !knows("path") {
            entry.set("path", target);
        }
    }
    if let Some((_, address)) = found.address {
        entry.set("ip", address);
    }
    found.known.into_iter().for_each(|(name, _, value)| entry.set(name, value));
    found.others.into_iter().for_each(|(name, value)| entry.set(name, value));
    Ok(entry)
}

impl Found {
    fn object(
        &mut self,
        above: &str,
        object: &Map<String, Json>,
        renames: &[Rename],
        depth: usize,
    ) {
        for (name, value) in object {
            let name = match above {
                "" => name.clone(),
                above => format!("{above}.{name}"),
            };
            match value {
                Json::Object(inner) if depth < DEPTH => {
                    self.object(&name, inner, renames, depth + 1);
                }
                // Headers that may come several times are lists, usually of one.
                Json::Array(list) => {
                    if let [one] = &list[..] {
                        self.scalar(name, one, renames);
                    }
                }
                other => self.scalar(name, other, renames),
            }
        }
    }

    fn scalar(&mut self, name: String, json: &Json, renames: &[Rename]) {
        let Some(value) = scalar(json) else { return };
        if matches!(&value, Value::Text(text) if text.is_empty() || text == "-") {
            return;
        }
        if let Some(rename) = renames.iter().find(|rename| rename.field == name) {
            // Whoever names it knows best.
            return match fields::canonical(&rename.attribute) {
                Some(meaning) => self.means(meaning, 0, value),
                None => self.others.push((rename.attribute.clone(), value)),
            };
        }
        match fields::meaning(&name) {
            Some((meaning, rank)) => self.means(meaning, rank + 1, value),
            None => match fields::header(&name) {
                Some(header) => self.others.push((format!("header.{header}"), text(value))),
                None => self.others.push((name, value)),
            },
        }
    }

    fn means(&mut self, meaning: Meaning, rank: usize, value: Value<'static>) {
        match meaning {
            Meaning::Time => {
                let common = || stamp::common(&value.text());
                better(&mut self.at, rank, stamp::instant(&value.text()).or_else(common));
            }
            Meaning::Address => {
                better(&mut self.address, rank, fields::address(&value.text()).map(Value::Ip));
            }
            Meaning::RequestLine => match fields::request_line(&value.text()) {
                Some((method, target)) => {
                    better(&mut self.line, rank, Some((method.to_owned(), target.to_owned())));
                }
                // Some call the path alone a request.
                None => self.means(Meaning::Attribute("path"), usize::MAX, value),
            },
            Meaning::Attribute(attribute) => {
                let value = if attribute.starts_with("header.") { text(value) } else { value };
                match self.known.iter_mut().find(|(known, ..)| *known == attribute) {
                    Some((_, before, _)) if *before <= rank => {}
                    Some(worse) => *worse = (attribute, rank, value),
                    None => self.known.push((attribute, rank, value)),
                }
            }
        }
    }
}

fn better<T>(best: &mut Best<T>, rank: usize, found: Option<T>) {
    if let Some(found) = found
        && best.as_ref().is_none_or(|(before, _)| rank < *before)
    {
        *best = Some((rank, found));
    }
}

fn scalar(json: &Json) -> Option<Value<'static>> {
    match json {
        Json::String(text) => Some(Value::from(text.clone())),
        Json::Number(number) => Some(whole(number)),
        Json::Bool(flag) => Some(Value::Flag(*flag)),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Rules count in whole numbers; others are kept as they were written.
fn whole(number: &Number) -> Value<'static> {
    match number.as_i64() {
        Some(whole) => Value::Number(whole),
        None => Value::from(number.to_string()),
    }
}

fn text(value: Value<'static>) -> Value<'static> {
    Value::from(value.text().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str) -> Entry {
        parse(line, &[]).unwrap()
    }

    fn field(entry: &Entry, name: &str) -> Option<String> {
        entry.get(name).map(|value| value.text().into_owned())
    }

    #[test]
    fn what_nginx_is_usually_told_to_write() {
        let entry = entry(
            r#"{"time":"2026-01-01T12:00:00+00:00","remote_addr":"203.0.113.7","request":"POST /login HTTP/1.1","status":"401","body_bytes_sent":"12","http_user_agent":"curl","http_x_org":"acme","request_time":"0.004"}"#,
        );
        assert_eq!(entry.at.as_nanos(), 1_767_268_800_000_000_000);
        for (name, value) in [
            ("ip", "203.0.113.7"),
            ("method", "POST"),
            ("path", "/login"),
            ("response.status", "401"),
            ("response.bytes", "12"),
            ("header.user-agent", "curl"),
            ("header.x-org", "acme"),
            ("request_time", "0.004"),
        ] {
            assert_eq!(field(&entry, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn what_caddy_writes() {
        let entry = entry(
            r#"{"level":"info","ts":1646861401.5241024,"request":{"remote_ip":"127.0.0.1","client_ip":"2001:db8::5","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b=c","headers":{"X-Org":["acme"],"Accept":["a","b"]}},"user_id":"","status":200,"size":10900}"#,
        );
        assert_eq!(field(&entry, "ip").as_deref(), Some("2001:db8::5"));
        assert_eq!(field(&entry, "path").as_deref(), Some("/a?b=c"));
        assert_eq!(field(&entry, "header.x-org").as_deref(), Some("acme"));
        assert_eq!(entry.get("response.status"), Some(&Value::Number(200)));
        assert_eq!((field(&entry, "user"), field(&entry, "header.accept")), (None, None));
        assert_eq!(field(&entry, "level").as_deref(), Some("info"));
    }

    #[test]
    fn the_better_name_wins_whatever_the_order() {
        for line in [
            r#"{"ts":1,"client_ip":"192.0.2.1","remote_addr":"10.0.0.1","path":"/b","uri":"/a"}"#,
            r#"{"uri":"/a","path":"/b","remote_addr":"10.0.0.1","client_ip":"192.0.2.1","ts":1}"#,
        ] {
            let entry = entry(line);
            assert_eq!(field(&entry, "ip").as_deref(), Some("192.0.2.1"));
            assert_eq!(field(&entry, "path").as_deref(), Some("/a"));
        }
    }

    #[test]
    fn a_field_may_be_another_attribute() {
        let renames = ["who.addr=ip".parse().unwrap(), "tenant=org".parse().unwrap()];
        let line = r#"{"ts":1,"ip":"10.0.0.1","who":{"addr":"192.0.2.1:80"},"tenant":"acme"}"#;
        let entry = parse(line, &renames).unwrap();
        assert_eq!(field(&entry, "ip").as_deref(), Some("192.0.2.1"));
        assert_eq!(field(&entry, "org").as_deref(), Some("acme"));
        assert_eq!(field(&entry, "tenant"), None);
    }

    #[test]
    fn broken_lines_say_what_is_missing() {
        for (line, what) in [
            ("{", "no JSON object: EOF"),
            ("[1]", "no JSON object"),
            ("{}", "no time"),
            (r#"{"time":"soon"}"#, "no time"),
            (r#"{"time":null}"#, "no time"),
        ] {
            let error = parse(line, &[]).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
        assert!(parse(&format!("{}1{}", "[".repeat(200), "]".repeat(200)), &[]).is_err());
    }
}
