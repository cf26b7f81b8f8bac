//! The default format of Envoy, and that of Istio, which has more fields.

use super::fields::{FieldRename, address, request_line};
use super::line_scanner::LineScanner;
use super::log_entry::LogEntry;
use super::timestamp;

pub(super) fn parse(line: &str, renames: &[FieldRename]) -> Result<LogEntry, String> {
    let inner = line.strip_prefix('[').ok_or("no time in brackets at the start of the line")?;
    let mut scan = LineScanner(inner);
    let when = scan.until("]").ok_or("the time has no closing bracket")?;
    let at =
        timestamp::instant(when).ok_or_else(|| format!("no time: {}", crate::text::key(when)))?;
    let mut entry = LogEntry::new(at);

    let request = scan.quoted().ok_or("no request in quotes after the time")?;
    if let Some((method, target)) = request_line(&request) {
        entry.add("method", method.to_owned(), renames);
        entry.add("path", target.to_owned(), renames);
    }
    let status = scan.word().ok_or("no status after the request")?;
    let status: i64 =
        status.parse().map_err(|_| format!("no status: {}", crate::text::key(status)))?;
    entry.add("response.status", status, renames);
    entry.add(
        "response.flags",
        scan.word().ok_or("no flags after the status")?.to_owned(),
        renames,
    );
    // Istio has two words and a quoted text with the reason before the first number.
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let mut ahead = scan;
    if !ahead.word().is_some_and(is_number) {
        scan = ahead;
        scan.word();
        scan.quoted().ok_or("no reason in quotes after the details")?;
    }
    let _received = scan.word();
    if let Some(sent) = scan.word().and_then(|word| word.parse::<i64>().ok()) {
        entry.add("response.bytes", sent, renames);
    }
    let _duration = scan.word();
    let _upstream_time = scan.word();
    let mut text = || scan.quoted().ok_or("too few texts in quotes after the numbers");
    let (forwarded, agent, id, host) = (text()?, text()?, text()?, text()?);
    let _upstream = scan.quoted();
    // The fourth word after that is Istio's `DOWNSTREAM_REMOTE_ADDRESS`. Without it, the last of the
    // forwarded addresses, which Envoy appends, is its peer.
    let peer = scan.0.split(' ').filter(|word| !word.is_empty()).nth(3).and_then(address);
    let peer = peer.or_else(|| address(forwarded.rsplit(',').next()?));
    if let Some(peer) = peer {
        entry.add("ip", peer, renames);
    }
    entry.add("header.x-forwarded-for", forwarded.into_owned(), renames);
    entry.add("header.user-agent", agent.into_owned(), renames);
    entry.add("header.x-request-id", id.into_owned(), renames);
    entry.add("host", host.into_owned(), renames);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str, name: &str) -> Option<String> {
        let entry = parse(line, &[]).unwrap();
        entry.get(name).map(|value| value.text().into_owned())
    }

    #[test]
    fn the_default_format() {
        let line = r#"[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 7 226 100 "192.0.2.9, 10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#;
        let entry = parse(line, &[]).unwrap();
        assert_eq!(entry.at.as_nanos(), 1_460_751_420_310_000_000);
        for (name, value) in [
            ("ip", "10.0.35.28"),
            ("method", "POST"),
            ("path", "/api/v1/locations"),
            ("response.status", "204"),
            ("response.bytes", "7"),
            ("header.x-forwarded-for", "192.0.2.9, 10.0.35.28"),
            ("header.user-agent", "nsq2http"),
            ("host", "locations"),
        ] {
            assert_eq!(field(line, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(field(line, "response.flags"), None);
    }

    #[test]
    fn the_format_of_istio() {
        let line = r#"[2026-01-01T12:00:00.000Z] "GET /status/418 HTTP/1.1" 418 UF via_upstream - "-" 0 135 4 3 "-" "curl/8.0" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 [2001:db8::9]:37652 outbound_.8000 default"#;
        assert_eq!(field(line, "ip").as_deref(), Some("2001:db8::9"));
        assert_eq!(field(line, "response.bytes").as_deref(), Some("135"));
        assert_eq!(field(line, "response.flags").as_deref(), Some("UF"));
        assert_eq!(field(line, "host").as_deref(), Some("httpbin:8000"));
    }

    #[test]
    fn broken_lines_report_the_missing_field() {
        for (line, what) in [
            ("x", "no time in brackets"),
            ("[x", "no closing bracket"),
            ("[x] \"GET / HTTP/2\" 200", "no time: x"),
            ("[2026-01-01T12:00:00Z] GET", "no request in quotes"),
            ("[2026-01-01T12:00:00Z] \"GET / HTTP/2\" - -", "no status: -"),
            ("[2026-01-01T12:00:00Z] \"GET / HTTP/2\" 200 - 1 2 3 4 \"-\"", "too few texts"),
        ] {
            let error = parse(line, &[]).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
