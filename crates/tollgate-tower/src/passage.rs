//! The life of a request, from its arrival to the end of its answer, as the limiter sees it.
//!
//! A door decides a request ([`Arrival`]), and if it lets it through, goes on with a [`Passage`]:
//! it says when the head of the answer is there, what is sent of its body, and how it ended. What
//! is dropped without an end was left by its client. What the limiter makes of it is up to the
//! [`Follower`]: whoever wants to know more about requests adds to it there, and no door changes.
//!
//! Most requests are not followed at all, and then nothing of this costs anything.

mod answer;
mod body;
mod events;
mod leases;
mod outcome;

pub use body::Followed;
pub use outcome::follow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

#[cfg(doc)]
use crate::arrival::Arrival;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer was sent to its end.
    Whole,
    /// Who should have answered did not, or stopped halfway.
    Broken,
    /// The client left before.
    Gone,
}

/// Watches one request after it was let through.
pub trait Follower: Send {
    /// It went elsewhere than where it was let through to, which could not be reached.
    fn missed(&mut self) {}

    /// The head of the answer is there.
    fn answered(&mut self, status: StatusCode, headers: &HeaderMap);

    /// A part of the answer's body is on its way to the client.
    fn data(&mut self, data: &Bytes);

    /// It got to nobody who could have answered; its end follows.
    fn not_sent(&mut self) {}

    /// Whether the answer's body is to be understood, which it cannot be if it is compressed.
    fn reads_body(&self) -> bool {
        false
    }

    /// It is over.
    fn end(self: Box<Self>, end: End);
}

/// One request on its way.
#[derive(Default)]
pub struct Passage(Option<Box<dyn Follower>>);

impl Passage {
    /// Nobody wants to know.
    pub const fn unfollowed() -> Passage {
        Passage(None)
    }

    /// Somebody does.
    pub fn followed(by: Box<dyn Follower>) -> Passage {
        Passage(Some(by))
    }

    /// Whether anybody wants to know.
    pub fn is_followed(&self) -> bool {
        self.0.is_some()
    }

    /// It went elsewhere than where it was let through to, which could not be reached.
    pub fn missed(&mut self) {
        if let Some(follower) = &mut self.0 {
            follower.missed();
        }
    }

    /// The head of the answer is there.
    pub fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        if let Some(follower) = &mut self.0 {
            follower.answered(status, headers);
        }
    }

    /// It got to nobody who could have answered; its end follows.
    pub fn not_sent(&mut self) {
        if let Some(follower) = &mut self.0 {
            follower.not_sent();
        }
    }

    /// Whether the answer's body is to be understood, which it cannot be if it is compressed.
    pub fn reads_body(&self) -> bool {
        self.0.as_ref().is_some_and(|follower| follower.reads_body())
    }

    /// A part of the answer's body is on its way to the client.
    pub fn data(&mut self, data: &Bytes) {
        if let Some(follower) = &mut self.0 {
            follower.data(data);
        }
    }

    /// It is over.
    pub fn end(mut self, end: End) {
        if let Some(follower) = self.0.take() {
            follower.end(end);
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        if let Some(follower) = self.0.take() {
            follower.end(End::Gone);
        }
    }
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passage").field("is_followed", &self.is_followed()).finish()
    }
}
