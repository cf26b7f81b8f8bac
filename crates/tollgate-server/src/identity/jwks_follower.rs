//! Follows a URL that serves a JSON Web Key Set.
//!
//! The set is requested again after an interval, and when a token names an unknown key. Issuers publish
//! a new key before they use it, so an unknown key is rare, or an attack: it causes at most one request
//! in [`MIN_GAP`]. While the URL fails, the last valid set stays in use.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, Uri};
use tokio::time::{Instant, sleep, sleep_until};

use super::jwks::{KeySet, SharedSecrets};
use super::verifier::JwtVerifier;
use crate::background::{self, BackgroundWorker};
use crate::client::{Client, StatusCode, parse_url};
use crate::net::Drain;

/// The maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a set, in bytes.
const MAX_SET_BYTES: usize = 256 << 10;
/// The minimum time between two requests, whatever tokens come; less if the interval is shorter.
const MIN_GAP: Duration = Duration::from_secs(30);

/// Checks that the keys at a URL cannot be replaced on their way.
pub(super) fn check_url(url: &Uri) -> Result<(), String> {
    parse_url(&url.to_string()).map_err(|error| error.to_string())?;
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme_str() == Some("https") || is_local {
        true => Ok(()),
        false => Err(format!(
            "{url}: keys must come over https, or anyone on the way could replace them"
        )),
    }
}

/// Requests the keys once, and follows the URL until the server drains.
pub(super) async fn start(
    verifier: &Arc<JwtVerifier>,
    url: &Uri,
    drain: &Drain,
) -> Result<(), String> {
    let client =
        Client::new(url, None, TIMEOUT, MAX_SET_BYTES).map_err(|error| error.to_string())?;
    let mut follower = JwksFollower { client: client.into(), url: url.clone(), failures: 0 };
    follower.refresh(verifier).await;
    let (verifier, drain) = (Arc::downgrade(verifier), drain.clone());
    background::spawn_restarting(BackgroundWorker::TokenKeys, move || {
        follower.clone().run(verifier.clone(), drain.clone())
    });
    Ok(())
}

#[derive(Clone)]
struct JwksFollower {
    client: Arc<Client>,
    url: Uri,
    /// The number of failures in a row.
    failures: u32,
}

impl JwksFollower {
    async fn run(mut self, verifier: Weak<JwtVerifier>, drain: Drain) {
        loop {
            let asked = Instant::now();
            let Some(current) = verifier.upgrade() else { return };
            let (gap, pause) = (MIN_GAP.min(current.options.refresh), self.pause(&current));
            tokio::select! {
                () = sleep(pause) => {}
                () = async {
                    current.unknown_key.notified().await;
                    sleep_until(asked + gap).await;
                } => {}
                () = drain.closing() => return,
            }
            background::panic_point(BackgroundWorker::TokenKeys);
            self.refresh(&current).await;
        }
    }

    /// Returns the time until the next request. Many servers follow the same URL, and must not
    /// request it together.
    fn pause(&self, verifier: &JwtVerifier) -> Duration {
        let refresh = verifier.options.refresh;
        let pause = match self.failures {
            0 => refresh,
            failures => Duration::from_secs(1 << failures.min(8)).min(refresh),
        };
        pause.mul_f64(0.8 + 0.4 * fastrand::f64())
    }

    async fn refresh(&mut self, verifier: &JwtVerifier) {
        match self.fetch().await {
            Ok(keys) => {
                if self.failures > 0 {
                    tracing::info!(url = %self.url, "the keys of tokens can be read again");
                }
                self.failures = 0;
                verifier.set_keys(keys);
            }
            Err(error) => {
                if self.failures == 0 {
                    let url = &self.url;
                    tracing::error!(%url, %error, "cannot read the keys of tokens; the last valid ones stay in use");
                }
                self.failures = self.failures.saturating_add(1);
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, String> {
        let request = Request::get(self.url.clone()).header("accept", "application/json");
        let request = request.body(Bytes::new()).map_err(|error| error.to_string())?;
        let response = self.client.send(request, Duration::ZERO).await;
        let response = response.map_err(|error| error.to_string())?;
        match response.status {
            StatusCode::OK => KeySet::read_jwks(&response.body, SharedSecrets::Ignored),
            status => Err(format!("it is answered with {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_this_machine() {
        for url in [
            "https://id.example/jwks",
            "http://localhost:1/a",
            "http://127.0.0.1",
            "http://[::1]:8/",
        ] {
            assert_eq!(check_url(&url.parse().unwrap()), Ok(()), "{url}");
        }
        for url in
            ["http://id.example/jwks", "http://10.0.0.1/", "http://localhost.example/", "/jwks"]
        {
            assert!(check_url(&url.parse().unwrap()).is_err(), "{url}");
        }
    }
}
