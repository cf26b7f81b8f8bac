//! A limit cut into equal shares, for nodes that cannot ask each other.

use std::time::Duration;

use tollgate_core::Span;

use super::Limit;
use super::spec::{Measure, Spec, Value};
use super::unit::Period;
use super::words::Word;

impl Limit {
    /// What each of so many nodes may let pass on its own, so that together they keep the limit.
    ///
    /// A rate keeps its shape and gets slower; of a window, a log or places at a time each node
    /// has the same whole number.
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
    /// Nobody is shut out: at least one passes at once on every node. So a limit of fewer than
    /// there are nodes, and one that lets any cost pass when nothing is owed (`pay_later`,
    /// `warmup`), lets one pass on each. Windows that every key opens for itself (`first_hit`) are
    /// opened on each node, and a sliding window of two counters rounds its estimate down on each.
    pub fn shared_by(&self, nodes: u64) -> Limit {
        if nodes <= 1 || self.spec.measure == Measure::Unlimited {
            return self.clone();
        }
        let fewer = fewer(&self.spec, nodes);
        // What refills too slowly to be a limit at all is cut in another way.
        let plainer = Spec::new(fewer.amount, fewer.measure);
        let ways = [slower(&self.spec, nodes), Some(fewer), Some(plainer)];
        let share = ways.into_iter().flatten().find_map(|spec| Limit::from_spec(spec).ok());
        share.unwrap_or_else(|| self.clone())
    }
}

/// The same amount in a longer time: exact whatever the number of nodes.
fn slower(spec: &Spec, nodes: u64) -> Option<Spec> {
    let Measure::Rate(period) = spec.measure else { return None };
    let is_window = [Word::Fixed, Word::Calendar, Word::Sliding, Word::Log];
    let all_at_once = spec.has(Word::Interval) && spec.amount >= nodes;
    if all_at_once || is_window.into_iter().any(|word| spec.has(word)) {
        return None;
    }
    // What comes back at once comes back whole, and nothing of it is lost above the burst.
    let (times, amount) = match spec.has(Word::Interval) {
        true => (nodes.div_ceil(spec.amount), 1),
        false => (nodes, spec.amount),
    };
    let length = Duration::from(period.span()).checked_mul(u32::try_from(times).ok()?)?;
    let mut slower = spec.clone();
    slower.measure = Measure::Rate(Period::exactly(length)?);
    slower.amount = amount;
    if !spec.has(Word::WarmUp) {
        slower.set(Word::Burst, Value::Number(share(spec.burst(), nodes)));
    }
    share_options(&mut slower, nodes);
    Some(slower)
}

/// A smaller amount in the same time.
fn fewer(spec: &Spec, nodes: u64) -> Spec {
    let mut fewer = spec.clone();
    fewer.amount = share(spec.amount, nodes);
    if let Measure::Adaptive { min } = spec.measure {
        fewer.measure = Measure::Adaptive { min: share(min, nodes) };
    }
    if let Some(burst) = spec.number(Word::Burst) {
        fewer.set(Word::Burst, Value::Number(share(burst, nodes)));
    }
    share_options(&mut fewer, nodes);
    fewer
}

fn share_options(spec: &mut Spec, nodes: u64) {
    if let Some(tokens) = spec.number(Word::Initial) {
        spec.set(Word::Initial, Value::Number(tokens / nodes));
    }
    if let Some(free) = spec.number(Word::Free) {
        spec.set(Word::Free, Value::Number(share(free, nodes)));
    }
    if let (Some(gap), Measure::Rate(period)) = (spec.span(Word::MinGap), spec.measure) {
        let gap: Span = gap.times(nodes).min(period.span());
        spec.set(Word::MinGap, Value::Span(gap));
    }
}

fn share(amount: u64, nodes: u64) -> u64 {
    (amount / nodes).max(1)
}
