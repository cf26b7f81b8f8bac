//! Reads `then`, the action over a limit: `deny 402`, `queue 100 up to 2s`, `ban [1min, 1h] after 20 denials in 1min`.

use std::ops::Range;
use std::time::Duration;

use super::DocumentReader;
use super::mapping::MappingFields;
use super::scalar::excerpt;
use crate::compile::policy::{Ban, Queue, Shed, TOO_MANY_REQUESTS, Then};
use crate::read::diagnostic::Diagnostic;
use crate::read::fault::Fault;
use crate::read::source::Spanned;
use crate::read::suggest::{closest, listed};
use crate::read::yaml::{YamlNode, YamlValue};
use tollgate::limit::grammar::{self, GrammarError};

const ACTIONS: [&str; 7] = ["allow", "deny", "delay", "queue", "defer", "ban", "shed"];
const FIELDS: [&str; 11] = [
    "allow", "deny", "delay", "queue", "defer", "ban", "shed", "up_to", "order", "after", "within",
];
/// The maximum number of rungs of a ladder.
pub(crate) const MAX_RUNGS: usize = 32;
/// The maximum capacity of a queue.
const MAX_QUEUE_CAPACITY: u64 = 1_000_000;
const STATUSES: Range<u64> = 400..600;

impl DocumentReader<'_> {
    pub(super) fn then(&mut self, node: &YamlNode<'_>) -> Option<Spanned<Then>> {
        if matches!(node.value, YamlValue::Map(_)) {
            let fields = self.fields(node, "`then`", &FIELDS)?;
            return self.then_fields(&fields).map(|then| Spanned::new(then, node.span));
        }
        let text =
            self.text(node, "what happens over the limit, such as deny or delay up to 1s")?;
        match parse(text.value) {
            Ok(then) => Some(Spanned::new(then, node.span)),
            Err(fault) => {
                self.diagnostics.push(fault.into_diagnostic("bad-then", node.span));
                None
            }
        }
    }

    /// Reads the long form: `{ ban: [1min, 1h], after: 20, within: 1min }`.
    fn then_fields(&mut self, fields: &MappingFields<'_, '_>) -> Option<Then> {
        // `deny` is also the status of a request that waits in vain.
        let waits = fields.get("delay").or(fields.get("queue")).is_some();
        let is_action = |name: &str| ACTIONS.contains(&name) && !(waits && name == "deny");
        let mut actions = fields.present().filter(|(name, _)| is_action(name));
        let Some((action, span)) = actions.next() else {
            let diagnostic =
                Diagnostic::error("missing-field", fields.span, "`then` does not say what");
            self.diagnostics.push(diagnostic.help(format!("write one of {}", listed(ACTIONS))));
            return None;
        };
        if let Some((other, second)) = actions.next() {
            let message = format!("`{action}` and `{other}` cannot both happen");
            let diagnostic = Diagnostic::error("conflicting-fields", second, message);
            self.diagnostics
                .push(diagnostic.related(span, "the other one is here").help("keep one of them"));
            return None;
        }
        let fits: &[&str] = match action {
            "delay" => &["deny"],
            "queue" => &["up_to", "order", "deny"],
            "ban" => &["after", "within"],
            _ => &[],
        };
        let stray = fields.present().find(|(name, _)| *name != action && !fits.contains(name));
        if let Some((name, span)) = stray {
            let with = if matches!(name, "up_to" | "order") { "queue" } else { "ban" };
            let message = format!("`{name}` goes with `{with}`, not with `{action}`");
            self.diagnostics.push(Diagnostic::error("conflicting-fields", span, message));
            return None;
        }
        let node = fields.get(action)?;
        let status = match fields.get("deny").filter(|node| !node.is_null()) {
            Some(node) => {
                self.number(node, "a status", STATUSES.start..=STATUSES.end - 1)?.value as u16
            }
            None => TOO_MANY_REQUESTS,
        };
        match action {
            "deny" => Some(Then::Deny { status }),
            "delay" => {
                let up_to = self.duration(node, "a length of time such as 1s")?;
                Some(Then::Delay { up_to, status })
            }
            "queue" => {
                let capacity =
                    self.number(node, "a number of requests", 1..=MAX_QUEUE_CAPACITY)?.value;
                let up_to = self.require(fields, "up_to", "`queue`", "up_to: 2s")?;
                let up_to = self.duration(up_to, "a length of time such as 2s")?;
                let order = fields.get("order");
                let lifo = match order {
                    Some(node) => {
                        self.choice(node, "order", &[("fifo", false), ("lifo", true)])?.value
                    }
                    None => false,
                };
                Some(Then::Queue(Queue { capacity, up_to, lifo, status }))
            }
            "ban" => self.ban_fields(fields, node),
            "shed" => self.shed(node),
            _ => parse(action).ok(),
        }
    }

    fn ban_fields(&mut self, fields: &MappingFields<'_, '_>, node: &YamlNode<'_>) -> Option<Then> {
        let what = "a length of time such as 10min, or a list of them";
        let nodes = self.several(node, what, MAX_RUNGS);
        let ladder: Vec<Duration> =
            nodes.iter().filter_map(|node| self.duration(node, what)).collect();
        if ladder.is_empty() || ladder.len() < nodes.len() {
            return None;
        }
        let Some(node) = fields.get("after") else {
            return match fields.key("within") {
                None => Some(Then::Ban(Ban { ladder, after: 1, within: Duration::ZERO })),
                Some(_) => {
                    self.require(fields, "after", "`within`", "after: 20")?;
                    None
                }
            };
        };
        if fields.get("within").is_none()
            && let Some(text) = node.text()
            && text.contains(char::is_whitespace)
        {
            return match denials(&mut WordCursor { text, at: 0 }) {
                Ok((after, within)) => Some(Then::Ban(Ban { ladder, after, within })),
                Err(fault) => {
                    self.diagnostics.push(fault.into_diagnostic("bad-then", node.span));
                    None
                }
            };
        }
        let after = self.number(node, "a number of denials", 1..=u64::MAX)?.value;
        let within = self.require(fields, "within", "`after`", "within: 1min")?;
        let within = self.duration(within, "a length of time such as 1min")?;
        Some(Then::Ban(Ban { ladder, after, within }))
    }
}

