//! The report of a benchmark, as text and as JSON.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::run::BenchSettings;
use super::schedule::BenchTally;
use crate::output::style;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use crate::text::{self, grouped};

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The results of a benchmark.
pub(super) struct BenchReport<'a> {
    pub(super) settings: &'a BenchSettings,
    pub(super) tally: &'a BenchTally,
    pub(super) rate: Option<u64>,
    pub(super) took: Duration,
    pub(super) server_cpu: Option<Duration>,
    pub(super) client_cpu: Option<Duration>,
}

impl BenchReport<'_> {
    fn answered(&self) -> u64 {
        self.tally.allowed + self.tally.denied
    }

    fn per_second(&self) -> f64 {
        self.answered() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Returns the CPU time per decision in nanoseconds, if there was any decision.
    fn per_decision(&self, cpu: Option<Duration>) -> Option<u64> {
        let ns = u64::try_from(cpu?.as_nanos()).ok()?;
        ns.checked_div(self.answered())
    }

    pub(super) fn json(&self) -> Value {
        let BenchTally { allowed, denied, failed, latency_ns } = self.tally;
        let quantile =
            |(name, at): (&str, f64)| (name.to_owned(), json!(latency_ns.value_at_quantile(at)));
        let latency: serde_json::Map<String, Value> = QUANTILES.into_iter().map(quantile).collect();
        json!({
            "door": self.settings.door.name(),
            "to": self.settings.to.to_string(),
            "connections": self.settings.connections,
            "pipeline": self.settings.pipeline,
            "keys": self.settings.keys,
            "rate": self.rate,
            "seconds": self.took.as_secs_f64(),
            "decisions": self.answered(),
            "decisions_per_second": self.per_second().round(),
            "allowed": allowed,
            "denied": denied,
            "errors": failed,
            "latency_ns": latency,
            "server_cpu_ns_per_decision": self.per_decision(self.server_cpu),
            "client_cpu_ns_per_decision": self.per_decision(self.client_cpu),
        })
    }

    pub(super) fn print(&self) -> io::Result<()> {
        let BenchSettings { door, to, connections, pipeline, keys, .. } = self.settings;
        let style = style();
        let mut out = BufWriter::new(io::stdout().lock());
        let what = format!("{} door at {to}", door.name());
        let pace = match self.rate {
            Some(rate) => format!(", {} per second scheduled", grouped(rate)),
            None => String::new(),
        };
        let load = format!(
            "{connections} connections × {pipeline}, {} keys{pace}",
            grouped((*keys).into())
        );
        writeln!(out, "{}  {}\n", style.bold(what), style.dim(load))?;
        let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]);
        let seconds = format!("in {:.1} s", self.took.as_secs_f64());
        let BenchTally { allowed, denied, failed, latency_ns } = self.tally;
        let speed = format!("{}/s", grouped(self.per_second().round() as u64));
        let row = |name: &str, tone, value: String, note: &str| {
            [Cell::new(Tone::Dim, name), Cell::new(tone, value), Cell::new(Tone::Dim, note)]
        };
        table.push(row("decisions", Tone::Bold, speed, &seconds));
        table.push(row("allowed", Tone::Allowed, grouped(*allowed), ""));
        table.push(row("denied", Tone::Denied, grouped(*denied), ""));
        let tone = if *failed == 0 { Tone::Plain } else { Tone::Bad };
        table.push(row("errors", tone, grouped(*failed), ""));
        for (name, at) in QUANTILES {
            let us = latency_ns.value_at_quantile(at).div_ceil(1000);
            table.push(row(name, Tone::Plain, text::duration(us), ""));
        }
        for (name, cpu) in [("server CPU", self.server_cpu), ("client CPU", self.client_cpu)] {
            if let Some(ns) = self.per_decision(cpu) {
                let us = format!("{:.2} µs", ns as f64 / 1000.0);
                table.push(row(name, Tone::Plain, us, "a decision"));
            }
        }
        table.write(&mut out, style, 2)?;
        out.flush()
    }
}
