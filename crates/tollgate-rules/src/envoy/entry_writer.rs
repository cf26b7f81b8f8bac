//! Writes the entries of descriptors to keys; secrets are hashed.

use super::Descriptor;
use crate::compile::attribute::is_secret_name;
use crate::matching::key::KeyWriter;
use crate::matching::key_hasher::KeyHasher;

impl Descriptor<'_> {
    /// Writes all entries to a key.
    pub(super) fn write_entries(&self, writer: &mut KeyWriter<'_>, hasher: Option<&KeyHasher>) {
        for (key, value) in self.entries {
            writer.text(&[key]);
            write_value(writer, value, hasher.filter(|_| is_secret_name(key)));
        }
    }
}

/// Writes the value of an entry; `hasher` is given if it is a secret.
pub(super) fn write_value(writer: &mut KeyWriter<'_>, value: &str, hasher: Option<&KeyHasher>) {
    let start = writer.next_part();
    writer.text(&[value]);
    if let Some(hasher) = hasher {
        writer.hash_part(start, hasher);
    }
}
