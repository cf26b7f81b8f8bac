//! The replies of the `TG.` commands: a decision as a map of named fields.

use tollgate::{Retry, Span, Verdict};
use tollgate_rules::Decision;

use super::reply_buffer::ReplyBuffer;
use crate::headers::DecisionSummary;

/// Returns the status that the HTTP door answers for an inline limit.
fn code(allowed: bool) -> i64 {
    if allowed { 200 } else { 429 }
}

/// Writes a decision by an inline limit.
pub(super) fn write_limit(verdict: &Verdict, replies: &mut ReplyBuffer) {
    replies.map(8);
    write_outcome(verdict.allowed, None, code(verdict.allowed), replies);
    let retry = match verdict.retry {
        Retry::After(span) => Some(span),
        Retry::Now | Retry::Never => None,
    };
    write_times(retry, verdict.wait, replies);
    write_counters(Some(verdict), replies);
}

/// Writes a decision by rules.
pub(super) fn write_decision(decision: &Decision, replies: &mut ReplyBuffer) {
    replies.map(10);
    write_outcome(decision.allowed, decision.rule(), i64::from(decision.code), replies);
    write_times(decision.retry_after.map(Span::from), decision.wait.into(), replies);
    write_counters(decision.tightest().map(|tightest| tightest.verdict).as_ref(), replies);
    replies.text("reason");
    replies.text(decision.reason.as_str());
    replies.text("limits");
    replies.array(decision.limits().count());
    let summary = DecisionSummary::new(decision);
    for (index, (limit, status)) in decision.limits().zip(&summary.limits).enumerate() {
        replies.map(7);
        replies.text("rule");
        replies.text(limit.rule);
        replies.text("window_s");
        match status.window_s {
            Some(seconds) => replies.count(seconds),
            None => replies.null(),
        }
        write_counters(Some(&limit.verdict), replies);
        replies.text("mode");
        replies.text(&limit.mode.to_string());
        replies.text("policy");
        replies.text(&summary.policy_name(index).to_string());
    }
}

fn write_outcome(allowed: bool, rule: Option<&str>, code: i64, replies: &mut ReplyBuffer) {
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

fn write_times(retry: Option<Span>, wait: Span, replies: &mut ReplyBuffer) {
    replies.text("retry_after_ms");
    match retry {
        // Even a span below a nanosecond is rounded up: a refused client must not retry at once.
        Some(span) => replies.millis(span.max(Span::from_nanos(1))),
        None => replies.null(),
    }
    replies.text("wait_ms");
    replies.millis(wait);
}

fn write_counters(verdict: Option<&Verdict>, replies: &mut ReplyBuffer) {
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
