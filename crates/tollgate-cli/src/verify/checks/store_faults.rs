//! Faults of the store, made by a proxy in front of it: what they cost, what the rules do meanwhile, and
//! what is charged.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::super::check::{CheckContext, CheckRun, wait_until};
use super::super::harness::{FaultProxy, HttpConnection, ProxyFault};
use super::super::measurement::Measurement;
use super::store_address::{given, key_prefix, skipped};

const TIMEOUT: Duration = Duration::from_millis(400);
/// The longest call: the timeout of the store, and as long again for a busy machine.
const MAX_CALL: Duration = TIMEOUT.saturating_mul(2);
/// The time from which on a call has waited for the store.
const WAITED: Duration = Duration::from_millis(350);
/// The longest median of calls while the store is down, with HTTP.
const MAX_MEDIAN: Duration = Duration::from_millis(20);
/// The longest time between the end of a fault and the first decision by the store.
const MAX_RECOVERY: Duration = Duration::from_secs(2);
/// The capacity of the rule that decides locally while the store is down.
const SHARE: u64 = 20;
/// The capacity of the other rules.
const CAPACITY: u64 = 100_000;

fn rules() -> String {
    let rule = |name: &str, capacity: u64| {
        format!(
            "  - {{ name: {name}, route: GET /{name}, per: user, \
             limit: {capacity}/5min fixed first_hit, on_error: {name} }}\n"
        )
    };
    let rules = [rule("allow", CAPACITY), rule("deny", CAPACITY), rule("local", SHARE)].concat();
    format!("domain: verify\nattributes: [user]\nrules:\n{rules}")
}

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let Some(store) = given(context)? else { return Ok(skipped()) };
    let proxy = FaultProxy::start(store.address)?;
    let timeout = format!("{}ms", TIMEOUT.as_millis());
    let rules = rules();
    let server = store.start_server(context, proxy.address(), &key_prefix(), (&rules, &timeout))?;
    let mut caller = FaultCaller {
        context,
        proxy: &proxy,
        connection: HttpConnection::open(server.door("http")?)?,
    };
    let is_ready = caller.wait_for_store(Duration::from_secs(10));
    ensure!(is_ready, "the server cannot use the store: {}", server.log());
    let mut measured = Vec::new();
    for (name, fault) in [("stalls", ProxyFault::Stall), ("is unreachable", ProxyFault::Cut)] {
        context.step(format!("the store {name}"));
        measured.extend(caller.outage(fault)?.measurements(name));
    }
    context.step("replies are lost");
    measured.push(caller.lost_replies(context.amount(10, 3))?.measurement());
    Ok(CheckRun::Measured(measured))
}

/// A caller of a server whose store is behind a proxy.
struct FaultCaller<'a> {
    context: &'a CheckContext,
    proxy: &'a FaultProxy,
    connection: HttpConnection,
}

impl FaultCaller<'_> {
    /// Checks a request; returns the status and the time it took.
    fn check(&mut self, rule: &str, user: &str) -> anyhow::Result<(u16, Duration)> {
        let watch = self.context.stopwatch();
        let body = body(rule, user).to_string();
        let response = self.connection.send("POST", "/v1/check?status=true", &[], &body)?;
        Ok((response.status(), watch.elapsed()))
    }

    /// Waits until the store decides; a rule with `on_error: deny` passes only then.
    fn wait_for_store(&mut self, time_limit: Duration) -> bool {
        let context = self.context;
        wait_until(context, time_limit, || matches!(self.check("deny", "probe"), Ok((200, _))))
    }

    /// Makes a fault, calls every rule meanwhile, and ends the fault.
    fn outage(&mut self, fault: ProxyFault) -> anyhow::Result<OutageTally> {
        let user = format!("{fault:?}");
        let mut tally = OutageTally::default();
        self.proxy.set(fault);
        for _ in 0..self.context.amount(100, 30) {
            for rule in ["allow", "deny", "local"] {
                let (status, took) = self.check(rule, &user)?;
                tally.add(rule, status, took);
            }
        }
        self.proxy.set(ProxyFault::None);
        let watch = self.context.stopwatch();
        let recovered = self.wait_for_store(5 * MAX_RECOVERY);
        tally.recovery = if recovered { watch.elapsed() } else { Duration::MAX };
        // What was admitted without the store is charged before the store decides on the key.
        for _ in 0..SHARE {
            tally.local_admitted += u64::from(self.check("local", &user)?.0 == 200);
        }
        Ok(tally)
    }

    /// Has the replies to calls lost, and compares what was charged with what was sent.
    fn lost_replies(&mut self, rounds: u64) -> anyhow::Result<LostReplyTally> {
        let mut tally = LostReplyTally::default();
        for _ in 0..rounds {
            self.proxy.set(ProxyFault::LoseReplies);
            tally.admitted += u64::from(self.check("deny", "lost")?.0 == 200);
            tally.calls += 1;
            self.proxy.set(ProxyFault::None);
            ensure!(self.wait_for_store(5 * MAX_RECOVERY), "the store is not used again");
        }
        let peeked = self.connection.call("/v1/peek", &body("deny", "lost"))?;
        let remaining = peeked["limits"][0]["remaining"].as_u64();
        let remaining = remaining.with_context(|| format!("no remaining in {peeked}"))?;
        tally.charged = CAPACITY.saturating_sub(remaining);
        Ok(tally)
    }
}

