//! The limiters of the comparison, in each case.

use tollgate::Consistency;

use super::bench::{KeyList, RedisBench};
use super::callers::{Amount, IN_FLIGHT, drive};
use super::external_limiter::ExternalLimiter;
use super::limit::{DailyLimit, TIGHT, WIDE};
use super::sample::{CallerStats, RedisSample, commands_during};
use super::subject::{RedisSubject, Script};
use crate::measure::median;
use crate::workload::KEY_START;

/// How a limiter is driven.
enum LimiterDriver {
    /// A limiter driven by this process.
    InProcess([RedisSubject; 1]),
    /// A limiter in a program of its own.
    External(ExternalLimiter),
}

/// A limiter in a case, with a sample for each round.
pub(crate) struct LimiterEntry {
    pub(crate) name: &'static str,
    pub(crate) denied: bool,
    driver: LimiterDriver,
    limit: DailyLimit,
    /// The number of commands that reach Redis per decision.
    pub(crate) commands: f64,
    pub(crate) samples: Vec<RedisSample>,
}

/// The name of the baseline of the targets.
pub(crate) const BARE: &str = "bare EVALSHA, token bucket";
pub(crate) const ONE: &str = "tollgate strict, 1 limit";
pub(crate) const THREE: &str = "tollgate strict, 3 limits on one key";

/// Returns all installed limiters in both cases, and reports missing ones.
pub(crate) fn limiter_entries(bench: &RedisBench) -> Result<Vec<LimiterEntry>, String> {
    let mut entries = Vec::new();
    for denied in [false, true] {
        let limit = if denied { TIGHT } else { WIDE };
        for (name, subject) in bench.runtime.block_on(subjects(bench, limit))? {
            entries.push(LimiterEntry::new(
                name,
                denied,
                limit,
                LimiterDriver::InProcess([subject]),
            ));
        }
        for (name, program) in PROGRAMS {
            if program.is_installed() {
                entries.push(LimiterEntry::new(
                    name,
                    denied,
                    limit,
                    LimiterDriver::External(program),
                ));
            } else if !denied {
                eprintln!("{name} is missing: run `cargo xtask bench redis`, which installs it");
            }
        }
    }
    Ok(entries)
}

/// Returns the limiters that this process drives, by name; each has counters of its own.
async fn subjects(
    bench: &RedisBench,
    limit: DailyLimit,
) -> Result<Vec<(&'static str, RedisSubject)>, String> {
    let (url, number) = (&bench.redis.url(), limit.0);
    let prefix = |name: &str| format!("{name}-{number}");
    let three = [limit, DailyLimit(2 * number), DailyLimit(3 * number)];
    let mut subjects = vec![
        (BARE, RedisSubject::bare(url, Script::TokenBucket, limit).await?),
        ("bare EVALSHA, GCRA", RedisSubject::bare(url, Script::Gcra, limit).await?),
        (ONE, RedisSubject::tollgate(url, &prefix("one"), &[limit], Consistency::Strict).await?),
        (THREE, RedisSubject::tollgate(url, &prefix("three"), &three, Consistency::Strict).await?),
    ];
    if bench.has_redis_cell {
        subjects.push(("redis-cell", RedisSubject::redis_cell(url, limit).await?));
    }
    Ok(subjects)
}

/// Limiters of other languages.
const PROGRAMS: [(&str, ExternalLimiter); 3] = [
    ("limits (Python), fixed window", ExternalLimiter::Limits("fixed-window")),
    ("limits (Python), moving window", ExternalLimiter::Limits("moving-window")),
    ("rate-limiter-flexible (Node)", ExternalLimiter::Flexible),
];

impl LimiterEntry {
    fn new(
        name: &'static str,
        denied: bool,
        limit: DailyLimit,
        driver: LimiterDriver,
    ) -> LimiterEntry {
        LimiterEntry { name, denied, driver, limit, commands: f64::NAN, samples: Vec::new() }
    }

    /// Returns the number of concurrent decisions.
    pub(crate) fn in_flight(&self) -> usize {
        match self.driver {
            LimiterDriver::InProcess(_) => IN_FLIGHT,
            LimiterDriver::External(program) => program.in_flight(),
        }
    }

    pub(crate) fn median(&self, of: impl Fn(&RedisSample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }

    /// Makes one decision for every key, so that all counters exist, and then counts commands.
    pub(crate) fn warm(&mut self, bench: &RedisBench) -> Result<(), String> {
        self.drive(bench, &bench.keys, Amount::AllKeys)?;
        let commands = commands_during(&bench.redis, KEY_START, || {
            let stats = self.drive(bench, &bench.some, Amount::AllKeys)?;
            self.judge(&stats)
        })?;
        self.commands = commands as f64 / bench.some.list.len() as f64;
        Ok(())
    }

    /// Measures one round.
    pub(crate) fn round(&mut self, bench: &RedisBench, amount: Amount) -> Result<(), String> {
        let sample = RedisSample::take(&bench.redis, || self.drive(bench, &bench.keys, amount))?;
        self.judge(&sample.stats)?;
        self.samples.push(sample);
        Ok(())
    }

    fn drive(
        &self,
        bench: &RedisBench,
        keys: &KeyList,
        amount: Amount,
    ) -> Result<CallerStats, String> {
        let stats = match &self.driver {
            LimiterDriver::InProcess(subject) => {
                bench.runtime.block_on(drive(subject, &keys.list, amount))
            }
            LimiterDriver::External(program) => {
                program.run(&bench.redis.url(), self.limit, keys.file.path(), amount)
            }
        };
        stats.map_err(|error| format!("{}: {error}", self.name))
    }

    /// Checks that the decisions are those of the case.
    fn judge(&self, stats: &CallerStats) -> Result<(), String> {
        let expected = if self.denied { 0.0 } else { stats.decisions };
        if stats.allowed == expected {
            return Ok(());
        }
        let CallerStats { decisions, allowed, .. } = stats;
        Err(format!("{}: {allowed} of {decisions} allowed instead of {expected}", self.name))
    }
}
