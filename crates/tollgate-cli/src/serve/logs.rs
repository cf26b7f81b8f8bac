//! Logs on standard error, as text or as JSON, at a level that may change while it runs.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use super::values::LogFormat;

const USUAL: &str = "info";

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level(String);

impl Default for Level {
    fn default() -> Level {
        Level(USUAL.to_owned())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let is_level = |word: &str| {
            word.rsplit('=').next().is_some_and(|level| {
                level.parse::<tracing_subscriber::filter::LevelFilter>().is_ok()
            })
        };
        match text.split(',').all(is_level) && EnvFilter::builder().parse(text).is_ok() {
            true => Ok(Level(text.to_owned())),
            false => {
                Err("write error, warn, info, debug or trace, or as tollgate=debug,warn".into())
            }
        }
    }
}

impl Level {
    fn filter(&self) -> EnvFilter {
        EnvFilter::builder().parse_lossy(&self.0)
    }
}

/// Lets the level be changed.
pub(crate) struct Logs {
    handle: reload::Handle<EnvFilter, Registry>,
    level: Level,
}

impl Logs {
    /// From here on, what happens is logged.
    pub(crate) fn start(format: LogFormat, level: Level) -> Logs {
        let (filter, handle) = reload::Layer::new(level.filter());
        let lines = fmt::layer().with_writer(io::stderr).with_target(false);
        let lines = match format {
            LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_target(true).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(lines).init();
        Logs { handle, level }
    }

    /// Logs at another level from now on.
    pub(crate) fn set(&mut self, level: Level) {
        if level != self.level && self.handle.reload(level.filter()).is_ok() {
            tracing::info!(level = level.0, "the log level was changed");
            self.level = level;
        }
    }
}
