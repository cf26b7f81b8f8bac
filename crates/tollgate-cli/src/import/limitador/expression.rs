//! Expressions of a limit, rewritten for rules.
//!
//! The entries of descriptors are spelled alike in both languages. `limit.name` and `limit.id` are
//! known, so they are replaced by their values.

use crate::import::condition::quoted;

/// The name and the id of a limit, which its conditions can compare.
pub(super) struct LimitIdentity<'l> {
    pub(super) name: Option<&'l str>,
    pub(super) id: Option<&'l str>,
}

/// An expression as rules write it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LimitExpression {
    pub(super) text: String,
    /// The value, if it does not depend on the request.
    pub(super) constant: Option<bool>,
    /// The names that are entries of no particular descriptor.
    pub(super) bare_names: Vec<String>,
    /// Whether it reads `limit.name` or `limit.id`.
    pub(super) names_limit: bool,
}

/// The words that are no names.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

impl LimitExpression {
    pub(super) fn read(text: &str, known: &LimitIdentity<'_>) -> Result<LimitExpression, String> {
        let mut read = LimitExpression {
            text: String::new(),
            constant: None,
            bare_names: Vec::new(),
            names_limit: false,
        };
        let mut rest = text.trim();
        while let Some(c) = rest.chars().next() {
            if matches!(c, '\'' | '"') {
                let end = string_end(rest).ok_or("a text is not closed")?;
                read.text.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            if !(c.is_alphabetic() || c == '_') {
                read.text.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
            let (name, after) = rest.split_at(name_len(rest));
            let is_field = read.text.trim_end().ends_with('.');
            let is_call = after.trim_start().starts_with('(');
            rest = match name {
                _ if is_field || is_call || WORDS.contains(&name) => {
                    read.text.push_str(name);
                    after
                }
                "descriptors" => read.entry(after)?,
                "limit" => read.identity(after, known)?,
                _ => read.bare(rest),
            };
        }
        read.constant = constant(&read.text);
        if read.constant.is_none() && is_ambiguous(&read.text) {
            return Err("the old syntax is ambiguous: write the value in quotes".to_owned());
        }
        Ok(read)
    }

    /// Reads what follows `descriptors`: `[0].user` or `[0]['user']`.
    fn entry<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let wanted = "only entries of a descriptor can be read, as in descriptors[0].x";
        let (index, rest) = text
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .ok_or(wanted)?;
        let index: u32 = index.trim().parse().map_err(|_| wanted)?;
        if index > 15 {
            return Err("rules know the first 16 descriptors".to_owned());
        }
        let (key, after) = field(rest).ok_or(wanted)?;
        self.text.push_str(&format!("descriptors[{index}][{}]", quoted(&key)));
        Ok(after)
    }

    /// Reads what follows `limit`: `.name`, `.id`.
    fn identity<'t>(
        &mut self,
        text: &'t str,
        known: &LimitIdentity<'_>,
    ) -> Result<&'t str, String> {
        let (key, after) = field(text).ok_or("a limit has a `name` and an `id`")?;
        let value = match key.as_str() {
            "name" => known.name,
            "id" => known.id,
            _ => return Err("a limit has a `name` and an `id`".to_owned()),
        };
        self.names_limit = true;
        self.text.push_str(&value.map_or("null".to_owned(), quoted));
        Ok(after)
    }

    /// Reads a name with its parts, up to a call: `req.method`, but `user` of `user.size()`.
    fn bare<'t>(&mut self, text: &'t str) -> &'t str {
        let mut end = name_len(text);
        while let Some(part) = text[end..].strip_prefix('.') {
            let len = name_len(part);
            if len == 0 || part[len..].trim_start().starts_with('(') {
                break;
            }
            end += 1 + len;
        }
        let (name, after) = text.split_at(end);
        self.text.push_str(name);
        if !self.bare_names.iter().any(|known| known == name) {
            self.bare_names.push(name.to_owned());
        }
        after
    }
}

/// Returns the value of a comparison of two literals: `"a" == "b"`, `null != "a"`.
fn constant(text: &str) -> Option<bool> {
    let value = |text: &str| match text.trim() {
        "null" => Some(None),
        text => literal(text).map(Some),
    };
    match text.trim() {
        "true" => return Some(true),
        "false" => return Some(false),
        _ => {}
    }
    for (operator, equal) in [("==", true), ("!=", false)] {
        let Some((one, two)) = text.split_once(operator) else { continue };
        if let (Some(one), Some(two)) = (value(one), value(two)) {
            return Some((one == two) == equal);
        }
    }
    None
}

/// Whether a text compares two plain names, as in the old syntax `plan == gold`.
fn is_ambiguous(text: &str) -> bool {
    let is_name = |text: &str| super::is_name(text.trim()) && !WORDS.contains(&text.trim());
    let split = text.split_once("==").or_else(|| text.split_once("!="));
    split.is_some_and(|(one, two)| is_name(one) && is_name(two))
}

/// Returns the text of a string literal without escapes.
pub(super) fn literal(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then(|| inner.to_owned())
}

/// Returns the name in `.name` or `['name']`, and the rest of the text.
fn field(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('.') {
        let len = name_len(rest);
        return (len > 0).then(|| (rest[..len].to_owned(), &rest[len..]));
    }
    let rest = text.strip_prefix('[')?.trim_start();
    let end = string_end(rest)?;
    let after = rest[end..].trim_start().strip_prefix(']')?;
    Some((literal(&rest[..end])?, after))
}

fn name_len(text: &str) -> usize {
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// Returns the length of the string literal at the start of the text, quotes included.
fn string_end(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LimitExpression, String> {
        LimitExpression::read(text, &LimitIdentity { name: Some("login"), id: None })
    }

    #[test]
    fn entries_of_descriptors_keep_their_number() {
        let text = "descriptors[0]['req.path'] != '/a' && descriptors[ 1 ].user.size() > 3";
        let expected = r#"descriptors[0]["req.path"] != '/a' && descriptors[1]["user"].size() > 3"#;
        let found = read(text).unwrap();
        assert_eq!((found.text.as_str(), found.bare_names.len()), (expected, 0));
        assert_eq!(read("descriptors[0]['x-y']").unwrap().text, r#"descriptors[0]["x-y"]"#);
        let quoted = "'descriptors[0].x' == descriptors[0].y";
        assert_eq!(read(quoted).unwrap().text, r#"'descriptors[0].x' == descriptors[0]["y"]"#);
        for bad in ["descriptors.size() > 1", "descriptors[99].x", "descriptors[0]", "'open"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_name_of_a_limit_is_known() {
        for (text, value) in [
            ("limit.name == 'login'", true),
            ("limit['name'] == \"other\"", false),
            ("'login' != limit.name", false),
            ("limit.id == 'x'", false),
            ("limit.id == null", true),
            ("limit.id != 'x'", true),
        ] {
            let found = read(text).unwrap();
            assert_eq!((found.constant, found.names_limit), (Some(value), true), "{text}");
        }
        let text = "limit.name == 'login' && descriptors[0].a == '1'";
        let found = read(text).unwrap();
        assert_eq!(found.text, r#""login" == 'login' && descriptors[0]["a"] == '1'"#);
        assert_eq!(found.constant, None);
        assert!(read("limit.max_value > 1").is_err());
    }

    #[test]
    fn names_without_a_descriptor_are_recognised() {
        let found = read("req.method == 'GET' && user.size() > 3 && user in ['a']").unwrap();
        assert_eq!(found.bare_names, ["req.method", "user"]);
        assert!(read("plan == gold").unwrap_err().contains("quotes"));
    }
}