/// Reads the short form.
pub(super) fn parse(text: &str) -> Result<Then, Fault> {
    let mut words = WordCursor { text, at: 0 };
    let (range, action) = words.next();
    let then = match action {
        "allow" => Then::Allow,
        "defer" => Then::Defer,
        "shed" => Then::Shed(Shed::default()),
        "deny" => match words.peek() {
            "" => Then::default(),
            _ => Then::Deny { status: status(&mut words)? },
        },
        "delay" => {
            words.expect(&["up", "to"], "delay up to 1s")?;
            let up_to = words.duration("delay up to 1s")?;
            Then::Delay { up_to, status: or_deny(&mut words)? }
        }
        "queue" => {
            let capacity = words.number("queue 100 up to 2s", 1..MAX_QUEUE_CAPACITY + 1)?;
            words.expect(&["up", "to"], "queue 100 up to 2s")?;
            let up_to = words.duration("queue 100 up to 2s")?;
            let lifo = matches!(words.peek(), "lifo");
            if matches!(words.peek(), "lifo" | "fifo") {
                words.next();
            }
            Then::Queue(Queue { capacity, up_to, lifo, status: or_deny(&mut words)? })
        }
        "ban" => {
            let ladder = ladder(&mut words)?;
            let (after, within) = match words.peek() {
                "after" => {
                    words.next();
                    denials(&mut words)?
                }
                _ => (1, Duration::ZERO),
            };
            Then::Ban(Ban { ladder, after, within })
        }
        _ => {
            let fault = Fault::new(range, format!("`then` cannot be {}", excerpt(action)));
            return Err(match closest(action, ACTIONS) {
                Some(meant) => fault.fix(meant),
                None => fault.help(format!("use one of {}", listed(ACTIONS))),
            });
        }
    };
    match words.next() {
        (_, "") => Ok(then),
        (range, word) => {
            let message = format!("{} is too much after `{action}`", excerpt(word));
            Err(Fault::new(range.start..text.len(), message)
                .help(format!("write it as in `{}`", example(action))))
        }
    }
}

fn example(action: &str) -> &'static str {
    match action {
        "deny" => "deny 402",
        "delay" => "delay up to 1s or deny 503",
        "queue" => "queue 100 up to 2s lifo or deny 503",
        "ban" => "ban [1min, 10min, 1h] after 20 denials in 1min",
        "defer" => "defer",
        "shed" => "shed",
        _ => "allow",
    }
}

/// Reads `or deny 503`, which may follow a wait.
fn or_deny(words: &mut WordCursor<'_>) -> Result<u16, Fault> {
    if words.peek() != "or" {
        return Ok(TOO_MANY_REQUESTS);
    }
    words.expect(&["or", "deny"], "delay up to 1s or deny 503")?;
    status(words)
}

