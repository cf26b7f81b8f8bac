//! The request on the command line, for `explain`, `check`, `peek` and `reset`:
//! `POST /login ip=1.2.3.4`.

use anyhow::{anyhow, bail};
use tollgate::Time;
use tollgate_rules::{AttributeWord, Request};

use crate::log::instant;

/// The words of a request, and its time if one is given.
#[derive(Debug)]
pub(crate) struct RequestWords {
    words: Vec<String>,
    pub(crate) at: Option<Time>,
}

impl RequestWords {
    /// Separates the time, queries and cookies from the words that a request is parsed from.
    pub(crate) fn parse(args: &[String]) -> anyhow::Result<RequestWords> {
        let (mut at, mut words) = (None, Vec::new());
        let (mut query, mut cookies) = (Vec::new(), Vec::new());
        for arg in args.iter().flat_map(|arg| method_and_path(arg)) {
            if let Some((host, path)) = host_and_path(arg) {
                words.push(format!("host={host}"));
                words.push(path);
                continue;
            }
            let word = attribute_word(arg);
            match word.map(|word| (word.name, word.entry(), word.value)) {
                Some(("at", _, value)) => {
                    let wrong = || anyhow!("at={value} is no time: write at=2026-01-31T12:00:00Z");
                    at = Some(instant(value).ok_or_else(wrong)?);
                }
                Some((_, Some(("query", name)), value)) => {
                    query.push(format!("{}={}", escape(name), escape(value)));
                }
                Some((_, Some(("cookie", name)), value)) => cookies.push(format!("{name}={value}")),
                Some((name, Some(("param", _)), _)) => {
                    bail!("{name} comes with the path: write the path, such as /users/42")
                }
                Some((_, Some(("header", name)), value)) => {
                    words.push(format!("header.{name}={value}"));
                }
                _ => words.push(arg.to_owned()),
            }
        }
        if !query.is_empty() {
            let Some(path) = words.iter_mut().find(|word| word.starts_with('/')) else {
                bail!("a query needs a path: write one, such as /search");
            };
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&query.join("&"));
        }
        if !cookies.is_empty() {
            words.push(format!("header.cookie={}", cookies.join("; ")));
        }
        Ok(RequestWords { words, at })
    }

    /// Returns the words as attributes of an HTTP call, without the time.
    pub(crate) fn attributes(&self) -> anyhow::Result<Vec<(&str, &str)>> {
        // The words are read as a request first, for its errors.
        self.request()?;
        let mut attributes = Vec::new();
        for word in &self.words {
            attributes.push(match AttributeWord::parse(word) {
                _ if word.starts_with('/') => ("path", word.as_str()),
                Some(word) => (word.name, word.value),
                None => ("method", word.as_str()),
            });
        }
        Ok(attributes)
    }

    pub(crate) fn request(&self) -> anyhow::Result<Request<'_>> {
        Request::from_words(self.words.iter().map(String::as_str)).map_err(|error| anyhow!(error))
    }
}

/// Returns whether a word is a method, alone or with a path: `POST`, `"POST /login"`.
pub(crate) fn is_method(word: &str) -> bool {
    let method = word.split(' ').next().unwrap_or_default();
    !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// Returns whether a word belongs to a request: a method, a path, a URL or `name=value`.
pub(crate) fn is_request_word(word: &str) -> bool {
    word.contains('=') || word.starts_with('/') || word.contains("://") || is_method(word)
}

/// Splits an attribute. A path or a URL with a query is none, although it has a `=`.
fn attribute_word(arg: &str) -> Option<AttributeWord<'_>> {
    AttributeWord::parse(arg).filter(|word| {
        let map = word.name.split('[').next().unwrap_or_default();
        !map.contains(['/', '?', '#'])
    })
}

/// Splits a method and a path or URL that are quoted as one argument: `"POST /login"`.
fn method_and_path(arg: &str) -> Vec<&str> {
    match arg.split_once(' ').map(|(method, path)| (method, path.trim())) {
        Some((method, path))
            if !method.contains('=') && (path.starts_with('/') || path.contains("://")) =>
        {
            vec![method, path]
        }
        _ => vec![arg],
    }
}

