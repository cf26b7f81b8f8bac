//! The layer around a client.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, Limit, Limiter};
use tower_layer::Layer;

use super::paused_hosts::PausedHosts;
use super::service::{Polite, PolitePolicy};

/// Makes clients respect the limits of the services they call; see [the module](super).
///
/// Each service that the layer makes has its own state; clones of a service share it.
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
    /// Creates a layer that follows the hints of services and waits up to a minute.
    pub fn new() -> PoliteLayer {
        PoliteLayer {
            limiter: None,
            patience: Duration::from_secs(60),
            longest_pause: Duration::from_secs(3600),
            most_hosts: 10_000,
        }
    }

    /// Sets a limit for each host: `host:port` as requests name it.
    pub fn limit(self, limit: Limit) -> PoliteLayer {
        self.limiter(Limiter::keyed([limit]))
    }

    /// Sets a limiter, which may be shared or have several limits. Its keys are host names.
    pub fn limiter(self, limiter: KeyedLimiter) -> PoliteLayer {
        PoliteLayer { limiter: Some(limiter), ..self }
    }

    /// Sets the maximum wait before a request is sent. A request that would have to wait longer
    /// fails at once.
    ///
    /// ```
    /// use tollgate_tower::client::PoliteLayer;
    /// let never_waits = PoliteLayer::new().wait_up_to(std::time::Duration::ZERO);
    /// ```
    pub fn wait_up_to(self, patience: Duration) -> PoliteLayer {
        PoliteLayer { patience, ..self }
    }

    /// Sets the maximum pause for a service, whatever it asks for: an hour unless set.
    pub fn longest_pause(self, longest_pause: Duration) -> PoliteLayer {
        PoliteLayer { longest_pause, ..self }
    }

    /// Sets the maximum number of paused hosts that are remembered: 10 000 unless set.
    pub fn most_hosts(self, most_hosts: usize) -> PoliteLayer {
        PoliteLayer { most_hosts: most_hosts.max(1), ..self }
    }
}

impl<I> Layer<I> for PoliteLayer {
    type Service = Polite<I>;

    fn layer(&self, inner: I) -> Polite<I> {
        let policy = PolitePolicy {
            hosts: PausedHosts::new(self.most_hosts, self.longest_pause),
            limiter: self.limiter.clone(),
            patience: self.patience,
            clock: Clock::system(),
        };
        Polite::new(inner, Arc::new(policy))
    }
}
