//! Divides a limit into equal shares, for nodes that decide without a common store.

use std::time::Duration;

use tollgate_core::Span;

use super::Limit;
use super::keyword::Keyword;
use super::spec::{Measure, OptionValue, Spec};
use super::unit::Period;

impl Limit {
    /// Returns the share of each of `nodes` nodes, so that together they keep the limit.
    ///
    /// A rate keeps its amount and gets a longer period. A window, a log or a concurrency limit
    /// gets a smaller amount, rounded down to a whole number.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let share = |text: &str| text.parse().map(|limit: Limit| limit.shared_by(4).to_string());
    /// assert_eq!(share("10/s burst 20")?, "10/4s burst 5");
    /// assert_eq!(share("1k/month calendar")?, "250/month calendar");
    /// assert_eq!(share("100 concurrent")?, "25 concurrent");
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    ///
    /// Every node allows at least one request at once. The nodes together can exceed:
    ///
    /// - a limit whose amount is smaller than the number of nodes;
    /// - a limit that allows any cost while there is no debt (`pay_later`, `warmup`), because each
    ///   node allows one such request;
    /// - windows that begin with the first request (`first_hit`), because each node begins its own;
    /// - a sliding window of two counters, because each node rounds its estimate down.
    pub fn shared_by(&self, nodes: u64) -> Limit {
        if nodes <= 1 || self.spec.measure == Measure::Unlimited {
            return self.clone();
        }
        let smaller = with_smaller_amount(&self.spec, nodes);
        // A share that refills too slowly is not a valid limit; then the next candidate is used.
        let plain = Spec::new(smaller.amount, smaller.measure);
        let candidates = [with_longer_period(&self.spec, nodes), Some(smaller), Some(plain)];
        let share = candidates.into_iter().flatten().find_map(|spec| Limit::from_spec(spec).ok());
        share.unwrap_or_else(|| self.clone())
    }
}

/// Lengthens the period and keeps the amount, which is exact for any number of nodes.
fn with_longer_period(spec: &Spec, nodes: u64) -> Option<Spec> {
    let Measure::Rate(period) = spec.measure else { return None };
    let windows = [Keyword::Fixed, Keyword::Calendar, Keyword::Sliding, Keyword::Log];
    let all_at_once = spec.has(Keyword::Interval) && spec.amount >= nodes;
    if all_at_once || windows.into_iter().any(|keyword| spec.has(keyword)) {
        return None;
    }
    // An interval refills whole tokens at once, so its share refills one token per interval
    // and loses none above the burst.
    let (times, amount) = match spec.has(Keyword::Interval) {
        true => (nodes.div_ceil(spec.amount), 1),
        false => (nodes, spec.amount),
    };
    let length = Duration::from(period.span()).checked_mul(u32::try_from(times).ok()?)?;
    let mut share_spec = spec.clone();
    share_spec.measure = Measure::Rate(Period::from_duration(length)?);
    share_spec.amount = amount;
    if !spec.has(Keyword::WarmUp) {
        share_spec.set(Keyword::Burst, OptionValue::Number(share(spec.burst(), nodes)));
    }
    share_options(&mut share_spec, nodes);
    Some(share_spec)
}

/// Divides the amount and keeps the period.
fn with_smaller_amount(spec: &Spec, nodes: u64) -> Spec {
    let mut share_spec = spec.clone();
    share_spec.amount = share(spec.amount, nodes);
    if let Measure::Adaptive { min } = spec.measure {
        share_spec.measure = Measure::Adaptive { min: share(min, nodes) };
    }
    if let Some(burst) = spec.number(Keyword::Burst) {
        share_spec.set(Keyword::Burst, OptionValue::Number(share(burst, nodes)));
    }
    share_options(&mut share_spec, nodes);
    share_spec
}

fn share_options(spec: &mut Spec, nodes: u64) {
    if let Some(tokens) = spec.number(Keyword::Initial) {
        spec.set(Keyword::Initial, OptionValue::Number(tokens / nodes));
    }
    if let Some(free) = spec.number(Keyword::Free) {
        spec.set(Keyword::Free, OptionValue::Number(share(free, nodes)));
    }
    if let (Some(gap), Measure::Rate(period)) = (spec.span(Keyword::MinGap), spec.measure) {
        let gap: Span = gap.times(nodes).min(period.span());
        spec.set(Keyword::MinGap, OptionValue::Span(gap));
    }
}

fn share(amount: u64, nodes: u64) -> u64 {
    (amount / nodes).max(1)
}
