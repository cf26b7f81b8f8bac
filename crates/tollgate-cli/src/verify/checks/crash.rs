//! Crashes: `kill -9` under load loses at most one interval, and a damaged snapshot is moved aside.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tollgate::{Clock, Time};

use super::super::check::{CheckContext, CheckRun};
use super::super::harness::{ChildServer, HttpConnection};
use super::super::measurement::Measurement;
use crate::text::grouped;

/// The interval of snapshots.
const INTERVAL: Duration = Duration::from_millis(500);
/// A server stretches its interval so that writing takes at most a tenth of the time.
const STRETCH: u32 = 10;
/// What a busy machine may add to an interval.
const SCHEDULING: Duration = Duration::from_secs(1);
/// The time between two looks at how long the server takes to write.
const SAMPLING: Duration = Duration::from_millis(50);
const CAPACITY: u64 = 1_000_000;
const LIMIT: &str = "1000000/365d";
const KEY: &str = "ann";

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let data = context.workspace.folder()?;
    let kills = context.amount(10, 2);
    let mut tally = CrashTally::default();
    for kill in 1..=kills {
        context.step(format!("kill {kill} of {kills}"));
        let server = start(context, &data)?;
        let restored = used(&server)?;
        tally.restart(restored);
        let address = server.door("http")?;
        let clock = context.clock.clone();
        let load = std::thread::spawn(move || load(address, &clock));
        // Longer than what may be lost, and ending anywhere between two snapshots.
        let life = INTERVAL + SCHEDULING + INTERVAL.mul_f64(0.5 + fastrand::f64());
        let slowest_write = slowest_write(context, address, life)?;
        let killed_at = context.clock.now();
        server.kill();
        let admissions = load.join().map_err(|_| anyhow::anyhow!("the load panicked"))?;
        tally.killed(LifeEnd { admissions, killed_at, slowest_write });
    }
    tally.restart(used(&start(context, &data)?)?);
    let mut measured = tally.measurements();
    measured.extend(damaged_snapshots(context, &data)?.measurements());
    Ok(CheckRun::Measured(measured))
}

fn start(context: &CheckContext, data: &Path) -> anyhow::Result<ChildServer> {
    let folder = context.workspace.folder()?;
    let interval = format!("{}ms", INTERVAL.as_millis());
    let data = data.to_str().context("the path of the temporary folder is not text")?;
    let args = ["--http", "127.0.0.1:0", "--snapshot", &interval, "--data", data];
    ChildServer::start(context, &folder, &args)
}

/// Waits, and returns the longest time that the server has meanwhile taken to write a snapshot: the
/// interval depends on it.
fn slowest_write(
    context: &CheckContext,
    address: SocketAddr,
    wait: Duration,
) -> anyhow::Result<Duration> {
    const METRIC: &str = "tollgate_snapshot_seconds ";
    let (mut connection, watch) = (HttpConnection::open(address)?, context.stopwatch());
    let mut slowest = 0.0_f64;
    while watch.elapsed() < wait {
        std::thread::park_timeout(SAMPLING.min(wait.saturating_sub(watch.elapsed())));
        let metrics = connection.send("GET", "/metrics", &[], "")?;
        let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
        let took = metrics.lines().find_map(|line| line.strip_prefix(METRIC)?.parse().ok());
        slowest =
            slowest.max(took.context("the server does not report the time of its snapshots")?);
    }
    Ok(Duration::try_from_secs_f64(slowest)?)
}

/// Returns how much of the key is charged.
fn used(server: &ChildServer) -> anyhow::Result<u64> {
    let mut connection = HttpConnection::open(server.door("http")?)?;
    let peeked = connection.call("/v1/peek", &json!({"key": KEY, "limit": LIMIT}))?;
    let remaining = peeked["limits"][0]["remaining"].as_u64();
    Ok(CAPACITY.saturating_sub(remaining.with_context(|| format!("no remaining in {peeked}"))?))
}

