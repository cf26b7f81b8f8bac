//! Logs on standard error, as text or as JSON, with a level that can change at run time.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use super::values::LogFormat;

/// A log level, or a filter such as `tollgate=debug,warn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel(String);

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLevel, String> {
        let is_level = |word: &str| {
            word.rsplit('=').next().is_some_and(|level| {
                level.parse::<tracing_subscriber::filter::LevelFilter>().is_ok()
            })
        };
        match text.split(',').all(is_level) && EnvFilter::builder().parse(text).is_ok() {
            true => Ok(LogLevel(text.to_owned())),
            false => {
                Err("write error, warn, info, debug or trace, or as tollgate=debug,warn".into())
            }
        }
    }
}

impl LogLevel {
    fn filter(&self) -> EnvFilter {
        EnvFilter::builder().parse_lossy(&self.0)
    }
}

/// The log output, whose level can change.
pub(crate) struct Logging {
    handle: reload::Handle<EnvFilter, Registry>,
    level: LogLevel,
}

impl Logging {
    /// Starts logging.
    pub(crate) fn start(format: LogFormat, level: LogLevel) -> Logging {
        let (filter, handle) = reload::Layer::new(level.filter());
        let lines = fmt::layer().with_writer(io::stderr).with_target(false);
        let lines = match format {
            LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_target(true).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(lines).init();
        Logging { handle, level }
    }

    /// Changes the level.
    pub(crate) fn set(&mut self, level: LogLevel) {
        if level != self.level && self.handle.reload(level.filter()).is_ok() {
            tracing::info!(level = level.0, "the log level was changed");
            self.level = level;
        }
    }
}
