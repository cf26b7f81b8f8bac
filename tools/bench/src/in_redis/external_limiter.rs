//! Limiters of other languages, driven by a script in their language.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::callers::{Amount, IN_FLIGHT};
use super::limit::{DAY_SECONDS, DailyLimit};
use super::sample::CallerStats;
use crate::programs;

/// A limiter of another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExternalLimiter {
    /// The Python package `limits`, with a strategy. It makes one decision at a time.
    Limits(&'static str),
    /// The npm package `rate-limiter-flexible`.
    Flexible,
}

impl ExternalLimiter {
    /// Returns the number of concurrent decisions.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            ExternalLimiter::Limits(_) => 1,
            ExternalLimiter::Flexible => IN_FLIGHT,
        }
    }

    /// Returns the path that exists if the limiter is installed.
    fn installed(self) -> PathBuf {
        match self {
            ExternalLimiter::Limits(_) => programs::peers().join("python/bin/python"),
            ExternalLimiter::Flexible => {
                programs::peers().join("node/node_modules/rate-limiter-flexible")
            }
        }
    }

    pub(crate) fn is_installed(self) -> bool {
        self.installed().exists()
    }

    /// Makes decisions about the keys of a file.
    pub(crate) fn run(
        self,
        url: &str,
        limit: DailyLimit,
        keys: &Path,
        amount: Amount,
    ) -> Result<CallerStats, String> {
        let amount = match amount {
            Amount::AllKeys => "all".to_owned(),
            Amount::Time(time) => time.as_secs_f64().to_string(),
        };
        let script = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("src/in_redis").join(name);
        let mut command = match self {
            ExternalLimiter::Limits(strategy) => {
                let mut python = Command::new(self.installed());
                python.arg(script("python_limits.py")).args([url, strategy, &limit.text()]);
                python.arg(keys).arg(amount);
                python
            }
            ExternalLimiter::Flexible => {
                let mut node = Command::new("node");
                node.arg(script("flexible.mjs")).arg(programs::peers().join("node"));
                node.args([url, &limit.0.to_string(), &DAY_SECONDS.to_string()]);
                node.arg(keys).args([amount, IN_FLIGHT.to_string()]);
                node
            }
        };
        let failed = |error: String| format!("{self:?}: {error}");
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(output.status.to_string()));
        }
        let output: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        let number = |name: &str| {
            output[name].as_f64().ok_or_else(|| failed(format!("says nothing of {name}: {output}")))
        };
        Ok(CallerStats {
            decisions: number("decisions")?,
            allowed: number("allowed")?,
            seconds: number("seconds")?,
            p50_us: number("p50_us")?,
            p99_us: number("p99_us")?,
            client: None,
        })
    }
}
