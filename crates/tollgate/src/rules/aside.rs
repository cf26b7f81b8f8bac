//! What is asked beside the limits and not told of among them: whether a key is banned, whether a
//! request was charged before.

use tollgate_core::{Span, Verdict};

use super::decide::{Asked, Charging};
use super::decision::Decision;
use super::demand::{Demands, LineKind};
use super::limiter::Shared;
use crate::store::{Action, Store};

impl<S: Store> Asked<'_, '_, S> {
    /// One decision of what each line said, where some are no limits.
    #[cold]
    pub(super) fn write_with_asides<'v>(
        &self,
        lease: u64,
        said: impl Iterator<Item = (usize, &'v Verdict)> + Clone,
        decision: &mut Decision,
    ) {
        let line = |line: usize| &self.demands.lines[line];
        let limits = said.clone().filter(|(index, _)| !line(*index).kind.is_aside());
        self.write_limits(lease, limits, decision);
        // An id goes with what it was charged: what does not count after all is not remembered.
        if let Some(held) = &mut decision.held {
            let ids = said.clone().filter(|(index, _)| line(*index).kind == LineKind::Once);
            held.lines.extend(ids.map(|(index, _)| self.held_line(line(index))));
        }
        let bans =
            said.filter(|(index, verdict)| line(*index).kind == LineKind::Ban && !verdict.allowed);
        let rest = |verdict: &Verdict| verdict.retry_after().unwrap_or(Span::ZERO);
        if let Some((index, verdict)) = bans.max_by_key(|(_, verdict)| rest(verdict)) {
            self.tell(decision, &self.demands.demands[line(index).demand], rest(verdict));
        }
    }

    /// What is said beside the limits, line by line; nothing is charged. Who only explains goes on
    /// without it if the store does not answer.
    pub(super) async fn asides(&self) -> Vec<(usize, Verdict)> {
        let lines = self.lines(|line| line.kind.is_aside());
        if lines.is_empty() {
            return Vec::new();
        }
        let action = Action::Try { max_wait: Span::ZERO };
        match self.run(action, &lines, 0).await {
            Ok(Some(verdicts)) => lines.iter().copied().zip(verdicts).collect(),
            _ => Vec::new(),
        }
    }

    /// A request was refused: that may have consequences, once for each request.
    pub(super) async fn refused(&self, limiter: &Shared<S>, decision: &mut Decision) {
        let Demands { turn, patience, .. } = *self.demands;
        let is_last_word = turn.is_last_word(decision, &self.domain.compiled, patience);
        if self.charging == Charging::Real && is_last_word {
            self.climb(limiter, decision).await;
        }
    }
}
