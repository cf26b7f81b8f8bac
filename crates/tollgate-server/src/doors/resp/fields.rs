//! Decisions with a name for each value: what every `TG.` command answers.

use tollgate::rules::Decision;
use tollgate::{Retry, Span, Verdict};

use super::reply::Replies;
use crate::headers::Answer;

/// What the HTTP door would answer to a limit that was brought along.
fn code(allowed: bool) -> i64 {
    if allowed { 200 } else { 429 }
}

/// A decision by a limit that was brought along.
pub(super) fn of_limit(verdict: &Verdict, replies: &mut Replies) {
    replies.map(8);
    head(verdict.allowed, None, code(verdict.allowed), replies);
    let retry = match verdict.retry {
        Retry::After(span) => Some(span),
        Retry::Now | Retry::Never => None,
    };
    times(retry, verdict.wait, replies);
    standing(Some(verdict), replies);
}

/// A decision by rules.
pub(super) fn of_decision(decision: &Decision, replies: &mut Replies) {
    replies.map(10);
    head(decision.allowed, decision.rule(), i64::from(decision.code), replies);
    times(decision.retry_after.map(Span::from), decision.wait.into(), replies);
    standing(decision.tightest().map(|tightest| tightest.verdict).as_ref(), replies);
    replies.text("reason");
    replies.text(decision.reason.as_str());
    replies.text("limits");
    replies.array(decision.limits().count());
    for (limit, standing_now) in decision.limits().zip(&Answer::of(decision).limits) {
        replies.map(6);
        replies.text("rule");
        replies.text(limit.rule);
        replies.text("window_s");
        match standing_now.window_s {
            Some(seconds) => replies.count(seconds),
            None => replies.null(),
        }
        standing(Some(&limit.verdict), replies);
        replies.text("mode");
        replies.text(&limit.mode.to_string());
    }
}

fn head(allowed: bool, rule: Option<&str>, code: i64, replies: &mut Replies) {
    replies.text("allowed");
    replies.boolean(allowed);
    replies.text("rule");
    match rule {
        Some(rule) => replies.text(rule),
        None => replies.null(),
    }
    replies.text("code");
    replies.integer(code);
}

fn times(retry: Option<Span>, wait: Span, replies: &mut Replies) {
    replies.text("retry_after_ms");
    match retry {
        // Not even one that is a matter of less than a nanosecond is told to come back at once.
        Some(span) => replies.millis(span.max(Span::from_nanos(1))),
        None => replies.null(),
    }
    replies.text("wait_ms");
    replies.millis(wait);
}

fn standing(verdict: Option<&Verdict>, replies: &mut Replies) {
    replies.text("limit");
    match verdict {
        Some(verdict) => replies.count(verdict.limit),
        None => replies.null(),
    }
    replies.text("remaining");
    match verdict {
        Some(verdict) => replies.count(verdict.remaining),
        None => replies.null(),
    }
    replies.text("reset_after_ms");
    match verdict {
        Some(verdict) => replies.millis(verdict.reset_after),
        None => replies.null(),
    }
}
