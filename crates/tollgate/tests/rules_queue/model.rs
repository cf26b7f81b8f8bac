//! Random visitors, and a model of what becomes of them that is simple enough to be believed.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::rules::Decision;

use crate::visitors::Visitors;

const USERS: [&str; 3] = ["ann", "bob", "cid"];

/// Numbers that are the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What is limited: one each so many milliseconds, or so many at a time.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Every(u64),
    AtOnce(usize),
}

#[derive(Default)]
struct User {
    /// When the next could go if nobody stood in line.
    free_at: u64,
    slots: Vec<u64>,
    in_flight: usize,
    /// Who stands in line, and since when.
    line: Vec<(usize, u64)>,
}

struct Model {
    kind: Kind,
    places: usize,
    up_to: u64,
    lifo: bool,
    now: u64,
    users: BTreeMap<&'static str, User>,
    /// Who went on, and who was refused, at the present millisecond.
    passed: Vec<usize>,
    refused: Vec<usize>,
}

impl Model {
    fn user(&mut self, user: &'static str) -> &mut User {
        self.users.entry(user).or_default()
    }

    fn standing(&self) -> usize {
        self.users.values().map(|user| user.line.len()).sum()
    }

    fn comes(&mut self, number: usize, name: &'static str) {
        let (now, lifo, kind, up_to) = (self.now, self.lifo, self.kind, self.up_to);
        let mine = self.user(name).line.len();
        let greediest = self.users.iter().max_by_key(|(name, user)| (user.line.len(), **name));
        let (greediest, most) = greediest.map(|(name, user)| (*name, user.line.len())).unwrap();
        let is_full = self.standing() >= self.places;
        let user = self.user(name);
        if is_full && mine + 2 > most {
            return self.refused.push(number);
        }
        match kind {
            Kind::Every(pace) => {
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
            Kind::AtOnce(places) if user.in_flight < places && (lifo || user.line.is_empty()) => {
                user.in_flight += 1;
                return self.passed.push(number);
            }
            Kind::AtOnce(_) => {}
        }
        if is_full {
            let victim = self.user(greediest);
            let last = if lifo { 0 } else { victim.line.len() - 1 };
            let (victim, _) = victim.line[last];
            self.leaves(victim);
            self.refused.push(victim);
        }
        let now = self.now;
        self.user(name).line.push((number, now));
    }

    fn leaves(&mut self, number: usize) {
        let kind = self.kind;
        for user in self.users.values_mut() {
            let Some(place) = user.line.iter().position(|(it, _)| *it == number) else { continue };
            user.line.remove(place);
            if let Kind::Every(pace) = kind {
                user.slots.pop();
                user.free_at -= pace;
            }
        }
    }

    fn is_done(&mut self, user: &'static str) {
        self.user(user).in_flight -= 1;
        self.serve();
    }

    /// Lets go on whoever may.
    fn serve(&mut self) {
        let (now, lifo, kind) = (self.now, self.lifo, self.kind);
        for user in self.users.values_mut() {
            loop {
                let is_free = match kind {
                    Kind::Every(_) => user.slots.first().is_some_and(|slot| *slot <= now),
                    Kind::AtOnce(places) => user.in_flight < places && !user.line.is_empty(),
                };
                if !is_free {
                    break;
                }
                match kind {
                    Kind::Every(_) => drop(user.slots.remove(0)),
                    Kind::AtOnce(_) => user.in_flight += 1,
                }
                let next = if lifo { user.line.len() - 1 } else { 0 };
                self.passed.push(user.line.remove(next).0);
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        self.serve();
        let (now, up_to) = (self.now, self.up_to);
        let is_late = |(_, since): &&(usize, u64)| since + up_to <= now;
        let late = self.users.values().flat_map(|user| user.line.iter().filter(is_late));
        let late: Vec<usize> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.leaves(number);
            self.refused.push(number);
        }
    }
}

fn compare(seed: u64, kind: Kind, lifo: bool) {
    let mut dice = Dice(seed * 2_654_435_761 + 1);
    let (places, up_to) = (1 + dice.below(8) as usize, 5 + dice.below(40));
    let limit = match kind {
        Kind::Every(pace) => format!("1/{pace}ms burst 1"),
        Kind::AtOnce(places) => format!("{places} concurrent"),
    };
    let order = if lifo { "lifo" } else { "" };
    let then = format!("queue {places} up to {up_to}ms {order}");
    let rule = format!("{{ name: r, per: user, limit: {limit}, then: {then} }}");
    let mut visitors = Visitors::new(&rule);
    let (now, users) = (0, USERS.map(|user| (user, User::default())).into());
    let (passed, refused) = (Vec::new(), Vec::new());
    let mut model = Model { kind, places, up_to, lifo, now, users, passed, refused };
    let mut in_flight: Vec<(&'static str, Decision)> = Vec::new();
    let mut whose = BTreeMap::new();
    let mut standing = Vec::new();
    for number in 0..400 {
        match dice.below(10) {
            0..5 => {
                // The first is loud.
                let user = USERS[dice.below(4).saturating_sub(1) as usize];
                whose.insert(number, user);
                standing.push(number);
                model.comes(number, user);
                visitors.of(number, user);
            }
            5 if !standing.is_empty() => {
                let leaves = standing[dice.below(standing.len() as u64) as usize];
                model.leaves(leaves);
                visitors.leaves(leaves);
                standing.retain(|it| *it != leaves);
            }
            6 if !in_flight.is_empty() => {
                let done = in_flight.remove(dice.below(in_flight.len() as u64) as usize);
                visitors.limiter.release(&done.1, Duration::from_millis(1));
                visitors.settle();
                model.is_done(done.0);
            }
            _ => {
                visitors.passes(1);
                model.tick();
            }
        }
        let (mut passed, mut refused) = (Vec::new(), Vec::new());
        for (number, _, decision) in visitors.done.drain(..) {
            standing.retain(|it| *it != number);
            if !decision.allowed {
                refused.push(number);
                continue;
            }
            passed.push(number);
            if matches!(kind, Kind::AtOnce(_)) {
                in_flight.push((whose[&number], decision));
            }
        }
        for list in [&mut passed, &mut refused, &mut model.passed, &mut model.refused] {
            list.sort_unstable();
        }
        let context = format!("{rule}, seed {seed}, step {number}, at {}", model.now);
        assert_eq!(passed, model.passed, "let through: {context}");
        assert_eq!(refused, model.refused, "refused: {context}");
        assert_eq!(visitors.waiting(), model.standing(), "{context}");
        (model.passed, model.refused) = (Vec::new(), Vec::new());
    }
}

#[test]
fn random_visitors_of_a_rate_fare_as_the_model_says() {
    for seed in 1..=150 {
        compare(seed, Kind::Every(1 + seed % 9), seed % 2 == 0);
    }
}

#[test]
fn random_visitors_of_places_fare_as_the_model_says() {
    for seed in 1..=150 {
        compare(seed, Kind::AtOnce(1 + seed as usize % 3), seed % 2 == 0);
    }
}
