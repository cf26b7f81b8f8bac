//! `tollgate tail`: follows the decisions of a running server.

use std::io::{self, BufWriter, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::Outcome;
use crate::output::{self, style};
use crate::quantity::share;
use crate::service_client::{ServiceClient, ServiceRequest};
use crate::style::Tone;
use crate::text;

/// The maximum length of an event; a decision is far shorter.
const MAX_LINE: usize = 1 << 20;

const TAIL_HELP: &str = "\
A reader that is too slow misses decisions; their number is printed.

Examples:
  tollgate tail --outcome denied
  tollgate tail --domain demo --rule login
  tollgate tail --sample 0.01 --json | jq .key";

/// The arguments of `tollgate tail`.
#[derive(Args, Debug)]
#[command(after_help = TAIL_HELP)]
pub(crate) struct TailArgs {
    /// Outcome of the decisions [default: all]
    #[arg(long, value_enum)]
    outcome: Option<OutcomeFilter>,
    /// Domain of the decisions [default: all]
    #[arg(long)]
    domain: Option<String>,
    /// Rule of the decisions [default: all]
    #[arg(long)]
    rule: Option<String>,
    /// Share of the decisions, from 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sample: Option<f64>,
    #[command(flatten)]
    service: ServiceClient,
}

/// The outcome of the decisions to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutcomeFilter {
    /// Allowed requests
    Allowed,
    /// Denied requests
    Denied,
}

pub(crate) fn run(args: &TailArgs) -> anyhow::Result<Outcome> {
    let outcome = args.outcome.and_then(|outcome| outcome.to_possible_value());
    let sample = args.sample.map(|share| share.to_string());
    let request =
        ServiceRequest::new("GET", "/v1/decisions").header("accept", "text/event-stream").query(&[
            ("follow", Some("true")),
            ("outcome", outcome.as_ref().map(|outcome| outcome.get_name())),
            ("domain", args.domain.as_deref()),
            ("rule", args.rule.as_deref()),
            ("sample", sample.as_deref()),
        ]);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut events = EventStream::default();
    args.service.follow(request, |chunk| {
        events.feed(chunk, |data| match args.service.json {
            true => writeln!(out, "{data}"),
            false => line(&mut out, data),
        })?;
        Ok(out.flush()?)
    })?;
    Ok(Outcome::Fine)
}

/// A parser of server-sent events, which reads only their data.
#[derive(Debug, Default)]
struct EventStream(Vec<u8>);

impl EventStream {
    fn feed(
        &mut self,
        chunk: &[u8],
        mut event: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.0.extend_from_slice(chunk);
        let mut start = 0;
        while let Some(length) = self.0[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.0[start..start + length]);
            if let Some(data) = line.trim_end_matches('\r').strip_prefix("data:") {
                event(data.trim_start())?;
            }
            start += length + 1;
        }
        self.0.drain(..start);
        match self.0.len() > MAX_LINE {
            true => Err(io::Error::other("the server did not send a stream of decisions")),
            false => Ok(()),
        }
    }
}

fn line(out: &mut impl Write, data: &str) -> io::Result<()> {
    let event: Value = serde_json::from_str(data).unwrap_or_default();
    let style = style();
    if let Some(dropped) = event["dropped"].as_u64() {
        let missed = text::count(dropped, "decision");
        return writeln!(
            out,
            "{}",
            style.dim(format!("({missed} missed: this reader is too slow)"))
        );
    }
    let (tone, word) = match event["allowed"] != false {
        true => (Tone::Allowed, "allowed"),
        false => (Tone::Denied, "denied "),
    };
    let at = event["at_ms"].as_u64().and_then(|ms| i64::try_from(ms).ok());
    let at = at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let at = at.map(|at| at.strftime("%H:%M:%S%.3f").to_string()).unwrap_or_default();
    let [door, outcome] = ["door", "outcome"].map(|field| output::text(&event[field]));
    let (rule, key) = output::rule_and_key(&event);
    let domain = event["domain"].as_str().filter(|domain| !domain.is_empty());
    let rule =
        domain.map_or(rule.clone(), |_| format!("{}/{rule}", output::text(&event["domain"])));
    let mut rest = Vec::new();
    if let (Some(left), Some(limit)) = (event["remaining"].as_u64(), event["limit"].as_u64()) {
        rest.push(format!("{} of {} left", text::amount(left), text::amount(limit)));
    }
    if let Some(retry) = event["retry_after_ms"].as_u64() {
        rest.push(format!("retry in {}", text::duration(retry.saturating_mul(1000))));
    }
    if !matches!(outcome.as_str(), "allowed" | "denied" | "-") {
        rest.push(outcome);
    }
    let (at, word) = (style.dim(at), style.tone(tone, word));
    let (door, rest) = (style.dim(format!("{door:<4}")), style.dim(rest.join(", ")));
    writeln!(out, "{at}  {word}  {door}  {}  {key}  {rest}", style.bold(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_in_chunks_of_any_length() {
        let stream = b":hi\n\ndata: {\"a\":1}\n\nevent: dropped\r\ndata: {\"dropped\":3}\r\n\r\n";
        for length in 1..stream.len() {
            let (mut events, mut seen) = (EventStream::default(), Vec::new());
            for chunk in stream.chunks(length) {
                events
                    .feed(chunk, |data| {
                        seen.push(data.to_owned());
                        Ok(())
                    })
                    .unwrap();
            }
            assert_eq!(seen, [r#"{"a":1}"#, r#"{"dropped":3}"#]);
        }
    }

    #[test]
    fn control_characters_in_keys_are_escaped() {
        let mut out = Vec::new();
        let data = r#"{"at_ms":0,"door":"http","rule":"a","key":"\u001b[2J","allowed":false,
            "outcome":"denied","retry_after_ms":1500,"remaining":0,"limit":5}"#;
        line(&mut out, data).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(
            line,
            "00:00:00.000  denied   http  a  \\u{1b}[2J  0 of 5 left, retry in 1.5s\n"
        );
    }
}
