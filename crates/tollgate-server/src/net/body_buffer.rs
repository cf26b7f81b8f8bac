//! A request body that is collected in memory, within the budget and without overhead.

use std::ops::Deref;

use bytes::Bytes;

use super::body_budget::{BodyMemory, BodyMemoryError, BodyReservation};

/// The least memory that is allocated for a body, in bytes.
const FIRST_CAPACITY: usize = 1 << 10;

/// A request body that is being collected.
///
/// The parts of a body are copied into one allocation, which is what its reservation counts. Keeping the parts
/// would cost a client that sends single bytes nothing, and the server a hundred times as much.
#[derive(Debug)]
pub(crate) struct BodyBuffer {
    bytes: Vec<u8>,
    reservation: BodyReservation,
    max_bytes: usize,
}

/// The reason why a part of a body is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyBufferError {
    /// The body is longer than its maximum.
    TooLarge,
    /// The client has no memory left.
    NoMemory,
}

impl From<BodyMemoryError> for BodyBufferError {
    fn from(_: BodyMemoryError) -> BodyBufferError {
        BodyBufferError::NoMemory
    }
}

impl BodyBuffer {
    pub(crate) fn new(memory: &BodyMemory, max_bytes: usize) -> BodyBuffer {
        BodyBuffer { bytes: Vec::new(), reservation: memory.reserve(), max_bytes }
    }

    /// Adds a part of the body.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<(), BodyBufferError> {
        let length = self.bytes.len() + part.len();
        if length > self.max_bytes {
            return Err(BodyBufferError::TooLarge);
        }
        if length > self.bytes.capacity() {
            let doubled = (self.bytes.capacity() * 2).max(FIRST_CAPACITY);
            let capacity = doubled.min(self.max_bytes).max(length);
            self.reservation.grow_to(capacity)?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Returns the bytes so far.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the collected body.
    pub(crate) fn finish(self) -> BufferedBody {
        BufferedBody { bytes: self.bytes.into(), reservation: Some(self.reservation) }
    }
}

/// A complete request body, whose memory is reserved until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct BufferedBody {
    bytes: Bytes,
    /// The memory of the body; `None` if it came in one piece with its head.
    reservation: Option<BodyReservation>,
}

impl BufferedBody {
    /// Creates a body that came in one piece, and reserves its memory.
    pub(crate) fn reserved(
        bytes: Bytes,
        memory: &BodyMemory,
    ) -> Result<BufferedBody, BodyMemoryError> {
        let mut reservation = memory.reserve();
        reservation.grow_to(bytes.len())?;
        Ok(BufferedBody { bytes, reservation: Some(reservation) })
    }

    /// Returns the bytes and their reservation.
    pub(crate) fn into_parts(self) -> (Bytes, Option<BodyReservation>) {
        (self.bytes, self.reservation)
    }
}

impl From<Bytes> for BufferedBody {
    fn from(bytes: Bytes) -> BufferedBody {
        BufferedBody { bytes, reservation: None }
    }
}

impl Deref for BufferedBody {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Bounds;
    use crate::net::BodyBudget;

    #[test]
    fn memory_is_reserved_as_it_is_needed() {
        let budget = BodyBudget::new(&Bounds::default(), 0);
        let memory = BodyMemory::new(&budget, None);
        let mut buffer = BodyBuffer::new(&memory, 100_000);
        assert_eq!(budget.used(), 0);
        for _ in 0..100_000 {
            buffer.push(b"x").unwrap();
            assert!(buffer.bytes.capacity() <= budget.used(), "all of it is counted");
            assert!(budget.used() <= (2 * buffer.as_slice().len()).max(FIRST_CAPACITY));
        }
        assert_eq!(buffer.push(b"x"), Err(BodyBufferError::TooLarge));
        let body = buffer.finish();
        assert_eq!((body.len(), budget.used()), (100_000, 100_000));
        drop(body);
        assert_eq!(budget.used(), 0);
    }
}