/// Splits a URL: `https://shop.example/login?next=%2F` is a host and a path with its query. The
/// scheme may be left out where there is a query: `shop.example/login?next=%2F`.
fn host_and_path(arg: &str) -> Option<(&str, String)> {
    let rest = match arg.strip_prefix("http://").or_else(|| arg.strip_prefix("https://")) {
        Some(rest) => rest,
        // Other schemes are left to the parser of requests, which reports them.
        None if arg.contains("://") || !arg.contains('=') => return None,
        None => Some(arg).filter(|_| attribute_word(arg).is_none())?,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    let target = target.split('#').next().unwrap_or_default();
    let slash = if target.starts_with('/') { "" } else { "/" };
    (!host.is_empty()).then(|| (host, format!("{slash}{target}")))
}

/// Percent-encodes a name or value of a query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> anyhow::Result<RequestWords> {
        RequestWords::parse(&args.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn queries_cookies_and_the_time_are_separated() {
        let request = parse("POST /a?x=y ip=::1 query.q=é& cookie.s=1 cookie.t=2 at=5").unwrap();
        let cookie = "header.cookie=s=1; t=2";
        assert_eq!(request.words, ["POST", "/a?x=y&q=%C3%A9%26", "ip=::1", cookie]);
        assert_eq!(request.at, Some(Time::from_nanos(5_000_000_000)));
        assert!(request.request().is_ok());
    }

    #[test]
    fn brackets_and_dots_spell_one_attribute() {
        for words in [
            r#"/a header["x-org"]=acme query["q"]=1 cookie["s"]=2"#,
            "/a header[x-org]=acme query[q]=1 cookie[s]=2",
            "/a header.x-org=acme query.q=1 cookie.s=2",
        ] {
            let expected = ["/a?q=1", "header.x-org=acme", "header.cookie=s=2"];
            assert_eq!(parse(words).unwrap().words, expected, "{words}");
        }
    }

    #[test]
    fn a_method_and_a_path_may_be_one_argument() {
        let quoted =
            RequestWords::parse(&["POST /login".to_owned(), "user=ann b".to_owned()]).unwrap();
        assert_eq!(quoted.words, ["POST", "/login", "user=ann b"]);
        assert_eq!(parse("/a?at=5").unwrap().words, ["/a?at=5"]);
    }

    #[test]
    fn a_url_is_a_host_and_a_path() {
        let words = parse("GET https://shop.example/a?b=c#d ip=::1").unwrap().words;
        assert_eq!(words, ["GET", "host=shop.example", "/a?b=c", "ip=::1"]);
        assert_eq!(parse("http://a.example:81").unwrap().words, ["host=a.example:81", "/"]);
        assert_eq!(parse("a.example/b?c=d").unwrap().words, ["host=a.example", "/b?c=d"]);
        assert_eq!(parse("localhost:81?c=d").unwrap().words, ["host=localhost:81", "/?c=d"]);
        let quoted = RequestWords::parse(&["GET https://a.example/?b=c".to_owned()]).unwrap();
        assert_eq!(quoted.words, ["GET", "host=a.example", "/?b=c"]);
        assert_eq!(parse("next=/a?b=c").unwrap().words, ["next=/a?b=c"], "a URL as a value");
        for wrong in ["ftp://a.example/?b=c", "?b=c"] {
            let error = parse(wrong).unwrap().request().unwrap_err().to_string();
            assert!(error.contains("is no NAME=VALUE"), "{error}");
        }
    }

    #[test]
    fn errors_explain_what_to_write() {
        for (args, what) in [
            ("at=noon", "no time"),
            ("query.q=1", "a query needs a path"),
            ("param.id=1", "comes with the path"),
        ] {
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains(what), "{args}: {error}");
        }
        let error = parse("login").unwrap().request().unwrap_err().to_string();
        assert!(error.contains("neither a method, a path nor NAME=VALUE"), "{error}");
    }
}
