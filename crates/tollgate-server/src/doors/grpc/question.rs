//! What Envoy asks, borrowed from the bytes it came in. Nothing is unfolded that is not wanted: a
//! message of a megabyte could hold half a million descriptors.

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use smallvec::SmallVec;
use tonic::Code;

use super::status::Status;

/// So many descriptors may be asked about at once. Envoy sends as many as a route has actions.
pub(super) const MOST_DESCRIPTORS: usize = 1_000;
/// So many entries they may have together.
const MOST_ENTRIES: usize = 10 * MOST_DESCRIPTORS;

/// A `RateLimitRequest`.
#[derive(Debug, Default)]
pub(super) struct Question<'a> {
    pub(super) domain: &'a str,
    pub(super) hits_addend: u32,
    descriptors: SmallVec<[Descriptor; 4]>,
    /// Of all descriptors, one after the other.
    entries: SmallVec<[(&'a str, &'a str); 8]>,
}

/// A `RateLimitDescriptor`, without its entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Descriptor {
    entries: usize,
    pub(super) hits: Option<u64>,
    pub(super) negative: bool,
    pub(super) limit: Option<Limit>,
}

/// A `RateLimitOverride`: how many, and the number of a unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    pub(super) requests_per_unit: u32,
    pub(super) unit: i32,
}

impl<'a> Question<'a> {
    pub(super) fn new(domain: &'a str, hits_addend: u32) -> Question<'a> {
        Question { domain, hits_addend, ..Question::default() }
    }

    /// Reads a message.
    pub(super) fn read(message: &'a [u8]) -> Result<Question<'a>, Status> {
        let mut question = Question::default();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, Value::Bytes(text)) => question.domain = utf8(text)?,
                (2, Value::Bytes(descriptor)) => question.read_descriptor(descriptor)?,
                (3, Value::Number(number)) => question.hits_addend = number as u32,
                (1..=3, _) => return Err(unreadable("RateLimitRequest")),
                _ => {}
            }
            Ok(())
        })?;
        Ok(question)
    }

    fn read_descriptor(&mut self, message: &'a [u8]) -> Result<(), Status> {
        let mut descriptor = Descriptor::default();
        let before = self.entries.len();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, Value::Bytes(entry)) => self.add_entry(read_entry(entry)?)?,
                (2, Value::Bytes(limit)) => descriptor.read_limit(limit)?,
                (3, Value::Bytes(wrapped)) => descriptor.read_hits(wrapped)?,
                (4, Value::Number(flag)) => descriptor.negative = flag != 0,
                (1..=4, _) => return Err(unreadable("RateLimitDescriptor")),
                _ => {}
            }
            Ok(())
        })?;
        descriptor.entries = self.entries.len() - before;
        self.add_descriptor(descriptor)
    }

    /// Adds an entry to the descriptor that is added next.
    fn add_entry(&mut self, entry: (&'a str, &'a str)) -> Result<(), Status> {
        if self.entries.len() == MOST_ENTRIES {
            return Err(too_many());
        }
        self.entries.push(entry);
        Ok(())
    }

    fn add_descriptor(&mut self, descriptor: Descriptor) -> Result<(), Status> {
        if self.descriptors.len() == MOST_DESCRIPTORS {
            return Err(too_many());
        }
        self.descriptors.push(descriptor);
        Ok(())
    }

    /// Adds a descriptor and its entries.
    pub(super) fn add(
        &mut self,
        descriptor: Descriptor,
        entries: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), Status> {
        let before = self.entries.len();
        for entry in entries {
            self.add_entry(entry)?;
        }
        self.add_descriptor(Descriptor { entries: self.entries.len() - before, ..descriptor })
    }

    /// The descriptors, each with its entries.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (&Descriptor, &[(&'a str, &'a str)])> {
        let mut rest = &self.entries[..];
        self.descriptors.iter().map(move |descriptor| {
            let (entries, others) = rest.split_at(descriptor.entries);
            rest = others;
            (descriptor, entries)
        })
    }
}

impl Descriptor {
    pub(super) fn new(hits: Option<u64>, negative: bool, limit: Option<Limit>) -> Descriptor {
        Descriptor { entries: 0, hits, negative, limit }
    }

