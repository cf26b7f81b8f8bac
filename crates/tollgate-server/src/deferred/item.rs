//! A request that is kept for later.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::rules::DeferLine;

use crate::doors::gateway::Said;
use crate::unguessable::Unguessable;

/// Names a deferred request: who asks about it was told so, or runs the server.
pub(crate) type ItemId = Unguessable;

/// How far a deferred request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its turn, or for its next attempt.
    Queued,
    /// It is on its way; after a crash, it may have arrived.
    Sending,
    /// The upstream has answered it.
    Done,
    /// A dead letter: nobody tries again unless told to.
    Failed,
    /// Somebody did not want it sent after all.
    Cancelled,
}

impl State {
    pub(crate) const ALL: [State; 5] =
        [State::Queued, State::Sending, State::Done, State::Failed, State::Cancelled];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Sending => "sending",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether it is still to be sent.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, State::Queued | State::Sending)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The head of a request as it was decided on, and who sent it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names and values; a value has one character for each byte.
    headers: Vec<(String, String)>,
    /// Who was at the other end of the connection.
    pub(crate) peer: Option<IpAddr>,
    /// Whether that connection was encrypted.
    pub(crate) is_secret: bool,
    /// What its body said to rules.
    pub(crate) said: Said,
    /// What came after the body, written as the headers are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trailers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn new(parts: &Parts, peer: Option<IpAddr>, is_secret: bool, said: Said) -> Head {
        Head {
            method: parts.method.to_string(),
            target: parts.uri.to_string(),
            headers: written(&parts.headers),
            peer,
            is_secret,
            said,
            trailers: Vec::new(),
        }
    }

    /// The same with what came after the body.
    pub(crate) fn trailed_by(self, trailers: &HeaderMap) -> Head {
        Head { trailers: written(trailers), ..self }
    }

    /// What is kept of it.
    pub(crate) fn text(&self) -> String {
        // Texts, numbers and lists of them: there is nothing that could not be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The head itself; none if what was kept is none.
    pub(crate) fn parts(&self) -> Option<Parts> {
        let mut parts = Request::new(()).into_parts().0;
        parts.method = Method::from_bytes(self.method.as_bytes()).ok()?;
        parts.uri = Uri::try_from(&self.target).ok()?;
        parts.headers = read(&self.headers)?;
        Some(parts)
    }

    /// What came after the body; none if what was kept is none.
    pub(crate) fn trailers(&self) -> Option<HeaderMap> {
        read(&self.trailers)
    }
}

fn written(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| -> String {
        value.as_bytes().iter().copied().map(char::from).collect()
    };
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn read(written: &[(String, String)]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(written.len());
    for (name, value) in written {
        let bytes: Vec<u8> = value.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
        let value = HeaderValue::from_bytes(&bytes).ok()?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, value);
    }
    Some(headers)
}

/// A request that is to be kept.
#[derive(Clone, Debug)]
pub(crate) struct NewItem {
    pub(crate) id: ItemId,
    pub(crate) line: Arc<DeferLine>,
    pub(crate) head: Head,
    pub(crate) body: Bytes,
    pub(crate) added_ms: i64,
}

/// A request that stands in a line, as much of it as is held in memory.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// Its turn among all.
    pub(crate) seq: u64,
    pub(crate) id: ItemId,
    pub(crate) line: Arc<DeferLine>,
    pub(crate) added_ms: i64,
    /// Not before this time, in milliseconds since 1970.
    pub(crate) due_ms: i64,
    /// How often it was tried in vain.
    pub(crate) failures: u32,
}

/// What an upstream said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What kind of body it is.
    pub(crate) kind: Option<String>,
    /// The body, if it was short enough to keep.
    pub(crate) body: Option<Bytes>,
}

/// What is told of a deferred request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: ItemId,
    pub(crate) line: DeferLine,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) bytes: u64,
    pub(crate) state: State,
    pub(crate) attempts: u32,
    pub(crate) added_ms: i64,
    pub(crate) changed_ms: i64,
    pub(crate) due_ms: i64,
    /// Why the last attempt did not do.
    pub(crate) why: Option<String>,
    pub(crate) answer: Option<Answer>,
}

impl Entry {
    /// What the client is told. `position` is how many are before it in its line.
    pub(crate) fn for_client(&self, position: Option<usize>, now_ms: i64) -> Value {
        let mut told = json!({
            "id": self.id.to_string(),
            "state": self.state.as_str(),
            "attempts": self.attempts,
            "added_ms": self.added_ms,
            "changed_ms": self.changed_ms,
        });
        if self.state == State::Queued {
            if let Some(position) = position {
                told["position"] = json!(position);
            }
            if self.due_ms > now_ms {
                told["next_attempt_in_ms"] = json!(self.due_ms - now_ms);
            }
        }
        if let Some(answer) = &self.answer {
            let text = answer.body.as_ref().and_then(|body| std::str::from_utf8(body).ok());
            told["answer"] = json!({
                "status": answer.status,
                "content_type": answer.kind,
                "body": text,
            });
        }
        told
    }

    /// What operators are told.
    pub(crate) fn for_operator(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "state": self.state.as_str(),
            "domain": self.line.domain,
            "rule": self.line.rule,
            "key": self.line.key,
            "method": self.method,
            "target": self.target,
            "bytes": self.bytes,
            "attempts": self.attempts,
            "added_ms": self.added_ms,
            "changed_ms": self.changed_ms,
            "due_ms": self.due_ms,
            "why": self.why,
            "status": self.answer.as_ref().map(|answer| answer.status),
        })
    }
}

/// What operators look for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) state: Option<State>,
    pub(crate) rule: Option<String>,
    pub(crate) limit: usize,
}

/// How many requests are in which state, and how long the oldest that is open has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) counts: [u64; State::ALL.len()],
    pub(crate) oldest_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_kept_byte_for_byte() {
        let request = Request::post("/a/b?c=d%20e")
            .header("x-plain", "text")
            .header("x-twice", "1")
            .header("x-twice", "2")
            .header("x-bytes", HeaderValue::from_bytes(b"caf\xe9 \xff").unwrap());
        let parts = request.body(()).unwrap().into_parts().0;
        let head = Head::new(&parts, Some([192, 0, 2, 1].into()), true, Said::default());
        let early: Head = serde_json::from_str(&head.text()).unwrap();
        assert!(early.trailers().unwrap().is_empty(), "as they were kept before there were any");
        let head = head.trailed_by(&parts.headers);
        let read: Head = serde_json::from_str(&head.text()).unwrap();
        assert_eq!(read, head);
        assert_eq!(read.trailers().unwrap(), parts.headers);
        let again = read.parts().unwrap();
        assert_eq!(
            (again.method, again.uri, again.headers),
            (parts.method, parts.uri, parts.headers)
        );
    }
}
