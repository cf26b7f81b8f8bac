//! Who takes part, and in which case.

use tollgate::Consistency;

use super::bench::{Bench, Keys};
use super::drive::{Amount, IN_FLIGHT, drive};
use super::limit::{Daily, TIGHT, WIDE};
use super::program::Program;
use super::sample::{Asked, Sample, commands_during};
use super::subject::{Script, Subject};
use crate::measure::median;
use crate::workload::KEY_START;

/// Who decides.
enum Who {
    /// Driven by this process.
    Here([Subject; 1]),
    /// A program of its own.
    There(Program),
}

/// A limiter in a case, and what each round showed.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) denied: bool,
    who: Who,
    limit: Daily,
    /// Commands that arrive at Redis for each decision.
    pub(crate) commands: f64,
    pub(crate) samples: Vec<Sample>,
}

/// The names that targets are about.
pub(crate) const BARE: &str = "bare EVALSHA, token bucket";
pub(crate) const ONE: &str = "tollgate strict, 1 limit";
pub(crate) const THREE: &str = "tollgate strict, 3 limits on one key";

/// Everybody at hand, in both cases. Says who is missing.
pub(crate) fn line_up(bench: &Bench) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for denied in [false, true] {
        let limit = if denied { TIGHT } else { WIDE };
        for (name, subject) in bench.runtime.block_on(subjects(bench, limit))? {
            entries.push(Entry::new(name, denied, limit, Who::Here([subject])));
        }
        for (name, program) in PROGRAMS {
            if program.is_installed() {
                entries.push(Entry::new(name, denied, limit, Who::There(program)));
            } else if !denied {
                eprintln!("{name} is missing: run `cargo xtask bench redis`, which installs it");
            }
        }
    }
    Ok(entries)
}

/// Limiters that this process drives, by name. Each has counters of its own.
async fn subjects(bench: &Bench, limit: Daily) -> Result<Vec<(&'static str, Subject)>, String> {
    let (url, number) = (&bench.redis.url(), limit.0);
    let prefix = |name: &str| format!("{name}-{number}");
    let three = [limit, Daily(2 * number), Daily(3 * number)];
    let mut subjects = vec![
        (BARE, Subject::bare(url, Script::TokenBucket, limit).await?),
        ("bare EVALSHA, GCRA", Subject::bare(url, Script::Gcra, limit).await?),
        (ONE, Subject::tollgate(url, &prefix("one"), &[limit], Consistency::Strict).await?),
        (THREE, Subject::tollgate(url, &prefix("three"), &three, Consistency::Strict).await?),
    ];
    if bench.has_redis_cell {
        subjects.push(("redis-cell", Subject::redis_cell(url, limit).await?));
    }
    Ok(subjects)
}

/// Limiters of other languages.
const PROGRAMS: [(&str, Program); 3] = [
    ("limits (Python), fixed window", Program::Limits("fixed-window")),
    ("limits (Python), moving window", Program::Limits("moving-window")),
    ("rate-limiter-flexible (Node)", Program::Flexible),
];

impl Entry {
    fn new(name: &'static str, denied: bool, limit: Daily, who: Who) -> Entry {
        Entry { name, denied, who, limit, commands: f64::NAN, samples: Vec::new() }
    }

    /// How many answers it waits for at any time.
    pub(crate) fn in_flight(&self) -> usize {
        match self.who {
            Who::Here(_) => IN_FLIGHT,
            Who::There(program) => program.in_flight(),
        }
    }

    pub(crate) fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }

    /// Asks about every key once, so that all of them are there; then counts commands.
    pub(crate) fn warm(&mut self, bench: &Bench) -> Result<(), String> {
        self.ask(bench, &bench.keys, Amount::Keys)?;
        let commands = commands_during(&bench.redis, KEY_START, || {
            let asked = self.ask(bench, &bench.some, Amount::Keys)?;
            self.judge(&asked)
        })?;
        self.commands = commands as f64 / bench.some.list.len() as f64;
        Ok(())
    }

    /// Measures one round.
    pub(crate) fn round(&mut self, bench: &Bench, amount: Amount) -> Result<(), String> {
        let sample = Sample::take(&bench.redis, || self.ask(bench, &bench.keys, amount))?;
        self.judge(&sample.asked)?;
        self.samples.push(sample);
        Ok(())
    }

    fn ask(&self, bench: &Bench, keys: &Keys, amount: Amount) -> Result<Asked, String> {
        let asked = match &self.who {
            Who::Here(subject) => bench.runtime.block_on(drive(subject, &keys.list, amount)),
            Who::There(program) => {
                program.run(&bench.redis.url(), self.limit, keys.file.path(), amount)
            }
        };
        asked.map_err(|error| format!("{}: {error}", self.name))
    }

    /// Makes sure that the answers are what the case says they are.
    fn judge(&self, asked: &Asked) -> Result<(), String> {
        let expected = if self.denied { 0.0 } else { asked.decisions };
        if asked.allowed == expected {
            return Ok(());
        }
        let Asked { decisions, allowed, .. } = asked;
        Err(format!("{}: {allowed} of {decisions} allowed instead of {expected}", self.name))
    }
}
