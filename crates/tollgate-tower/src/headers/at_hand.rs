//! What a thread keeps at hand to write header fields with: room for a text, and the policies it
//! told last. Those do not change from request to request, and making them anew would cost more
//! than looking up a counter.

use std::cell::{Cell, RefCell};

use http::HeaderValue;

use super::answer::{Standing, told};

/// So many policies are kept by a thread.
const KEPT: usize = 16;

/// No more room than this is kept for a text.
const ROOM: usize = 4096;

thread_local! {
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
    static POLICIES: RefCell<[Option<Policy>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

/// The policy of some limits, and all of them it was made of.
struct Policy {
    limits: Box<[Quota]>,
    value: HeaderValue,
}

/// All of a limit that its policy says.
struct Quota {
    rule: Box<str>,
    limit: u64,
    window_s: Option<u64>,
}

impl Quota {
    fn of(standing: &Standing<'_>) -> Quota {
        let Standing { limit, window_s, .. } = *standing;
        Quota { rule: standing.rule_name().into(), limit, window_s }
    }

    fn is_of(&self, standing: &Standing<'_>) -> bool {
        self.limit == standing.limit
            && self.window_s == standing.window_s
            && *self.rule == *standing.rule_name()
    }
}

/// The policy of the limits that clients are told about, made by `make` if it is not at hand.
pub(super) fn policy(
    limits: &[Standing<'_>],
    make: impl FnOnce() -> Option<HeaderValue>,
) -> Option<HeaderValue> {
    // What adapts to load is another with almost every request.
    if told(limits).any(Standing::is_concurrency) {
        return make();
    }
    let place = told(limits).fold(0, |place, limit| {
        limit.rule_name().len().wrapping_add(limit.limit as usize).wrapping_add(place * 31)
    });
    POLICIES.with_borrow_mut(|policies| {
        let kept = &mut policies[place % KEPT];
        if let Some(kept) = kept
            && is_same(&kept.limits, limits)
        {
            return Some(kept.value.clone());
        }
        let value = make()?;
        let limits = told(limits).map(Quota::of).collect();
        *kept = Some(Policy { limits, value: value.clone() });
        Some(value)
    })
}

fn is_same(kept: &[Quota], limits: &[Standing<'_>]) -> bool {
    let mut kept = kept.iter();
    told(limits).all(|limit| kept.next().is_some_and(|kept| kept.is_of(limit)))
        && kept.next().is_none()
}

/// The value that is written, in memory of its own size.
pub(super) fn written(write: impl FnOnce(&mut String)) -> Option<HeaderValue> {
    let mut text = TEXT.take();
    write(&mut text);
    let value = HeaderValue::from_str(&text).ok();
    if text.capacity() <= ROOM {
        text.clear();
        TEXT.set(text);
    }
    value
}

#[cfg(test)]
mod tests {
    use tollgate::{Bucket, Check, Limit, MemoryStore};

    use super::super::Answer;
    use super::*;

    fn standing(rule: &'static str, limit: &str) -> Standing<'static> {
        let limit: Limit = limit.parse().unwrap();
        let verdict = MemoryStore::new().decide_one(&Check::new(Bucket::new(0), "a", &limit, 1));
        let answer = Answer::of_limit(limit.quota(), &verdict);
        Standing { rule: Some(rule), ..answer.limits[0] }
    }

    #[test]
    fn a_policy_is_made_once_and_never_taken_for_another() {
        let made = Cell::new(0);
        let ask = |limits: &[Standing<'_>]| {
            let spelled: Vec<_> = limits
                .iter()
                .filter(|limit| limit.enforced)
                .map(|limit| format!("{:?} {} {:?}", limit.rule, limit.limit, limit.window_s))
                .collect();
            let spelled = spelled.join(", ");
            let value = policy(limits, || {
                made.set(made.get() + 1);
                HeaderValue::from_str(&spelled).ok()
            });
            assert_eq!(value.unwrap(), *spelled);
            made.get()
        };
        let [api, faster] = [standing("api", "5/min"), standing("api", "5/s")];
        let shadow = Standing { enforced: false, ..faster };
        assert_eq!(ask(&[api]), 1);
        assert_eq!(ask(&[Standing { remaining: 1, ..api }]), 1, "what is left is no part of it");
        assert_eq!(ask(&[shadow, api]), 1, "nor is what is not told");
        // Of the same place each, or of others.
        let mut before = 1;
        for limits in [&[faster][..], &[api, faster], &[faster, api], &[api, api], &[api]] {
            let now = ask(limits);
            assert!(now >= before && ask(limits) == now);
            before = now;
        }
        assert!((0..40).all(|limit| {
            let other = Standing { limit, ..api };
            ask(&[other]) == ask(&[other])
        }));
    }

    #[test]
    fn what_adapts_is_always_made_anew() {
        let places = [standing("db", "3 concurrent")];
        let first = policy(&places, || Some(HeaderValue::from_static("a")));
        let second = policy(&places, || Some(HeaderValue::from_static("b")));
        assert_eq!((first.unwrap(), second.unwrap()), ("a".parse().unwrap(), "b".parse().unwrap()));
    }

    #[test]
    fn a_text_begins_anew_even_while_another_is_written() {
        let outer = written(|text| {
            text.push_str("outer");
            let inner = written(|text| text.push_str("inner"));
            assert_eq!(inner.unwrap(), "inner");
        });
        assert_eq!(outer.unwrap(), "outer");
        assert_eq!(written(|text| text.push('x')).unwrap(), "x");
    }
}
