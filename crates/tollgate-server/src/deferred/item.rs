//! Deferred requests and their states.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::options::DeferOptions;
use super::queue_key::DeferredQueueKey;
use crate::doors::gateway::RequestBodyFields;
use crate::random_id::RandomId;

/// The id of a deferred request, known only to its client and to operators.
pub(crate) type ItemId = RandomId;

/// The state of a deferred request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemState {
    /// The request waits for its limit or for its next attempt.
    Queued,
    /// The request is in flight; after a crash it may have arrived.
    Sending,
    /// The upstream has answered.
    Done,
    /// The request is a dead letter, which is sent again only on demand.
    Failed,
    /// A client or an operator cancelled the request.
    Cancelled,
}

impl ItemState {
    pub(crate) const ALL: [ItemState; 5] = [
        ItemState::Queued,
        ItemState::Sending,
        ItemState::Done,
        ItemState::Failed,
        ItemState::Cancelled,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ItemState::Queued => "queued",
            ItemState::Sending => "sending",
            ItemState::Done => "done",
            ItemState::Failed => "failed",
            ItemState::Cancelled => "cancelled",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<ItemState> {
        ItemState::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns whether the request is still to be sent.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, ItemState::Queued | ItemState::Sending)
    }
}

impl fmt::Display for ItemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The head of a request at the time of its decision, and its sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredHead {
    pub(crate) method: String,
    pub(crate) target: String,
    /// The header fields; a value has one character for each byte.
    headers: Vec<(String, String)>,
    /// The address of the client's connection.
    pub(crate) peer: Option<IpAddr>,
    /// Whether the client's connection was encrypted.
    #[serde(rename = "is_secret")]
    pub(crate) is_encrypted: bool,
    /// The body fields that rules read.
    #[serde(rename = "said")]
    pub(crate) body_fields: RequestBodyFields,
    /// The trailers, encoded like the headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trailers: Vec<(String, String)>,
}

impl StoredHead {
    pub(crate) fn new(
        parts: &Parts,
        peer: Option<IpAddr>,
        is_encrypted: bool,
        body_fields: RequestBodyFields,
    ) -> StoredHead {
        StoredHead {
            method: parts.method.to_string(),
            target: parts.uri.to_string(),
            headers: encode_headers(&parts.headers),
            peer,
            is_encrypted,
            body_fields,
            trailers: Vec::new(),
        }
    }

    /// Adds the trailers.
    pub(crate) fn with_trailers(self, trailers: &HeaderMap) -> StoredHead {
        StoredHead { trailers: encode_headers(trailers), ..self }
    }

    /// Encodes the head as JSON.
    pub(crate) fn text(&self) -> String {
        // Strings, numbers and lists always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Decodes the head; returns `None` if it is invalid.
    pub(crate) fn parts(&self) -> Option<Parts> {
        let mut parts = Request::new(()).into_parts().0;
        parts.method = Method::from_bytes(self.method.as_bytes()).ok()?;
        parts.uri = Uri::try_from(&self.target).ok()?;
        parts.headers = decode_headers(&self.headers)?;
        Some(parts)
    }

    /// Decodes the trailers; returns `None` if they are invalid.
    pub(crate) fn trailers(&self) -> Option<HeaderMap> {
        decode_headers(&self.trailers)
    }
}

/// Encodes header fields as text, with one character for each byte of a value.
fn encode_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| -> String {
        value.as_bytes().iter().copied().map(char::from).collect()
    };
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Decodes header fields; returns `None` if they are invalid.
fn decode_headers(fields: &[(String, String)]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let bytes: Vec<u8> = value.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
        let value = HeaderValue::from_bytes(&bytes).ok()?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, value);
    }
    Some(headers)
}

/// A request to be stored.
#[derive(Clone, Debug)]
pub(crate) struct NewItem {
    pub(crate) id: ItemId,
    pub(crate) queue_key: Arc<DeferredQueueKey>,
    pub(crate) head: StoredHead,
    pub(crate) body: Bytes,
    pub(crate) added_ms: i64,
}

/// The part of a queued request that is in memory.
#[derive(Clone, Debug)]
pub(crate) struct QueuedItem {
    /// The sequence number.
    pub(crate) seq: u64,
    pub(crate) id: ItemId,
    pub(crate) queue_key: Arc<DeferredQueueKey>,
    pub(crate) added_ms: i64,
    /// The earliest time of the next attempt, in milliseconds since 1970.
    pub(crate) due_ms: i64,
    /// The number of failed attempts.
    pub(crate) failures: u32,
}