/// Charges one after the other until the server does not answer; returns the time of each admission.
fn load(address: SocketAddr, clock: &Clock) -> Vec<Time> {
    let mut admissions = Vec::new();
    let Ok(mut connection) = HttpConnection::open(address) else { return admissions };
    let body = json!({"key": KEY, "limit": LIMIT, "cost": 1});
    // The limit holds more than a life of a few seconds can send.
    while (admissions.len() as u64) < CAPACITY / 20 {
        match connection.call("/v1/limit", &body) {
            Ok(decision) if decision["allowed"] == true => admissions.push(clock.now()),
            _ => break,
        }
    }
    admissions
}

/// The end of a life of the server.
#[derive(Debug)]
struct LifeEnd {
    /// The times of the charges of this life.
    admissions: Vec<Time>,
    killed_at: Time,
    /// The longest time that a snapshot took to be written.
    slowest_write: Duration,
}

/// The time whose charges a kill has lost, beside the longest time that it may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LostTime {
    lost: Duration,
    bound: Duration,
    slowest_write: Duration,
}

impl LifeEnd {
    /// Returns what is lost if this number of the life's charges is left.
    fn lost_time(&self, left: u64) -> LostTime {
        let first_lost = self.admissions.get(usize::try_from(left).unwrap_or(usize::MAX));
        let lost = first_lost.map_or(Duration::ZERO, |first| {
            Duration::from_nanos(self.killed_at.since(*first).as_nanos())
        });
        // One interval, as long as writing makes it, on a busy machine.
        let bound = INTERVAL.max(STRETCH * self.slowest_write) + SCHEDULING;
        LostTime { lost, bound, slowest_write: self.slowest_write }
    }
}

/// The figures of all kills.
#[derive(Debug, Default)]
struct CrashTally {
    kills: u64,
    admitted: u64,
    /// What was charged when the current life began.
    base: u64,
    last: Option<LifeEnd>,
    /// The lost time that is the largest part of its bound.
    worst: Option<LostTime>,
    /// Charges of earlier lives that were lost.
    forgotten: u64,
    /// Charges that were never made.
    invented: u64,
}

impl CrashTally {
    /// Adds the end of a life.
    fn killed(&mut self, end: LifeEnd) {
        self.kills += 1;
        self.admitted += end.admissions.len() as u64;
        self.last = Some(end);
    }

    /// Adds what is charged after a restart.
    fn restart(&mut self, restored: u64) {
        if let Some(end) = self.last.take() {
            self.forgotten += self.base.saturating_sub(restored);
            // The call in flight may have been charged.
            let most = self.base + end.admissions.len() as u64 + 1;
            self.invented += restored.saturating_sub(most);
            let lost = end.lost_time(restored.saturating_sub(self.base));
            let part = |lost: &LostTime| lost.lost.as_secs_f64() / lost.bound.as_secs_f64();
            if self.worst.is_none_or(|worst| part(&lost) > part(&worst)) {
                self.worst = Some(lost);
            }
        }
        self.base = restored;
    }

    fn measurements(&self) -> Vec<Measurement> {
        let kills = format!("{} kills, {} charges", self.kills, grouped(self.admitted));
        // Without a kill nothing is shown.
        let nothing = LostTime { lost: Duration::MAX, ..LostTime::default() };
        let LostTime { lost, bound, slowest_write } = self.worst.unwrap_or(nothing);
        let (interval, write) = (INTERVAL.as_millis(), slowest_write.as_millis());
        let charges = |what: &str, count| {
            Measurement::exactly(format!("{kills}: {what}"), count, "charges", 0)
        };
        vec![
            Measurement::time(
                format!("{kills}, interval {interval} ms, write {write} ms: longest time lost"),
                lost,
                bound,
            ),
            charges("charges before the last start lost", self.forgotten),
            charges("charges that were never made", self.invented),
        ]
    }
}

/// The figures of damaged snapshots.
#[derive(Debug, Default)]
struct DamageTally {
    damaged: u64,
    /// Damaged snapshots that were moved aside by a server that started without them.
    moved_aside: u64,
}

