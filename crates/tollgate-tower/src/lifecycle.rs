//! The lifecycle of a request, from its admission to the end of its response.
//!
//! A door decides a request ([`RequestHead`]). If it is admitted, the door reports to its
//! [`RequestLifecycle`] when the response head is there, the data of its body, and how the request
//! ended. A lifecycle that is dropped without an end counts as left by its client. A
//! [`LifecycleObserver`] evaluates these events.
//!
//! Most requests have no observer, and then this costs nothing.

mod event_splitter;
mod maintenance;
mod observed_body;
mod outcome;
mod response_reader;

pub use observed_body::ObservedBody;
pub use outcome::observe;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

#[cfg(doc)]
use crate::request_head::RequestHead;

/// The way in which a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// The response was sent completely.
    Complete,
    /// The service did not respond, or its response broke off.
    Failed,
    /// The client left before the end.
    ClientLeft,
}

/// Observes one request after its admission.
pub trait LifecycleObserver: Send {
    /// Reports that the request went to another upstream than the chosen one, which was
    /// unreachable.
    fn rerouted(&mut self) {}

    /// Reports the head of the response.
    fn responded(&mut self, status: StatusCode, headers: &HeaderMap);

    /// Reports a part of the response body on its way to the client.
    fn data(&mut self, data: &Bytes);

    /// Reports that the request reached no upstream. Its end follows.
    fn not_sent(&mut self) {}

    /// Returns whether the observer reads the response body, which must not be compressed then.
    fn reads_body(&self) -> bool {
        false
    }

    /// Reports the end of the request.
    fn end(self: Box<Self>, end: RequestEnd);
}

/// The lifecycle of one admitted request, with an observer or without.
#[derive(Default)]
pub struct RequestLifecycle(Option<Box<dyn LifecycleObserver>>);

impl RequestLifecycle {
    /// Creates a lifecycle without an observer.
    pub const fn unobserved() -> RequestLifecycle {
        RequestLifecycle(None)
    }

    /// Creates a lifecycle with an observer.
    pub fn observed_by(observer: Box<dyn LifecycleObserver>) -> RequestLifecycle {
        RequestLifecycle(Some(observer))
    }

    /// Returns whether there is an observer.
    pub fn is_observed(&self) -> bool {
        self.0.is_some()
    }

    /// Reports that the request went to another upstream than the chosen one, which was
    /// unreachable.
    pub fn rerouted(&mut self) {
        if let Some(observer) = &mut self.0 {
            observer.rerouted();
        }
    }

    /// Reports the head of the response.
    pub fn responded(&mut self, status: StatusCode, headers: &HeaderMap) {
        if let Some(observer) = &mut self.0 {
            observer.responded(status, headers);
        }
    }

    /// Reports that the request reached no upstream. Its end follows.
    pub fn not_sent(&mut self) {
        if let Some(observer) = &mut self.0 {
            observer.not_sent();
        }
    }

    /// Returns whether the observer reads the response body, which must not be compressed then.
    pub fn reads_body(&self) -> bool {
        self.0.as_ref().is_some_and(|observer| observer.reads_body())
    }

    /// Reports a part of the response body on its way to the client.
    pub fn data(&mut self, data: &Bytes) {
        if let Some(observer) = &mut self.0 {
            observer.data(data);
        }
    }

    /// Reports the end of the request.
    pub fn end(mut self, end: RequestEnd) {
        if let Some(observer) = self.0.take() {
            observer.end(end);
        }
    }
}

impl Drop for RequestLifecycle {
    fn drop(&mut self) {
        if let Some(observer) = self.0.take() {
            observer.end(RequestEnd::ClientLeft);
        }
    }
}

impl std::fmt::Debug for RequestLifecycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLifecycle").field("is_observed", &self.is_observed()).finish()
    }
}
