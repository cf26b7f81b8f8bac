//! Reads the long form of a limit: `{ requests: 500, per: hour, algorithm: sliding_window }`.
//!
//! The fields are joined to the short form, which is then parsed, so there is one grammar. An error
//! in the text is reported at the field it comes from.

use super::DocumentReader;
use super::mapping::MappingFields;
use super::scalar::excerpt;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::{SourceSpan, Spanned};
use crate::read::suggest::{closest, listed};
use crate::read::yaml::YamlNode;
use tollgate::Limit;
use tollgate::limit::grammar::{self, GrammarError};

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

/// The names of the algorithms in the long form and in the short form.
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

/// The options that are a word and a value.
const VALUES: [&str; 9] =
    ["burst", "initial", "free", "zone", "anchor", "slots", "min_gap", "warmup", "lease"];

/// The short form of a limit, and the span that each part of it comes from.
#[derive(Default)]
struct ShortForm {
    text: String,
    parts: Vec<(usize, SourceSpan)>,
}

impl ShortForm {
    fn add(&mut self, text: &str, span: SourceSpan) {
        self.parts.push((self.text.len(), span));
        self.text.push_str(text);
    }

    /// Returns the part that covers `at`: where it begins, and its span.
    fn part(&self, at: usize) -> Option<(usize, SourceSpan)> {
        self.parts.iter().rev().find(|(start, _)| *start <= at).copied()
    }
}

