//! One question to a URL: is there anything newer than this?

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use hyper::{Request, StatusCode, Uri};

use crate::bundle::{Bundle, MEDIA_TYPE};
use crate::client::{Answer, Client, ClientError};
use crate::digest;
use crate::sources::SourceError;
use tollgate::rules::Source;

/// What a URL served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sources) struct Content {
    pub(in crate::sources) etag: Option<String>,
    /// A bundle of a rules service; otherwise the text of one rules file.
    pub(in crate::sources) is_bundle: bool,
    pub(in crate::sources) body: Bytes,
}

/// The answer to one question.
#[derive(Debug)]
pub(super) struct Fetched {
    /// None if nothing changed.
    pub(super) content: Option<Content>,
    /// Whether the answer was held back until there was something to say.
    pub(super) waited: bool,
}

/// A URL as messages show it: without its query, which may hold a secret.
pub(in crate::sources) fn display(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{scheme}://{authority}{}", uri.path())
}

impl Content {
    /// What it says, and the version that is.
    pub(super) fn bundle(&self, uri: &Uri) -> Result<(Bundle, String), SourceError> {
        let origin = display(uri);
        let garbled = |why| SourceError::Garbled { origin: origin.clone(), why };
        if self.is_bundle {
            let bundle = Bundle::decode(&self.body).map_err(garbled)?;
            let version = bundle.encode().map_err(|error| garbled(error.to_string()))?.version;
            return Ok((bundle, version));
        }
        let text = String::from_utf8(self.body.to_vec());
        let text = text.map_err(|_| garbled("not a text in UTF-8".to_owned()))?;
        let version = digest::short(&digest::of(&self.body)).to_owned();
        Ok((Bundle::of_sources(vec![Source::new(origin, text)]), version))
    }
}

/// Asks for something newer than `etag`; a rules service may hold its answer back for `wait`.
pub(super) async fn fetch(
    client: &Client,
    uri: &Uri,
    etag: Option<&str>,
    wait: Option<Duration>,
) -> Result<Fetched, SourceError> {
    let mut request = Request::get(uri.clone());
    request = request.header(ACCEPT, format!("{MEDIA_TYPE}, application/yaml, text/*;q=0.9"));
    if let Some(etag) = etag {
        request = request.header(IF_NONE_MATCH, etag);
    }
    if let Some(wait) = wait {
        // RFC 7240: whoever does not know it answers at once.
        request = request.header("prefer", format!("wait={}", wait.as_secs()));
    }
    let unreachable = |error| SourceError::Unreachable { origin: display(uri), error };
    let request = request.body(Bytes::new());
    let request = request.map_err(|error| unreachable(ClientError::Address(error.to_string())))?;
    let answer = client.send(request, wait.unwrap_or_default()).await.map_err(unreachable)?;
    let waited = answer.header("preference-applied").is_some_and(|said| said.contains("wait"));
    match answer.status {
        StatusCode::OK => Ok(Fetched { content: Some(content(answer)), waited }),
        StatusCode::NOT_MODIFIED if etag.is_some() => Ok(Fetched { content: None, waited }),
        status => {
            Err(SourceError::Refused { origin: display(uri), status, detail: detail(&answer) })
        }
    }
}

fn content(answer: Answer) -> Content {
    let media_type = answer.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    Content {
        is_bundle: media_type.eq_ignore_ascii_case(MEDIA_TYPE),
        etag: answer.header(ETAG.as_str()).map(str::to_owned),
        body: answer.body,
    }
}

/// What to make of an answer that is none.
fn detail(answer: &Answer) -> String {
    match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; is the token right?".to_owned(),
        status if status.is_redirection() => match answer.header("location") {
            Some(location) => format!("; redirects are not followed, use {location}"),
            None => "; redirects are not followed".to_owned(),
        },
        _ => String::new(),
    }
}
