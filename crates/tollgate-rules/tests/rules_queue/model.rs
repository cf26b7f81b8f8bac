//! Random arrivals, compared with a simple model of the queue.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_rules::Decision;

use crate::support::release;
use crate::test_queue::TestQueue;

const USERS: [&str; 3] = ["ann", "bob", "cid"];

/// A deterministic random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The limit: one request per interval in milliseconds, or a number of concurrent requests.
#[derive(Clone, Copy, PartialEq)]
enum LimitKind {
    Interval(u64),
    Concurrent(usize),
}

#[derive(Default)]
struct User {
    /// When the next request could pass if the queue were empty.
    free_at: u64,
    slots: Vec<u64>,
    in_flight: usize,
    /// The waiting requests, and when each arrived.
    queue: Vec<(usize, u64)>,
}

struct Model {
    kind: LimitKind,
    capacity: usize,
    up_to: u64,
    lifo: bool,
    now: u64,
    users: BTreeMap<&'static str, User>,
    /// The requests that passed and were refused in the current millisecond.
    passed: Vec<usize>,
    refused: Vec<usize>,
}

impl Model {
    fn user(&mut self, user: &'static str) -> &mut User {
        self.users.entry(user).or_default()
    }

    fn waiting(&self) -> usize {
        self.users.values().map(|user| user.queue.len()).sum()
    }

    fn arrive(&mut self, number: usize, name: &'static str) {
        let (now, lifo, kind, up_to) = (self.now, self.lifo, self.kind, self.up_to);
        let mine = self.user(name).queue.len();
        let largest = self.users.iter().max_by_key(|(name, user)| (user.queue.len(), **name));
        let (largest, most) = largest.map(|(name, user)| (*name, user.queue.len())).unwrap();
        let is_full = self.waiting() >= self.capacity;
        let user = self.user(name);
        if is_full && mine + 2 > most {
            return self.refused.push(number);
        }
        match kind {
            LimitKind::Interval(pace) => {
                let slot = user.free_at.max(now);
                if slot > now + up_to {
                    return self.refused.push(number);
                }
                user.free_at = slot + pace;
                if slot == now {
                    return self.passed.push(number);
                }
                user.slots.push(slot);
            }
            LimitKind::Concurrent(permits)
                if user.in_flight < permits && (lifo || user.queue.is_empty()) =>
            {
                user.in_flight += 1;
                return self.passed.push(number);
            }
            LimitKind::Concurrent(_) => {}
        }
        if is_full {
            let displaced = self.user(largest);
            let last = if lifo { 0 } else { displaced.queue.len() - 1 };
            let (displaced, _) = displaced.queue[last];
            self.cancel(displaced);
            self.refused.push(displaced);
        }
        let now = self.now;
        self.user(name).queue.push((number, now));
    }

    fn cancel(&mut self, number: usize) {
        let kind = self.kind;
        for user in self.users.values_mut() {
            let Some(place) = user.queue.iter().position(|(it, _)| *it == number) else { continue };
            user.queue.remove(place);
            if let LimitKind::Interval(pace) = kind {
                user.slots.pop();
                user.free_at -= pace;
            }
        }
    }

    fn finish(&mut self, user: &'static str) {
        self.user(user).in_flight -= 1;
        self.serve();
    }

    /// Lets all requests pass that may.
    fn serve(&mut self) {
        let (now, lifo, kind) = (self.now, self.lifo, self.kind);
        for user in self.users.values_mut() {
            loop {
                let is_free = match kind {
                    LimitKind::Interval(_) => user.slots.first().is_some_and(|slot| *slot <= now),
                    LimitKind::Concurrent(permits) => {
                        user.in_flight < permits && !user.queue.is_empty()
                    }
                };
                if !is_free {
                    break;
                }
                match kind {
                    LimitKind::Interval(_) => drop(user.slots.remove(0)),
                    LimitKind::Concurrent(_) => user.in_flight += 1,
                }
                let next = if lifo { user.queue.len() - 1 } else { 0 };
                self.passed.push(user.queue.remove(next).0);
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        self.serve();
        let (now, up_to) = (self.now, self.up_to);
        let is_late = |(_, since): &&(usize, u64)| since + up_to <= now;
        let late = self.users.values().flat_map(|user| user.queue.iter().filter(is_late));
        let late: Vec<usize> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.cancel(number);
            self.refused.push(number);
        }
    }
}

fn compare(seed: u64, kind: LimitKind, lifo: bool) {
    let mut random = Random(seed * 2_654_435_761 + 1);
    let (capacity, up_to) = (1 + random.below(8) as usize, 5 + random.below(40));
    let limit = match kind {
        LimitKind::Interval(pace) => format!("1/{pace}ms burst 1"),
        LimitKind::Concurrent(permits) => format!("{permits} concurrent"),
    };
    let order = if lifo { "lifo" } else { "" };
    let then = format!("queue {capacity} up to {up_to}ms {order}");
    let rule = format!("{{ name: r, per: user, limit: {limit}, then: {then} }}");
    let mut queue = TestQueue::new(&rule);
    let (now, users) = (0, USERS.map(|user| (user, User::default())).into());
    let (passed, refused) = (Vec::new(), Vec::new());
    let mut model = Model { kind, capacity, up_to, lifo, now, users, passed, refused };
    let mut in_flight: Vec<(&'static str, Decision)> = Vec::new();
    let mut users = BTreeMap::new();
    let mut waiting = Vec::new();
    for number in 0..400 {
        match random.below(10) {
            0..5 => {
                // The first user sends most requests.
                let user = USERS[random.below(4).saturating_sub(1) as usize];
                users.insert(number, user);
                waiting.push(number);
                model.arrive(number, user);
                queue.arrive_as(number, user);
            }
            5 if !waiting.is_empty() => {
                let leaves = waiting[random.below(waiting.len() as u64) as usize];
                model.cancel(leaves);
                queue.cancel(leaves);
                waiting.retain(|it| *it != leaves);
            }
            6 if !in_flight.is_empty() => {
                let done = in_flight.remove(random.below(in_flight.len() as u64) as usize);
                release(&done.1, Duration::from_millis(1));
                queue.poll_woken();
                model.finish(done.0);
            }
            _ => {
                queue.advance_ms(1);
                model.tick();
            }
        }
        let (mut passed, mut refused) = (Vec::new(), Vec::new());
        for (number, _, decision) in queue.done.drain(..) {
            waiting.retain(|it| *it != number);
            if !decision.allowed {
                refused.push(number);
                continue;
            }
            passed.push(number);
            if matches!(kind, LimitKind::Concurrent(_)) {
                in_flight.push((users[&number], decision));
            }
        }
        for list in [&mut passed, &mut refused, &mut model.passed, &mut model.refused] {
            list.sort_unstable();
        }
        let context = format!("{rule}, seed {seed}, step {number}, at {}", model.now);
        assert_eq!(passed, model.passed, "let through: {context}");
        assert_eq!(refused, model.refused, "refused: {context}");
        assert_eq!(queue.waiting(), model.waiting(), "{context}");
        (model.passed, model.refused) = (Vec::new(), Vec::new());
    }
}

#[test]
fn random_arrivals_at_a_rate_limit_match_the_model() {
    for seed in 1..=150 {
        compare(seed, LimitKind::Interval(1 + seed % 9), seed % 2 == 0);
    }
}

#[test]
fn random_arrivals_at_a_concurrency_limit_match_the_model() {
    for seed in 1..=150 {
        compare(seed, LimitKind::Concurrent(1 + seed as usize % 3), seed % 2 == 0);
    }
}
