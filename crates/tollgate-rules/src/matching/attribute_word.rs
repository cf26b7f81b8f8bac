//! The spelling of attributes in requests: `header["x-org"]`, and the short form `header.x-org`.

/// An attribute as callers, test cases and command lines write it: `header["x-org"]=acme`.
///
/// `header["x-org"]` is the spelling of rules, and works wherever a request names an attribute. The
/// quotes may be left out, since shells remove them, and so may the brackets: `header.x-org`.
///
/// ```
/// use tollgate_rules::AttributeWord;
///
/// for word in [r#"header["x-org"]=acme"#, "header[x-org]=acme", "header.x-org=acme"] {
///     let word = AttributeWord::parse(word).unwrap();
///     assert_eq!((word.entry(), word.value), (Some(("header", "x-org")), "acme"));
/// }
/// assert_eq!(AttributeWord::parse("user=ann").unwrap().entry(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeWord<'a> {
    /// The name of the attribute.
    pub name: &'a str,
    /// The value.
    pub value: &'a str,
}

impl<'a> AttributeWord<'a> {
    /// Splits a word at the `=` behind its name; none if it has no `=`.
    pub fn parse(word: &'a str) -> Option<AttributeWord<'a>> {
        let equals = word.find('=')?;
        // A name in brackets may contain a `=`.
        let end = match word[..equals].find('[') {
            Some(bracket) => bracket + word[bracket..].find("]=")? + 1,
            None => equals,
        };
        Some(AttributeWord { name: &word[..end], value: &word[end + 1..] })
    }

    /// Returns the map and the name in it, of `header["x-org"]` and the like.
    pub fn entry(&self) -> Option<(&'a str, &'a str)> {
        let end = self.name.find(['.', '['])?;
        Some((&self.name[..end], entry_key(&self.name[end..])?))
    }
}

/// Returns the name behind a map: `x-org` of `["x-org"]`, `['x-org']`, `[x-org]` and `.x-org`.
pub(crate) fn entry_key(rest: &str) -> Option<&str> {
    if let Some(key) = rest.strip_prefix('.') {
        return Some(key);
    }
    let inner = rest.strip_prefix('[')?.strip_suffix(']')?;
    let quoted = |quote| inner.strip_prefix(quote)?.strip_suffix(quote);
    Some(quoted('"').or_else(|| quoted('\'')).unwrap_or(inner))
}

/// Whether a name in brackets, as `jwt["sub"]`, spells an attribute with dots: `jwt.sub`.
pub(crate) fn spells(sent: &str, name: &str) -> bool {
    // Most names have no brackets, and this is asked about each attribute of a request.
    if !sent.ends_with(']') {
        return false;
    }
    let Some(end) = sent.find('[') else { return false };
    let rest = name.strip_prefix(&sent[..end]).and_then(|rest| rest.strip_prefix('.'));
    rest.is_some() && rest == entry_key(&sent[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_quotes_and_dots_spell_one_name() {
        for word in [r#"cookie["a=b"]=c=d"#, "cookie['a=b']=c=d", "cookie[a=b]=c=d"] {
            let word = AttributeWord::parse(word).unwrap();
            assert_eq!((word.entry(), word.value), (Some(("cookie", "a=b")), "c=d"));
        }
        let dotted = AttributeWord::parse("header.x-org=").unwrap();
        assert_eq!((dotted.entry(), dotted.value), (Some(("header", "x-org")), ""));
        assert_eq!(AttributeWord::parse("jwt.a.b=1").unwrap().entry(), Some(("jwt", "a.b")));
        for wrong in ["user", "header[x=1", "header["] {
            assert_eq!(AttributeWord::parse(wrong), None, "{wrong}");
        }
        assert_eq!(AttributeWord::parse("a]b[=1"), None);
    }

    #[test]
    fn a_name_in_brackets_is_that_with_dots() {
        assert!(
            spells(r#"jwt["sub"]"#, "jwt.sub")
                && spells("response.header[x-a]", "response.header.x-a")
        );
        for other in ["jwt.sub", "jwt[sub", "jwt[su]", "jw[sub]", "[", "]", "jwt]", "jwt[]"] {
            assert!(!spells(other, "jwt.sub"), "{other}");
        }
    }
}
