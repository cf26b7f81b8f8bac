//! Envoy's `RateLimitRequest`, read from protobuf or built from JSON.
//!
//! [`EnvoyRequest`] is the only reader of rate limit requests. It borrows from the message and bounds
//! the number of descriptors: a message of a megabyte could contain half a million of them.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use smallvec::SmallVec;
use tonic::Code;

use super::status::GrpcStatus;

/// The maximum number of descriptors; Envoy sends as many as a route has actions.
pub(super) const MAX_DESCRIPTORS: usize = 1_000;
/// The maximum number of entries of all descriptors together.
const MAX_ENTRIES: usize = 10 * MAX_DESCRIPTORS;

/// A `RateLimitRequest`, borrowed from its message.
#[derive(Debug, Default)]
pub(super) struct EnvoyRequest<'a> {
    pub(super) domain: &'a str,
    pub(super) hits_addend: u32,
    descriptors: SmallVec<[EnvoyDescriptor; 4]>,
    /// The entries of all descriptors, one after the other.
    entries: SmallVec<[(&'a str, &'a str); 8]>,
}

/// A `RateLimitDescriptor`, with the number of its entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EnvoyDescriptor {
    entries: usize,
    pub(super) hits: Option<u64>,
    pub(super) negative: bool,
    pub(super) limit: Option<OverrideFields>,
}

/// A `RateLimitOverride`; the unit is the number of the protobuf enum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OverrideFields {
    pub(super) requests_per_unit: u32,
    pub(super) unit: i32,
}

impl<'a> EnvoyRequest<'a> {
    pub(super) fn new(domain: &'a str, hits_addend: u32) -> EnvoyRequest<'a> {
        EnvoyRequest { domain, hits_addend, ..EnvoyRequest::default() }
    }

    /// Whether it returns hits, which is a change of counters and no decision.
    pub(super) fn has_refunds(&self) -> bool {
        self.descriptors.iter().any(|descriptor| descriptor.negative)
    }

    /// Reads a protobuf message.
    pub(super) fn from_protobuf(message: &'a [u8]) -> Result<EnvoyRequest<'a>, GrpcStatus> {
        let mut request = EnvoyRequest::default();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, FieldValue::Bytes(text)) => request.domain = utf8(text)?,
                (2, FieldValue::Bytes(descriptor)) => request.read_descriptor(descriptor)?,
                (3, FieldValue::Number(number)) => request.hits_addend = number as u32,
                (1..=3, _) => return Err(unreadable("RateLimitRequest")),
                _ => {}
            }
            Ok(())
        })?;
        Ok(request)
    }

    fn read_descriptor(&mut self, message: &'a [u8]) -> Result<(), GrpcStatus> {
        let mut descriptor = EnvoyDescriptor::default();
        let before = self.entries.len();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, FieldValue::Bytes(entry)) => self.add_entry(read_entry(entry)?)?,
                (2, FieldValue::Bytes(limit)) => descriptor.read_limit(limit)?,
                (3, FieldValue::Bytes(wrapped)) => descriptor.read_hits(wrapped)?,
                (4, FieldValue::Number(flag)) => descriptor.negative = flag != 0,
                (1..=4, _) => return Err(unreadable("RateLimitDescriptor")),
                _ => {}
            }
            Ok(())
        })?;
        descriptor.entries = self.entries.len() - before;
        self.add_descriptor(descriptor)
    }

    /// Adds an entry, which belongs to the next descriptor that is added.
    fn add_entry(&mut self, entry: (&'a str, &'a str)) -> Result<(), GrpcStatus> {
        if self.entries.len() == MAX_ENTRIES {
            return Err(too_many());
        }
        self.entries.push(entry);
        Ok(())
    }

    fn add_descriptor(&mut self, descriptor: EnvoyDescriptor) -> Result<(), GrpcStatus> {
        if self.descriptors.len() == MAX_DESCRIPTORS {
            return Err(too_many());
        }
        self.descriptors.push(descriptor);
        Ok(())
    }

    /// Adds a descriptor with its entries.
    pub(super) fn add(
        &mut self,
        descriptor: EnvoyDescriptor,
        entries: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), GrpcStatus> {
        let before = self.entries.len();
        for entry in entries {
            self.add_entry(entry)?;
        }
        self.add_descriptor(EnvoyDescriptor { entries: self.entries.len() - before, ..descriptor })
    }

    /// Returns the descriptors, each with its entries.
    pub(super) fn descriptors(
        &self,
    ) -> impl Iterator<Item = (&EnvoyDescriptor, &[(&'a str, &'a str)])> {
        let mut rest = &self.entries[..];
        self.descriptors.iter().map(move |descriptor| {
            let (entries, others) = rest.split_at(descriptor.entries);
            rest = others;
            (descriptor, entries)
        })
    }
}

impl EnvoyDescriptor {
    pub(super) fn new(
        hits: Option<u64>,
        negative: bool,
        limit: Option<OverrideFields>,
    ) -> EnvoyDescriptor {
        EnvoyDescriptor { entries: 0, hits, negative, limit }
    }

