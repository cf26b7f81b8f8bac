//! What a connection has received and not yet answered.

/// A connection that says little needs little.
const SMALL: usize = 512;

/// Bytes received, and room for more.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Has its full length at all times; what is not yet received is of no meaning.
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Whether more came than there was room for.
    full: bool,
}

impl Input {
    /// Where more may be put, at most `most` altogether. It grows with what comes.
    pub(super) fn room(&mut self, most: usize) -> &mut [u8] {
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.full || self.to == self.bytes.len() {
            let more = (2 * self.bytes.len()).max(SMALL).min(most);
            self.bytes.resize(more.max(self.bytes.len()), 0);
        }
        &mut self.bytes[self.to..]
    }

    /// So many bytes were put there.
    pub(super) fn add(&mut self, count: usize) {
        self.to += count;
        self.full = self.to == self.bytes.len();
    }

    /// What is there.
    pub(super) fn received(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.to]
    }

    /// So many bytes are done with.
    pub(super) fn consume(&mut self, count: usize) {
        self.from += count;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Whether a command has begun and not ended.
    pub(super) fn is_partial(&self) -> bool {
        self.from < self.to
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Gives back what is not needed.
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
    fn room_grows_with_what_comes_and_no_further() {
        let mut input = Input::default();
        let mut received = 0;
        while received < LARGE {
            let room = input.room(LARGE).len();
            assert!(room > 0 && room <= received.max(SMALL), "{room}");
            input.add(room);
            received += room;
        }
        assert!(input.room(LARGE).is_empty());
        input.consume(LARGE - 3);
        assert_eq!(input.received().len(), 3);
        assert!(input.is_partial());
        input.shrink();
        assert_eq!(input.capacity(), 3);
        assert_eq!(input.room(LARGE).len(), SMALL - 3);
    }
}
