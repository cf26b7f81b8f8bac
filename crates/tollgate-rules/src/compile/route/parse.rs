//! Parses routes.

use std::ops::Range;

use super::{Route, RouteSegment, regex_hint};
use crate::compile::glob;
use crate::matching::path;
use crate::read::fault::Fault;

/// The maximum number of segments of a route, which bounds the walk of the index.
const MAX_SEGMENTS: usize = 64;

pub(super) fn route(text: &str) -> Result<Route, Fault> {
    let start = text.len() - text.trim_start().len();
    let whole = start..text.trim_end().len().max(start);
    if let Some(fault) = regex_fault(text, whole.clone()) {
        return Err(fault);
    }
    let Some(slash) = text.find('/') else { return Err(without_slash(text, whole)) };
    let head = &text[..slash];
    if !head.trim().is_empty() && !head.ends_with(char::is_whitespace) {
        return Err(without_slash(text, whole));
    }
    let methods = methods(text, start..slash)?;
    let path = slash..whole.end;
    Ok(Route { methods, path: text[path.clone()].into(), segments: segments(text, path)? })
}

/// Makes the error about a regular expression in place of a path.
fn regex_fault(text: &str, whole: Range<usize>) -> Option<Fault> {
    let route = &text[whole.clone()];
    // The methods before it end with a blank; a regular expression may begin with `~ `.
    let path = match route.split_once(char::is_whitespace) {
        Some((methods, path)) if methods.split('|').all(is_method) => path.trim_start(),
        _ => route,
    };
    if !regex_hint::is_regex(path) {
        return None;
    }
    let range = whole.end - path.len()..whole.end;
    let fault = Fault::new(range, "a route is a path, not a regular expression").help(
        "in a route `*` is one segment, `{id}` one with a name, and `/**` at the end the rest; for \
         a regular expression write `when: path.matches(\"…\")`",
    );
    Some(match regex_hint::as_route(path) {
        Some(route) => fault.fix(route),
        None => fault,
    })
}

fn without_slash(text: &str, whole: Range<usize>) -> Fault {
    let word = text[whole.clone()].rsplit(char::is_whitespace).next().unwrap_or_default();
    let range = whole.end - word.len()..whole.end;
    match word {
        "" => Fault::new(whole, "a route is a path, as in POST /login"),
        // The host of an absolute target is not part of a route.
        _ if word.contains("://") => Fault::new(range, "a route has no scheme and no host")
            .help("write the path alone, and match the host with `when: host == \"…\"`"),
        _ if is_method(word) => Fault::new(range, "a route needs a path behind its method")
            .help(format!("write `{word} /**` for every path")),
        _ => Fault::new(range, "a path begins with a slash").fix(format!("/{word}")),
    }
}

fn is_method(word: &str) -> bool {
    let common = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    common.contains(&word.to_ascii_uppercase().as_str())
}

fn methods(text: &str, head: Range<usize>) -> Result<Vec<Box<str>>, Fault> {
    let mut methods: Vec<Box<str>> = Vec::new();
    if text[head.clone()].trim().is_empty() {
        return Ok(methods);
    }
    let mut at = head.start;
    for part in text[head].split('|') {
        let method = part.trim();
        let start = at + (part.len() - part.trim_start().len());
        let range = start..start + method.len();
        at += part.len() + 1;
        if method.is_empty() {
            return Err(Fault::new(range, "a method is missing").help("write GET|POST /path"));
        }
        if let Some(odd) = method.find(|letter: char| !is_token(letter)) {
            let fault = Fault::new(range, format!("{method:?} is no method"));
            let separators = method[odd..].starts_with([',', ' ', '\t', '/']);
            return Err(match separators {
                true => fault.help("methods are separated by `|`, as in GET|POST /path"),
                false => fault,
            });
        }
        let upper = method.to_ascii_uppercase();
        if upper != method {
            return Err(Fault::new(range, "methods are written in capitals").fix(upper));
        }
        if !methods.iter().any(|known| **known == *method) {
            methods.push(method.into());
        }
    }
    Ok(methods)
}

/// Whether a character is allowed in a method.
fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`~".contains(letter)
}

fn segments(text: &str, path: Range<usize>) -> Result<Vec<RouteSegment>, Fault> {
    if let Some(odd) = text[path.clone()].find(['?', '#']) {
        let range = path.start + odd..path.end;
        return Err(Fault::new(range, "a route has no query")
            .help("match it in `when`, as in `query[\"page\"] == \"1\"`")
            .fix(""));
    }
    let mut segments = Vec::new();
    let mut at = path.start;
    for part in text[path.clone()].split('/') {
        let range = at..at + part.len();
        at += part.len() + 1;
        if part.is_empty() {
            continue;
        }
        if segments.last().is_some_and(RouteSegment::is_open) {
            let rest = text[..range.start].rfind("**").map_or(range.clone(), |rest| rest..rest + 2);
            return Err(Fault::new(rest, "`**` is the rest of a path: nothing can follow it")
                .help("`*` is one segment"));
        }
        match (segment(part, range.clone(), &segments)?, prefix_of(part)) {
            (Some(special), _) => segments.push(special),
            (None, Some(text)) => segments.extend(prefix(text)),
            (None, None) => segments.extend(literals(part)),
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(Fault::new(range, format!("a route has at most {MAX_SEGMENTS} segments")));
        }
    }
    Ok(segments)
}