    fn read_limit(&mut self, message: &[u8]) -> Result<(), GrpcStatus> {
        let limit = self.limit.get_or_insert_default();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, FieldValue::Number(number)) => limit.requests_per_unit = number as u32,
                (2, FieldValue::Number(number)) => limit.unit = number as i32,
                (1..=2, _) => return Err(unreadable("RateLimitOverride")),
                _ => {}
            }
            Ok(())
        })
    }

    /// Reads a `UInt64Value`.
    fn read_hits(&mut self, message: &[u8]) -> Result<(), GrpcStatus> {
        let hits = self.hits.get_or_insert_default();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, FieldValue::Number(number)) => *hits = number,
                (1, _) => return Err(unreadable("UInt64Value")),
                _ => {}
            }
            Ok(())
        })
    }
}

fn read_entry(message: &[u8]) -> Result<(&str, &str), GrpcStatus> {
    let (mut key, mut value) = ("", "");
    for_each_field(message, |tag, field| {
        match (tag, field) {
            (1, FieldValue::Bytes(text)) => key = utf8(text)?,
            (2, FieldValue::Bytes(text)) => value = utf8(text)?,
            (1..=2, _) => return Err(unreadable("Entry")),
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// The value of a protobuf field.
enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A value of a wire type that no known field has.
    Other,
}

/// Calls `each` for every field of a message.
fn for_each_field<'a>(
    mut message: &'a [u8],
    mut each: impl FnMut(u32, FieldValue<'a>) -> Result<(), GrpcStatus>,
) -> Result<(), GrpcStatus> {
    let invalid = |error: DecodeError| unreadable(&error.to_string());
    while !message.is_empty() {
        let (tag, kind) = decode_key(&mut message).map_err(invalid)?;
        let value = match kind {
            WireType::Varint => FieldValue::Number(decode_varint(&mut message).map_err(invalid)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut message).map_err(invalid)?;
                let split =
                    usize::try_from(length).ok().and_then(|at| message.split_at_checked(at));
                let (value, rest) = split.ok_or_else(|| unreadable("a field is cut off"))?;
                message = rest;
                FieldValue::Bytes(value)
            }
            kind => {
                skip_field(kind, tag, &mut message, DecodeContext::default()).map_err(invalid)?;
                FieldValue::Other
            }
        };
        each(tag, value)?;
    }
    Ok(())
}

fn utf8(text: &[u8]) -> Result<&str, GrpcStatus> {
    std::str::from_utf8(text).map_err(|_| unreadable("a text is not UTF-8"))
}

fn unreadable(what: &str) -> GrpcStatus {
    GrpcStatus::new(Code::InvalidArgument, format!("the message cannot be read: {what}"))
}

fn too_many() -> GrpcStatus {
    let message =
        format!("at most {MAX_DESCRIPTORS} descriptors with {MAX_ENTRIES} entries are read");
    GrpcStatus::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::fuzz_target::generated;
    use super::*;
    use crate::doors::grpc::proto::envoy::extensions::common::ratelimit::v3 as common;
    use crate::doors::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;
    use common::RateLimitDescriptor;
    use common::rate_limit_descriptor::{Entry, RateLimitOverride};

    /// Returns a message that uses every field.
    fn message() -> Vec<u8> {
        let entry = |key: &str, value: &str| Entry { key: key.into(), value: value.into() };
        let descriptor = |entries, limit, hits_addend, is_negative_hits| RateLimitDescriptor {
            entries,
            limit,
            hits_addend,
            is_negative_hits,
        };
        let limit = |requests_per_unit, unit| Some(RateLimitOverride { requests_per_unit, unit });
        RateLimitRequest {
            domain: "läden".into(),
            descriptors: vec![
                descriptor(vec![entry("a", "b"), entry("", "")], limit(u32::MAX, 7), Some(0), true),
                descriptor(vec![], None, None, false),
                descriptor(vec![entry("c", &"d".repeat(300))], limit(0, 0), Some(u64::MAX), false),
            ],
            hits_addend: u32::MAX,
        }
        .encode_to_vec()
    }

    #[test]
    fn broken_messages_are_read_like_the_generated_code_reads_them() {
        let message = message();
        let mut random = fastrand::Rng::with_seed(1);
        let (mut read, mut refused) = (0, 0);
        for round in 0..20_000 {
            let mut bytes = message.clone();
            for _ in 0..round % 4 {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.extend_from_within(at..),
                }
            }
            let theirs = RateLimitRequest::decode(&bytes[..]).ok();
            let ours = EnvoyRequest::from_protobuf(&bytes).ok().as_ref().map(generated);
            assert_eq!(ours, theirs, "{bytes:?}");
            *(if ours.is_some() { &mut read } else { &mut refused }) += 1;
        }
        assert!(read > 5_000 && refused > 5_000, "{read} {refused}");
    }

    #[test]
    fn descriptors_and_entries_are_bounded() {
        let empty = [0x12, 0].repeat(MAX_DESCRIPTORS + 1);
        assert!(EnvoyRequest::from_protobuf(&empty[2..]).is_ok());
        assert_eq!(EnvoyRequest::from_protobuf(&empty).unwrap_err(), too_many());
        let entries = vec![Entry::default(); MAX_ENTRIES + 1];
        let descriptor = RateLimitDescriptor { entries, ..Default::default() };
        let many = RateLimitRequest { descriptors: vec![descriptor], ..Default::default() };
        assert_eq!(EnvoyRequest::from_protobuf(&many.encode_to_vec()).unwrap_err(), too_many());
    }
}