impl DamageTally {
    fn measurements(&self) -> Vec<Measurement> {
        let subject = "changed, cut and empty snapshots: moved aside, and the server started";
        vec![Measurement::exactly(subject, self.moved_aside, "snapshots", self.damaged.max(1))]
    }
}

/// Starts a server with each of several damaged snapshots.
fn damaged_snapshots(context: &CheckContext, data: &Path) -> anyhow::Result<DamageTally> {
    let file = data.join("snapshot");
    let mut tally = DamageTally::default();
    // Without a snapshot there is nothing to damage, which is not as it should be.
    let Ok(good) = std::fs::read(&file) else { return Ok(tally) };
    for damaged in damages(&good, context.amount(10, 2)) {
        tally.damaged += 1;
        context.step(format!("damaged snapshot {}", tally.damaged));
        std::fs::write(&file, &damaged)?;
        let aside = data.join("snapshot.corrupt-1");
        // The one of the case before may be there.
        let _ = std::fs::remove_file(&aside);
        let server = start(context, data)?;
        let is_aside = std::fs::read(&aside).is_ok_and(|bytes| bytes == damaged);
        tally.moved_aside += u64::from(is_aside && used(&server)? == 0);
    }
    Ok(tally)
}

/// Returns a snapshot with one bit changed, at several positions, and cut at several.
fn damages(good: &[u8], each: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::new();
    let mut damages = vec![Vec::new(), good[..good.len().saturating_sub(1)].to_vec()];
    for _ in 0..each.min(good.len()) {
        let mut changed = good.to_vec();
        changed[random.usize(..good.len())] ^= 1 << random.u8(..8);
        damages.push(changed);
        damages.push(good[..random.usize(..good.len())].to_vec());
    }
    damages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lives of twenty charges, 100 ms apart, each killed with the last; after each start this much is
    /// charged.
    fn tally(restored: &[u64], slowest_write: Duration) -> CrashTally {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut tally = CrashTally::default();
        for restored in restored {
            tally.restart(*restored);
            let admissions = (1..=20).map(|n| at(n * 100)).collect();
            tally.killed(LifeEnd { admissions, killed_at: at(2_000), slowest_write });
        }
        tally
    }

    fn holds(tally: &CrashTally) -> [bool; 3] {
        let measured = tally.measurements();
        [0, 1, 2].map(|i| measured[i].holds())
    }

    #[test]
    fn a_kill_that_loses_more_than_an_interval_is_found() {
        let holds =
            |restored: &[u64], write_ms| holds(&tally(restored, Duration::from_millis(write_ms)));
        assert_eq!(holds(&[0, 20], 0), [true; 3], "nothing is lost");
        assert_eq!(holds(&[0, 4], 0), [true; 3], "1.5 s are lost");
        assert_eq!(holds(&[0, 3], 0), [false, true, true], "1.6 s are lost");
        assert!(!holds(&[0, 20, 23, 43], 0)[0], "once among several times");
        assert_eq!(holds(&[0, 3], 60), [true; 3], "a slow disk makes the interval longer");
        assert!(!holds(&[0], 0)[0], "without a kill nothing is shown");
    }

    #[test]
    fn charges_of_earlier_lives_and_invented_ones_are_found() {
        let holds = |restored: &[u64]| holds(&tally(restored, Duration::ZERO));
        assert!(!holds(&[0, 20, 19])[1]);
        assert_eq!(holds(&[0, 21]), [true; 3], "the call in flight was charged");
        assert!(!holds(&[0, 22])[2]);
    }

    #[test]
    fn a_damaged_snapshot_that_is_read_is_found() {
        let tally = |damaged, moved_aside| DamageTally { damaged, moved_aside };
        assert!(tally(3, 3).measurements()[0].holds());
        assert!(!tally(3, 2).measurements()[0].holds());
        assert!(!tally(0, 0).measurements()[0].holds(), "nothing was damaged");
        let good = b"a snapshot";
        assert!(damages(good, 5).iter().all(|damaged| damaged != good));
    }
}
