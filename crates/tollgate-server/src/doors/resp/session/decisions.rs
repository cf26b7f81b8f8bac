//! The commands that decide: `CL.THROTTLE`, `THROTTLE` and the `TG.` commands.

use std::str;

use tollgate::{Action, Retry, Span, StoreError, Verdict};
use tollgate_rules::{Adjustment, Decision};

use super::super::batch::ReplyForm;
use super::super::command::RespCommand;
use super::super::{arguments, decision_reply, throttle};
use super::RespSession;
use crate::decisions::{DecisionService, InlineLimit, InlineLimitList, ThrottleDialect};
use crate::telemetry::DoorName;

impl RespSession {
    /// Runs `CL.THROTTLE` or `THROTTLE` with a limit that is not cached, or with a refund.
    pub(super) async fn throttle(
        &mut self,
        dialect: ThrottleDialect,
        command: &RespCommand<'_>,
    ) -> Result<(), String> {
        let (name, form) = match dialect {
            ThrottleDialect::RedisCell => ("cl.throttle", ReplyForm::Throttle),
            ThrottleDialect::Throttlecrab => ("throttle", ReplyForm::Throttlecrab),
        };
        if !(5..=6).contains(&command.len()) {
            return Err(format!("ERR wrong number of arguments for '{name}' command"));
        }
        let throttle = throttle::read(dialect, command)?;
        if throttle.quantity < 0 {
            self.authorize_reset()?;
        }
        if throttle.is_blocked() {
            self.replies.throttle(&blocked_verdict(throttle.quantity > 0));
            return Ok(());
        }
        let decisions = &self.context.decisions;
        let limit = throttle
            .inline_limit(decisions, self.database)
            .map_err(|error| arguments::wrong_limit(&error))?;
        let (key, amount) = (command.get(1), throttle.quantity.unsigned_abs());
        let verdict = match throttle.quantity {
            0.. => decisions.check_inline(DoorName::Resp, key, &limit, amount).await,
            _ => refund(decisions, key, &limit, amount).await,
        };
        let verdict = verdict.map_err(|error| format!("ERR {error}"))?;
        match dialect {
            ThrottleDialect::RedisCell => self.replies.throttle(&verdict),
            ThrottleDialect::Throttlecrab => self.replies.throttlecrab(&verdict),
        }
        if let Some(text) = command.raw(2, 4) {
            self.batch.cache_limit(form, text, limit);
        }
        Ok(())
    }

    /// Runs `TG.LIMIT` with a limit that is not cached.
    pub(super) async fn limit(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let decisions = &self.context.decisions;
        if command.len() > 3 && !command.is(3, "COST") {
            let (limits, cost) = arguments::limits_and_cost(decisions, command)?;
            let key = command.get(1);
            let verdicts = decisions.check_inline_limits(DoorName::Resp, key, &limits, cost).await;
            let verdicts = verdicts.map_err(|error| format!("ERR {error}"))?;
            if let Some(verdict) = InlineLimitList::deciding(&verdicts) {
                decision_reply::write_limit(verdict, &mut self.replies);
            }
            return Ok(());
        }
        let cost = arguments::cost_of_limit(command)?;
        let limit = arguments::limit(decisions, command.get(2))?;
        let verdict = decisions.check_inline(DoorName::Resp, command.get(1), &limit, cost).await;
        decision_reply::write_limit(
            &verdict.map_err(|error| format!("ERR {error}"))?,
            &mut self.replies,
        );
        self.batch.cache_limit(ReplyForm::Fields, command.get(2), limit);
        Ok(())
    }

    /// Runs `TG.CHECK`.
    pub(super) async fn check(&mut self, command: &RespCommand<'_>) -> Result<(), String> {
        let (request, cost) = arguments::request(command, self.peer)?;
        let decision = self.context.decisions.check(DoorName::Resp, &request, cost).await;
        self.reply_decision(command, &decision)
    }

    /// Writes the reply to a decision by rules.
    fn reply_decision(
        &mut self,
        command: &RespCommand<'_>,
        decision: &Decision,
    ) -> Result<(), String> {
        let domain = str::from_utf8(command.get(1)).ok().filter(|domain| !domain.is_empty());
        if let Some(why) = self.context.decisions.unknown_domain(domain, decision) {
            return Err(format!("ERR {why}"));
        }
        decision_reply::write_decision(decision, &mut self.replies);
        Ok(())
    }

    /// Reads or changes counters, of an inline limit or of rules.
    pub(super) async fn adjust(
        &mut self,
        command: &RespCommand<'_>,
        adjustment: Adjustment,
        action: Action,
    ) -> Result<(), String> {
        let decisions = &self.context.decisions;
        if arguments::has_inline_limit(command) {
            let limit = arguments::limit(decisions, command.get(2))?;
            let verdict = decisions.adjust_inline(action, command.get(1), &limit, 0).await;
            decision_reply::write_limit(
                &verdict.map_err(|error| format!("ERR {error}"))?,
                &mut self.replies,
            );
            return Ok(());
        }
        let (request, _) = arguments::request(command, self.peer)?;
        let decision = decisions.adjust(&request, adjustment).await;
        self.reply_decision(command, &decision.map_err(|error| format!("ERR {error}"))?)
    }
}

/// Returns the verdict of a limit that allows nothing at all.
fn blocked_verdict(limited: bool) -> Verdict {
    Verdict {
        allowed: !limited,
        limit: 0,
        remaining: 0,
        reset_after: Span::ZERO,
        retry: if limited { Retry::Never } else { Retry::Now },
        wait: Span::ZERO,
    }
}

/// Refunds an amount to a key, unless the key owes even more to a limit that is now smaller.
///
/// redis-cell decides on a refund as on any other call, so it refuses one that leaves the key over
/// the limit. That happens only after a call with a larger limit.
async fn refund(
    decisions: &DecisionService,
    key: &[u8],
    limit: &InlineLimit,
    amount: u64,
) -> Result<Verdict, StoreError> {
    let before = decisions.adjust_inline(Action::Peek, key, limit, 0).await?;
    let depth = limit.limit.fill_time();
    let token = Span::from_nanos(depth.as_nanos() / limit.limit.capacity().max(1));
    let refunded = Span::from_nanos(token.as_nanos().saturating_mul(amount));
    let over = before.reset_after - refunded - depth;
    if over > Span::ZERO {
        return Ok(Verdict { allowed: false, retry: Retry::After(over), ..before });
    }
    let verdict = decisions.adjust_inline(Action::Refund, key, limit, amount).await?;
    Ok(Verdict { allowed: true, retry: Retry::Now, ..verdict })
}
