//! The arguments of a command, packed into one buffer.

use redis::{RedisWrite, ToRedisArgs};
use smallvec::SmallVec;

/// A list of command arguments in one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
    ends: SmallVec<[u32; 24]>,
}

impl Arguments {
    /// Appends an argument.
    pub(crate) fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.end();
    }

    /// Appends a number as decimal digits.
    pub(crate) fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.end();
    }

    /// Appends numbers as little-endian doubles, all in one argument.
    pub(crate) fn doubles(&mut self, numbers: &[f64]) {
        self.write(|out| numbers.iter().for_each(|number| out.extend(number.to_le_bytes())));
    }

    /// Appends an argument that `write` writes.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.end();
    }

    /// Extends the last argument.
    pub(crate) fn extend_last(&mut self, more: &[u8]) {
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

impl<A: AsRef<[u8]>> FromIterator<A> for Arguments {
    fn from_iter<I: IntoIterator<Item = A>>(arguments: I) -> Arguments {
        let mut all = Arguments::default();
        arguments.into_iter().for_each(|argument| all.push(argument.as_ref()));
        all
    }
}

impl ToRedisArgs for Arguments {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        self.iter().for_each(|argument| out.write_arg(argument));
    }

    fn num_of_args(&self) -> usize {
        self.len()
    }
}
