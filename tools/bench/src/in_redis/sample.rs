//! The results of a few seconds of decisions, as callers and Redis measure them.

use std::time::Duration;

use tollgate_rig::Redis;

/// The results as callers measure them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerStats {
    pub(crate) decisions: f64,
    pub(crate) allowed: f64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The processor time of the calling process, if it is this one.
    pub(crate) client: Option<Duration>,
}

/// The results including the cost for Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedisSample {
    pub(crate) stats: CallerStats,
    /// The processor time of the whole Redis process.
    cpu: Duration,
    /// The time in commands alone, including scripts, in µs.
    commands_us: f64,
}

impl RedisSample {
    /// Runs `make_decisions`, and reads the counters of Redis before and after.
    pub(crate) fn take(
        redis: &Redis,
        make_decisions: impl FnOnce() -> Result<CallerStats, String>,
    ) -> Result<RedisSample, String> {
        redis.command(&["CONFIG", "RESETSTAT"]).map_err(|error| error.to_string())?;
        let before = redis.cpu();
        let stats = make_decisions()?;
        let cpu = redis.cpu() - before;
        Ok(RedisSample { stats, cpu, commands_us: commands_us(redis)? })
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.stats.decisions
    }

    pub(crate) fn commands_us(&self) -> f64 {
        self.commands_us / self.stats.decisions
    }

    pub(crate) fn client_us(&self) -> Option<f64> {
        Some(self.stats.client?.as_secs_f64() * 1e6 / self.stats.decisions)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.stats.decisions / self.stats.seconds
    }
}

/// Returns the time that Redis spent in commands of limiters.
///
/// Commands that scripts call are part of these and listed again, so they are left out.
fn commands_us(redis: &Redis) -> Result<f64, String> {
    const SENT: [&str; 4] = ["evalsha", "eval", "fcall", "cl.throttle"];
    let stats = redis.command(&["INFO", "commandstats"]).map_err(|error| error.to_string())?;
    let text = stats.text();
    let spent = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let us = rest.split(',').find_map(|field| field.strip_prefix("usec="))?;
        SENT.contains(&name).then(|| us.parse::<f64>().ok())?
    });
    Ok(spent.sum())
}

/// Returns how many commands with `word` clients send while `make_decisions` runs, as Redis receives them.
///
/// Commands that scripts and modules call do not count.
pub(crate) fn commands_during(
    redis: &Redis,
    word: &str,
    make_decisions: impl FnOnce() -> Result<(), String>,
) -> Result<u64, String> {
    let failed = |error: std::io::Error| error.to_string();
    const LAST: &str = "the last one";
    let mut monitor = redis.client().map_err(failed)?;
    monitor.command(&["MONITOR"]).map_err(failed)?;
    let outcome = make_decisions();
    redis.command(&["ECHO", LAST]).map_err(failed)?;
    outcome?;
    let mut count = 0;
    loop {
        // `1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" …`
        let line = monitor.reply().map_err(failed)?.text();
        if line.contains(LAST) {
            return Ok(count);
        }
        let from_script = ["lua]", "?:0]"].iter().any(|by| line.contains(&format!(" {by} ")));
        count += u64::from(!from_script && line.contains(word));
    }
}
