//! What rules want to know of the body of an answer, found while it passes by.
//!
//! Nothing is held back: pieces are looked at on their way. Of a JSON text at most [`LONGEST`] bytes
//! are remembered until its end, of a stream one event.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use tollgate::rules::Value;

use super::events::{Events, Format};
use crate::json::Fields;

/// A JSON text that is longer is not understood.
const LONGEST: usize = 1 << 20;

/// Reads the body of an answer as it passes by.
#[derive(Debug)]
pub(super) struct AnswerReader {
    fields: Fields,
    values: Vec<Option<Value<'static>>>,
    reading: Reading,
    is_empty: bool,
}

#[derive(Debug)]
enum Reading {
    /// One text, so far.
    Text(Vec<u8>),
    /// Many, of which the last that has a field counts.
    Events(Events),
    /// It cannot be understood.
    Nothing,
}

/// What was found.
#[derive(Debug)]
pub(super) struct AnswerFound {
    pub(super) values: Vec<(String, Value<'static>)>,
    /// Whether there may have been more that was not found.
    pub(super) is_unknown: bool,
}

impl AnswerReader {
    pub(super) fn new(fields: Fields, headers: &HeaderMap) -> AnswerReader {
        let reading = match is_compressed(headers) {
            true => {
                warn_of_compression();
                Reading::Nothing
            }
            false => reading_of(headers.get(CONTENT_TYPE)),
        };
        AnswerReader { values: fields.nothing(), fields, reading, is_empty: true }
    }

    pub(super) fn data(&mut self, data: &Bytes) {
        self.is_empty &= data.is_empty();
        let (fields, values) = (&self.fields, &mut self.values);
        match &mut self.reading {
            Reading::Text(text) if text.len() + data.len() > LONGEST => {
                self.reading = Reading::Nothing;
            }
            Reading::Text(text) => text.extend_from_slice(data),
            Reading::Events(events) => {
                // What is no JSON among events, such as [DONE], says nothing.
                events.take(data, &mut |event| _ = fields.read_over(event, values));
            }
            Reading::Nothing => {}
        }
    }

    /// Nothing more comes: because it is whole, or because somebody left.
    pub(super) fn end(mut self, is_whole: bool) -> AnswerFound {
        let (fields, values) = (&self.fields, &mut self.values);
        let is_known = match &mut self.reading {
            _ if self.is_empty => true,
            Reading::Text(text) => fields.read_over(text, values),
            Reading::Events(events) => {
                if is_whole {
                    events.end(&mut |event| _ = fields.read_over(event, values));
                }
                !events.has_passed_over()
            }
            Reading::Nothing => false,
        };
        let values = self.fields.named(self.values);
        AnswerFound {
            values: values.map(|(name, value)| (name.to_owned(), value)).collect(),
            is_unknown: !(is_whole && is_known),
        }
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn reading_of(kind: Option<&HeaderValue>) -> Reading {
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => Reading::Events(Events::new(Format::EventStream)),
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines"
        | "application/jsonlines"
        | "application/json-lines"
        | "application/stream+json" => Reading::Events(Events::new(Format::Lines)),
        "application/json" => Reading::Text(Vec::new()),
        kind if kind.ends_with("+json") => Reading::Text(Vec::new()),
        _ => Reading::Nothing,
    }
}

/// Said once: it is the same for every answer of a service.
fn warn_of_compression() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "an answer is compressed, so that what rules look for in its body is not found and \
             what they charged in advance stays charged; compress after the limiter, or not at all"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "response.body.usage.total_tokens";

    fn read(kind: &'static str, pieces: &[&str], is_whole: bool) -> (Option<i64>, bool) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        read_with(&headers, pieces, is_whole)
    }

    fn read_with(headers: &HeaderMap, pieces: &[&str], is_whole: bool) -> (Option<i64>, bool) {
        let fields = Fields::new("response.body.", [NAME]).unwrap();
        let mut reader = AnswerReader::new(fields, headers);
        pieces.iter().for_each(|piece| reader.data(&Bytes::copy_from_slice(piece.as_bytes())));
        let found = reader.end(is_whole);
        let value = found.values.iter().find(|(name, _)| name == NAME);
        (value.and_then(|(_, value)| value.number()), found.is_unknown)
    }

    #[test]
    fn a_field_is_found_in_a_text() {
        let pieces = ["{\"usage\":{\"total", "_tokens\":17}}"];
        assert_eq!(read("application/json; charset=utf-8", &pieces, true), (Some(17), false));
        assert_eq!(read("application/vnd.api+json", &pieces, true), (Some(17), false));
        assert_eq!(read("application/json", &pieces[..1], false), (None, true));
        assert_eq!(read("application/json", &["{}"], true), (None, false));
        assert_eq!(read("application/json", &[], true), (None, false), "nothing is there");
        assert_eq!(read("text/html", &["<p>"], true), (None, true));
        let long = format!("{{\"x\":\"{}\"}}", "x".repeat(LONGEST));
        assert_eq!(read("application/json", &[&long], true), (None, true));
    }

    #[test]
    fn the_last_event_that_has_it_counts() {
        let stream = [
            "data: {\"usage\":null}\n\nda",
            "ta: {\"usage\":{\"total_tokens\":5}}\n\n",
            "data: {\"usage\":{\"total_tokens\":9}}\n\ndata: {\"choices\":[]}\n\n",
            "data: [DONE]\n\n",
        ];
        assert_eq!(read("text/event-stream", &stream, true), (Some(9), false));
        assert_eq!(read("text/event-stream", &stream[..2], false), (Some(5), true), "so far");
        assert_eq!(read("text/event-stream", &stream[..1], false), (None, true));
        let lines = ["{\"done\":false}\n{\"usage\":{\"total_tokens\":3}}\n"];
        assert_eq!(read("application/x-ndjson", &lines, true), (Some(3), false));
    }

    #[test]
    fn what_is_compressed_stays_unknown() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
        let text = ["{\"usage\":{\"total_tokens\":3}}"];
        assert_eq!(read_with(&headers, &text, true), (Some(3), false));
        headers.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(read_with(&headers, &text, true), (None, true));
    }
}
