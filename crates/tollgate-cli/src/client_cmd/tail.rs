//! `tollgate tail`: decisions as they are made.

use std::io::{self, BufWriter, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::Outcome;
use crate::ask::{Ask, Service};
use crate::quantity::share;
use crate::show::{self, style};
use crate::style::Tone;
use crate::text;

/// What one event may have: far more than a decision does.
const LONGEST_LINE: usize = 1 << 20;

const TAIL_HELP: &str = "\
Who reads too slowly misses decisions, and is told how many.

Examples:
  tollgate tail --outcome denied
  tollgate tail --domain demo --rule login
  tollgate tail --sample 0.01 --json | jq .key";

#[derive(Args, Debug)]
#[command(after_help = TAIL_HELP)]
pub(crate) struct TailArgs {
    /// Only decisions with this outcome
    #[arg(long, env = "TOLLGATE_TAIL_OUTCOME", value_enum)]
    outcome: Option<Which>,
    /// Only decisions of this domain
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
    /// Only decisions of this rule
    #[arg(long, env = "TOLLGATE_RULE")]
    rule: Option<String>,
    /// A share of them, from 0 to 1
    #[arg(long, env = "TOLLGATE_SAMPLE", value_name = "SHARE", value_parser = share)]
    sample: Option<f64>,
    #[command(flatten)]
    service: Service,
}

/// Which outcomes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// What passed
    Allowed,
    /// What did not
    Denied,
}

pub(crate) fn run(args: &TailArgs) -> anyhow::Result<Outcome> {
    let outcome = args.outcome.and_then(|outcome| outcome.to_possible_value());
    let sample = args.sample.map(|share| share.to_string());
    let ask = Ask::new("GET", "/v1/decisions").header("accept", "text/event-stream").query(&[
        ("follow", Some("true")),
        ("outcome", outcome.as_ref().map(|outcome| outcome.get_name())),
        ("domain", args.domain.as_deref()),
        ("rule", args.rule.as_deref()),
        ("sample", sample.as_deref()),
    ]);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut events = Events::default();
    args.service.follow(ask, |piece| {
        events.feed(piece, |data| match args.service.json {
            true => writeln!(out, "{data}"),
            false => line(&mut out, data),
        })?;
        Ok(out.flush()?)
    })?;
    Ok(Outcome::Fine)
}

/// Server-sent events, of which only the data matters.
#[derive(Debug, Default)]
struct Events(Vec<u8>);

impl Events {
    fn feed(
        &mut self,
        piece: &[u8],
        mut event: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.0.extend_from_slice(piece);
        let mut start = 0;
        while let Some(length) = self.0[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.0[start..start + length]);
            if let Some(data) = line.trim_end_matches('\r').strip_prefix("data:") {
                event(data.trim_start())?;
            }
            start += length + 1;
        }
        self.0.drain(..start);
        match self.0.len() > LONGEST_LINE {
            true => Err(io::Error::other("this is no stream of decisions")),
            false => Ok(()),
        }
    }
}

fn line(out: &mut impl Write, data: &str) -> io::Result<()> {
    let event: Value = serde_json::from_str(data).unwrap_or_default();
    let style = style();
    if let Some(dropped) = event["dropped"].as_u64() {
        let missed = text::count(dropped, "decision");
        return writeln!(out, "{}", style.dim(format!("({missed} came faster than this)")));
    }
    let (tone, word) = match event["allowed"] != false {
        true => (Tone::Allowed, "allowed"),
        false => (Tone::Denied, "denied "),
    };
    let at = event["at_ms"].as_u64().and_then(|ms| i64::try_from(ms).ok());
    let at = at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let at = at.map(|at| at.strftime("%H:%M:%S%.3f").to_string()).unwrap_or_default();
    let [door, rule, outcome] = ["door", "rule", "outcome"].map(|field| show::text(&event[field]));
    let domain = event["domain"].as_str().filter(|domain| !domain.is_empty());
    let rule = domain.map_or(rule.clone(), |_| format!("{}/{rule}", show::text(&event["domain"])));
    let key = text::rule_key(event["key"].as_str().unwrap_or_default());
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
    fn events_are_found_in_any_pieces() {
        let stream = b":hi\n\ndata: {\"a\":1}\n\nevent: dropped\r\ndata: {\"dropped\":3}\r\n\r\n";
        for length in 1..stream.len() {
            let (mut events, mut seen) = (Events::default(), Vec::new());
            for piece in stream.chunks(length) {
                events
                    .feed(piece, |data| {
                        seen.push(data.to_owned());
                        Ok(())
                    })
                    .unwrap();
            }
            assert_eq!(seen, [r#"{"a":1}"#, r#"{"dropped":3}"#]);
        }
    }

    #[test]
    fn keys_play_no_tricks_on_a_terminal() {
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
