//! An HTTP client for the rules service and for any URL that serves rules: every wait and every
//! size is bounded, no redirect is followed (a token must not travel on), no proxy is asked.

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
const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

/// What answers to requests are worth waiting for.
#[derive(Debug)]
pub struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    token: Option<HeaderValue>,
    timeout: Duration,
    max_body: usize,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// A header, if it is there and readable.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address is not one.
    #[error("{0}")]
    Address(String),
    /// Nobody answered, or not to the end.
    #[error("{0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Slow(Duration),
    /// It was too long.
    #[error("an answer of more than {0} bytes")]
    TooLarge(usize),
}

/// Reads the address of a service: `http` or `https`, a host, no password.
pub fn address(text: &str) -> Result<Uri, ClientError> {
    let wrong = |why: &str| ClientError::Address(format!("{}: {why}", without_userinfo(text)));
    let uri: Uri = text.parse().map_err(|_| wrong("not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("a URL begins with http:// or https://"));
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err(wrong("no user or password belongs in a URL; give a token instead"))
        }
        Some(authority) if !authority.host().is_empty() => Ok(uri),
        _ => Err(wrong("names no host")),
    }
}

fn without_userinfo(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(start), Some(at)) if at > start => format!("{}://…{}", &text[..start], &text[at..]),
        _ => text.to_owned(),
    }
}

impl Client {
    /// A client that presents a token, waits so long for an answer and reads so many bytes of it.
    /// Needs a runtime only when it sends.
    pub fn new(
        to: &Uri,
        token: Option<&Secret>,
        timeout: Duration,
        max_body: usize,
    ) -> Result<Client, ClientError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_nodelay(true);
        http.set_keepalive(Some(Duration::from_secs(60)));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls(to)?);
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        Ok(Client { http, token: token.map(bearer), timeout, max_body })
    }

    /// Sends a request; `more` is how much longer than usual an answer may take.
    pub async fn send(
        &self,
        mut request: Request<Bytes>,
        more: Duration,
    ) -> Result<Answer, ClientError> {
        self.introduce(&mut request);
        let patience = self.timeout.saturating_add(more);
        match tokio::time::timeout(patience, self.exchange(request.map(Full::new))).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Slow(patience)),
        }
    }

    /// Sends a request whose answer goes on for as long as it likes: only its head must come in
    /// time.
    pub async fn open(&self, mut request: Request<Bytes>) -> Result<Streamed, ClientError> {
        self.introduce(&mut request);
        let answer = self.http.request(request.map(Full::new));
        let answer = tokio::time::timeout(self.timeout, answer).await;
        let answer = answer.map_err(|_| ClientError::Slow(self.timeout))?;
        let answer = answer.map_err(|error| ClientError::Unreachable(chain(&error)))?;
        Ok(Streamed { status: answer.status(), body: answer.into_body() })
    }

    fn introduce(&self, request: &mut Request<Bytes>) {
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        let answer = self.http.request(request).await;
        let answer = answer.map_err(|error| ClientError::Unreachable(chain(&error)))?;
        let (head, body) = answer.into_parts();
        let body = match Limited::new(body, self.max_body).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(ClientError::TooLarge(self.max_body));
            }
            Err(error) => return Err(ClientError::Unreachable(chain(&*error))),
        };
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}

/// An answer that is read as it comes.
#[derive(Debug)]
pub struct Streamed {
    /// Its status.
    pub status: StatusCode,
    body: hyper::body::Incoming,
}

impl Streamed {
    /// The next piece; nothing at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Unreachable(chain(&error))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// All that is left of it, up to so many bytes.
    pub async fn rest(&mut self, most: usize) -> Result<Vec<u8>, ClientError> {
        let mut rest = Vec::new();
        while let Some(bytes) = self.next().await? {
            rest.extend_from_slice(&bytes);
            if rest.len() > most {
                return Err(ClientError::TooLarge(most));
            }
        }
        Ok(rest)
    }
}

/// Roots are only looked for where they are needed: many containers have none.
fn tls(to: &Uri) -> Result<rustls::ClientConfig, ClientError> {
    use hyper_rustls::ConfigBuilderExt;
    let trouble = |error: &dyn std::fmt::Display| ClientError::Address(format!("TLS: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| trouble(&error))?;
    let builder = if to.scheme_str() == Some("https") {
        builder.with_native_roots().map_err(|error| trouble(&error))?
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

/// The characters of a token are those of a header.
fn bearer(token: &Secret) -> HeaderValue {
    let text = format!("Bearer {}", token.reveal());
    let mut value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// An error with its causes: "client error (Connect): connection refused" says more than its head.
fn chain(error: &(dyn Error + 'static)) -> String {
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
    fn an_address_is_a_url_without_a_password() {
        assert!(address("http://127.0.0.1:8082/v1/rules/bundle").is_ok());
        assert!(address("https://rules.example/shop.yaml").is_ok());
        for wrong in ["ftp://x/y", "rules.yaml", "http://", "http:///path", "/v1/rules"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        let error = address("http://ann:hunter2@host/x").unwrap_err().to_string();
        assert!(error.contains("no user or password"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
