//! The description of a limit: an amount, a measure and a sorted list of options.
//!
//! The parser and the constructors both fill a [`Spec`]; `algorithm.rs` compiles it. Two limits
//! are equal if their canonical specs are equal.

use tollgate_core::Span;

use super::InvalidLimit;
use super::calendar;
use super::keyword::Keyword;
use super::summary::{AlgorithmName, LimitSummary, SummaryDetail};
use super::unit::Period;

/// The time that a permit lasts without release or renewal, if the limit names no lease.
pub(super) const DEFAULT_LEASE: Span = Span::from_secs(60);

/// The measure of an amount: a rate, or permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Rate(Period),
    Concurrent,
    Adaptive { min: u64 },
    Unlimited,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OptionValue {
    Nothing,
    Number(u64),
    Span(Span),
    Zone(Box<str>),
}

/// An amount, its measure and its options, not yet checked against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) amount: u64,
    pub(super) label: Option<Box<str>>,
    pub(super) measure: Measure,
    /// Sorted by keyword, each at most once.
    options: Vec<(Keyword, OptionValue)>,
}

impl Spec {
    pub(super) fn new(amount: u64, measure: Measure) -> Spec {
        Spec { amount, label: None, measure, options: Vec::new() }
    }

    pub(super) fn options(&self) -> &[(Keyword, OptionValue)] {
        &self.options
    }

    pub(super) fn set(&mut self, keyword: Keyword, value: OptionValue) {
        match self.options.binary_search_by_key(&keyword, |(keyword, _)| *keyword) {
            Ok(index) => self.options[index].1 = value,
            Err(index) => self.options.insert(index, (keyword, value)),
        }
    }

    pub(super) fn unset(&mut self, keyword: Keyword) {
        self.options.retain(|(set, _)| *set != keyword);
    }

    fn get(&self, keyword: Keyword) -> Option<&OptionValue> {
        self.options.iter().find(|(set, _)| *set == keyword).map(|(_, value)| value)
    }

    pub(super) fn has(&self, keyword: Keyword) -> bool {
        self.get(keyword).is_some()
    }