/// The response of an upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredResponse {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    /// The body, if it is short enough to store.
    pub(crate) body: Option<Bytes>,
}

/// The details of a deferred request.
#[derive(Clone, Debug)]
pub(crate) struct ItemDetails {
    pub(crate) id: ItemId,
    pub(crate) queue_key: DeferredQueueKey,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) bytes: u64,
    pub(crate) state: ItemState,
    pub(crate) attempts: u32,
    pub(crate) added_ms: i64,
    pub(crate) changed_ms: i64,
    pub(crate) due_ms: i64,
    /// The reason why the last attempt failed.
    pub(crate) reason: Option<String>,
    pub(crate) response: Option<StoredResponse>,
}

impl ItemDetails {
    /// Describes the request to its client; `position` is its queue position.
    pub(crate) fn for_client(
        &self,
        position: Option<usize>,
        now_ms: i64,
        options: &DeferOptions,
    ) -> Value {
        let mut status = json!({
            "id": self.id.to_string(),
            "state": self.state.as_str(),
            "attempts": self.attempts,
            "added_ms": self.added_ms,
            "changed_ms": self.changed_ms,
        });
        if self.state == ItemState::Queued {
            if let Some(position) = position {
                status["position"] = json!(position);
            }
            if self.due_ms > now_ms {
                status["next_attempt_in_ms"] = json!(self.due_ms - now_ms);
            }
        }
        if let Some(expires_ms) = options.expires_ms(self.state, self.changed_ms) {
            status["expires_ms"] = json!(expires_ms);
        }
        if let Some(response) = &self.response {
            let text = response.body.as_ref().and_then(|body| std::str::from_utf8(body).ok());
            status["answer"] = json!({
                "status": response.status,
                "content_type": response.content_type,
                "body": text,
            });
        }
        status
    }

    /// Describes the request to operators.
    pub(crate) fn for_operator(&self, options: &DeferOptions) -> Value {
        json!({
            "id": self.id.to_string(),
            "state": self.state.as_str(),
            "domain": self.queue_key.domain,
            "rule": self.queue_key.rule,
            "key": self.queue_key.key,
            "method": self.method,
            "target": self.target,
            "bytes": self.bytes,
            "attempts": self.attempts,
            "added_ms": self.added_ms,
            "changed_ms": self.changed_ms,
            "due_ms": self.due_ms,
            "expires_ms": options.expires_ms(self.state, self.changed_ms),
            "why": self.reason,
            "status": self.response.as_ref().map(|response| response.status),
        })
    }
}

/// A filter of deferred requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ItemFilter {
    pub(crate) state: Option<ItemState>,
    pub(crate) rule: Option<String>,
    pub(crate) limit: usize,
}

/// The number of requests by state, and the arrival of the oldest open one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueSummary {
    pub(crate) counts: [u64; ItemState::ALL.len()],
    pub(crate) oldest_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_head_is_decoded_byte_for_byte() {
        let request = Request::post("/a/b?c=d%20e")
            .header("x-plain", "text")
            .header("x-twice", "1")
            .header("x-twice", "2")
            .header("x-bytes", HeaderValue::from_bytes(b"caf\xe9 \xff").unwrap());
        let parts = request.body(()).unwrap().into_parts().0;
        let head = StoredHead::new(
            &parts,
            Some([192, 0, 2, 1].into()),
            true,
            RequestBodyFields::default(),
        );
        assert!(head.text().contains(r#""is_secret":true,"said":{"#), "{}", head.text());
        let early: StoredHead = serde_json::from_str(&head.text()).unwrap();
        assert!(early.trailers().unwrap().is_empty(), "heads stored by versions without trailers");
        let head = head.with_trailers(&parts.headers);
        let read: StoredHead = serde_json::from_str(&head.text()).unwrap();
        assert_eq!(read, head);
        assert_eq!(read.trailers().unwrap(), parts.headers);
        let again = read.parts().unwrap();
        assert_eq!(
            (again.method, again.uri, again.headers),
            (parts.method, parts.uri, parts.headers)
        );
    }
}
