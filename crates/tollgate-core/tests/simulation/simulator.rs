//! Simulates a scenario, event by event, under the limit of a policy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_core::adaptive::Sample;
use tollgate_core::{Span, Time};

use super::limit_policy::LimitPolicy;
use super::outcome::Outcome;
use super::random::Random;
use super::scenario::{Conditions, Scenario, ServiceDiscipline};
use super::service::{Job, Service};

/// The time after which a service drops a request, on top of the delay.
const DROP_NS: u64 = 1_000_000;
/// A response is good if it took at most this many times the mean unloaded latency.
///
/// Where there are two kinds of requests, each may wait as long as the other.
const GOOD_LATENCY_FACTOR: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A single request arrives.
    Arrival,
    /// A client of the population sends a request.
    Client,
    /// A worker of the service is free again.
    Free,
    /// A request served concurrently may be done, unless the number is outdated.
    CheckCompletion(u64),
    Answered(Job),
    Dropped(Job),
    /// A second has passed, and the limit is recorded.
    Second,
}

struct Simulator<'s> {
    scenario: &'s Scenario,
    policy: LimitPolicy,
    random: Random,
    service: Service,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    checks: u64,
    in_flight: u64,
    outcome: Outcome,
}

/// Simulates a scenario under a policy and returns the outcome.
pub(crate) fn run(scenario: &Scenario, policy: LimitPolicy, seed: u64) -> Outcome {
    let mut simulator = Simulator {
        scenario,
        policy,
        random: Random::new(seed),
        service: Service::new(scenario.discipline),
        events: BinaryHeap::new(),
        number: 0,
        checks: 0,
        in_flight: 0,
        outcome: Outcome::new(scenario.seconds()),
    };
    match scenario.clients {
        Some(clients) => {
            (0..clients.count).for_each(|i| simulator.schedule(u64::from(i), Event::Client))
        }
        None => simulator.schedule(0, Event::Arrival),
    }
    simulator.schedule(0, Event::Second);
    let end_ns = (scenario.seconds() * 1e9) as u64;
    while let Some(Reverse((now_ns, _, event))) = simulator.events.pop() {
        if now_ns >= end_ns {
            break;
        }
        simulator.process(now_ns, event);
    }
    simulator.outcome
}

impl Simulator<'_> {
    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at_ns, self.number, event)));
    }

    fn process(&mut self, now_ns: u64, event: Event) {
        let second = now_ns as f64 / 1e9;
        let conditions = self.scenario.at(second);
        match event {
            Event::Arrival => {
                let bursts = second.rem_euclid(5.0) < 0.5;
                let rate = conditions.rate * if bursts { conditions.burst } else { 1.0 };
                let next = self.random.exponential(1e9 / rate.max(0.01));
                // A pause must not reach far into a busier phase.
                self.schedule(now_ns + (next as u64).min(500_000_000), Event::Arrival);
                if next <= 5e8 {
                    self.send_request(&conditions, now_ns);
                }
            }
            Event::Client => {
                if !self.send_request(&conditions, now_ns) {
                    self.schedule_next_request(now_ns);
                }
            }
            Event::Free => {
                self.service.done();
                self.work(&conditions, now_ns);
            }
            Event::CheckCompletion(number) if number == self.checks => {
                self.work(&conditions, now_ns)
            }
            Event::CheckCompletion(_) => {}
            Event::Answered(job) => self.finish_request(&conditions, now_ns, job, false),
            Event::Dropped(job) => self.finish_request(&conditions, now_ns, job, true),
            Event::Second => {
                self.outcome.record_limit(self.policy.limit(&conditions));
                self.schedule(now_ns + 1_000_000_000, Event::Second);
            }
        }
    }

    /// Sends a request, and returns whether the limit admits it.
    fn send_request(&mut self, conditions: &Conditions, now_ns: u64) -> bool {
        // Draw the same random numbers whatever the limit decides.
        let (work_ms, excess_ms) = self.random.work_ms(conditions);
        let fails = self.random.share() < conditions.fails;
        if self.in_flight >= self.policy.limit(conditions) {
            return false;
        }
        self.in_flight += 1;
        let (work_ns, excess_ns) = ((work_ms * 1e6) as u64, (excess_ms * 1e6) as i64);
        let job = Job { began_ns: now_ns, work_ns, excess_ns };
        if fails || !self.service.take(conditions, now_ns, job) {
            let at = now_ns + DROP_NS + delay_ns(conditions);
            self.schedule(at, Event::Dropped(job));
        }
        self.work(conditions, now_ns);
        true
    }

    /// Lets the service start and finish whatever it can now.
    fn work(&mut self, conditions: &Conditions, now_ns: u64) {
        match self.scenario.discipline {
            ServiceDiscipline::Fifo => {
                while let Some(job) = self.service.begin(conditions) {
                    let at = conditions.done_ns(now_ns, job.work_ns);
                    self.schedule(at, Event::Free);
                    self.schedule(at + delay_ns(conditions), Event::Answered(job));
                }
            }
            ServiceDiscipline::Shared => {
                while let Some(job) = self.service.finished(conditions, now_ns) {
                    self.schedule(now_ns + delay_ns(conditions), Event::Answered(job));
                }
                self.checks += 1;
                if let Some(next) = self.service.next_ns(conditions) {
                    self.schedule(next.max(now_ns + 1), Event::CheckCompletion(self.checks));
                }
            }
        }
    }

    /// Ends a request and passes its sample to the policy.
    fn finish_request(&mut self, conditions: &Conditions, now_ns: u64, job: Job, dropped: bool) {
        let took_ns = now_ns - job.began_ns;
        let sample = Sample { rtt: Span::from_nanos(took_ns), in_flight: self.in_flight, dropped };
        self.in_flight -= 1;
        self.policy.record(Time::from_nanos(1_000_000_000 + now_ns), sample);
        self.outcome.highest = self.outcome.highest.max(self.policy.limit(conditions));
        let allowed_ns =
            conditions.unloaded_ms() * 1e6 * GOOD_LATENCY_FACTOR + job.excess_ns as f64;
        let in_time = took_ns as f64 <= allowed_ns;
        self.outcome.record_response(now_ns, took_ns, dropped, in_time);
        if self.scenario.clients.is_some() {
            self.schedule_next_request(now_ns);
        }
    }

    fn schedule_next_request(&mut self, now_ns: u64) {
        let think_ms = self.scenario.clients.map_or(0.0, |clients| clients.think_ms);
        let pause = self.random.exponential(think_ms * 1e6) as u64;
        self.schedule(now_ns + pause + 1, Event::Client);
    }
}

fn delay_ns(conditions: &Conditions) -> u64 {
    (conditions.delay_ms * 1e6) as u64
}