    pub(super) fn number(&self, keyword: Keyword) -> Option<u64> {
        match self.get(keyword)? {
            OptionValue::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn span(&self, keyword: Keyword) -> Option<Span> {
        match self.get(keyword)? {
            OptionValue::Span(span) => Some(*span),
            _ => None,
        }
    }

    pub(super) fn zone(&self) -> Option<&str> {
        match self.get(Keyword::Zone)? {
            OptionValue::Zone(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the capacity of a bucket, which defaults to the amount.
    pub(super) fn burst(&self) -> u64 {
        self.number(Keyword::Burst).unwrap_or(self.amount)
    }

    pub(super) fn lease(&self) -> Span {
        self.span(Keyword::Lease).unwrap_or(DEFAULT_LEASE)
    }

    /// Returns the keyword of the algorithm, after checking that every option goes with it.
    pub(super) fn algorithm(&self) -> Result<Keyword, InvalidLimit> {
        let algorithm = match self.measure {
            Measure::Rate(_) => self.rate_algorithm()?,
            Measure::Concurrent => Keyword::Concurrent,
            Measure::Adaptive { .. } => Keyword::Adaptive,
            Measure::Unlimited => Keyword::Unlimited,
        };
        let fits =
            |keyword: Keyword| keyword == algorithm || keyword.refines().contains(&algorithm);
        if let Some((keyword, _)) = self.options.iter().find(|(keyword, _)| !fits(*keyword)) {
            return Err(InvalidLimit::IncompatibleOption {
                option: keyword.as_str(),
                with: algorithm.as_str(),
            });
        }
        if self.has(Keyword::Slots) && self.has(Keyword::CountDenied) {
            let (option, with) = (Keyword::CountDenied.as_str(), Keyword::Slots.as_str());
            return Err(InvalidLimit::IncompatibleOption { option, with });
        }
        self.controller()?;
        Ok(algorithm)
    }

    /// Returns the keyword of the controller, or `None` for the default one.
    pub(super) fn controller(&self) -> Result<Option<Keyword>, InvalidLimit> {
        let mut named = [Keyword::Aimd, Keyword::Vegas, Keyword::Gradient2]
            .into_iter()
            .filter(|keyword| self.has(*keyword));
        match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                Err(InvalidLimit::Contradiction { first: first.as_str(), second: second.as_str() })
            }
            (named, _) => Ok(named),
        }
    }

    fn rate_algorithm(&self) -> Result<Keyword, InvalidLimit> {
        let keywords = self.options.iter().map(|(keyword, _)| *keyword);
        let mut named = keywords.clone().filter(|keyword| keyword.is_algorithm());
        match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                Err(InvalidLimit::Contradiction { first: first.as_str(), second: second.as_str() })
            }
            (Some(keyword), None) => Ok(keyword),
            (None, _) => {
                // `slots 60` can only mean a sliding window; `burst 20` any bucket.
                let mut implied = keywords.filter_map(|keyword| match keyword.refines() {
                    [only] if only.is_algorithm() => Some(*only),
                    _ => None,
                });
                Ok(implied.next().unwrap_or(Keyword::TokenBucket))
            }
        }
    }

    /// Drops defaults and adds implied keywords, so that equivalent limits are equal.
    pub(super) fn canonical(mut self) -> Result<Spec, InvalidLimit> {
        if self.has(Keyword::Calendar) {
            self.unset(Keyword::Fixed); // A calendar's windows are fixed ones.
        }
        let algorithm = self.algorithm()?;
        match algorithm {
            Keyword::TokenBucket => self.unset(Keyword::TokenBucket),
            keyword if keyword.is_algorithm() && !self.has(keyword) => {
                self.set(keyword, OptionValue::Nothing)
            }
            _ => {}
        }
        let defaults = [
            (Keyword::Burst, OptionValue::Number(self.amount)),
            (Keyword::Free, OptionValue::Number(1)),
            (Keyword::Anchor, OptionValue::Number(1)),
            (Keyword::MinGap, OptionValue::Span(Span::ZERO)),
            (Keyword::Lease, OptionValue::Span(DEFAULT_LEASE)),
        ];
        self.options.retain(|option| !defaults.contains(option));
        if let Some(name) = self.zone() {
            let zone = calendar::zone(name)?;
            let name = zone.iana_name().unwrap_or(name).into();
            self.set(Keyword::Zone, OptionValue::Zone(name));
        }
        Ok(self)
    }

    /// Returns the summary of the limit; `algorithm` is the result of [`Spec::algorithm`].
    pub(super) fn summary(&self, algorithm: Keyword) -> LimitSummary {
        let detail = match self.measure {
            Measure::Adaptive { min } => SummaryDetail::AtLeast(min),
            _ => match (algorithm, self.span(Keyword::WarmUp)) {
                (Keyword::Calendar, _) => SummaryDetail::Calendar,
                (_, Some(warm_up)) => SummaryDetail::WarmUp(warm_up),
                _ => SummaryDetail::Nothing,
            },
        };
        let algorithm = match algorithm {
            Keyword::Unlimited => AlgorithmName::Unlimited,
            Keyword::Concurrent => AlgorithmName::Concurrent,
            Keyword::Adaptive => AlgorithmName::Adaptive,
            Keyword::Leaky => AlgorithmName::LeakyBucket,
            Keyword::Gcra => AlgorithmName::Gcra,
            Keyword::Fixed | Keyword::Calendar => AlgorithmName::FixedWindow,
            Keyword::Sliding => AlgorithmName::SlidingWindow,
            Keyword::Log => AlgorithmName::SlidingLog,
            Keyword::WarmUp => AlgorithmName::WarmUp,
            _ => AlgorithmName::TokenBucket,
        };
        let period = match self.measure {
            Measure::Rate(period) => Some(period),
            _ => None,
        };
        LimitSummary { amount: self.amount, period, algorithm, burst: self.burst(), detail }
    }
}
