//! What a few seconds of decisions showed: of whoever asked, and of Redis.

use std::time::Duration;

use tollgate_rig::Redis;

/// As whoever asked saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) decisions: f64,
    pub(crate) allowed: f64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of the asking process, where it is ours.
    pub(crate) client: Option<Duration>,
}

/// With what it cost Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) asked: Asked,
    /// Of the whole process.
    cpu: Duration,
    /// In commands alone, scripts included, in µs.
    commands_us: f64,
}

impl Sample {
    /// Lets somebody ask, and looks at Redis before and after.
    pub(crate) fn take(
        redis: &Redis,
        ask: impl FnOnce() -> Result<Asked, String>,
    ) -> Result<Sample, String> {
        redis.command(&["CONFIG", "RESETSTAT"]).map_err(|error| error.to_string())?;
        let before = redis.cpu();
        let asked = ask()?;
        let cpu = redis.cpu() - before;
        Ok(Sample { asked, cpu, commands_us: commands_us(redis)? })
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.asked.decisions
    }

    pub(crate) fn commands_us(&self) -> f64 {
        self.commands_us / self.asked.decisions
    }

    pub(crate) fn client_us(&self) -> Option<f64> {
        Some(self.asked.client?.as_secs_f64() * 1e6 / self.asked.decisions)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.asked.decisions / self.asked.seconds
    }
}

/// The time Redis says it was inside commands that limiters send. What those call themselves is
/// counted as part of them, and left out where it is listed again.
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

/// How many commands with `word` in them clients send while `ask` runs, as Redis sees them arrive;
/// what scripts and modules call themselves does not count.
pub(crate) fn commands_during(
    redis: &Redis,
    word: &str,
    ask: impl FnOnce() -> Result<(), String>,
) -> Result<u64, String> {
    let failed = |error: std::io::Error| error.to_string();
    const LAST: &str = "the last one";
    let mut monitor = redis.client().map_err(failed)?;
    monitor.command(&["MONITOR"]).map_err(failed)?;
    let asked = ask();
    redis.command(&["ECHO", LAST]).map_err(failed)?;
    asked?;
    let mut count = 0;
    loop {
        // `1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" …`
        let line = monitor.reply().map_err(failed)?.text();
        if line.contains(LAST) {
            return Ok(count);
        }
        let inner = ["lua]", "?:0]"].iter().any(|by| line.contains(&format!(" {by} ")));
        count += u64::from(!inner && line.contains(word));
    }
}
