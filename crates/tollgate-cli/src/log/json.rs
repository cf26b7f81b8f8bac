//! Lines of JSON with any field names.

use serde_json::{Map, Number, Value as Json};
use tollgate::Time;
use tollgate_rules::Value;

use super::fields::{self, FieldMeaning, FieldRename};
use super::log_entry::LogEntry;
use super::timestamp;

/// The maximum nesting of objects; deeper fields are ignored.
const MAX_DEPTH: usize = 4;

/// A value with the rank of its field name; a lower rank wins.
type Ranked<T> = Option<(usize, T)>;

/// The fields found in one object.
#[derive(Default)]
struct JsonFields {
    at: Ranked<Time>,
    address: Ranked<Value<'static>>,
    line: Ranked<(String, String)>,
    /// Attributes that rules know: name, rank and value.
    known: Vec<(&'static str, usize, Value<'static>)>,
    others: Vec<(String, Value<'static>)>,
}

pub(super) fn parse(line: &str, renames: &[FieldRename]) -> Result<LogEntry, String> {
    let object: Map<String, Json> = match serde_json::from_str(line) {
        Ok(Json::Object(object)) => object,
        Ok(_) => return Err("no JSON object".into()),
        Err(error) => return Err(format!("no JSON object: {error}")),
    };
    let mut found = JsonFields::default();
    found.object("", &object, renames, 0);
    let (_, at) = found.at.ok_or("no time: expected a field such as time, timestamp or ts")?;
    let mut entry = LogEntry::new(at);
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

impl JsonFields {
    fn object(
        &mut self,
        above: &str,
        object: &Map<String, Json>,
        renames: &[FieldRename],
        depth: usize,
    ) {
        for (name, value) in object {
            let name = match above {
                "" => name.clone(),
                above => format!("{above}.{name}"),
            };
            match value {
                Json::Object(inner) if depth < MAX_DEPTH => {
                    self.object(&name, inner, renames, depth + 1);
                }
                // Headers that may be repeated are lists, usually with one entry.
                Json::Array(list) => {
                    if let [one] = &list[..] {
                        self.scalar(name, one, renames);
                    }
                }
                other => self.scalar(name, other, renames),
            }
        }
    }

    fn scalar(&mut self, name: String, json: &Json, renames: &[FieldRename]) {
        let Some(value) = scalar(json) else { return };
        if matches!(&value, Value::Text(text) if text.is_empty() || text == "-") {
            return;
        }
        if let Some(rename) = renames.iter().find(|rename| rename.field == name) {
            // An explicit name has precedence.
            return match fields::canonical(&rename.attribute) {
                Some(meaning) => self.assign(meaning, 0, value),
                None => self.others.push((rename.attribute.clone(), value)),
            };
        }
        match fields::meaning(&name) {
            Some((meaning, rank)) => self.assign(meaning, rank + 1, value),
            None => match fields::header(&name) {
                Some(header) => self.others.push((format!("header.{header}"), text(value))),
                None => self.others.push((name, value)),
            },
        }
    }

    fn assign(&mut self, meaning: FieldMeaning, rank: usize, value: Value<'static>) {
        match meaning {
            FieldMeaning::Time => {
                let common = || timestamp::common(&value.text());
                replace_if_better(
                    &mut self.at,
                    rank,
                    timestamp::instant(&value.text()).or_else(common),
                );
            }
            FieldMeaning::Address => {
                replace_if_better(
                    &mut self.address,
                    rank,
                    fields::address(&value.text()).map(Value::Ip),
                );
            }
            FieldMeaning::RequestLine => match fields::request_line(&value.text()) {
                Some((method, target)) => {
                    replace_if_better(
                        &mut self.line,
                        rank,
                        Some((method.to_owned(), target.to_owned())),
                    );
                }
                // In some logs the request is the path alone.
                None => self.assign(FieldMeaning::Attribute("path"), usize::MAX, value),
            },
            FieldMeaning::Attribute(attribute) => {
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

fn replace_if_better<T>(best: &mut Ranked<T>, rank: usize, found: Option<T>) {
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

/// Returns a whole number as a number, and any other as text.
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

    fn entry(line: &str) -> LogEntry {
        parse(line, &[]).unwrap()
    }

    fn field(entry: &LogEntry, name: &str) -> Option<String> {
        entry.get(name).map(|value| value.text().into_owned())
    }

    #[test]
    fn a_usual_json_format_of_nginx() {
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
    fn the_json_format_of_caddy() {
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
    fn broken_lines_report_the_missing_field() {
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