fn status(words: &mut WordCursor<'_>) -> Result<u16, Fault> {
    let (range, word) = words.next();
    match word.parse::<u16>() {
        Ok(status) if STATUSES.contains(&u64::from(status)) => Ok(status),
        _ => Err(Fault::new(range, format!("{} is no status of a refusal", excerpt(word)))
            .help("use one from 400 to 599, as in `deny 402`")),
    }
}

/// Reads `10min` or `[1min, 10min, 1h]`.
fn ladder(words: &mut WordCursor<'_>) -> Result<Vec<Duration>, Fault> {
    let usage = "ban [1min, 10min, 1h]";
    if words.peek() != "[" {
        return Ok(vec![words.duration(usage)?]);
    }
    words.next();
    let mut ladder = Vec::new();
    loop {
        ladder.push(words.duration(usage)?);
        match words.next() {
            (_, ",") if ladder.len() < MAX_RUNGS => {}
            (_, "]") => return Ok(ladder),
            (range, ",") => {
                return Err(Fault::new(
                    range,
                    format!("at most {MAX_RUNGS} bans, the last one repeats"),
                ));
            }
            (range, word) => {
                let message = match word {
                    "" => "the list of bans has no end".to_owned(),
                    _ => format!("expected `,` or `]` before {}", excerpt(word)),
                };
                return Err(Fault::new(range, message).help(format!("write it as in `{usage}`")));
            }
        }
    }
}

/// Reads `20 denials in 1min`, which follows `after`.
fn denials(words: &mut WordCursor<'_>) -> Result<(u64, Duration), Fault> {
    let usage = "after 20 denials in 1min";
    let count = words.number(usage, 1..u64::MAX)?;
    if matches!(words.peek(), "denials" | "denial") {
        words.next();
    }
    words.expect(&["in"], usage)?;
    Ok((count, words.duration(usage)?))
}

/// Reads a text word by word; brackets and commas are words.
struct WordCursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> WordCursor<'t> {
    /// Returns the next word; an empty one at the end.
    fn next(&mut self) -> (Range<usize>, &'t str) {
        let start = self.text.len() - self.text[self.at..].trim_start().len();
        let rest = &self.text[start..];
        let end = match rest.find(|c: char| c.is_whitespace() || "[],".contains(c)) {
            Some(0) => 1,
            Some(end) => end,
            None => rest.len(),
        };
        self.at = start + end;
        (start..self.at, &self.text[start..self.at])
    }

    fn peek(&self) -> &'t str {
        WordCursor { text: self.text, at: self.at }.next().1
    }

    /// Reads exactly these words.
    fn expect(&mut self, expected: &[&str], usage: &str) -> Result<(), Fault> {
        for expected in expected {
            let (range, word) = self.next();
            if word != *expected {
                let message = match word {
                    "" => format!("`{expected}` is missing"),
                    _ => format!("expected `{expected}`, found {}", excerpt(word)),
                };
                return Err(Fault::new(range, message).help(format!("write it as in `{usage}`")));
            }
        }
        Ok(())
    }

    fn number(&mut self, usage: &str, allowed: Range<u64>) -> Result<u64, Fault> {
        let (range, word) = self.next();
        let number = grammar::number(word).map_err(|error| fault(error, range.start, usage))?;
        if allowed.contains(&number) {
            return Ok(number);
        }
        let message =
            format!("{number} is out of range: use {} to {}", allowed.start, allowed.end - 1);
        Err(Fault::new(range, message))
    }

    fn duration(&mut self, usage: &str) -> Result<Duration, Fault> {
        let (range, word) = self.next();
        let span = grammar::span(word).map_err(|error| fault(error, range.start, usage))?;
        match span.as_nanos() {
            0 => Err(Fault::new(range, "this is no time at all")
                .help(format!("write it as in `{usage}`"))),
            _ => Ok(span.into()),
        }
    }
}

/// Makes a fault of an error of the grammar of limits, for a word that begins at `start`.
fn fault(error: GrammarError, start: usize, usage: &str) -> Fault {
    let range = error.range.start + start..error.range.end + start;
    let fault = Fault::new(range, error.message);
    match error.fix {
        Some((fixed, text)) if fixed == error.range => fault.fix(text),
        _ => fault.help(format!("write it as in `{usage}`")),
    }
}
