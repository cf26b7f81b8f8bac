//! What is said at each door.

use serde_json::{Map, Value, json};

use super::args::{BenchArgs, Door};
use super::message::{Message, with_holes};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// What is asked, the same at every door.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Limit { key: String, limit: String },
    Rules { domain: String, attributes: Vec<(String, String)> },
}

impl Question {
    pub(super) fn new(args: &BenchArgs) -> anyhow::Result<Question> {
        let rules = |domain: &str, attributes: &[(String, String)]| Question::Rules {
            domain: domain.to_owned(),
            attributes: attributes
                .iter()
                .map(|(name, value)| (name.clone(), with_holes(value)))
                .collect(),
        };
        match (&args.limit, &args.domain, args.door) {
            (None, Some(domain), _) => Ok(rules(domain, &args.attributes)),
            (Some(_), _, Door::Grpc) => {
                anyhow::bail!(
                    "the gRPC door decides by rules: give --domain and attributes instead"
                )
            }
            (None, None, Door::Grpc) => {
                Ok(rules("demo", &[("remote_address".to_owned(), "{ip}".to_owned())]))
            }
            (limit, ..) => {
                let limit = limit.clone().unwrap_or_else(|| "1k/s".to_owned());
                Ok(Question::Limit { key: with_holes("key:{}"), limit })
            }
        }
    }

    /// As a command of the Redis protocol.
    pub(super) fn command(&self) -> Message {
        let words: Vec<&str> = match self {
            Question::Limit { key, limit } => vec!["TG.LIMIT", key, limit],
            Question::Rules { domain, attributes } => {
                let pairs = attributes.iter().flat_map(|(name, value)| [name.as_str(), value]);
                ["TG.CHECK", domain].into_iter().chain(pairs).collect()
            }
        };
        Message::new(command(&words))
    }

    /// As a request of HTTP/1.1.
    pub(super) fn http(&self, host: &str, token: Option<&str>) -> Message {
        let (path, body) = match self {
            Question::Limit { key, limit } => ("/v1/limit", json!({ "key": key, "limit": limit })),
            Question::Rules { domain, attributes } => {
                let pairs = attributes.iter().map(|(name, value)| (name.clone(), json!(value)));
                let attributes: Map<String, Value> = pairs.collect();
                ("/v1/check", json!({ "domain": domain, "attributes": attributes }))
            }
        };
        let body = body.to_string();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let (token, length) = (token.unwrap_or_default(), body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             {token}content-length: {length}\r\n\r\n{body}"
        );
        Message::new(request.into_bytes())
    }

    /// As the body of a gRPC call, with the five bytes before it.
    pub(super) fn envoy(&self) -> Message {
        let Question::Rules { domain, attributes } = self else {
            return Message::new(Vec::new());
        };
        let mut descriptor = Vec::new();
        for (name, value) in attributes {
            let mut entry = Vec::new();
            field(&mut entry, 1, name.as_bytes());
            field(&mut entry, 2, value.as_bytes());
            field(&mut descriptor, 1, &entry);
        }
        let mut request = Vec::new();
        field(&mut request, 1, domain.as_bytes());
        field(&mut request, 2, &descriptor);
        let mut framed = vec![0];
        framed.extend_from_slice(&(request.len() as u32).to_be_bytes());
        framed.extend_from_slice(&request);
        Message::new(framed)
    }
}

/// The method that is called.
pub(super) fn envoy_url(host: &str) -> String {
    format!("http://{host}{METHOD}")
}

/// Words as a command.
pub(super) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// A field of a protobuf message whose value has a length.
fn field(into: &mut Vec<u8>, number: u8, value: &[u8]) {
    into.push(number << 3 | 2);
    let mut length = value.len();
    while length >= 0x80 {
        into.push(length as u8 | 0x80);
        length >>= 7;
    }
    into.push(length as u8);
    into.extend_from_slice(value);
}
