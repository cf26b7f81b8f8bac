//! A limit as it was written: an amount, a measure and a sorted list of options.
//!
//! The text and the constructors both fill a [`Spec`]; nothing but `engine.rs` gives it a
//! meaning. Two limits are equal if their canonical specs are.

use tollgate_core::Span;

use super::InvalidLimit;
use super::calendar;
use super::quota::{AlgorithmName, Detail, Quota};
use super::unit::Period;
use super::words::Word;

/// How long an unheard-of holder keeps its place, unless told otherwise.
pub(super) const DEFAULT_LEASE: Span = Span::from_secs(60);

/// What an amount is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Rate(Period),
    Concurrent,
    Adaptive { min: u64 },
    Unlimited,
}

/// What follows an option's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nothing,
    Number(u64),
    Span(Span),
    Zone(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) amount: u64,
    pub(super) label: Option<Box<str>>,
    pub(super) measure: Measure,
    /// Sorted by word, each at most once.
    options: Vec<(Word, Value)>,
}

impl Spec {
    pub(super) fn new(amount: u64, measure: Measure) -> Spec {
        Spec { amount, label: None, measure, options: Vec::new() }
    }

    pub(super) fn options(&self) -> &[(Word, Value)] {
        &self.options
    }

    pub(super) fn set(&mut self, word: Word, value: Value) {
        match self.options.binary_search_by_key(&word, |(word, _)| *word) {
            Ok(index) => self.options[index].1 = value,
            Err(index) => self.options.insert(index, (word, value)),
        }
    }

    pub(super) fn unset(&mut self, word: Word) {
        self.options.retain(|(set, _)| *set != word);
    }

    fn get(&self, word: Word) -> Option<&Value> {
        self.options.iter().find(|(set, _)| *set == word).map(|(_, value)| value)
    }

    pub(super) fn has(&self, word: Word) -> bool {
        self.get(word).is_some()
    }

    pub(super) fn number(&self, word: Word) -> Option<u64> {
        match self.get(word)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn span(&self, word: Word) -> Option<Span> {
        match self.get(word)? {
            Value::Span(span) => Some(*span),
            _ => None,
        }
    }

    pub(super) fn zone(&self) -> Option<&str> {
        match self.get(Word::Zone)? {
            Value::Zone(name) => Some(name),
            _ => None,
        }
    }

    /// What a bucket holds: the amount, if nothing else is said.
    pub(super) fn burst(&self) -> u64 {
        self.number(Word::Burst).unwrap_or(self.amount)
    }

    pub(super) fn lease(&self) -> Span {
        self.span(Word::Lease).unwrap_or(DEFAULT_LEASE)
    }

    /// The word that says what kind of limit this is, once every option is known to go with it.
    pub(super) fn algorithm(&self) -> Result<Word, InvalidLimit> {
        let algorithm = match self.measure {
            Measure::Rate(_) => self.rate_algorithm()?,
            Measure::Concurrent => Word::Concurrent,
            Measure::Adaptive { .. } => Word::Adaptive,
            Measure::Unlimited => Word::Unlimited,
        };
        let fits = |word: Word| word == algorithm || word.refines().contains(&algorithm);
        if let Some((word, _)) = self.options.iter().find(|(word, _)| !fits(*word)) {
            return Err(InvalidLimit::Misfit { option: word.as_str(), with: algorithm.as_str() });
        }
        if self.has(Word::Slots) && self.has(Word::CountDenied) {
            let (option, with) = (Word::CountDenied.as_str(), Word::Slots.as_str());
            return Err(InvalidLimit::Misfit { option, with });
        }
        self.controller()?;
        Ok(algorithm)
    }

    /// Who steers an adaptive limit, if not we.
    pub(super) fn controller(&self) -> Result<Option<Word>, InvalidLimit> {
        let mut named =
            [Word::Aimd, Word::Vegas, Word::Gradient2].into_iter().filter(|word| self.has(*word));
        match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                Err(InvalidLimit::Contradiction { first: first.as_str(), second: second.as_str() })
            }
            (named, _) => Ok(named),
        }
    }

    fn rate_algorithm(&self) -> Result<Word, InvalidLimit> {
        let words = self.options.iter().map(|(word, _)| *word);
        let mut named = words.clone().filter(|word| word.is_algorithm());
        match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                Err(InvalidLimit::Contradiction { first: first.as_str(), second: second.as_str() })
            }
            (Some(word), None) => Ok(word),
            (None, _) => {
                // `slots 60` can only mean a sliding window; `burst 20` any bucket.
                let mut implied = words.filter_map(|word| match word.refines() {
                    [only] if only.is_algorithm() => Some(*only),
                    _ => None,
                });
                Ok(implied.next().unwrap_or(Word::TokenBucket))
            }
        }
    }

    /// Drops what goes without saying and spells out what was implied, so that limits that are
    /// the same are equal and print alike.
    pub(super) fn canonical(mut self) -> Result<Spec, InvalidLimit> {
        if self.has(Word::Calendar) {
            self.unset(Word::Fixed); // A calendar's windows are fixed ones.
        }
        let algorithm = self.algorithm()?;
        match algorithm {
            Word::TokenBucket => self.unset(Word::TokenBucket),
            word if word.is_algorithm() && !self.has(word) => self.set(word, Value::Nothing),
            _ => {}
        }
        let defaults = [
            (Word::Burst, Value::Number(self.amount)),
            (Word::Free, Value::Number(1)),
            (Word::Anchor, Value::Number(1)),
            (Word::MinGap, Value::Span(Span::ZERO)),
            (Word::Lease, Value::Span(DEFAULT_LEASE)),
        ];
        self.options.retain(|option| !defaults.contains(option));
        if let Some(name) = self.zone() {
            let zone = calendar::zone(name)?;
            let name = zone.iana_name().unwrap_or(name).into();
            self.set(Word::Zone, Value::Zone(name));
        }
        Ok(self)
    }

    /// The limit in brief. `algorithm` is the spec's own.
    pub(super) fn quota(&self, algorithm: Word) -> Quota {
        let detail = match self.measure {
            Measure::Adaptive { min } => Detail::AtLeast(min),
            _ => match (algorithm, self.span(Word::WarmUp)) {
                (Word::Calendar, _) => Detail::Calendar,
                (_, Some(warm_up)) => Detail::WarmUp(warm_up),
                _ => Detail::Nothing,
            },
        };
        let algorithm = match algorithm {
            Word::Unlimited => AlgorithmName::Unlimited,
            Word::Concurrent => AlgorithmName::Concurrent,
            Word::Adaptive => AlgorithmName::Adaptive,
            Word::Leaky => AlgorithmName::LeakyBucket,
            Word::Gcra => AlgorithmName::Gcra,
            Word::Fixed | Word::Calendar => AlgorithmName::FixedWindow,
            Word::Sliding => AlgorithmName::SlidingWindow,
            Word::Log => AlgorithmName::SlidingLog,
            Word::WarmUp => AlgorithmName::WarmUp,
            _ => AlgorithmName::TokenBucket,
        };
        let period = match self.measure {
            Measure::Rate(period) => Some(period),
            _ => None,
        };
        Quota { amount: self.amount, period, algorithm, burst: self.burst(), detail }
    }
}
