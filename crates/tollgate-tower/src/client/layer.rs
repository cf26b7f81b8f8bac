//! The layer around a client.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, Limit, Limiter};
use tower_layer::Layer;

use super::hosts::Hosts;
use super::service::{Manners, Polite};

/// Makes clients stay under the limits of the services they call; see [the module](super).
///
/// The services that one layer makes remember for themselves; clones of a service share.
#[derive(Clone, Debug)]
pub struct PoliteLayer {
    limiter: Option<KeyedLimiter>,
    patience: Duration,
    longest_pause: Duration,
    most_hosts: usize,
}

impl Default for PoliteLayer {
    fn default() -> PoliteLayer {
        PoliteLayer::new()
    }
}

impl PoliteLayer {
    /// Does as services say, waiting up to a minute.
    pub fn new() -> PoliteLayer {
        PoliteLayer {
            limiter: None,
            patience: Duration::from_secs(60),
            longest_pause: Duration::from_secs(3600),
            most_hosts: 10_000,
        }
    }

    /// A limit of our own for each host: `host:port` as requests name it.
    pub fn limit(self, limit: Limit) -> PoliteLayer {
        self.limiter(Limiter::keyed([limit]))
    }

    /// The same with a limiter that others may use too, or one of several limits. It is asked by
    /// the host's name.
    pub fn limiter(self, limiter: KeyedLimiter) -> PoliteLayer {
        PoliteLayer { limiter: Some(limiter), ..self }
    }

    /// The longest a request waits before it is sent. One that would have to wait for longer fails
    /// at once.
    ///
    /// ```
    /// use tollgate_tower::client::PoliteLayer;
    /// let never_waits = PoliteLayer::new().wait_up_to(std::time::Duration::ZERO);
    /// ```
    pub fn wait_up_to(self, patience: Duration) -> PoliteLayer {
        PoliteLayer { patience, ..self }
    }

    /// The longest a service is left alone, whatever it says: an hour unless set.
    pub fn longest_pause(self, longest_pause: Duration) -> PoliteLayer {
        PoliteLayer { longest_pause, ..self }
    }

    /// How many hosts that want to be left alone are remembered: 10 000 unless set.
    pub fn most_hosts(self, most_hosts: usize) -> PoliteLayer {
        PoliteLayer { most_hosts: most_hosts.max(1), ..self }
    }
}

impl<I> Layer<I> for PoliteLayer {
    type Service = Polite<I>;

    fn layer(&self, inner: I) -> Polite<I> {
        let manners = Manners {
            hosts: Hosts::new(self.most_hosts, self.longest_pause),
            limiter: self.limiter.clone(),
            patience: self.patience,
            clock: Clock::system(),
        };
        Polite::new(inner, Arc::new(manners))
    }
}
