//! SHA-256 digests in hexadecimal, used to compare texts and to verify copies.

use sha2::{Digest, Sha256};

/// Returns the digest of a sequence of parts; the boundaries between parts count.
pub(crate) fn sha256_of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// Returns the digest of bytes, as `sha256sum` prints it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the first 64 bits of a digest, which are enough to name a version.
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
    fn the_digest_equals_the_published_test_vector() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        assert_eq!(short(abc), "ba7816bf8f01cfea");
    }

    #[test]
    fn the_boundaries_of_parts_change_the_digest() {
        assert_ne!(sha256_of_parts([&b"ab"[..], b"c"]), sha256_of_parts([&b"a"[..], b"bc"]));
    }
}
