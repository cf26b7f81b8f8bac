//! A bundle: everything a limiter needs to decide, as one value that is fetched, kept and
//! installed whole.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollgate::rules::{Data, DataError, Diagnostics, Rules, Source};

use crate::digest;

/// What a bundle is served as; anything else at a URL is taken for one rules file.
pub const MEDIA_TYPE: &str = "application/vnd.tollgate.rules+json";

/// The form this release writes and reads.
const FORMAT: u32 = 1;

/// Rules files, and the overrides and lists that are data beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    format: u32,
    /// Counts the changes of the service it comes from; 0 if it does not come from one.
    pub revision: u64,
    /// The files, by name.
    pub files: Vec<RulesFile>,
    /// What changes without a file.
    pub data: Data,
}

/// One rules file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesFile {
    /// What findings call it.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// A bundle as it is sent, with the version it is known by.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Bytes,
    /// The revision and a digest of the content.
    pub(crate) version: String,
}

/// Why a bundle cannot be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BundleError {
    /// A file is wrong, or the files do not go together.
    Files(Diagnostics),
    /// An override or a list does not fit the files.
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
    /// Files and data under a revision.
    pub fn new(revision: u64, files: Vec<RulesFile>, data: Data) -> Bundle {
        Bundle { format: FORMAT, revision, files, data }
    }

    /// Texts alone, as they come from a file or a folder.
    pub(crate) fn of_sources(sources: Vec<Source>) -> Bundle {
        let file = |source: Source| RulesFile { name: source.name, text: source.text };
        Bundle::new(0, sources.into_iter().map(file).collect(), Data::default())
    }

    /// Reads what a rules service sent.
    ///
    /// ```
    /// use tollgate_server::bundle::Bundle;
    /// let newer = br#"{"format":9,"revision":1,"files":[],"data":{}}"#;
    /// assert!(Bundle::decode(newer).unwrap_err().contains("newer tollgate"));
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Bundle, String> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        // Another form may have other fields: look at the number first.
        let not_one = |error| format!("not a bundle of rules: {error}");
        let head: Head = serde_json::from_slice(bytes).map_err(not_one)?;
        if head.format != FORMAT {
            let format = head.format;
            return Err(format!("a bundle of form {format}, made for a newer tollgate"));
        }
        serde_json::from_slice(bytes).map_err(not_one)
    }

    pub(crate) fn encode(&self) -> serde_json::Result<Encoded> {
        let bytes = Bytes::from(serde_json::to_vec(self)?);
        let digest = digest::of(&bytes);
        let version = format!("{}-{}", self.revision, digest::short(&digest));
        Ok(Encoded { bytes, version })
    }

    /// Tells texts apart, whatever the data.
    pub(crate) fn digest_of_files(&self) -> String {
        let parts = self.files.iter().flat_map(|file| [file.name.as_bytes(), file.text.as_bytes()]);
        digest::of_parts(parts)
    }

    /// Reads the files alone.
    pub(crate) fn read_files(&self) -> Result<Rules, Diagnostics> {
        Rules::read(self.files.iter().map(|file| Source::new(&file.name, &file.text)))
    }

    /// Checks everything and makes it ready to decide with.
    pub fn rules(&self) -> Result<Rules, BundleError> {
        self.with_data(&self.read_files()?)
    }

    /// The same on files that were read before.
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
    fn what_is_sent_is_what_arrives() {
        let sent = bundle().encode().unwrap();
        assert!(sent.version.starts_with("7-"), "{}", sent.version);
        assert_eq!(Bundle::decode(&sent.bytes), Ok(bundle()));
        assert!(Bundle::decode(b"rules: []").is_err());
    }

    #[test]
    fn a_version_stands_for_the_content() {
        let mut other = bundle();
        assert_eq!(other.encode().unwrap().version, bundle().encode().unwrap().version);
        other.files[0].text.push_str("# more\n");
        assert_ne!(other.encode().unwrap().version, bundle().encode().unwrap().version);
        assert_ne!(other.digest_of_files(), bundle().digest_of_files());
    }
}
