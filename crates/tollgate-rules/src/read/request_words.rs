//! Requests written as words: `POST /login ip=203.0.113.7 header.x-org=acme`.

use crate::{AttributeWord, Request};

impl<'a> Request<'a> {
    /// Reads a request from words: a method and a path, or either, then `name=value`.
    ///
    /// `header["NAME"]=` or `header.NAME=` sets a header, `domain=` the domain, `cost=` the cost;
    /// everything else is an attribute.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("rules: [{ name: login, route: POST /login, then: deny }]".parse()?);
    /// let request = Request::from_words(["POST", "/login", "ip=203.0.113.7"]).unwrap();
    /// assert!(!limiter.decide_now(&request).allowed);
    /// assert!(Request::from_words(["POST", "login"]).is_err());
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn from_words(words: impl IntoIterator<Item = &'a str>) -> Result<Request<'a>, String> {
        let mut request = Request::empty();
        for word in words {
            if word.starts_with('/') {
                request.target = Some(word);
            } else if let Some(word) = AttributeWord::parse(word) {
                request = request.with_word(word)?;
            } else if request.method.is_none() && is_method(word) {
                request.method = Some(word);
            } else {
                return Err(format!(
                    "{word:?} is neither a method, a path nor NAME=VALUE; \
                     write it as in: POST /login ip=203.0.113.7 user=ann"
                ));
            }
        }
        Ok(request)
    }

    fn with_word(self, word: AttributeWord<'a>) -> Result<Request<'a>, String> {
        let AttributeWord { name, value } = word;
        match word.entry() {
            _ if name.is_empty() => Err(format!("\"={value}\" lacks a name")),
            // A URL with a query is no attribute.
            _ if name.contains(['/', '?', '#']) => Err(format!(
                "\"{name}={value}\" is no NAME=VALUE; write a URL as its path and its host, as in: \
                 /search?q=x host=shop.example"
            )),
            Some(("header", header)) => Ok(self.header(header, value)),
            _ if name == "domain" => Ok(self.domain(value)),
            _ if name == "cost" => match value.parse() {
                Ok(cost) => Ok(self.cost(cost)),
                Err(_) => Err(format!("the cost {value:?} is no whole number")),
            },
            _ if name == "ip" && value.parse::<std::net::IpAddr>().is_err() => {
                Err(format!("{value:?} is no address"))
            }
            _ => Ok(self.attribute(name, value)),
        }
    }
}

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// Splits a line into words; blanks in quotes do not separate, as in `agent="curl 8"`.
pub(crate) fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut begun, mut quote) = (String::new(), false, None);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                begun = true;
            }
            (None, blank) if blank.is_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => {
                word.push(character);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_into_words() {
        assert_eq!(split_words("GET  / a=b"), ["GET", "/", "a=b"]);
        assert_eq!(split_words(r#"agent="curl 8" x='' y"#), ["agent=curl 8", "x=", "y"]);
        assert!(split_words("  ").is_empty());
    }

    #[test]
    fn words_make_a_request() {
        let words = [
            "POST",
            "/a?b=c",
            "ip=::1",
            "header.X-Org=acme",
            r#"header["x-b"]=c=d"#,
            "cost=3",
            "jwt.sub=ann",
        ];
        let request = Request::from_words(words).unwrap();
        assert_eq!((request.method, request.target), (Some("POST"), Some("/a?b=c")));
        assert_eq!((request.cost, request.headers[0]), (3, ("X-Org", "acme")));
        assert_eq!(request.headers[1], ("x-b", "c=d"));
        assert_eq!(request.attributes[0].0, "jwt.sub");
        for wrong in ["post", "cost=x", "ip=localhost", "=x", "http://a.example/?b=c", "a/b?c=d"] {
            assert!(Request::from_words([wrong]).is_err(), "{wrong}");
        }
    }
}
