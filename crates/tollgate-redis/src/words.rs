//! The arguments of a command, packed into one buffer.

use redis::{RedisWrite, ToRedisArgs};
use smallvec::SmallVec;

/// A list of words, as Redis takes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    ends: SmallVec<[u32; 24]>,
}

impl Words {
    /// Adds a word.
    pub(crate) fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.end();
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.end();
    }

    /// Adds numbers as Lua has them, in one word.
    pub(crate) fn doubles(&mut self, numbers: &[f64]) {
        self.write(|out| numbers.iter().for_each(|number| out.extend(number.to_le_bytes())));
    }

    /// Adds a word that `write` writes.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.end();
    }

    /// Adds to the last word.
    pub(crate) fn extend(&mut self, more: &[u8]) {
        self.ends.pop();
        self.bytes.extend_from_slice(more);
        self.end();
    }

    fn end(&mut self) {
        self.ends.push(u32::try_from(self.bytes.len()).expect("keys and states are bounded"));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start as usize..*end as usize])
    }
}

impl ToRedisArgs for Words {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        self.iter().for_each(|word| out.write_arg(word));
    }

    fn num_of_args(&self) -> usize {
        self.len()
    }
}