    fn read_limit(&mut self, message: &[u8]) -> Result<(), Status> {
        let limit = self.limit.get_or_insert_default();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, Value::Number(number)) => limit.requests_per_unit = number as u32,
                (2, Value::Number(number)) => limit.unit = number as i32,
                (1..=2, _) => return Err(unreadable("RateLimitOverride")),
                _ => {}
            }
            Ok(())
        })
    }

    /// A `UInt64Value`.
    fn read_hits(&mut self, message: &[u8]) -> Result<(), Status> {
        let hits = self.hits.get_or_insert_default();
        for_each_field(message, |tag, value| {
            match (tag, value) {
                (1, Value::Number(number)) => *hits = number,
                (1, _) => return Err(unreadable("UInt64Value")),
                _ => {}
            }
            Ok(())
        })
    }
}

fn read_entry(message: &[u8]) -> Result<(&str, &str), Status> {
    let (mut key, mut value) = ("", "");
    for_each_field(message, |tag, field| {
        match (tag, field) {
            (1, Value::Bytes(text)) => key = utf8(text)?,
            (2, Value::Bytes(text)) => value = utf8(text)?,
            (1..=2, _) => return Err(unreadable("Entry")),
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Walks through the fields of a message. What is of a kind that no message here has is skipped.
fn for_each_field<'a>(
    mut message: &'a [u8],
    mut each: impl FnMut(u32, Value<'a>) -> Result<(), Status>,
) -> Result<(), Status> {
    let wrong = |error: DecodeError| unreadable(&error.to_string());
    while !message.is_empty() {
        let (tag, kind) = decode_key(&mut message).map_err(wrong)?;
        let value = match kind {
            WireType::Varint => Value::Number(decode_varint(&mut message).map_err(wrong)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut message).map_err(wrong)?;
                let split =
                    usize::try_from(length).ok().and_then(|at| message.split_at_checked(at));
                let (value, rest) = split.ok_or_else(|| unreadable("a field is cut off"))?;
                message = rest;
                Value::Bytes(value)
            }
            kind => {
                skip_field(kind, tag, &mut message, DecodeContext::default()).map_err(wrong)?;
                continue;
            }
        };
        each(tag, value)?;
    }
    Ok(())
}

fn utf8(text: &[u8]) -> Result<&str, Status> {
    std::str::from_utf8(text).map_err(|_| unreadable("a text is not UTF-8"))
}

fn unreadable(what: &str) -> Status {
    Status::new(Code::InvalidArgument, format!("the message cannot be read: {what}"))
}

fn too_many() -> Status {
    let message =
        format!("at most {MOST_DESCRIPTORS} descriptors with {MOST_ENTRIES} entries are read");
    Status::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::doors::grpc::proto::envoy::extensions::common::ratelimit::v3 as common;
    use crate::doors::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;
    use common::RateLimitDescriptor;
    use common::rate_limit_descriptor::{Entry, RateLimitOverride};

    /// The same, as the generated code has it.
    fn generated(question: &Question<'_>) -> RateLimitRequest {
        let entry =
            |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
        let descriptors = question.descriptors().map(|(descriptor, entries)| RateLimitDescriptor {
            entries: entries.iter().map(entry).collect(),
            limit: descriptor.limit.map(|Limit { requests_per_unit, unit }| RateLimitOverride {
                requests_per_unit,
                unit,
            }),
            hits_addend: descriptor.hits,
            is_negative_hits: descriptor.negative,
        });
        RateLimitRequest {
            domain: question.domain.into(),
            descriptors: descriptors.collect(),
            hits_addend: question.hits_addend,
        }
    }

    /// A message with a bit of everything.
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
    fn it_is_read_as_the_generated_code_reads_it_however_it_is_broken() {
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
            let ours = Question::read(&bytes).ok().as_ref().map(generated);
            assert_eq!(ours, theirs, "{bytes:?}");
            *(if ours.is_some() { &mut read } else { &mut refused }) += 1;
        }
        assert!(read > 5_000 && refused > 5_000, "{read} {refused}");
    }

    #[test]
    fn there_is_an_end_to_descriptors_and_entries() {
        let empty = [0x12, 0].repeat(MOST_DESCRIPTORS + 1);
        assert!(Question::read(&empty[2..]).is_ok());
        assert_eq!(Question::read(&empty).unwrap_err(), too_many());
        let entries = vec![Entry::default(); MOST_ENTRIES + 1];
        let descriptor = RateLimitDescriptor { entries, ..Default::default() };
        let many = RateLimitRequest { descriptors: vec![descriptor], ..Default::default() };
        assert_eq!(Question::read(&many.encode_to_vec()).unwrap_err(), too_many());
    }
}
