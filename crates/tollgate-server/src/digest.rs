//! SHA-256, in hexadecimal: to tell whether two texts are the same, and whether a copy is whole.

use sha2::{Digest, Sha256};

/// The digest of these parts; the same bytes cut differently are another digest.
pub(crate) fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// The digest of some bytes, as other tools compute it.
pub(crate) fn of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Enough of a digest to name a version: 64 bits.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_digest_everybody_knows() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(b"abc"), abc);
        assert_eq!(short(abc), "ba7816bf8f01cfea");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(of_parts([&b"ab"[..], b"c"]), of_parts([&b"a"[..], b"bc"]));
    }
}
