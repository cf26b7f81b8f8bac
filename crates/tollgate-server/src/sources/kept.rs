//! The last good copy of what a URL served, on the disk: for a start while the service is down.
//!
//! The first line has a digest of all the rest. A copy that does not agree with it is put aside,
//! never used and never overwritten by accident.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::url::Content;
use crate::{digest, disk};

const MAGIC: &str = "tollgate-rules-copy 1 ";

/// Where the copy of one URL is.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    etag: Option<String>,
    is_bundle: bool,
}

impl Kept {
    /// The copy of what `url` serves, in a folder that is made if need be.
    pub(super) fn new(folder: &Path, url: &str) -> io::Result<Kept> {
        disk::private_folder(folder)?;
        let name = format!("rules-{}.copy", digest::short(&digest::of(url.as_bytes())));
        let kept = Kept { path: folder.join(name) };
        disk::sweep(&kept.path);
        Ok(kept)
    }

    pub(super) fn write(&self, content: &Content) -> io::Result<()> {
        let head = Head { etag: content.etag.clone(), is_bundle: content.is_bundle };
        let mut rest = serde_json::to_vec(&head)?;
        rest.push(b'\n');
        rest.extend_from_slice(&content.body);
        let mut whole = format!("{MAGIC}{}\n", digest::of(&rest)).into_bytes();
        whole.append(&mut rest);
        disk::write_private(&self.path, &whole)
    }

    /// The copy, if there is one. One that is damaged is put aside, and the error says where.
    pub(super) fn read(&self) -> Result<Option<Content>, String> {
        let path = self.path.display();
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{path}: {error}")),
        };
        match parse(bytes.into()) {
            Some(content) => Ok(Some(content)),
            None => Err(self.put_aside("is damaged")),
        }
    }

    /// Moves the copy out of the way; says what was done.
    pub(super) fn put_aside(&self, why: &str) -> String {
        let aside = self.path.with_extension("damaged");
        let path = self.path.display();
        match fs::rename(&self.path, &aside) {
            Ok(()) => format!("{path} {why}; moved to {}", aside.display()),
            Err(error) => format!("{path} {why}, and cannot be moved: {error}"),
        }
    }
}

fn parse(bytes: Bytes) -> Option<Content> {
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n');
    let end = line(&bytes)?;
    let expected = bytes[..end].strip_prefix(MAGIC.as_bytes())?;
    let rest = bytes.slice(end + 1..);
    if digest::of(&rest).as_bytes() != expected {
        return None;
    }
    let end = line(&rest)?;
    let head: Head = serde_json::from_slice(&rest[..end]).ok()?;
    Some(Content { etag: head.etag, is_bundle: head.is_bundle, body: rest.slice(end + 1..) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://127.0.0.1:1/v1/rules/bundle";

    fn content() -> Content {
        let body = Bytes::from_static(b"rules: [{ name: all, limit: 10/s }]\n");
        Content { etag: Some("\"7-abc\"".into()), is_bundle: false, body }
    }

    #[test]
    fn what_was_kept_comes_back_for_its_url_only() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/when/needed");
        let kept = Kept::new(&folder, URL).unwrap();
        assert_eq!(kept.read(), Ok(None));
        kept.write(&content()).unwrap();
        assert_eq!(Kept::new(&folder, URL).unwrap().read(), Ok(Some(content())));
        assert_eq!(Kept::new(&folder, "http://127.0.0.1:2/").unwrap().read(), Ok(None));
    }

    /// Every byte matters: flipped or cut off, the copy is put aside.
    #[test]
    fn a_damaged_copy_is_never_used() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path(), URL).unwrap();
        kept.write(&content()).unwrap();
        let whole = fs::read(&kept.path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for damaged in [&flipped[..], &whole[..at]] {
                fs::write(&kept.path, damaged).unwrap();
                let error = kept.read().unwrap_err();
                assert!(error.contains("is damaged; moved to"), "{at}: {error}");
                assert_eq!(fs::read(kept.path.with_extension("damaged")).unwrap(), damaged);
                assert_eq!(kept.read(), Ok(None));
            }
        }
    }
}
