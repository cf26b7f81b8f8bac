//! Scenarios: the conditions of a service and its load, and how they change.

/// The conditions of a service and its load during a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// The number of requests that it serves at once.
    pub(crate) servers: f64,
    /// The mean time of service for a request.
    pub(crate) service_ms: f64,
    /// The delay of every request on top of that: the network, a slow disk.
    pub(crate) delay_ms: f64,
    /// The length of its own queue; further requests are dropped at once.
    pub(crate) queue: usize,
    /// The share of requests that it drops at any load.
    pub(crate) fails: f64,
    /// Single requests per second.
    pub(crate) rate: f64,
    /// The factor on the rate in the first tenth of every five seconds.
    pub(crate) burst: f64,
    /// The distribution of the work of requests.
    pub(crate) work: WorkDistribution,
    /// The time for which it stalls at the end of every ten seconds.
    pub(crate) pause_ms: f64,
}

/// The distribution of the work of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WorkDistribution {
    /// Half of the work is fixed, the other half exponentially distributed.
    Narrow,
    /// The work is exponentially distributed.
    Wide,
    /// The work is lognormally distributed with a sigma of 1: one in thirty is four times the mean.
    Heavy,
    /// There are two kinds of requests, each with a narrow distribution.
    TwoKinds { short_ms: f64, long_ms: f64, long_share: f64 },
}

/// The interval of stalls.
const PAUSES_EVERY_NS: u64 = 10_000_000_000;

impl Conditions {
    /// Returns a service of 8 × 20 ms under one and a half times the load it can serve.
    pub(crate) const fn overloaded() -> Conditions {
        Conditions {
            servers: 8.0,
            service_ms: 20.0,
            delay_ms: 0.0,
            queue: 100,
            fails: 0.0,
            rate: 600.0,
            burst: 1.0,
            work: WorkDistribution::Narrow,
            pause_ms: 0.0,
        }
    }

    /// Sets two kinds of requests.
    pub(crate) const fn with_two_kinds(
        self,
        short_ms: f64,
        long_ms: f64,
        long_share: f64,
    ) -> Conditions {
        let service_ms = short_ms + (long_ms - short_ms) * long_share;
        Conditions {
            service_ms,
            work: WorkDistribution::TwoKinds { short_ms, long_ms, long_share },
            ..self
        }
    }

    /// Returns when work that starts now is done.
    pub(crate) fn done_ns(&self, now_ns: u64, work_ns: u64) -> u64 {
        let pause_ns = (self.pause_ms * 1e6) as u64;
        let (mut at_ns, mut left_ns) = (now_ns, work_ns);
        loop {
            let next_ns = (at_ns / PAUSES_EVERY_NS + 1) * PAUSES_EVERY_NS;
            let works_ns = (next_ns - pause_ns).saturating_sub(at_ns);
            if left_ns <= works_ns {
                return at_ns + left_ns;
            }
            (at_ns, left_ns) = (next_ns, left_ns - works_ns);
        }
    }

    /// Returns the mean latency of a request without load.
    pub(crate) fn unloaded_ms(&self) -> f64 {
        self.service_ms + self.delay_ms
    }

    /// Returns the number of requests in flight that keep the service exactly busy.
    pub(crate) fn optimal_limit(&self) -> f64 {
        self.servers * self.unloaded_ms() / self.service_ms
    }

    fn between(self, to: Conditions, share: f64) -> Conditions {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Conditions {
            servers: mix(self.servers, to.servers),
            service_ms: mix(self.service_ms, to.service_ms),
            delay_ms: mix(self.delay_ms, to.delay_ms),
            fails: mix(self.fails, to.fails),
            rate: mix(self.rate, to.rate),
            ..to
        }
    }
}

/// Clients that send another request after every response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPopulation {
    pub(crate) count: u32,
    /// The mean pause before the next request, after a response or a refusal.
    pub(crate) think_ms: f64,
}

/// How a service orders its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceDiscipline {
    /// First come, first served.
    Fifo,
    /// All requests share the capacity equally.
    Shared,
}

/// A sequence of phases of a service and its load.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) discipline: ServiceDiscipline,
    pub(crate) clients: Option<ClientPopulation>,
    /// The end of each phase in seconds, its conditions, and how it starts.
    pub(crate) phases: Vec<(f64, Conditions, Transition)>,
}

/// How a phase starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    Immediate,
    Gradual,
}

impl Scenario {
    pub(crate) fn new(name: &'static str) -> Scenario {
        Scenario { name, discipline: ServiceDiscipline::Fifo, clients: None, phases: Vec::new() }
    }

    /// Adds a phase of constant conditions.
    pub(crate) fn hold(mut self, seconds: f64, conditions: Conditions) -> Scenario {
        self.phases.push((self.seconds() + seconds, conditions, Transition::Immediate));
        self
    }

    /// Adds a phase during which the conditions change gradually.
    pub(crate) fn change_gradually(mut self, seconds: f64, conditions: Conditions) -> Scenario {
        self.phases.push((self.seconds() + seconds, conditions, Transition::Gradual));
        self
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.phases.last().map_or(0.0, |phase| phase.0)
    }

    /// Returns the conditions at a second of the scenario.
    pub(crate) fn at(&self, second: f64) -> Conditions {
        let now = self.phases.iter().position(|phase| second < phase.0);
        let now = now.unwrap_or(self.phases.len() - 1);
        let (until, conditions, pace) = self.phases[now];
        match (pace, now) {
            (Transition::Gradual, 1..) => {
                let (since, before, _) = self.phases[now - 1];
                before.between(conditions, ((second - since) / (until - since)).min(1.0))
            }
            _ => conditions,
        }
    }

    /// Returns the start and the end of each phase.
    pub(crate) fn spans(&self) -> Vec<(f64, f64)> {
        let starts = std::iter::once(0.0).chain(self.phases.iter().map(|phase| phase.0));
        starts.zip(self.phases.iter().map(|phase| phase.0)).collect()
    }
}