fn body(rule: &str, user: &str) -> Value {
    let attributes = json!({"route": format!("GET /{rule}"), "user": user});
    json!({"domain": "verify", "attributes": attributes})
}

/// The figures of one outage.
#[derive(Debug, Default)]
struct OutageTally {
    calls: Vec<Duration>,
    /// Calls that the rules should have answered otherwise.
    wrong: u64,
    local_admitted: u64,
    recovery: Duration,
}

impl OutageTally {
    fn add(&mut self, rule: &str, status: u16, took: Duration) {
        self.calls.push(took);
        match (rule, status) {
            ("local", 200) => self.local_admitted += 1,
            ("allow", 200) | ("deny", 503) | ("local", 429) => {}
            _ => self.wrong += 1,
        }
    }

    fn measurements(&self, fault: &str) -> Vec<Measurement> {
        let mut calls = self.calls.clone();
        calls.sort_unstable();
        let slowest = calls.last().copied().unwrap_or(Duration::MAX);
        let median = calls.get(calls.len() / 2).copied().unwrap_or(Duration::MAX);
        let waited = calls.iter().filter(|call| **call >= WAITED).count() as u64;
        let timeout = TIMEOUT.as_millis();
        let subject = |what: &str| format!("the store {fault}: {what}");
        vec![
            Measurement::time(
                subject(&format!("slowest of {} calls, timeout {timeout} ms", calls.len())),
                slowest,
                MAX_CALL,
            ),
            Measurement::at_most(subject("calls that waited for it"), waited, "calls", 1),
            Measurement::time(subject("median call, with HTTP"), median, MAX_MEDIAN),
            Measurement::exactly(
                subject("calls not answered as on_error says"),
                self.wrong,
                "calls",
                0,
            ),
            Measurement::exactly(
                subject(&format!("on_error: local, {SHARE}/5min, during and after it")),
                self.local_admitted,
                "admitted",
                SHARE,
            ),
            Measurement::time(subject("until it decides again"), self.recovery, MAX_RECOVERY),
        ]
    }
}

/// The figures of calls whose replies were lost.
#[derive(Debug, Default)]
struct LostReplyTally {
    calls: u64,
    admitted: u64,
    charged: u64,
}

impl LostReplyTally {
    fn measurement(&self) -> Measurement {
        let LostReplyTally { calls, admitted, charged } = *self;
        // A charge too many was made twice, and one too few was not made.
        let wrong = charged.saturating_sub(calls) + admitted.saturating_sub(charged);
        let subject = format!("{calls} calls with lost replies, {charged} charged: charged twice");
        Measurement::exactly(subject, wrong, "charges", 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);

    /// One call that waits, and quick ones; the rules answer as they should.
    fn tally() -> OutageTally {
        let mut tally = OutageTally { recovery: QUICK, ..OutageTally::default() };
        tally.add("allow", 200, TIMEOUT);
        for _ in 0..30 {
            tally.add("allow", 200, QUICK);
            tally.add("deny", 503, QUICK);
            tally.add("local", 429, QUICK);
        }
        tally.local_admitted = SHARE;
        tally
    }

    /// Returns the number of the measurement that does not hold, if there is one.
    fn broken(tally: &OutageTally) -> Option<usize> {
        let measured = tally.measurements("stalls");
        let broken: Vec<usize> = (0..measured.len()).filter(|i| !measured[*i].holds()).collect();
        assert!(broken.len() <= 1, "{broken:?}");
        broken.first().copied()
    }

    #[test]
    fn every_failure_to_keep_going_is_found() {
        assert_eq!(broken(&tally()), None);
        let changed = |change: &dyn Fn(&mut OutageTally)| {
            let mut tally = tally();
            change(&mut tally);
            broken(&tally)
        };
        assert_eq!(changed(&|tally| tally.calls[0] = 3 * TIMEOUT), Some(0));
        assert_eq!(changed(&|tally| tally.calls[1] = TIMEOUT), Some(1));
        assert_eq!(changed(&|tally| tally.calls[1..].fill(TIMEOUT / 4)), Some(2));
        assert_eq!(changed(&|tally| tally.add("allow", 503, QUICK)), Some(3));
        assert_eq!(changed(&|tally| tally.add("deny", 200, QUICK)), Some(3));
        assert_eq!(changed(&|tally| tally.add("local", 200, QUICK)), Some(4));
        assert_eq!(changed(&|tally| tally.recovery = Duration::MAX), Some(5));
    }

    #[test]
    fn a_charge_that_is_made_twice_or_not_at_all_is_found() {
        let holds = |calls, admitted, charged| {
            LostReplyTally { calls, admitted, charged }.measurement().holds()
        };
        assert!(holds(3, 0, 3) && holds(3, 0, 0) && holds(3, 2, 2));
        assert!(!holds(3, 0, 4));
        assert!(!holds(3, 2, 1));
    }
}
