//! What a run came to.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::pace::Tally;
use super::run::Work;
use crate::show::style;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use crate::text;

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Everything there is to tell.
pub(super) struct Report<'a> {
    pub(super) work: &'a Work,
    pub(super) tally: &'a Tally,
    pub(super) rate: Option<u64>,
    pub(super) took: Duration,
    pub(super) server_cpu: Option<Duration>,
    pub(super) client_cpu: Option<Duration>,
}

impl Report<'_> {
    fn answered(&self) -> u64 {
        self.tally.allowed + self.tally.denied
    }

    fn per_second(&self) -> f64 {
        self.answered() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// In nanoseconds, if anything was answered.
    fn per_decision(&self, cpu: Option<Duration>) -> Option<u64> {
        let ns = u64::try_from(cpu?.as_nanos()).ok()?;
        ns.checked_div(self.answered())
    }

    pub(super) fn json(&self) -> Value {
        let Tally { allowed, denied, failed, latency_ns } = self.tally;
        let quantile =
            |(name, at): (&str, f64)| (name.to_owned(), json!(latency_ns.value_at_quantile(at)));
        let latency: serde_json::Map<String, Value> = QUANTILES.into_iter().map(quantile).collect();
        json!({
            "door": self.work.door.name(),
            "to": self.work.to.to_string(),
            "connections": self.work.connections,
            "pipeline": self.work.pipeline,
            "keys": self.work.keys,
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
        let Work { door, to, connections, pipeline, keys, .. } = self.work;
        let style = style();
        let mut out = BufWriter::new(io::stdout().lock());
        let what = format!("{} door at {to}", door.name());
        let pace = match self.rate {
            Some(rate) => format!(", {} a second wanted", grouped(rate)),
            None => String::new(),
        };
        let under_way = format!(
            "{connections} connections × {pipeline}, {} keys{pace}",
            grouped((*keys).into())
        );
        writeln!(out, "{}  {}\n", style.bold(what), style.dim(under_way))?;
        let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]);
        let seconds = format!("in {:.1} s", self.took.as_secs_f64());
        let Tally { allowed, denied, failed, latency_ns } = self.tally;
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

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
