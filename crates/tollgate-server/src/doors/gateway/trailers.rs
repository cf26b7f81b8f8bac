//! Trailers of responses from HTTP/2 upstreams to clients of HTTP/1.1.
//!
//! On HTTP/1.1 trailers follow the last chunk, go only to clients that say `TE: trailers`, and must be
//! announced in the head of the response. On HTTP/2 they need none of that. So a head that announces
//! nothing gets an announcement of the configured fields, and a response of known length is sent in
//! chunks as well.

use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRAILER};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version};

/// The trailers that are announced for upstreams which announce none.
#[derive(Debug)]
pub(super) struct AnnouncedTrailers(Option<HeaderValue>);

impl AnnouncedTrailers {
    /// Reads the names of the settings.
    pub(super) fn new(names: &[String]) -> Result<AnnouncedTrailers, String> {
        let read = |name: &String| {
            let read = name.parse::<HeaderName>();
            read.map_err(|_| format!("{name:?} in trailers is no name of a header field"))
        };
        let names = names.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
        let value = HeaderValue::try_from(names.join(", ")).map_err(|error| error.to_string())?;
        Ok(AnnouncedTrailers(Some(value).filter(|value| !value.is_empty())))
    }

    /// Prepares the head of a response for trailers; returns whether the body must be sent in chunks.
    pub(super) fn announce(&self, headers: &mut HeaderMap) -> bool {
        if !headers.contains_key(TRAILER) {
            let Some(names) = &self.0 else { return false };
            headers.insert(TRAILER, names.clone());
        }
        headers.remove(CONTENT_LENGTH);
        true
    }
}

/// Returns whether a client takes trailers that must be announced. Those of HTTP/2 need no
/// announcement.
pub(super) fn takes_trailers(head: &Parts) -> bool {
    head.version == Version::HTTP_11 && head.headers.contains_key(TE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_upstreams_announce_is_kept() {
        let trailers = AnnouncedTrailers::new(&["X-Sum".into(), "grpc-status".into()]).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(5));
        assert!(trailers.announce(&mut headers));
        assert_eq!(headers[TRAILER], "x-sum, grpc-status");
        assert!(!headers.contains_key(CONTENT_LENGTH));
        headers.insert(TRAILER, HeaderValue::from_static("digest"));
        assert!(trailers.announce(&mut headers));
        assert_eq!(headers[TRAILER], "digest");
        let none = AnnouncedTrailers::new(&[]).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(5));
        assert!(!none.announce(&mut headers) && headers.contains_key(CONTENT_LENGTH));
        assert!(AnnouncedTrailers::new(&["a b".into()]).is_err());
    }
}
