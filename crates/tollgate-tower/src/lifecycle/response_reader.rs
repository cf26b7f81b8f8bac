//! Reads the fields that rules need from a response body while it passes by.
//!
//! No data is held back. At most [`LONGEST`] bytes of a JSON text are buffered until its end, and
//! one event of a stream.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use tollgate_rules::Value;

use super::event_splitter::{EventFormat, EventSplitter};
use crate::json::JsonFields;

/// The maximum length of a JSON text. Fields of longer ones stay unknown.
const LONGEST: usize = 1 << 20;

/// Reads a response body as it passes by.
#[derive(Debug)]
pub(super) struct ResponseReader {
    fields: JsonFields,
    values: Vec<Option<Value<'static>>>,
    format: BodyFormat,
    is_empty: bool,
}

#[derive(Debug)]
enum BodyFormat {
    /// A single JSON text, as far as it has come.
    Text(Vec<u8>),
    /// A stream of JSON texts; the last one that has a field counts.
    Events(EventSplitter),
    /// A format whose fields are unknown.
    Nothing,
}

/// The fields that were found.
#[derive(Debug)]
pub(super) struct ResponseFields {
    pub(super) values: Vec<(String, Value<'static>)>,
    /// Whether there may be more fields than were found.
    pub(super) is_unknown: bool,
}

impl ResponseReader {
    pub(super) fn new(fields: JsonFields, headers: &HeaderMap) -> ResponseReader {
        let format = match is_compressed(headers) {
            true => {
                warn_of_compression();
                BodyFormat::Nothing
            }
            false => format_of(headers.get(CONTENT_TYPE)),
        };
        ResponseReader { values: fields.no_values(), fields, format, is_empty: true }
    }

    pub(super) fn data(&mut self, data: &Bytes) {
        self.is_empty &= data.is_empty();
        let (fields, values) = (&self.fields, &mut self.values);
        match &mut self.format {
            BodyFormat::Text(text) if text.len() + data.len() > LONGEST => {
                self.format = BodyFormat::Nothing;
            }
            BodyFormat::Text(text) => text.extend_from_slice(data),
            BodyFormat::Events(events) => {
                // Events that are not JSON, such as [DONE], have no fields.
                events.take(data, &mut |event| _ = fields.merge(event, values));
            }
            BodyFormat::Nothing => {}
        }
    }

    /// Ends the body, which is complete or broke off.
    pub(super) fn end(mut self, is_whole: bool) -> ResponseFields {
        let (fields, values) = (&self.fields, &mut self.values);
        let is_known = match &mut self.format {
            _ if self.is_empty => true,
            BodyFormat::Text(text) => fields.merge(text, values),
            BodyFormat::Events(events) => {
                if is_whole {
                    events.end(&mut |event| _ = fields.merge(event, values));
                }
                !events.has_passed_over()
            }
            BodyFormat::Nothing => false,
        };
        let values = self.fields.named(self.values);
        ResponseFields {
            values: values.map(|(name, value)| (name.to_owned(), value)).collect(),
            is_unknown: !(is_whole && is_known),
        }
    }
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn format_of(kind: Option<&HeaderValue>) -> BodyFormat {
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => BodyFormat::Events(EventSplitter::new(EventFormat::EventStream)),
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines"
        | "application/jsonlines"
        | "application/json-lines"
        | "application/stream+json" => BodyFormat::Events(EventSplitter::new(EventFormat::Lines)),
        "application/json" => BodyFormat::Text(Vec::new()),
        kind if kind.ends_with("+json") => BodyFormat::Text(Vec::new()),
        _ => BodyFormat::Nothing,
    }
}

/// Logs the warning once, because it applies to every response of a service.
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
        let fields = JsonFields::new("response.body.", [NAME]).unwrap();
        let mut reader = ResponseReader::new(fields, headers);
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
    fn compressed_fields_stay_unknown() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
        let text = ["{\"usage\":{\"total_tokens\":3}}"];
        assert_eq!(read_with(&headers, &text, true), (Some(3), false));
        headers.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(read_with(&headers, &text, true), (None, true));
    }
}
