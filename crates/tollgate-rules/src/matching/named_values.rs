//! Query parameters and cookies: values that a client can send several times under one name.
//!
//! Of two values, PHP believes the last parameter and the first cookie, Express makes a list, Python
//! believes the last cookie, ASP.NET joins both and ignores case. So a name has a value only if all
//! of them read the same one; otherwise its values contradict each other.

use std::borrow::Cow;

use crate::matching::path;

/// The number of parameters behind which many servers ignore the rest of a query.
const MAX_PARAMETERS: usize = 1000;

/// The value of a query parameter or a cookie.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NamedValue<'t> {
    Missing,
    One(Cow<'t, str>),
    /// The values of a name on which servers disagree, in order.
    Several(Vec<Cow<'t, str>>),
}

/// The choice of one of several values that contradict each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ValuePick {
    /// There is no value.
    #[default]
    None,
    First,
    Last,
    /// All of them, separated by commas.
    Joined,
}

impl ValuePick {
    pub(crate) const ALL: [ValuePick; 4] =
        [ValuePick::None, ValuePick::First, ValuePick::Last, ValuePick::Joined];
}

impl<'t> NamedValue<'t> {
    /// Returns the value, or the picked one of several.
    pub(crate) fn pick(self, pick: ValuePick) -> Option<Cow<'t, str>> {
        match self {
            NamedValue::Missing => None,
            NamedValue::One(value) => Some(value),
            NamedValue::Several(mut values) => match pick {
                ValuePick::None => None,
                ValuePick::First => values.into_iter().next(),
                ValuePick::Last => values.pop(),
                ValuePick::Joined => Some(Cow::Owned(values.join(","))),
            },
        }
    }

    pub(crate) fn into_owned(self) -> NamedValue<'static> {
        let owned = |value: Cow<'_, str>| Cow::Owned(value.into_owned());
        match self {
            NamedValue::Missing => NamedValue::Missing,
            NamedValue::One(value) => NamedValue::One(owned(value)),
            NamedValue::Several(values) => {
                NamedValue::Several(values.into_iter().map(owned).collect())
            }
        }
    }

    /// Adds a value. An odd one contradicts even itself: not every server reads it.
    fn add(&mut self, value: Cow<'t, str>, is_odd: bool) {
        *self = match std::mem::replace(self, NamedValue::Missing) {
            NamedValue::Missing if is_odd => NamedValue::Several(vec![value]),
            NamedValue::Missing => NamedValue::One(value),
            NamedValue::One(known) if !is_odd && known == value => NamedValue::One(known),
            NamedValue::One(known) => NamedValue::Several(vec![known, value]),
            NamedValue::Several(mut known) => {
                known.push(value);
                NamedValue::Several(known)
            }
        };
    }

    /// Turns one value into several, if it has one.
    fn doubt(&mut self) {
        *self = match std::mem::replace(self, NamedValue::Missing) {
            NamedValue::One(value) => NamedValue::Several(vec![value]),
            other => other,
        };
    }
}

/// Returns the value of a query parameter.
pub(crate) fn query<'t>(target: &'t str, name: &str) -> NamedValue<'t> {
    let mut found = NamedValue::Missing;
    let Some((_, query)) = target.split_once('?') else { return found };
    let query = query.split('#').next().unwrap_or_default();
    let mut count = 0;
    for pair in query.split('&') {
        count += 1;
        // Some servers separate parameters by `;` as well.
        let (pair, rest) = match pair.split_once(';') {
            Some((first, rest)) => (first, Some(rest)),
            None => (pair, None),
        };
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some(is_same) = resembles(key, name) {
            let (value, is_clear) = form_decode(value);
            found.add(value, !is_same || !is_clear || rest.is_some());
        }
        for pair in rest.into_iter().flat_map(|rest| rest.split(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if resembles(key, name).is_some() {
                found.add(form_decode(value).0, true);
            }
        }
    }
    if count > MAX_PARAMETERS {
        found.doubt();
    }
    found
}

/// Returns the value of a cookie in a `Cookie` header.
pub(crate) fn cookie<'c>(cookies: &'c str, name: &str) -> NamedValue<'c> {
    let mut found = NamedValue::Missing;
    let blank = [' ', '\t'];
    // Some servers look for the end of a quoted value behind the next `;`.
    let mut is_quote_open = false;
    for pair in cookies.split(';') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (key.trim_start_matches(blank), value.trim_matches(blank));
        let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        is_quote_open |= inner.unwrap_or(value).contains('"');
        if key.trim_end_matches(blank) == name || alias(key).eq(alias(name)) {
            let raw = inner.unwrap_or(value);
            let (text, is_clear) = percent_decode(raw, false);
            // Blanks and commas separate cookies in some servers, `\` escapes in others.
            let has_syntax = raw.contains(['"', '\\', ',', ' ', '\t']);
            found.add(text, key != name || !pair.contains('=') || !is_clear || has_syntax);
        } else if value.contains(['"', ',', ' ', '\t']) && contains_name(value, name) {
            found.add(Cow::Borrowed(value), true);
        }
    }
    if is_quote_open {
        found.doubt();
    }
    found
}

/// Joins the values that two `Cookie` headers have for one name.
pub(crate) fn join_cookies<'c>(
    found: Option<NamedValue<'c>>,
    next: NamedValue<'c>,
) -> NamedValue<'c> {
    let Some(mut found) = found else { return next };
    match next {
        NamedValue::Missing => {}
        NamedValue::One(value) => found.add(value, false),
        NamedValue::Several(values) => values.into_iter().for_each(|value| found.add(value, true)),
    }
    found
}

