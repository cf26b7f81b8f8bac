//! A conditional request to a URL that serves rules.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use hyper::{Request, StatusCode, Uri};

use crate::bundle::{Bundle, MEDIA_TYPE};
use crate::client::{Client, ClientError, ClientResponse};
use crate::digest;
use crate::sources::SourceError;
use tollgate_rules::Source;

/// The rules that a URL served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sources) struct RemoteContent {
    pub(in crate::sources) etag: Option<String>,
    /// Whether the body is a bundle of a rules service, not a rules file.
    pub(in crate::sources) is_bundle: bool,
    pub(in crate::sources) body: Bytes,
}

/// The result of one request.
#[derive(Debug)]
pub(super) struct FetchResult {
    /// The new content; `None` if nothing changed.
    pub(super) content: Option<RemoteContent>,
    /// Whether the service supports long polling.
    pub(super) waited: bool,
}

/// Returns a URL for messages, without its query, which may contain a secret.
pub(in crate::sources) fn display(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{scheme}://{authority}{}", uri.path())
}

impl RemoteContent {
    /// Decodes the content and returns the bundle with its version.
    pub(super) fn bundle(&self, uri: &Uri) -> Result<(Bundle, String), SourceError> {
        let origin = display(uri);
        let malformed = |reason| SourceError::Malformed { origin: origin.clone(), reason };
        if self.is_bundle {
            let bundle = Bundle::decode(&self.body).map_err(malformed)?;
            let version = bundle.encode().map_err(|error| malformed(error.to_string()))?.version;
            return Ok((bundle, version));
        }
        let text = String::from_utf8(self.body.to_vec());
        let text = text.map_err(|_| malformed("the rules are not UTF-8".to_owned()))?;
        let version = digest::short(&digest::sha256(&self.body)).to_owned();
        Ok((Bundle::from_sources(vec![Source::new(origin, text)]), version))
    }
}

/// Requests content newer than `etag`; a rules service may delay its response by `wait`.
pub(super) async fn fetch(
    client: &Client,
    uri: &Uri,
    etag: Option<&str>,
    wait: Option<Duration>,
) -> Result<FetchResult, SourceError> {
    let mut request = Request::get(uri.clone());
    request = request.header(ACCEPT, format!("{MEDIA_TYPE}, application/yaml, text/*;q=0.9"));
    if let Some(etag) = etag {
        request = request.header(IF_NONE_MATCH, etag);
    }
    if let Some(wait) = wait {
        // By RFC 7240, servers that do not know this preference ignore it.
        request = request.header("prefer", format!("wait={}", wait.as_secs()));
    }
    let unreachable = |error| SourceError::Unreachable { origin: display(uri), error };
    let request = request.body(Bytes::new());
    let request =
        request.map_err(|error| unreachable(ClientError::InvalidUrl(error.to_string())))?;
    let response = client.send(request, wait.unwrap_or_default()).await.map_err(unreachable)?;
    let waited = response.header("preference-applied").is_some_and(|value| value.contains("wait"));
    match response.status {
        StatusCode::OK => Ok(FetchResult { content: Some(content(response)), waited }),
        StatusCode::NOT_MODIFIED if etag.is_some() => Ok(FetchResult { content: None, waited }),
        status => {
            Err(SourceError::Refused { origin: display(uri), status, detail: detail(&response) })
        }
    }
}

fn content(response: ClientResponse) -> RemoteContent {
    let media_type = response.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    RemoteContent {
        is_bundle: media_type.eq_ignore_ascii_case(MEDIA_TYPE),
        etag: response.header(ETAG.as_str()).map(str::to_owned),
        body: response.body,
    }
}

/// Returns advice about a response with an unexpected status.
fn detail(response: &ClientResponse) -> String {
    match response.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; is the token right?".to_owned(),
        status if status.is_redirection() => match response.header("location") {
            Some(location) => format!("; redirects are not followed, use {location}"),
            None => "; redirects are not followed".to_owned(),
        },
        _ => String::new(),
    }
}
