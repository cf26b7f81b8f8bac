//! Slow, dead and too many: honest requests go on as if nothing were, and figures say so.

mod bodies;
mod clients;
mod crowd;
mod floods;
mod heads;
mod readers;
mod upstreams;

use std::time::Duration;

use tollgate::Clock;
use tollgate_rig::WebClient;

use crate::support::Gateway;

/// An honest client, and how long its requests took.
struct Honest {
    client: WebClient,
    clock: Clock,
    took: Vec<Duration>,
}

impl Honest {
    fn of(gateway: &Gateway) -> Honest {
        Honest { client: gateway.connect(), clock: Clock::system(), took: Vec::new() }
    }

    fn ask(&mut self) {
        let began = self.clock.now();
        assert_eq!(self.client.get("/honest").status(), 200);
        self.took.push(self.clock.now().since(began).into());
    }

    /// The median and the slowest of a hundred, in milliseconds.
    fn figures(&mut self) -> (f64, f64) {
        self.took.sort();
        let at = |share: f64| self.took[(self.took.len() as f64 * share) as usize].as_secs_f64();
        (at(0.5) * 1e3, at(0.99) * 1e3)
    }
}
