//! The buffer of received bytes that are not processed yet.

/// The initial size of the buffer.
const INITIAL_BYTES: usize = 512;

/// A buffer of received bytes that grows with demand.
#[derive(Debug, Default)]
pub(super) struct ReadBuffer {
    /// The storage, always at its full length; bytes outside `from..to` have no meaning.
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Whether the last read filled the buffer.
    full: bool,
}

impl ReadBuffer {
    /// Returns the free part of the buffer, which may grow up to `max_bytes` in total.
    pub(super) fn unfilled(&mut self, max_bytes: usize) -> &mut [u8] {
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.full || self.to == self.bytes.len() {
            let more = (2 * self.bytes.len()).max(INITIAL_BYTES).min(max_bytes);
            self.bytes.resize(more.max(self.bytes.len()), 0);
        }
        &mut self.bytes[self.to..]
    }

    /// Records that `count` bytes were read into the free part.
    pub(super) fn advance(&mut self, count: usize) {
        self.to += count;
        self.full = self.to == self.bytes.len();
    }

    /// Returns the received bytes.
    pub(super) fn received(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.to]
    }

    /// Removes `count` processed bytes from the front.
    pub(super) fn consume(&mut self, count: usize) {
        self.from += count;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Returns whether the start of an incomplete command is in the buffer.
    pub(super) fn is_partial(&self) -> bool {
        self.from < self.to
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Frees the memory that is not in use.
    pub(super) fn shrink(&mut self) {
        self.bytes.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        self.bytes.truncate(self.to);
        self.full = false;
        self.bytes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 64 << 10;

    #[test]
    fn the_buffer_grows_with_its_content_up_to_the_maximum() {
        let mut input = ReadBuffer::default();
        let mut received = 0;
        while received < LARGE {
            let space = input.unfilled(LARGE).len();
            assert!(space > 0 && space <= received.max(INITIAL_BYTES), "{space}");
            input.advance(space);
            received += space;
        }
        assert!(input.unfilled(LARGE).is_empty());
        input.consume(LARGE - 3);
        assert_eq!(input.received().len(), 3);
        assert!(input.is_partial());
        input.shrink();
        assert_eq!(input.capacity(), 3);
        assert_eq!(input.unfilled(LARGE).len(), INITIAL_BYTES - 3);
    }
}
