//! Public keys in PEM (`-----BEGIN PUBLIC KEY-----`).

use memchr::memmem;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::verification_key::{KeyMaterial, MAX_KEYS, VerificationKey};

/// What precedes the point of a P-256 key in its DER: lengths, `id-ecPublicKey`, `prime256v1`.
const P256_PREFIX: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
/// What precedes the point of a P-384 key: lengths, `id-ecPublicKey`, `secp384r1`.
const P384_PREFIX: &[u8] =
    b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00";
/// What precedes an Ed25519 key: lengths, `id-Ed25519`.
const ED25519_PREFIX: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// The algorithm of an RSA key, which follows the first length: `rsaEncryption`, no parameters.
const RSA_ALGORITHM: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// Reads the public keys in a text.
pub(super) fn read_pem(text: &[u8]) -> Result<Vec<VerificationKey>, String> {
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(text).take(MAX_KEYS) {
        let key = key.map_err(|error| format!("a public key is not valid PEM: {error}"))?;
        let material = material(&key)
            .ok_or("a public key is of another kind than RSA, P-256, P-384 or Ed25519")?;
        keys.push(VerificationKey { id: None, algorithm: None, material });
    }
    // The parser passes over what does not begin on a line of its own.
    let begun = memmem::find_iter(text, b"-----BEGIN PUBLIC KEY-----").count();
    if begun > keys.len() {
        return Err(format!(
            "of {begun} public keys, {} can be read: each begins and ends on a line of its own, and \
             {MAX_KEYS} are allowed",
            keys.len()
        ));
    }
    match keys.is_empty() {
        true => Err("there is no `-----BEGIN PUBLIC KEY-----` and no JSON Web Key Set; \
                     `openssl x509 -pubkey -noout` prints the key of a certificate, and \
                     `openssl pkey -pubout` that of a private key"
            .to_owned()),
        false => Ok(keys),
    }
}

fn material(der: &[u8]) -> Option<KeyMaterial> {
    let after = |prefix: &[u8], length: usize| {
        der.strip_prefix(prefix).filter(|key| key.len() == length).map(<[u8]>::to_vec)
    };
    if let Some(point) = after(P256_PREFIX, 65) {
        return Some(KeyMaterial::P256(point));
    }
    if let Some(point) = after(P384_PREFIX, 97) {
        return Some(KeyMaterial::P384(point));
    }
    if let Some(key) = after(ED25519_PREFIX, 32) {
        return Some(KeyMaterial::Ed25519(key));
    }
    let bits = element(0x30, der)?.strip_prefix(RSA_ALGORITHM)?;
    let key = element(0x03, bits)?.strip_prefix(&[0])?;
    Some(KeyMaterial::RsaDer(key.to_vec()))
}

/// Returns the content of the DER element that is all of the given bytes.
fn element(tag: u8, der: &[u8]) -> Option<&[u8]> {
    let (&first, rest) = der.strip_prefix(&[tag])?.split_first()?;
    let (length, content) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    (content.len() == length).then_some(content)
}
