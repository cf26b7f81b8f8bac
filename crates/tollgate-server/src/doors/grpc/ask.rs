//! From Envoy's question to one for the engine, and back.

use smallvec::SmallVec;
use tollgate::rules::envoy::{Descriptor, LimitOverride, RateLimitRequest, Unit};
use tonic::Code;

use super::answer::{self, Extras};
use super::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as Number;
use super::question::{Limit, Question};
use super::status::Status;
use crate::engine::Engine;

/// Asks the engine.
pub(super) async fn ask(
    engine: &Engine,
    question: &Question<'_>,
    extras: Extras,
) -> Result<RateLimitResponse, Status> {
    let mut descriptors = SmallVec::<[Descriptor<'_>; 4]>::new();
    for (asked, entries) in question.descriptors() {
        let limit = asked.limit.map(limit).transpose()?;
        descriptors.push(Descriptor { entries, hits: asked.hits, negative: asked.negative, limit });
    }
    let Question { domain, hits_addend, .. } = *question;
    let request = RateLimitRequest { domain, descriptors: &descriptors, hits_addend };
    if let Some(fault) = request.fault() {
        // The original's code for everything it does not like.
        return Err(Status::new(Code::Unknown, fault));
    }
    match engine.envoy(&request).await {
        Ok(decided) => Ok(answer::render(&decided, question, extras)),
        Err(error) => Err(Status::new(Code::Unknown, error.to_string())),
    }
}

fn limit(limit: Limit) -> Result<LimitOverride, Status> {
    let unit = unit(limit.unit).ok_or_else(|| {
        let message = "the limit of a descriptor needs a unit: SECOND, MINUTE, HOUR, DAY, …";
        Status::new(Code::InvalidArgument, message)
    })?;
    Ok(LimitOverride { requests_per_unit: limit.requests_per_unit, unit })
}

/// The numbers of the answer's units are those of the request's; a week is only in the former.
fn unit(number: i32) -> Option<Unit> {
    Some(match Number::try_from(number).ok()? {
        Number::Unknown => return None,
        Number::Second => Unit::Second,
        Number::Minute => Unit::Minute,
        Number::Hour => Unit::Hour,
        Number::Day => Unit::Day,
        Number::Week => Unit::Week,
        Number::Month => Unit::Month,
        Number::Year => Unit::Year,
    })
}
