//! Crashes: `kill -9` under load loses at most one interval, and a damaged snapshot is moved aside.

use std::io::Write;
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
        tally.slowest_write = tally.slowest_write.max(write_time(context, &data)?);
        // Longer than what may be lost, and ending anywhere between two snapshots.
        std::thread::park_timeout(INTERVAL + SCHEDULING + INTERVAL.mul_f64(0.2 + fastrand::f64()));
        let killed_at = context.clock.now();
        server.kill();
        let admissions = load.join().map_err(|_| anyhow::anyhow!("the load panicked"))?;
        tally.killed(admissions, killed_at);
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

/// Returns how long a small file takes to be written to the disk of a folder.
fn write_time(context: &CheckContext, folder: &Path) -> anyhow::Result<Duration> {
    let (path, watch) = (folder.join("write-time"), context.stopwatch());
    let mut file = std::fs::File::create(&path)?;
    file.write_all(&[0; 4096])?;
    file.sync_all()?;
    let took = watch.elapsed();
    std::fs::remove_file(&path)?;
    Ok(took)
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

/// The figures of all kills.
#[derive(Debug, Default)]
struct CrashTally {
    kills: u64,
    admitted: u64,
    /// What was charged when the current life began.
    base: u64,
    /// The admissions of the last life, and when it was killed.
    last: Option<(Vec<Time>, Time)>,
    longest_lost: Duration,
    /// The longest time that a write to the disk took.
    slowest_write: Duration,
    /// Charges of earlier lives that were lost.
    forgotten: u64,
    /// Charges that were never made.
    invented: u64,
}

impl CrashTally {
    /// Adds the end of a life.
    fn killed(&mut self, admissions: Vec<Time>, killed_at: Time) {
        self.kills += 1;
        self.admitted += admissions.len() as u64;
        self.last = Some((admissions, killed_at));
    }

    /// Adds what is charged after a restart.
    fn restart(&mut self, restored: u64) {
        if let Some((admissions, killed_at)) = self.last.take() {
            self.forgotten += self.base.saturating_sub(restored);
            // The call in flight may have been charged.
            let most = self.base + admissions.len() as u64 + 1;
            self.invented += restored.saturating_sub(most);
            let kept = restored.saturating_sub(self.base) as usize;
            let lost = admissions.get(kept).map_or(Duration::ZERO, |first_lost| {
                Duration::from_nanos(killed_at.since(*first_lost).as_nanos())
            });
            self.longest_lost = self.longest_lost.max(lost);
        }
        self.base = restored;
    }

    /// Returns the longest time whose charges may be lost: one interval, as long as writing makes it,
    /// on a busy machine.
    fn max_lost(&self) -> Duration {
        INTERVAL.max(STRETCH * self.slowest_write) + SCHEDULING
    }

    fn measurements(&self) -> Vec<Measurement> {
        let kills = format!("{} kills, {} charges", self.kills, grouped(self.admitted));
        let millis = INTERVAL.as_millis();
        vec![
            Measurement::time(
                format!("{kills}, interval {millis} ms: longest time whose charges are lost"),
                self.longest_lost,
                self.max_lost(),
            ),
            Measurement::exactly(
                format!("{kills}: charges before the last start lost"),
                self.forgotten,
                "charges",
                0,
            ),
            Measurement::exactly(
                format!("{kills}: charges that were never made"),
                self.invented,
                "charges",
                0,
            ),
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

    /// Ten charges, 100 ms apart; killed 100 ms after the last.
    fn tally(restored: &[u64]) -> CrashTally {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut tally = CrashTally::default();
        for restored in restored {
            tally.restart(*restored);
            tally.killed((1..=10).map(|n| at(n * 100)).collect(), at(1_100));
        }
        tally
    }

    fn holds(tally: &CrashTally) -> [bool; 3] {
        let measured = tally.measurements();
        [0, 1, 2].map(|i| measured[i].holds())
    }

    #[test]
    fn losses_of_one_interval_hold_and_longer_ones_do_not() {
        assert_eq!(holds(&tally(&[0, 10])), [true; 3]);
        // The charges of the last second are lost.
        let last_second = tally(&[0, 1]);
        assert_eq!(last_second.longest_lost, Duration::from_millis(900));
        assert_eq!(holds(&last_second), [true; 3]);
        let all = tally(&[0, 0]);
        assert_eq!(all.longest_lost, Duration::from_secs(1));
        let longest_lost = INTERVAL + SCHEDULING + Duration::from_millis(1);
        let slow = CrashTally { longest_lost, ..all };
        assert!(!holds(&slow)[0]);
        // On a slow disk the interval is longer.
        let slow_disk = CrashTally { slowest_write: INTERVAL, ..slow };
        assert!(holds(&slow_disk)[0]);
    }

    #[test]
    fn charges_of_earlier_lives_and_invented_ones_are_found() {
        assert!(!holds(&tally(&[0, 10, 9]))[1]);
        assert_eq!(holds(&tally(&[0, 11])), [true; 3], "the call in flight was charged");
        assert!(!holds(&tally(&[0, 12]))[2]);
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
