//! The long form of a limit: `{ requests: 500, per: hour, algorithm: sliding_window }`.
//!
//! It is put together as the short text and read as that, so there is one grammar; what is wrong
//! with the text is pointed out at the field it came from.

use super::Reader;
use super::fields::Fields;
use super::scalar::shown;
use crate::Limit;
use crate::limit::grammar::{self, Mistake};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::{At, Place};
use crate::rules::suggest::{closest, listed};
use crate::rules::yaml::Node;

const FIELDS: [&str; 21] = [
    "algorithm",
    "requests",
    "unit",
    "per",
    "burst",
    "initial",
    "refill",
    "pay_later",
    "free",
    "align",
    "zone",
    "anchor",
    "slots",
    "min_gap",
    "count_denied",
    "warmup",
    "concurrent",
    "min",
    "max",
    "controller",
    "lease",
];

/// The algorithms as the long form names them, and as the short one does.
const ALGORITHMS: [(&str, &str); 15] = [
    ("token_bucket", "token_bucket"),
    ("leaky_bucket", "leaky"),
    ("gcra", "gcra"),
    ("fixed_window", "fixed"),
    ("sliding_window", "sliding"),
    ("sliding_log", "log"),
    ("calendar", "calendar"),
    ("concurrent", "concurrent"),
    ("adaptive", "adaptive"),
    ("warmup", "warmup"),
    ("unlimited", "unlimited"),
    ("leaky", "leaky"),
    ("fixed", "fixed"),
    ("sliding", "sliding"),
    ("log", "log"),
];

/// Options that are a word and a value.
const VALUES: [&str; 9] =
    ["burst", "initial", "free", "zone", "anchor", "slots", "min_gap", "warmup", "lease"];

/// The short text in the making, and where each stretch of it comes from.
#[derive(Default)]
struct Short {
    text: String,
    parts: Vec<(usize, Place)>,
}

impl Short {
    fn add(&mut self, text: &str, place: Place) {
        self.parts.push((self.text.len(), place));
        self.text.push_str(text);
    }

    /// The part that covers `at`: where it begins, and its place.
    fn part(&self, at: usize) -> Option<(usize, Place)> {
        self.parts.iter().rev().find(|(start, _)| *start <= at).copied()
    }
}

