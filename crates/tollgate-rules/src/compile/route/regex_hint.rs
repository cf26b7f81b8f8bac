//! Recognises regular expressions that were written as routes, and the route that says the same.

/// Whether a text is rather a regular expression than a route.
pub(super) fn is_regex(word: &str) -> bool {
    // A prefix route ends with `**`, and its last character may be a dot: `/.**`.
    let literal = word.strip_suffix("**").unwrap_or(word);
    word.starts_with(['^', '~'])
        || word.ends_with('$')
        || [".*", ".+", "[^", "(?:", "\\d", "\\w", "\\.", "[0-9]", "(.", "|/"]
            .iter()
            .any(|sign| literal.contains(sign))
}

/// Returns the route with the meaning of a simple regular expression: `/api/**` of `^/api/.*$`.
pub(super) fn as_route(regex: &str) -> Option<String> {
    let is_anchored = regex.ends_with('$');
    let regex = regex.trim_start_matches(['~', '*', ' ']);
    let path = regex.strip_prefix('^').unwrap_or(regex).trim_end_matches('$');
    // A class that excludes slashes is one segment, and would be split at its own slash.
    let path = path.replace("[^/]+", "\\w+").replace("[^/]*", "\\w+");
    let path = path.replace("\\/", "/").replace("\\.", ".").replace("\\-", "-");
    let rest = path.strip_prefix('/')?;
    let mut route = String::new();
    let mut parts = rest.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        route.push('/');
        route.push_str(match part {
            ".*" | ".+" | "(.*)" | "(.+)" if is_last => "**",
            "\\d+" | "(\\d+)" | "[0-9]+" | "([0-9]+)" | "\\w+" | "(\\w+)" => "*",
            literal if is_literal(literal) => literal,
            _ => return None,
        });
    }
    // Without an anchor, whatever follows matches as well.
    match is_anchored || route.ends_with("/**") {
        true => Some(route),
        false if route.ends_with('/') => Some(format!("{route}**")),
        false => None,
    }
}

fn is_literal(part: &str) -> bool {
    part.chars().all(|c| c.is_alphanumeric() || "-_.~%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_regular_expressions_become_routes() {
        for (regex, route) in [
            ("^/api/.*$", Some("/api/**")),
            ("^/api/", Some("/api/**")),
            ("~ ^/api/(.*)", Some("/api/**")),
            (r"^/users/\d+/posts$", Some("/users/*/posts")),
            (r"/users/[^/]+$", Some("/users/*")),
            (r"^\/v1\/a\.json$", Some("/v1/a.json")),
            ("^/api", None),
            ("^/(a|b)$", None),
            (".*", None),
            ("^", None),
        ] {
            assert_eq!(as_route(regex).as_deref(), route, "{regex}");
        }
        for regex in ["^/api", "/api/.*", r"/users/\d+", "/a$", "/(?:a|b)"] {
            assert!(is_regex(regex), "{regex}");
        }
        for route in ["/api/**", "/v1/*.json", "login", "/a.b/c", "/{id}", "/a+b", "/a(b)"] {
            assert!(!is_regex(route), "{route}");
        }
    }
}