/// Whether the name of a cookie stands before a `=` in the value of another.
fn contains_name(value: &str, name: &str) -> bool {
    let (value, name) = (value.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut after = value.match_indices(&name).map(|(at, name)| &value[at + name.len()..]);
    after.any(|after| after.trim_start().starts_with('='))
}

/// Whether a key of a query is the name (`true`), or some server takes it for the name (`false`).
fn resembles(key: &str, name: &str) -> Option<bool> {
    if key == name {
        return Some(true);
    }
    let first = |text: &str| text.bytes().next().map(|byte| byte.to_ascii_lowercase());
    // Most keys differ in their first letter.
    if first(key).is_some_and(|byte| byte.is_ascii_alphanumeric()) && first(key) != first(name) {
        return None;
    }
    let (key, is_clear) = form_decode(key);
    if key == name {
        return Some(is_clear);
    }
    alias(&key).eq(alias(name)).then_some(false)
}

/// Returns what all names have in common that some server takes for the same: ASP.NET ignores case,
/// PHP reads `a.b`, `a b` and `a_b` alike and `a[]` as a list `a`, and others end a name at a NUL.
fn alias(name: &str) -> impl Iterator<Item = char> {
    let name = name.trim_start_matches([' ', '\t', '+']);
    let name = name.split(['[', '\0']).next().unwrap_or_default().trim_end_matches([' ', '\t']);
    name.chars().map(|letter| match letter {
        '.' | ' ' | '+' | '\t' => '_',
        letter => letter.to_ascii_lowercase(),
    })
}

/// Decodes a part of a query, and returns whether every server decodes it alike.
fn form_decode(text: &str) -> (Cow<'_, str>, bool) {
    percent_decode(text, true)
}

fn percent_decode(text: &str, is_form: bool) -> (Cow<'_, str>, bool) {
    if !text.bytes().any(|byte| byte == b'%' || is_form && byte == b'+') {
        return (Cow::Borrowed(text), true);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut is_clear = true;
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, path::hex(after)) {
            (b'%', Some(value)) => {
                is_clear &= !value.is_ascii_control();
                bytes.push(value);
                rest = &after[2..];
            }
            (b'+', _) if is_form => bytes.push(b' '),
            _ => {
                is_clear &= byte != b'%';
                bytes.push(byte);
            }
        }
    }
    is_clear &= std::str::from_utf8(&bytes).is_ok();
    (Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()), is_clear)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: NamedValue<'_>) -> String {
        match value {
            NamedValue::Missing => "-".to_owned(),
            NamedValue::One(value) => value.into_owned(),
            NamedValue::Several(values) => format!("[{}]", values.join("|")),
        }
    }

    #[test]
    fn a_parameter_is_read_as_every_server_reads_it() {
        for (query_text, expected) in [
            ("k=a", "a"),
            ("x=1&k=a%20b+c", "a b c"),
            ("x&k", ""),
            ("x=1", "-"),
            ("%6b=a", "a"),
            ("k=a&k=a", "a"),
            ("k=r1&k=real", "[r1|real]"),
            ("k=r1&%6B=real", "[r1|real]"),
            ("k=r1&K=real", "[r1|real]"),
            ("K=real", "[real]"),
            ("k=r1&k[]=real", "[r1|real]"),
            ("k=r1&+k=real", "[r1|real]"),
            ("k=r1;k=real", "[r1|real]"),
            ("x=1;k=real", "[real]"),
            ("k=real;r1", "[real]"),
            ("k=r1%zz", "[r1%zz]"),
            ("k=a%00b", "[a\0b]"),
            ("kk=a&key=b", "-"),
        ] {
            let target = format!("/p?{query_text}#k=x");
            assert_eq!(read(query(&target, "k")), expected, "{query_text}");
        }
        assert_eq!(read(query("/p", "k")), "-");
        assert_eq!(read(query("/p?a.b=1", "a_b")), "[1]");
        let long = format!("/p?{}k=a", "x&".repeat(MAX_PARAMETERS));
        assert_eq!(read(query(&long, "k")), "[a]");
    }

    #[test]
    fn a_cookie_is_read_as_every_server_reads_it() {
        for (header, expected) in [
            ("sid=a", "a"),
            ("x=1; sid=a; y=2", "a"),
            ("x=1;sid=\"a\"", "a"),
            ("sid=%61b", "ab"),
            ("sid=a; sid=a", "a"),
            ("x=1", "-"),
            ("xsid=1; sid2=2", "-"),
            ("sid=r1; sid=real", "[r1|real]"),
            ("sid=r1; SID=real", "[r1|real]"),
            ("sid =r1", "[r1]"),
            ("x=1 sid=real; sid=r1", "[1 sid=real|r1]"),
            ("x=1, sid=real", "[1, sid=real]"),
            ("x=\"; sid=r1; y=\"", "[r1]"),
            ("sid=\"\\162eal\"", "[\\162eal]"),
            ("sid=a b", "[a b]"),
            ("sid=a%zz", "[a%zz]"),
            ("sid", "[]"),
        ] {
            assert_eq!(read(cookie(header, "sid")), expected, "{header}");
        }
    }

    #[test]
    fn a_value_is_picked_from_several() {
        let several = || query("/?k=a&k=b&k=c", "k");
        let picked = ValuePick::ALL.map(|pick| several().pick(pick).map(Cow::into_owned));
        let [none, first, last, joined] = picked;
        assert_eq!((none, first.as_deref()), (None, Some("a")));
        assert_eq!((last.as_deref(), joined.as_deref()), (Some("c"), Some("a,b,c")));
    }
}