/// Parses a part of the pattern with a special meaning; none if it is literal.
fn segment(
    part: &str,
    range: Range<usize>,
    before: &[RouteSegment],
) -> Result<Option<RouteSegment>, Fault> {
    let inner = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match (part, inner) {
        ("**", _) => Ok(Some(RouteSegment::Rest)),
        ("*", _) => Ok(Some(RouteSegment::Any(None))),
        (_, Some(name)) => name_of(name, range, before).map(Some),
        _ if part.contains(['{', '}']) => {
            Err(Fault::new(range, "a name stands for a whole segment")
                .help("write `{name}` between slashes; a `*` may stand for a part"))
        }
        _ if part.starts_with(':') && part.len() > 1 => {
            Err(Fault::new(range, "a name is written in braces").fix(format!("{{{}}}", &part[1..])))
        }
        _ if part.contains("**") && prefix_of(part).is_none() => {
            Err(Fault::new(range, "`**` stands at the end of a path, behind a slash or plain text")
                .help(
                    "`/a/**` is `/a` and what is below it, `/a**` every path that begins with `/a`",
                )
                .fix(part.replace("**", "*")))
        }
        (".", _) | ("..", _) => Err(Fault::new(range, "a route has no `.` and no `..`")),
        _ => Ok(None),
    }
}

fn name_of(
    name: &str,
    range: Range<usize>,
    before: &[RouteSegment],
) -> Result<RouteSegment, Fault> {
    let is_word = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    if name.is_empty() {
        return Err(Fault::new(range, "a name is missing in the braces")
            .help("write `{id}`, or `*` for a segment without a name"));
    }
    if !is_word(name) {
        return Err(Fault::new(range, format!("{name:?} is no name"))
            .help("a name is made of letters, digits and `_`"));
    }
    let taken =
        |known: &RouteSegment| matches!(known, RouteSegment::Any(Some(known)) if **known == *name);
    match before.iter().any(taken) {
        true => Err(Fault::new(range, format!("`{{{name}}}` is already in this route"))),
        false => Ok(RouteSegment::Any(Some(name.into()))),
    }
}

/// Returns the text before `**` in `text**`.
fn prefix_of(part: &str) -> Option<&str> {
    part.strip_suffix("**").filter(|text| !text.is_empty() && !glob::is_pattern(text))
}

/// Returns the segments of `text**`: the last one is a prefix.
fn prefix(text: &str) -> Vec<RouteSegment> {
    // With a letter behind it, a `.` at the end is no segment of its own.
    let spelled = format!("/{text}x");
    let normal = path::cased(&spelled);
    let parts: Vec<&str> = normal.split('/').filter(|part| !part.is_empty()).collect();
    let Some((last, before)) = parts.split_last() else { return vec![RouteSegment::Rest] };
    let literals = before.iter().map(|part| RouteSegment::Literal((*part).into()));
    let last = last.strip_suffix('x').unwrap_or(last);
    literals.chain([RouteSegment::Prefix(last.into())]).collect()
}

/// Splits a literal part into segments in their normal spelling, which request paths have.
fn literals(part: &str) -> Vec<RouteSegment> {
    let spelled = format!("/{part}");
    let normal = path::cased(&spelled);
    let parts = normal.split('/').filter(|part| !part.is_empty());
    let segment = |part: &str| match glob::is_pattern(part) {
        true => RouteSegment::Pattern(part.into()),
        false => RouteSegment::Literal(part.into()),
    };
    parts.map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_at_the_wrong_part() {
        for (text, range, fix) in [
            ("login", "login", Some("/login")),
            ("POST login", "login", Some("/login")),
            ("POST", "POST", None),
            ("", "", None),
            ("get /a", "get", Some("GET")),
            ("GET|post /a", "post", Some("POST")),
            ("GET,POST /a", "GET,POST", None),
            ("GET| /a", "", None),
            ("https://host/a", "https://host/a", None),
            ("/a?b=c", "?b=c", Some("")),
            ("/a/**/b", "**", None),
            ("/a/{}/b", "{}", None),
            ("/{id}/{id}", "{id}", None),
            ("/{a b}", "{a b}", None),
            ("/x{id}", "x{id}", None),
            ("/:id", ":id", Some("{id}")),
            ("/a**b", "a**b", Some("a*b")),
            ("/a*b**", "a*b**", Some("a*b*")),
            ("/a***", "a***", Some("a**")),
            ("/a**/b", "**", None),
            ("/a/../b", "..", None),
            ("^/api/.*$", "^/api/.*$", Some("/api/**")),
            ("GET|POST ^/api/.*$", "^/api/.*$", Some("/api/**")),
            ("~ ^/(a|b)", "~ ^/(a|b)", None),
        ] {
            let fault = route(text).expect_err(text);
            assert_eq!(&text[fault.range.clone()], range, "{text}: {}", fault.message);
            assert_eq!(fault.fix.as_deref(), fix, "{text}: {}", fault.message);
        }
        let long = "/a".repeat(65);
        assert!(route(&long).is_err() && route(&long[2..]).is_ok());
    }

    #[test]
    fn the_second_of_two_equal_names_is_the_error() {
        assert_eq!(route("/{id}/{id}").unwrap_err().range, 6..10);
    }
}