impl DocumentReader<'_> {
    pub(super) fn long_limit(&mut self, node: &YamlNode<'_>) -> Option<Limit> {
        let fields = self.fields(node, "a limit", &FIELDS)?;
        let errors = self.diagnostics.len();
        let short = self.short(&fields);
        if self.diagnostics.len() > errors {
            return None;
        }
        let short = short?;
        match grammar::limit(&short.text) {
            Ok(limit) => Some(limit),
            Err(error) => {
                self.report_at_field(&short, error, fields.span);
                None
            }
        }
    }

    fn short(&mut self, fields: &MappingFields<'_, '_>) -> Option<ShortForm> {
        let algorithm = match fields.get("algorithm") {
            Some(node) => Some(self.algorithm(node)?),
            None => None,
        };
        let mut short = ShortForm::default();
        let word = algorithm.as_ref().map_or("", |algorithm| algorithm.value);
        let adaptive =
            word == "adaptive" || fields.get("min").is_some() || fields.get("max").is_some();
        if word == "unlimited" {
            short.add("unlimited", algorithm.as_ref().map_or(fields.span, |word| word.span));
        } else if adaptive {
            let min = self.require(fields, "min", "an adaptive limit", "min: 20");
            let max = self.require(fields, "max", "an adaptive limit", "max: 500");
            let (min, max) = (self.word(min?)?, self.word(max?)?);
            short.add("adaptive ", min.span);
            short.add(min.value, min.span);
            short.add("..", max.span);
            short.add(max.value, max.span);
            short.add(" concurrent", fields.span);
        } else if word == "concurrent" || fields.get("concurrent").is_some() {
            let node = self.require(
                fields,
                "concurrent",
                "a limit of so many at a time",
                "concurrent: 100",
            )?;
            let amount = self.word(node)?;
            short.add(amount.value, amount.span);
            short.add(" concurrent", fields.span);
        } else {
            self.rate(fields, &mut short)?;
        }
        self.options(fields, algorithm, &mut short)?;
        Some(short)
    }

    fn rate(&mut self, fields: &MappingFields<'_, '_>, short: &mut ShortForm) -> Option<()> {
        let requests = self.require(fields, "requests", "a limit", "requests: 10");
        let per = self.require(fields, "per", "a limit", "per: second");
        let requests = self.word(requests?)?;
        short.add(requests.value, requests.span);
        if let Some(node) = fields.get("unit") {
            let unit = self.word(node)?;
            if grammar::unit(unit.value).is_some() {
                let message = format!(
                    "`unit` says what is counted, and {} is a unit of time",
                    excerpt(unit.value)
                );
                let diagnostic = Diagnostic::error("bad-limit", node.span, message);
                self.diagnostics.push(
                    diagnostic.help("write the time as `per`, and `unit` as in `unit: tokens`"),
                );
                return None;
            }
            short.add(" ", unit.span);
            short.add(unit.value, unit.span);
        }
        let per = self.word(per?)?;
        short.add("/", per.span);
        short.add(per.value, per.span);
        Some(())
    }

    fn options<'n>(
        &mut self,
        fields: &MappingFields<'n, '_>,
        algorithm: Option<Spanned<&'static str>>,
        short: &mut ShortForm,
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
        let mut words: Vec<Spanned<&str>> = Vec::new();
        if let Some(algorithm) = algorithm {
            let implied =
                matches!(algorithm.value, "unlimited" | "concurrent" | "adaptive" | "warmup");
            // `align: calendar` and `align: epoch` already name a fixed window.
            let aligned = algorithm.value == "fixed"
                && align.as_ref().is_some_and(|word| word.value != "first_hit");
            if algorithm.value == "warmup" {
                self.require(fields, "warmup", "a limit that warms up", "warmup: 3s")?;
            }
            if !implied && !aligned {
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
                words.push(Spanned::new(name, node.span));
            }
        }
        for word in words {
            short.add(" ", word.span);
            short.add(word.value, word.span);
        }
        for name in VALUES {
            if let (Some(node), Some(key)) = (fields.get(name), fields.key(name)) {
                let value = self.word(node)?;
                short.add(" ", key);
                short.add(name, key);
                short.add(" ", value.span);
                short.add(value.value, value.span);
            }
        }
        Some(())
    }

    fn algorithm(&mut self, node: &YamlNode<'_>) -> Option<Spanned<&'static str>> {
        let text = self.text(node, "an algorithm such as sliding_window")?;
        let spelled = text.to_ascii_lowercase().replace('-', "_");
        if let Some((_, word)) = ALGORITHMS.iter().find(|(name, _)| *name == spelled) {
            return Some(Spanned::new(word, node.span));
        }
        let names = || ALGORITHMS[..11].iter().map(|(name, _)| *name);
        let message = format!("{} is no algorithm", excerpt(text.value));
        let diagnostic = Diagnostic::error("unknown-value", node.span, message)
            .help(format!("the algorithms are {}", listed(names())));
        self.diagnostics.push(match closest(text.value, names()) {
            Some(meant) => diagnostic.fix(meant),
            None => diagnostic,
        });
        None
    }

    /// Reads one word: a blank in it would add something to the limit.
    fn word<'n>(&mut self, node: &'n YamlNode<'_>) -> Option<Spanned<&'n str>> {
        let text = self.text(node, "a number or a word")?;
        if text.contains(char::is_whitespace) {
            let message = format!("expected one word, found {}", excerpt(text.value));
            self.diagnostics.push(Diagnostic::error("bad-limit", node.span, message));
            return None;
        }
        Some(text)
    }

    /// Reports an error of the short form at the field it comes from.
    fn report_at_field(&mut self, short: &ShortForm, error: GrammarError, span: SourceSpan) {
        let GrammarError { range, message, fix } = error;
        let Some((start, part)) = short.part(range.start) else {
            self.diagnostics.push(Diagnostic::error("bad-limit", span, message));
            return;
        };
        let within = range.start - start..range.end.saturating_sub(start);
        let diagnostic = Diagnostic::error("bad-limit", part.subspan(within), message);
        // An option and its value are one part of the text, but two of the file.
        let value = short.parts.iter().find(|(at, _)| *at > start).map(|(_, span)| *span);
        let option = |text: &str| VALUES.iter().find_map(|name| text.strip_prefix(name)).is_some();
        self.diagnostics.push(match fix {
            Some((_, text)) if option(&text) => match (text.split_once(' '), value) {
                (Some((_, better)), Some(value)) => diagnostic.fix_at(value, better),
                _ => diagnostic,
            },
            Some((range, text)) if short.part(range.start) == Some((start, part)) => {
                diagnostic.fix_at(part.subspan(range.start - start..range.end - start), text)
            }
            _ => diagnostic,
        });
    }
}