impl Reader<'_> {
    pub(super) fn long_limit(&mut self, node: &Node<'_>) -> Option<Limit> {
        let fields = self.fields(node, "a limit", &FIELDS)?;
        let errors = self.found.len();
        let short = self.short(&fields);
        if self.found.len() > errors {
            return None;
        }
        let short = short?;
        match grammar::limit(&short.text) {
            Ok(limit) => Some(limit),
            Err(mistake) => {
                self.blame(&short, mistake, fields.place);
                None
            }
        }
    }

    fn short(&mut self, fields: &Fields<'_, '_>) -> Option<Short> {
        let algorithm = match fields.get("algorithm") {
            Some(node) => Some(self.algorithm(node)?),
            None => None,
        };
        let mut short = Short::default();
        let word = algorithm.as_ref().map_or("", |algorithm| algorithm.value);
        let adaptive =
            word == "adaptive" || fields.get("min").is_some() || fields.get("max").is_some();
        if word == "unlimited" {
            short.add("unlimited", algorithm.as_ref().map_or(fields.place, |word| word.place));
        } else if adaptive {
            let min = self.require(fields, "min", "an adaptive limit", "min: 20");
            let max = self.require(fields, "max", "an adaptive limit", "max: 500");
            let (min, max) = (self.word(min?)?, self.word(max?)?);
            short.add("adaptive ", min.place);
            short.add(min.value, min.place);
            short.add("..", max.place);
            short.add(max.value, max.place);
            short.add(" concurrent", fields.place);
        } else if word == "concurrent" || fields.get("concurrent").is_some() {
            let node = self.require(
                fields,
                "concurrent",
                "a limit of so many at a time",
                "concurrent: 100",
            )?;
            let amount = self.word(node)?;
            short.add(amount.value, amount.place);
            short.add(" concurrent", fields.place);
        } else {
            self.rate(fields, &mut short)?;
        }
        self.options(fields, algorithm, &mut short)?;
        Some(short)
    }

    fn rate(&mut self, fields: &Fields<'_, '_>, short: &mut Short) -> Option<()> {
        let requests = self.require(fields, "requests", "a limit", "requests: 10");
        let per = self.require(fields, "per", "a limit", "per: second");
        let requests = self.word(requests?)?;
        short.add(requests.value, requests.place);
        if let Some(node) = fields.get("unit") {
            let unit = self.word(node)?;
            if grammar::unit(unit.value).is_some() {
                let message = format!(
                    "`unit` says what is counted, and {} is a unit of time",
                    shown(unit.value)
                );
                let found = Diagnostic::error("bad-limit", node.place, message);
                self.found
                    .push(found.help("write the time as `per`, and `unit` as in `unit: tokens`"));
                return None;
            }
            short.add(" ", unit.place);
            short.add(unit.value, unit.place);
        }
        let per = self.word(per?)?;
        short.add("/", per.place);
        short.add(per.value, per.place);
        Some(())
    }

    fn options<'n>(
        &mut self,
        fields: &Fields<'n, '_>,
        algorithm: Option<At<&'static str>>,
        short: &mut Short,
    ) -> Option<()> {
        let align = fields.get("align");
        let align = match align {
            Some(node) => Some(self.choice(
                node,
                "align",
                &[("epoch", "fixed"), ("first_hit", "first_hit"), ("calendar", "calendar")],
            )?),
            None => None,
        };
        let mut words: Vec<At<&str>> = Vec::new();
        if let Some(algorithm) = algorithm {
            let told =
                matches!(algorithm.value, "unlimited" | "concurrent" | "adaptive" | "warmup");
            // A fixed window of the calendar is one thing, and so is one of the epoch.
            let aligned = algorithm.value == "fixed"
                && align.as_ref().is_some_and(|word| word.value != "first_hit");
            if algorithm.value == "warmup" {
                self.require(fields, "warmup", "a limit that warms up", "warmup: 3s")?;
            }
            if !told && !aligned {
                words.push(algorithm);
            }
        }
        words.extend(align);
        if let Some(node) = fields.get("refill") {
            let refill =
                self.choice(node, "refill", &[("greedy", ""), ("interval", "interval")])?;
            words.extend(Some(refill).filter(|word| !word.is_empty()));
        }
        if let Some(node) = fields.get("controller") {
            let known =
                [("flow", ""), ("aimd", "aimd"), ("vegas", "vegas"), ("gradient2", "gradient2")];
            let controller = self.choice(node, "controller", &known)?;
            words.extend(Some(controller).filter(|word| !word.is_empty()));
        }
        for name in ["count_denied", "pay_later"] {
            if let Some(node) = fields.get(name)
                && self.flag(node, name)?
            {
                words.push(At::new(name, node.place));
            }
        }
        for word in words {
            short.add(" ", word.place);
            short.add(word.value, word.place);
        }
        for name in VALUES {
            if let (Some(node), Some(key)) = (fields.get(name), fields.key(name)) {
                let value = self.word(node)?;
                short.add(" ", key);
                short.add(name, key);
                short.add(" ", value.place);
                short.add(value.value, value.place);
            }
        }
        Some(())
    }

    fn algorithm(&mut self, node: &Node<'_>) -> Option<At<&'static str>> {
        let text = self.text(node, "an algorithm such as sliding_window")?;
        let spelled = text.to_ascii_lowercase().replace('-', "_");
        if let Some((_, word)) = ALGORITHMS.iter().find(|(name, _)| *name == spelled) {
            return Some(At::new(word, node.place));
        }
        let names = || ALGORITHMS[..11].iter().map(|(name, _)| *name);
        let message = format!("{} is no algorithm", shown(text.value));
        let found = Diagnostic::error("unknown-value", node.place, message)
            .help(format!("the algorithms are {}", listed(names())));
        self.found.push(match closest(text.value, names()) {
            Some(meant) => found.fix(meant),
            None => found,
        });
        None
    }

    /// One word: a blank in it would add something to the limit.
    fn word<'n>(&mut self, node: &'n Node<'_>) -> Option<At<&'n str>> {
        let text = self.text(node, "a number or a word")?;
        if text.contains(char::is_whitespace) {
            let message = format!("expected one word, found {}", shown(text.value));
            self.found.push(Diagnostic::error("bad-limit", node.place, message));
            return None;
        }
        Some(text)
    }

    /// Says what is wrong with the short text at the field it came from.
    fn blame(&mut self, short: &Short, mistake: Mistake, place: Place) {
        let Mistake { range, message, fix } = mistake;
        let Some((start, part)) = short.part(range.start) else {
            self.found.push(Diagnostic::error("bad-limit", place, message));
            return;
        };
        let within = range.start - start..range.end.saturating_sub(start);
        let found = Diagnostic::error("bad-limit", part.part(within), message);
        // An option and its value are one stretch of the text, but two of the file.
        let value = short.parts.iter().find(|(at, _)| *at > start).map(|(_, place)| *place);
        let option = |text: &str| VALUES.iter().find_map(|name| text.strip_prefix(name)).is_some();
        self.found.push(match fix {
            Some((_, text)) if option(&text) => match (text.split_once(' '), value) {
                (Some((_, better)), Some(value)) => found.fix_at(value, better),
                _ => found,
            },
            Some((range, text)) if short.part(range.start) == Some((start, part)) => {
                found.fix_at(part.part(range.start - start..range.end - start), text)
            }
            _ => found,
        });
    }
}
