//! Lets a story happen, event by event, under somebody's limit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_core::adaptive::Sample;
use tollgate_core::{Span, Time};

use super::random::Random;
use super::service::{Job, Service};
use super::steering::Steering;
use super::told::Told;
use super::world::{Order, Scenario, World};

/// How quickly a service drops what it does not take, on top of the delay.
const DROP_NS: u64 = 1_000_000;
/// An answer is good if it took at most so many times what it takes unloaded, on average. Where
/// there are two kinds, each may wait as long as the other.
const PATIENCE: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Somebody asks who will not come back.
    Passer,
    /// One of the crowd asks.
    Client,
    /// A place at the service is free again.
    Free,
    /// One of those served together may be done, unless the number is outdated.
    Look(u64),
    Answered(Job),
    Dropped(Job),
    /// Once a second: what the limit is.
    Second,
}

struct Run<'s> {
    scenario: &'s Scenario,
    steering: Steering,
    random: Random,
    service: Service,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    looks: u64,
    in_flight: u64,
    told: Told,
}

/// What became of a story under this limit.
pub(crate) fn run(scenario: &Scenario, steering: Steering, seed: u64) -> Told {
    let mut run = Run {
        scenario,
        steering,
        random: Random::new(seed),
        service: Service::new(scenario.order),
        events: BinaryHeap::new(),
        number: 0,
        looks: 0,
        in_flight: 0,
        told: Told::new(scenario.seconds()),
    };
    match scenario.crowd {
        Some(crowd) => (0..crowd.clients).for_each(|i| run.later(u64::from(i), Event::Client)),
        None => run.later(0, Event::Passer),
    }
    run.later(0, Event::Second);
    let end_ns = (scenario.seconds() * 1e9) as u64;
    while let Some(Reverse((now_ns, _, event))) = run.events.pop() {
        if now_ns >= end_ns {
            break;
        }
        run.happens(now_ns, event);
    }
    run.told
}

impl Run<'_> {
    fn later(&mut self, at_ns: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at_ns, self.number, event)));
    }

    fn happens(&mut self, now_ns: u64, event: Event) {
        let second = now_ns as f64 / 1e9;
        let world = self.scenario.at(second);
        match event {
            Event::Passer => {
                let bursts = second.rem_euclid(5.0) < 0.5;
                let rate = world.rate * if bursts { world.burst } else { 1.0 };
                let next = self.random.exponential(1e9 / rate.max(0.01));
                // Nobody's pause reaches far into a busier chapter.
                self.later(now_ns + (next as u64).min(500_000_000), Event::Passer);
                if next <= 5e8 {
                    self.ask(&world, now_ns);
                }
            }
            Event::Client => {
                if !self.ask(&world, now_ns) {
                    self.comes_back(now_ns);
                }
            }
            Event::Free => {
                self.service.done();
                self.work(&world, now_ns);
            }
            Event::Look(number) if number == self.looks => self.work(&world, now_ns),
            Event::Look(_) => {}
            Event::Answered(job) => self.ends(&world, now_ns, job, false),
            Event::Dropped(job) => self.ends(&world, now_ns, job, true),
            Event::Second => {
                self.told.limit(self.steering.limit(&world));
                self.later(now_ns + 1_000_000_000, Event::Second);
            }
        }
    }

    /// A request is refused by the limit, or goes on.
    fn ask(&mut self, world: &World, now_ns: u64) -> bool {
        // Chance is asked alike whatever the limit does.
        let (work_ms, beyond_ms) = self.random.work_ms(world);
        let fails = self.random.share() < world.fails;
        if self.in_flight >= self.steering.limit(world) {
            return false;
        }
        self.in_flight += 1;
        let (work_ns, beyond_ns) = ((work_ms * 1e6) as u64, (beyond_ms * 1e6) as i64);
        let job = Job { began_ns: now_ns, work_ns, beyond_ns };
        if fails || !self.service.take(world, now_ns, job) {
            let at = now_ns + DROP_NS + delay_ns(world);
            self.later(at, Event::Dropped(job));
        }
        self.work(world, now_ns);
        true
    }

    /// The service does what it can right now.
    fn work(&mut self, world: &World, now_ns: u64) {
        match self.scenario.order {
            Order::Fifo => {
                while let Some(job) = self.service.begin(world) {
                    let at = world.done_ns(now_ns, job.work_ns);
                    self.later(at, Event::Free);
                    self.later(at + delay_ns(world), Event::Answered(job));
                }
            }
            Order::Shared => {
                while let Some(job) = self.service.finished(world, now_ns) {
                    self.later(now_ns + delay_ns(world), Event::Answered(job));
                }
                self.looks += 1;
                if let Some(next) = self.service.next_ns(world) {
                    self.later(next.max(now_ns + 1), Event::Look(self.looks));
                }
            }
        }
    }

    fn ends(&mut self, world: &World, now_ns: u64, job: Job, dropped: bool) {
        let took_ns = now_ns - job.began_ns;
        let sample = Sample { rtt: Span::from_nanos(took_ns), in_flight: self.in_flight, dropped };
        self.in_flight -= 1;
        self.steering.hear(Time::from_nanos(1_000_000_000 + now_ns), sample);
        self.told.highest = self.told.highest.max(self.steering.limit(world));
        let may_ns = world.unloaded_ms() * 1e6 * PATIENCE + job.beyond_ns as f64;
        let in_time = took_ns as f64 <= may_ns;
        self.told.ended(now_ns, took_ns, dropped, in_time);
        if self.scenario.crowd.is_some() {
            self.comes_back(now_ns);
        }
    }

    fn comes_back(&mut self, now_ns: u64) {
        let thinks = self.scenario.crowd.map_or(0.0, |crowd| crowd.thinks_ms);
        let pause = self.random.exponential(thinks * 1e6) as u64;
        self.later(now_ns + pause + 1, Event::Client);
    }
}

fn delay_ns(world: &World) -> u64 {
    (world.delay_ms * 1e6) as u64
}
