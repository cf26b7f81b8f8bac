//! Rule bundles: everything a limiter needs to decide, fetched, saved and activated as one value.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollgate_rules::{Data, DataError, Diagnostics, Rules, Source};

use crate::digest;

/// The media type of a bundle. A URL that serves any other type is read as one rules file.
pub const MEDIA_TYPE: &str = "application/vnd.tollgate.rules+json";

/// The format version that this release reads and writes.
const FORMAT: u32 = 1;

/// Rules files together with their data: overrides, lists, bans and modes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    format: u32,
    /// The number of changes made in the originating service; 0 without a service.
    pub revision: u64,
    /// The rules files, sorted by name.
    pub files: Vec<RulesFile>,
    /// The data that changes without editing a file.
    pub data: Data,
}

/// One rules file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesFile {
    /// The name of the file in diagnostics.
    pub name: String,
    /// The YAML text.
    pub text: String,
}

/// The bytes of a bundle as sent to limiters, with its version.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBundle {
    pub(crate) bytes: Bytes,
    /// The revision, followed by a digest of the content.
    pub(crate) version: String,
}

/// The reason why a bundle cannot be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BundleError {
    /// A file is invalid, or the files contradict each other.
    Files(Diagnostics),
    /// An override, a list, a ban or a mode does not match the files.
    Data(DataError),
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BundleError::Files(found) => found.fmt(f),
            BundleError::Data(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BundleError {}

impl From<Diagnostics> for BundleError {
    fn from(found: Diagnostics) -> BundleError {
        BundleError::Files(found)
    }
}

impl From<DataError> for BundleError {
    fn from(error: DataError) -> BundleError {
        BundleError::Data(error)
    }
}

impl Bundle {
    /// Creates a bundle from files and data.
    pub fn new(revision: u64, files: Vec<RulesFile>, data: Data) -> Bundle {
        Bundle { format: FORMAT, revision, files, data }
    }

    /// Creates a bundle without data from the texts of a file or a folder.
    pub(crate) fn from_sources(sources: Vec<Source>) -> Bundle {
        let file = |source: Source| RulesFile { name: source.name, text: source.text };
        Bundle::new(0, sources.into_iter().map(file).collect(), Data::default())
    }

    /// Parses the bytes that a rules service sent.
    ///
    /// ```
    /// use tollgate_server::bundle::Bundle;
    /// let newer = br#"{"format":9,"revision":1,"files":[],"data":{}}"#;
    /// assert!(Bundle::decode(newer).unwrap_err().contains("newer tollgate"));
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Bundle, String> {
        #[derive(Deserialize)]
        struct FormatHeader {
            format: u32,
        }
        // Another format may have other fields, so that its number is read first.
        let invalid = |error| format!("not a rule bundle: {error}");
        let header: FormatHeader = serde_json::from_slice(bytes).map_err(invalid)?;
        if header.format != FORMAT {
            let format = header.format;
            return Err(format!("the bundle has format {format}; it needs a newer tollgate"));
        }
        serde_json::from_slice(bytes).map_err(invalid)
    }

    pub(crate) fn encode(&self) -> serde_json::Result<EncodedBundle> {
        let bytes = Bytes::from(serde_json::to_vec(self)?);
        let digest = digest::sha256(&bytes);
        let version = format!("{}-{}", self.revision, digest::short(&digest));
        Ok(EncodedBundle { bytes, version })
    }

    /// Returns a digest of the files, without the data.
    pub(crate) fn files_digest(&self) -> String {
        let parts = self.files.iter().flat_map(|file| [file.name.as_bytes(), file.text.as_bytes()]);
        digest::sha256_of_parts(parts)
    }

    /// Parses the files without the data.
    pub(crate) fn read_files(&self) -> Result<Rules, Diagnostics> {
        Rules::read(self.files.iter().map(|file| Source::new(&file.name, &file.text)))
    }

    /// Parses the files, applies the data and returns the compiled rules.
    pub fn rules(&self) -> Result<Rules, BundleError> {
        self.with_data(&self.read_files()?)
    }

    /// Applies the data to files that were parsed before.
    pub(crate) fn with_data(&self, files: &Rules) -> Result<Rules, BundleError> {
        Ok(files.with_data(&self.data)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        let text = "domain: shop\nrules: [{ name: all, limit: 10/s }]\n".to_owned();
        Bundle::new(7, vec![RulesFile { name: "shop".into(), text }], Data::default())
    }

    #[test]
    fn a_decoded_bundle_equals_the_encoded_one() {
        let sent = bundle().encode().unwrap();
        assert!(sent.version.starts_with("7-"), "{}", sent.version);
        assert_eq!(Bundle::decode(&sent.bytes), Ok(bundle()));
        assert!(Bundle::decode(b"rules: []").is_err());
    }

    #[test]
    fn the_version_depends_on_the_content() {
        let mut other = bundle();
        assert_eq!(other.encode().unwrap().version, bundle().encode().unwrap().version);
        other.files[0].text.push_str("# more\n");
        assert_ne!(other.encode().unwrap().version, bundle().encode().unwrap().version);
        assert_ne!(other.files_digest(), bundle().files_digest());
    }
}
