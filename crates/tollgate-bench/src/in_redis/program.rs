//! Limiters of other languages, driven by a script of theirs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::drive::{Amount, IN_FLIGHT};
use super::limit::{DAY_SECONDS, Daily};
use super::sample::Asked;
use crate::places;

/// A limiter of another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The Python package `limits`, with a strategy. It asks for one decision at a time.
    Limits(&'static str),
    /// The npm package `rate-limiter-flexible`.
    Flexible,
}

impl Program {
    /// How many answers it waits for at any time.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Program::Limits(_) => 1,
            Program::Flexible => IN_FLIGHT,
        }
    }

    /// What has to be there to run it.
    fn installed(self) -> PathBuf {
        match self {
            Program::Limits(_) => places::peers().join("python/bin/python"),
            Program::Flexible => places::peers().join("node/node_modules/rate-limiter-flexible"),
        }
    }

    pub(crate) fn is_installed(self) -> bool {
        self.installed().exists()
    }

    /// Lets it decide about the keys of a file.
    pub(crate) fn run(
        self,
        url: &str,
        limit: Daily,
        keys: &Path,
        amount: Amount,
    ) -> Result<Asked, String> {
        let amount = match amount {
            Amount::Keys => "all".to_owned(),
            Amount::Time(time) => time.as_secs_f64().to_string(),
        };
        let script = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("src/in_redis").join(name);
        let mut command = match self {
            Program::Limits(strategy) => {
                let mut python = Command::new(self.installed());
                python.arg(script("python_limits.py")).args([url, strategy, &limit.text()]);
                python.arg(keys).arg(amount);
                python
            }
            Program::Flexible => {
                let mut node = Command::new("node");
                node.arg(script("flexible.mjs")).arg(places::peers().join("node"));
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
        let said: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        let number = |name: &str| {
            said[name].as_f64().ok_or_else(|| failed(format!("says nothing of {name}: {said}")))
        };
        Ok(Asked {
            decisions: number("decisions")?,
            allowed: number("allowed")?,
            seconds: number("seconds")?,
            p50_us: number("p50_us")?,
            p99_us: number("p99_us")?,
            client: None,
        })
    }
}
