//! The HTTP client for the rules service and for any URL that serves rules.
//!
//! Every wait and every size is bounded. Redirects are not followed, because they would leak the
//! token, and proxies are not used.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

pub use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
pub use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::secret::Secret;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const USER_AGENT_VALUE: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

/// An HTTP client that presents a token and bounds the time and size of responses.
#[derive(Debug)]
pub struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    token: Option<HeaderValue>,
    timeout: Duration,
    max_body_bytes: usize,
}

/// A response whose body was read completely.
#[derive(Clone, Debug)]
pub struct ClientResponse {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl ClientResponse {
    /// Returns a header field, if it exists and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The error of a request without a response.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The URL is invalid.
    #[error("{0}")]
    InvalidUrl(String),
    /// The connection failed, or broke off before the end of the response.
    #[error("{0}")]
    Unreachable(String),
    /// The response did not come in time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The body of the response is too large.
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
}

/// Parses the URL of a service: `http` or `https`, a host, no password.
pub fn parse_url(text: &str) -> Result<Uri, ClientError> {
    let invalid = |why: &str| ClientError::InvalidUrl(format!("{}: {why}", without_userinfo(text)));
    let uri: Uri = text.parse().map_err(|_| invalid("not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid("a URL begins with http:// or https://"));
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err(invalid("no user or password belongs in a URL; give a token instead"))
        }
        Some(authority) if !authority.host().is_empty() => Ok(uri),
        _ => Err(invalid("names no host")),
    }
}

fn without_userinfo(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(start), Some(at)) if at > start => format!("{}://…{}", &text[..start], &text[at..]),
        _ => text.to_owned(),
    }
}

impl Client {
    /// Creates a client for the service at `url`; it needs a runtime only when it sends.
    pub fn new(
        url: &Uri,
        token: Option<&Secret>,
        timeout: Duration,
        max_body_bytes: usize,
    ) -> Result<Client, ClientError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_nodelay(true);
        http.set_keepalive(Some(Duration::from_secs(60)));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls_config(url)?);
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        Ok(Client { http, token: token.map(bearer), timeout, max_body_bytes })
    }

    /// Sends a request; the response may take `extra` longer than the timeout.
    pub async fn send(
        &self,
        mut request: Request<Bytes>,
        extra: Duration,
    ) -> Result<ClientResponse, ClientError> {
        self.add_headers(&mut request);
        let timeout = self.timeout.saturating_add(extra);
        match tokio::time::timeout(timeout, self.exchange(request.map(Full::new))).await {
            Ok(response) => response,
            Err(_) => Err(ClientError::Timeout(timeout)),
        }
    }

    /// Sends a request and returns a streaming response; only its head must come in time.
    pub async fn open(
        &self,
        mut request: Request<Bytes>,
    ) -> Result<StreamingResponse, ClientError> {
        self.add_headers(&mut request);
        let response = self.http.request(request.map(Full::new));
        let response = tokio::time::timeout(self.timeout, response).await;
        let response = response.map_err(|_| ClientError::Timeout(self.timeout))?;
        let response = response.map_err(|error| ClientError::Unreachable(error_chain(&error)))?;
        Ok(StreamingResponse { status: response.status(), body: response.into_body() })
    }

    fn add_headers(&self, request: &mut Request<Bytes>) {
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<ClientResponse, ClientError> {
        let response = self.http.request(request).await;
        let response = response.map_err(|error| ClientError::Unreachable(error_chain(&error)))?;
        let (head, body) = response.into_parts();
        let body = match Limited::new(body, self.max_body_bytes).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(ClientError::TooLarge(self.max_body_bytes));
            }
            Err(error) => return Err(ClientError::Unreachable(error_chain(&*error))),
        };
        Ok(ClientResponse { status: head.status, headers: head.headers, body })
    }
}

/// A response whose body is read as it comes.
#[derive(Debug)]
pub struct StreamingResponse {
    /// The status.
    pub status: StatusCode,
    body: hyper::body::Incoming,
}

impl StreamingResponse {
    /// Returns the next part of the body; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Unreachable(error_chain(&error))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// Reads the rest of the body, up to `max_bytes`.
    pub async fn rest(&mut self, max_bytes: usize) -> Result<Vec<u8>, ClientError> {
        let mut rest = Vec::new();
        while let Some(bytes) = self.next().await? {
            rest.extend_from_slice(&bytes);
            if rest.len() > max_bytes {
                return Err(ClientError::TooLarge(max_bytes));
            }
        }
        Ok(rest)
    }
}

/// Returns the TLS configuration; root certificates are loaded only for `https`.
///
/// Many containers have no root certificates, and plain HTTP must work there.
fn tls_config(url: &Uri) -> Result<rustls::ClientConfig, ClientError> {
    use hyper_rustls::ConfigBuilderExt;
    let failed = |error: &dyn std::fmt::Display| ClientError::InvalidUrl(format!("TLS: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let builder = if url.scheme_str() == Some("https") {
        builder.with_native_roots().map_err(|error| failed(&error))?
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

/// Returns the `Authorization` value of a token, whose characters all fit in a header.
fn bearer(token: &Secret) -> HeaderValue {
    let text = format!("Bearer {}", token.reveal());
    let mut value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Returns an error with its causes, such as "client error (Connect): connection refused".
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_url_has_a_scheme_and_a_host_but_no_password() {
        assert!(parse_url("http://127.0.0.1:8082/v1/rules/bundle").is_ok());
        assert!(parse_url("https://rules.example/shop.yaml").is_ok());
        for invalid in ["ftp://x/y", "rules.yaml", "http://", "http:///path", "/v1/rules"] {
            assert!(parse_url(invalid).is_err(), "{invalid}");
        }
        let error = parse_url("http://ann:hunter2@host/x").unwrap_err().to_string();
        assert!(error.contains("no user or password"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
