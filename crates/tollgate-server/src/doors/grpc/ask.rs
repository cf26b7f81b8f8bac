//! From Envoy's message to a question for the engine, and back.

use smallvec::SmallVec;
use tollgate::rules::envoy::{Descriptor, LimitOverride, RateLimitRequest, Unit};

use super::answer::{self, Extras};
use super::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use super::proto::envoy::service::ratelimit::v3 as rls;
use super::status::Status;
use crate::engine::Engine;

/// So many descriptors may be asked about at once. Envoy sends as many as a route has actions.
pub(super) const MOST_DESCRIPTORS: usize = 1_000;
/// So many entries they may have together.
const MOST_ENTRIES: usize = 10 * MOST_DESCRIPTORS;

/// Asks the engine.
pub(super) async fn ask(
    engine: &Engine,
    asked: &rls::RateLimitRequest,
    extras: Extras,
) -> Result<rls::RateLimitResponse, Status> {
    let entries = asked.descriptors.iter().map(|one| one.entries.len()).sum::<usize>();
    if asked.descriptors.len() > MOST_DESCRIPTORS || entries > MOST_ENTRIES {
        let message =
            format!("at most {MOST_DESCRIPTORS} descriptors with {MOST_ENTRIES} entries are read");
        return Err(Status::new(tonic::Code::InvalidArgument, message));
    }
    let pairs: SmallVec<[(&str, &str); 8]> = asked
        .descriptors
        .iter()
        .flat_map(|one| one.entries.iter().map(|entry| (&*entry.key, &*entry.value)))
        .collect();
    let mut rest = &pairs[..];
    let mut descriptors = SmallVec::<[Descriptor<'_>; 4]>::with_capacity(asked.descriptors.len());
    for one in &asked.descriptors {
        let (entries, others) = rest.split_at(one.entries.len());
        rest = others;
        descriptors.push(descriptor(one, entries)?);
    }
    let hits_addend = asked.hits_addend;
    let request =
        RateLimitRequest { hits_addend, ..RateLimitRequest::new(&asked.domain, &descriptors) };
    if let Some(fault) = request.fault() {
        // The original's code for everything it does not like.
        return Err(Status::new(tonic::Code::Unknown, fault));
    }
    match engine.envoy(&request).await {
        Ok(decided) => Ok(answer::render(&decided, asked, extras)),
        Err(error) => Err(Status::new(tonic::Code::Unknown, error.to_string())),
    }
}

fn descriptor<'a>(
    one: &RateLimitDescriptor,
    entries: &'a [(&'a str, &'a str)],
) -> Result<Descriptor<'a>, Status> {
    let limit = one.limit.as_ref().map(limit).transpose()?;
    Ok(Descriptor { entries, hits: one.hits_addend, negative: one.is_negative_hits, limit })
}

fn limit(limit: &RateLimitOverride) -> Result<LimitOverride, Status> {
    let unit = unit(limit.unit).ok_or_else(|| {
        let message = "the limit of a descriptor needs a unit: SECOND, MINUTE, HOUR, DAY, …";
        Status::new(tonic::Code::InvalidArgument, message)
    })?;
    Ok(LimitOverride { requests_per_unit: limit.requests_per_unit, unit })
}

/// The numbers of the answer's units are those of the request's; a week is only in the former.
fn unit(number: i32) -> Option<Unit> {
    use rls::rate_limit_response::rate_limit::Unit as Number;
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
