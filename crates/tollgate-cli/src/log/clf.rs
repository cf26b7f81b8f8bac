//! Lines of Apache and nginx: the common and the combined format, both optionally with a virtual host
//! at the start or the forwarded addresses at the end.

use std::borrow::Cow;

use tollgate_rules::Value;

use super::fields::{FieldRename, address, request_line};
use super::line_scanner::LineScanner;
use super::log_entry::LogEntry;
use super::timestamp;

pub(super) fn parse(line: &str, renames: &[FieldRename]) -> Result<LogEntry, String> {
    let mut scan = LineScanner(line);
    // A user name may contain spaces, so the part before the time is read from both ends.
    let before_time =
        scan.until(" [").ok_or("no time in brackets, such as [10/Oct/2000:13:55:36 -0700]")?;
    let when = scan.until("]").ok_or("the time has no closing bracket")?;
    let at = timestamp::common(when).or_else(|| timestamp::instant(when));
    let mut entry =
        LogEntry::new(at.ok_or_else(|| format!("no time: {}", crate::text::key(when)))?);

    let mut client_part = LineScanner(before_time);
    let mut client = client_part.word().ok_or("no client before the time")?;
    // `shop.example:443 203.0.113.7 - - […`: a virtual host comes first.
    if address(client).is_none() && LineScanner(client_part.0).word().and_then(address).is_some() {
        entry.add("host", client.to_owned(), renames);
        client = client_part.word().unwrap_or(client);
    }
    entry.add("ip", ip_or_name(client), renames);
    client_part.word();
    entry.add("user", client_part.0.trim().to_owned(), renames);

    let request = scan.quoted().ok_or("no request in quotes after the time")?;
    if let Some((method, target)) = request_line(&request) {
        entry.add("method", method.to_owned(), renames);
        entry.add("path", target.to_owned(), renames);
    }
    let status = scan.word().ok_or("no status after the request")?;
    let status: i64 =
        status.parse().map_err(|_| format!("no status: {}", crate::text::key(status)))?;
    entry.add("response.status", status, renames);
    if let Some(bytes) = scan.word().and_then(|word| word.parse::<i64>().ok()) {
        entry.add("response.bytes", bytes, renames);
    }
    // The combined format has two more fields, and the sample configuration of nginx a third.
    for name in ["header.referer", "header.user-agent", "header.x-forwarded-for"] {
        let Some(text) = scan.quoted() else { break };
        entry.add(name, text.into_owned(), renames);
    }
    Ok(entry)
}

/// Returns the client as an address, or as a name if the server looked it up.
fn ip_or_name(client: &str) -> Value<'static> {
    match address(client) {
        Some(address) => Value::Ip(address),
        None => Value::Text(Cow::Owned(client.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str, name: &str) -> Option<String> {
        let entry = parse(line, &[]).unwrap();
        entry.get(name).map(|value| value.text().into_owned())
    }

    #[test]
    fn the_common_format() {
        let line = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
        let entry = parse(line, &[]).unwrap();
        assert_eq!(entry.at.as_nanos(), 971_211_336_000_000_000);
        for (name, value) in [
            ("ip", "127.0.0.1"),
            ("user", "frank"),
            ("method", "GET"),
            ("path", "/apache_pb.gif"),
            ("response.status", "200"),
            ("response.bytes", "2326"),
        ] {
            assert_eq!(field(line, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(field(line, "header.referer"), None);
    }

    #[test]
    fn the_combined_format_with_addresses_of_both_kinds() {
        let line = r#"2001:db8::7 - - [01/Jan/2026:12:00:00 +0000] "POST /login?next=%2F HTTP/2.0" 401 0 "-" "Mozilla/5.0 (X11; \"quoted\" \x22too\x22)" "203.0.113.7, 10.0.0.1""#;
        assert_eq!(field(line, "ip").as_deref(), Some("2001:db8::7"));
        assert_eq!(field(line, "path").as_deref(), Some("/login?next=%2F"));
        assert_eq!(field(line, "user"), None);
        assert_eq!(field(line, "header.referer"), None);
        let agent = field(line, "header.user-agent").unwrap();
        assert_eq!(agent, r#"Mozilla/5.0 (X11; "quoted" "too")"#);
        let forwarded = field(line, "header.x-forwarded-for").unwrap();
        assert_eq!(forwarded, "203.0.113.7, 10.0.0.1");
    }

    #[test]
    fn virtual_hosts_users_with_spaces_and_scanners() {
        let line = r#"shop.example:443 203.0.113.7 - Ann B. Smith [01/Jan/2026:12:00:00 +0000] "\x16\x03\x01\x02" 400 -"#;
        assert_eq!(field(line, "host").as_deref(), Some("shop.example:443"));
        assert_eq!(field(line, "ip").as_deref(), Some("203.0.113.7"));
        assert_eq!(field(line, "user").as_deref(), Some("Ann B. Smith"));
        assert_eq!((field(line, "method"), field(line, "path")), (None, None));
        assert_eq!(field(line, "response.bytes"), None);
        let named =
            r#"crawler.example.net - - [01/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1"#;
        assert_eq!(field(named, "ip").as_deref(), Some("crawler.example.net"));
    }

    #[test]
    fn a_field_may_be_another_attribute() {
        let line = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1"#;
        let entry = parse(line, &["user=org".parse().unwrap()]).unwrap();
        assert_eq!(entry.get("org").map(|org| org.text().into_owned()).as_deref(), Some("frank"));
        assert_eq!(entry.get("user"), None);
    }

    #[test]
    fn broken_lines_report_the_missing_field() {
        for (line, what) in [
            ("", "no time in brackets"),
            ("nonsense", "no time in brackets"),
            ("1.2.3.4 - - [01/Jan/2026:12:00:00 +0000", "no closing bracket"),
            ("1.2.3.4 - - [yesterday] \"GET / HTTP/1.1\" 200 1", "no time: yesterday"),
            ("1.2.3.4 - - [01/Jan/2026:12:00:00 +0000] \"GET / HTTP/1.1", "no request in quotes"),
            ("1.2.3.4 - - [01/Jan/2026:12:00:00 +0000] \"GET / HTTP/1.1\"", "no status"),
            ("1.2.3.4 - - [01/Jan/2026:12:00:00 +0000] \"GET / HTTP/1.1\" ok 1", "no status: ok"),
        ] {
            let error = parse(line, &[]).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
