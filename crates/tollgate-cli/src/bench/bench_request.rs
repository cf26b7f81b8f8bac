//! The request of a benchmark, in the protocol of each door.

use serde_json::{Map, Value, json};

use super::args::{BenchArgs, BenchDoor};
use super::request_template::{RequestTemplate, with_placeholders};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The request of a benchmark, independent of the door.
#[derive(Clone, Debug)]
pub(super) enum BenchRequest {
    Limit { key: String, limit: String },
    Rules { domain: String, attributes: Vec<(String, String)> },
}

impl BenchRequest {
    pub(super) fn new(args: &BenchArgs) -> anyhow::Result<BenchRequest> {
        let rules = |domain: &str, attributes: &[(String, String)]| BenchRequest::Rules {
            domain: domain.to_owned(),
            attributes: attributes
                .iter()
                .map(|(name, value)| (name.clone(), with_placeholders(value)))
                .collect(),
        };
        match (&args.limit, &args.domain, args.door) {
            (None, Some(domain), _) => Ok(rules(domain, &args.attributes)),
            (Some(_), _, BenchDoor::Grpc) => {
                anyhow::bail!(
                    "the gRPC door has no inline limits: give --domain and attributes instead of --limit"
                )
            }
            (None, None, BenchDoor::Grpc) => {
                Ok(rules("demo", &[("remote_address".to_owned(), "{ip}".to_owned())]))
            }
            (limit, ..) => {
                let limit = limit.clone().unwrap_or_else(|| "1k/s".to_owned());
                Ok(BenchRequest::Limit { key: with_placeholders("key:{}"), limit })
            }
        }
    }

    /// Returns the request as a command of the Redis protocol.
    pub(super) fn command(&self) -> RequestTemplate {
        let words: Vec<&str> = match self {
            BenchRequest::Limit { key, limit } => vec!["TG.LIMIT", key, limit],
            BenchRequest::Rules { domain, attributes } => {
                let pairs = attributes.iter().flat_map(|(name, value)| [name.as_str(), value]);
                ["TG.CHECK", domain].into_iter().chain(pairs).collect()
            }
        };
        RequestTemplate::new(command(&words))
    }

    /// Returns the request as HTTP/1.1.
    pub(super) fn http(&self, host: &str, token: Option<&str>) -> RequestTemplate {
        let (path, body) = match self {
            BenchRequest::Limit { key, limit } => {
                ("/v1/limit", json!({ "key": key, "limit": limit }))
            }
            BenchRequest::Rules { domain, attributes } => {
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
        RequestTemplate::new(request.into_bytes())
    }

    /// Returns the request as a gRPC message with its five-byte prefix.
    pub(super) fn envoy(&self) -> RequestTemplate {
        let BenchRequest::Rules { domain, attributes } = self else {
            return RequestTemplate::new(Vec::new());
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
        RequestTemplate::new(framed)
    }
}

/// Returns the URL of the gRPC method.
pub(super) fn envoy_url(host: &str) -> String {
    format!("http://{host}{METHOD}")
}

/// Encodes words as a command of the Redis protocol.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Appends a length-delimited field of a protobuf message.
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
