//! Many decisions in one call.

use futures_util::future::join_all;
use hyper::StatusCode;
use tollgate::rules::Decision;
use tollgate::{StoreError, Verdict};

use super::ask::{self, Fields};
use super::decide::{DOOR, Subject, known_domain, subject, unavailable};
use super::render;
use super::visit::{Reply, json_reply};
use crate::engine::{Asked, Brought, Engine};
use crate::headers::Answer;
use crate::rules_service::problem::Problem;

/// So many are under way at the same time where the store is elsewhere.
const TOGETHER: usize = 64;

/// What was decided about one of them.
#[expect(clippy::large_enum_variant, reason = "most are by rules")]
enum Decided<'s, 'a> {
    ByRules(&'s Asked<'a>, Decision),
    ByLimit(&'s Brought, Result<Verdict, StoreError>),
}

/// Answers a batch, in order.
pub(super) async fn answer(engine: &Engine, body: &[u8]) -> Result<Reply, Problem> {
    let requests = ask::read(body, Fields::BATCH)?.requests.ok_or_else(|| {
        Problem::bad_request("`requests` is missing: a list of checks and limits").about("requests")
    })?;
    // All are understood before any is decided.
    let mut subjects = Vec::with_capacity(requests.len());
    for (index, request) in requests.into_iter().enumerate() {
        let cost = request.cost.unwrap_or(1);
        let subject = subject(engine, request);
        let named = |problem: Problem| problem.within(&format!("requests[{index}]"));
        subjects.push((subject.map_err(named)?, cost));
    }
    let mut json = Vec::with_capacity(256 * subjects.len() + 16);
    json.extend_from_slice(b"{\"results\":[");
    let together = if engine.store().memory().is_some() { 1 } else { TOGETHER };
    for subjects in subjects.chunks(together) {
        let decided = subjects.iter().map(|(subject, cost)| decide(engine, subject, *cost));
        for decided in join_all(decided).await {
            write(engine, &decided, &mut json);
        }
    }
    json.extend_from_slice(b"]}");
    Ok(json_reply(StatusCode::OK, json))
}

async fn decide<'s, 'a>(engine: &Engine, subject: &'s Subject<'a>, cost: u64) -> Decided<'s, 'a> {
    match subject {
        Subject::Rules(asked) => {
            Decided::ByRules(asked, engine.check(DOOR, &asked.request(cost), cost).await)
        }
        Subject::Limit(key, brought) => {
            Decided::ByLimit(brought, engine.limit(DOOR, key.as_bytes(), brought, cost).await)
        }
    }
}

fn write(engine: &Engine, decided: &Decided<'_, '_>, json: &mut Vec<u8>) {
    match decided {
        Decided::ByRules(asked, decision) => match known_domain(engine, asked, decision) {
            Ok(()) => render::item(json, &Answer::of(decision)),
            Err(problem) => render::mistake(json, &problem),
        },
        Decided::ByLimit(brought, Ok(verdict)) => {
            render::item(json, &Answer::of_limit(brought.limit.quota(), verdict));
        }
        Decided::ByLimit(_, Err(error)) => render::mistake(json, &unavailable(error)),
    }
}
