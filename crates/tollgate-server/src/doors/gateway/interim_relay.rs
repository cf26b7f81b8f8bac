//! Forwards interim responses (1xx) of an upstream, while the response itself is still to come.
//!
//! `100 Continue` opens the [gate](super::continue_gate) of the body. Others, such as `103 Early Hints`,
//! go to the client. hyper reports those of HTTP/1.1 upstreams only, and cannot send any on HTTP/2.

use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};

use super::continue_gate::ContinueSignal;
use super::hop_headers;
use crate::net::http::ConnectionActivity;

/// The receivers of the interim responses to one request.
#[derive(Clone, Debug, Default)]
pub(super) struct InterimRelay {
    /// The connection of the client, if it takes interim responses.
    pub(super) client: Option<Arc<ConnectionActivity>>,
    pub(super) continue_signal: Option<Arc<ContinueSignal>>,
}

impl InterimRelay {
    /// Has the sender of a request report interim responses to this relay.
    pub(super) fn attach<B>(&self, request: &mut Request<B>) {
        if self.client.is_none() && self.continue_signal.is_none() {
            return;
        }
        let relay = self.clone();
        hyper::ext::on_informational(request, move |response| {
            relay.receive(response.status(), response.headers());
        });
    }

    fn receive(&self, status: StatusCode, headers: &HeaderMap) {
        if status == StatusCode::CONTINUE {
            // hyper tells the client once its body is read.
            self.continue_signal.iter().for_each(|signal| signal.give());
        } else if status != StatusCode::SWITCHING_PROTOCOLS
            && let Some(client) = &self.client
        {
            let mut headers = headers.clone();
            hop_headers::strip(&mut headers);
            client.interim.push(status, &headers);
        }
    }
}
