//! The saved copy of the last valid response of a URL, for a start while the service is down.
//!
//! The first line of the file is a digest of the rest. A copy that does not match its digest is
//! moved away, so that it is neither used nor overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::url::RemoteContent;
use crate::{digest, disk};

const MAGIC: &str = "tollgate-rules-copy 1 ";

/// The saved copy of one URL.
#[derive(Clone, Debug)]
pub(super) struct SavedCopy {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct CopyHeader {
    etag: Option<String>,
    is_bundle: bool,
}

impl SavedCopy {
    /// Returns the saved copy of `url` in a folder, which is created if needed.
    pub(super) fn new(folder: &Path, url: &str) -> io::Result<SavedCopy> {
        disk::create_private_folder(folder)?;
        let name = format!("rules-{}.copy", digest::short(&digest::sha256(url.as_bytes())));
        let copy_file = SavedCopy { path: folder.join(name) };
        disk::remove_temporary_files(&copy_file.path);
        Ok(copy_file)
    }

    pub(super) fn write(&self, content: &RemoteContent) -> io::Result<()> {
        let header = CopyHeader { etag: content.etag.clone(), is_bundle: content.is_bundle };
        let mut rest = serde_json::to_vec(&header)?;
        rest.push(b'\n');
        rest.extend_from_slice(&content.body);
        let mut whole = format!("{MAGIC}{}\n", digest::sha256(&rest)).into_bytes();
        whole.append(&mut rest);
        disk::write_private(&self.path, &whole)
    }

    /// Reads the copy, if it exists. A damaged copy is moved away; the error names its new path.
    pub(super) fn read(&self) -> Result<Option<RemoteContent>, String> {
        let path = self.path.display();
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{path}: {error}")),
        };
        match parse(bytes.into()) {
            Some(content) => Ok(Some(content)),
            None => Err(self.quarantine("is damaged")),
        }
    }

    /// Moves the copy away and returns a message about it.
    pub(super) fn quarantine(&self, why: &str) -> String {
        let aside = self.path.with_extension("damaged");
        let path = self.path.display();
        match fs::rename(&self.path, &aside) {
            Ok(()) => format!("{path} {why}; moved to {}", aside.display()),
            Err(error) => format!("{path} {why}, and cannot be moved: {error}"),
        }
    }
}

fn parse(bytes: Bytes) -> Option<RemoteContent> {
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n');
    let end = line(&bytes)?;
    let expected = bytes[..end].strip_prefix(MAGIC.as_bytes())?;
    let rest = bytes.slice(end + 1..);
    if digest::sha256(&rest).as_bytes() != expected {
        return None;
    }
    let end = line(&rest)?;
    let header: CopyHeader = serde_json::from_slice(&rest[..end]).ok()?;
    Some(RemoteContent {
        etag: header.etag,
        is_bundle: header.is_bundle,
        body: rest.slice(end + 1..),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://127.0.0.1:1/v1/rules/bundle";

    fn content() -> RemoteContent {
        let body = Bytes::from_static(b"rules: [{ name: all, limit: 10/s }]\n");
        RemoteContent { etag: Some("\"7-abc\"".into()), is_bundle: false, body }
    }

    #[test]
    fn a_saved_copy_is_read_only_for_its_url() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/when/needed");
        let copy_file = SavedCopy::new(&folder, URL).unwrap();
        assert_eq!(copy_file.read(), Ok(None));
        copy_file.write(&content()).unwrap();
        assert_eq!(SavedCopy::new(&folder, URL).unwrap().read(), Ok(Some(content())));
        assert_eq!(SavedCopy::new(&folder, "http://127.0.0.1:2/").unwrap().read(), Ok(None));
    }

    /// Later versions must read this file.
    #[test]
    fn the_first_format_of_a_copy_is_read() {
        let bytes = include_bytes!("../../../../spec/formats/rules-copy-1");
        assert_eq!(parse(Bytes::from_static(bytes)), Some(content()));
        let folder = tempfile::tempdir().unwrap();
        let copy_file = SavedCopy::new(folder.path(), URL).unwrap();
        copy_file.write(&content()).unwrap();
        assert_eq!(fs::read(&copy_file.path).unwrap(), bytes, "this version writes it too");
    }

    /// Flips every bit position and cuts at every length.
    #[test]
    fn a_damaged_copy_is_never_used() {
        let folder = tempfile::tempdir().unwrap();
        let copy_file = SavedCopy::new(folder.path(), URL).unwrap();
        copy_file.write(&content()).unwrap();
        let whole = fs::read(&copy_file.path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for damaged in [&flipped[..], &whole[..at]] {
                fs::write(&copy_file.path, damaged).unwrap();
                let error = copy_file.read().unwrap_err();
                assert!(error.contains("is damaged; moved to"), "{at}: {error}");
                assert_eq!(fs::read(copy_file.path.with_extension("damaged")).unwrap(), damaged);
                assert_eq!(copy_file.read(), Ok(None));
            }
        }
    }
}
