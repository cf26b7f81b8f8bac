//! The arguments that describe a decision: a request under rules, or a key with an inline limit.

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::request_words::{RequestWords, is_request_word};

/// A request under rules, or a key with an inline limit.
#[derive(Args, Debug)]
pub(crate) struct DecisionArgs {
    /// Domain whose rules decide (optional where there is one), then the request as METHOD PATH
    /// name=value…
    #[arg(value_name = "[DOMAIN] REQUEST")]
    words: Vec<String>,

    /// Key to count by, with --limit
    #[arg(long)]
    pub(super) key: Option<String>,

    /// Limit, such as "10/s burst 20", with --key; several are decided together
    #[arg(long, requires = "key", conflicts_with = "words", allow_hyphen_values = true)]
    limit: Vec<String>,
}

impl DecisionArgs {
    /// Returns whether the limit is given inline.
    pub(super) fn has_inline_limit(&self) -> bool {
        !self.limit.is_empty()
    }

    /// Returns the domain, if one is given.
    pub(super) fn domain(&self) -> Option<&str> {
        self.words.first().map(String::as_str).filter(|word| !is_request_word(word))
    }

    /// Returns the words of the request.
    pub(super) fn request_words(&self) -> &[String] {
        &self.words[usize::from(self.domain().is_some())..]
    }

    /// Returns the body of the HTTP request.
    pub(super) fn body(&self) -> anyhow::Result<Value> {
        match (&self.key, self.limit.as_slice()) {
            (Some(key), [limit]) => Ok(json!({ "key": key, "limit": limit })),
            (Some(_), []) => bail!("--key needs a limit: add one, such as --limit \"10/s\""),
            (Some(key), limits) => Ok(json!({ "key": key, "limit": limits })),
            (None, _) if self.words.is_empty() => {
                bail!("nothing to decide: give a request, or --key and --limit")
            }
            (None, _) => self.request_body(),
        }
    }

    fn request_body(&self) -> anyhow::Result<Value> {
        let words = RequestWords::parse(self.request_words())?;
        if words.at.is_some() {
            bail!("at=… is for `explain`: a running server decides now");
        }
        let mut body = json!({});
        if let Some(domain) = self.domain() {
            body["domain"] = json!(domain);
        }
        let mut attributes = Map::new();
        for (name, value) in words.attributes()? {
            match name {
                "domain" => body["domain"] = json!(value),
                "cost" => body["cost"] = json!(value.parse::<u64>()?),
                _ => drop(attributes.insert(name.to_owned(), json!(value))),
            }
        }
        body["attributes"] = Value::Object(attributes);
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(words: &[&str]) -> anyhow::Result<Value> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        DecisionArgs { words, key: None, limit: Vec::new() }.body()
    }

    #[test]
    fn a_request_is_written_as_for_explain() {
        let attributes = json!({ "method": "POST", "path": "/login", "ip": "192.0.2.1" });
        assert_eq!(
            body(&["shop", "POST", "/login", "ip=192.0.2.1", "cost=3"]).unwrap(),
            json!({ "domain": "shop", "attributes": attributes, "cost": 3 })
        );
        assert_eq!(
            body(&["POST /login", "ip=192.0.2.1"]).unwrap(),
            json!({ "attributes": attributes })
        );
        let by_route = json!({ "route": "POST /login" });
        assert_eq!(
            body(&["demo", "route=POST /login"]).unwrap(),
            json!({ "domain": "demo", "attributes": by_route })
        );
    }

    #[test]
    fn a_request_must_be_complete() {
        for (words, expected) in [
            (&[][..], "nothing to decide"),
            (&["shop", "login"], "neither a method, a path nor NAME=VALUE"),
            (&["shop", "ip=x"], "is no address"),
            (&["shop", "at=5"], "decides now"),
        ] {
            let error = body(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
