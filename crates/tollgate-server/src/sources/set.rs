//! The set of rules in force, and what it takes to replace it.

use tollgate::rules::Rules;

use super::SourceError;
use crate::bundle::Bundle;

/// The last bundle that was right.
#[derive(Debug)]
pub(super) struct CurrentSet {
    pub(super) version: String,
    /// Tells whether the files are still the same.
    files_digest: String,
    /// The files as they were read, without the data.
    files: Rules,
}

/// New rules, ready to be installed.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) rules: Rules,
    pub(super) version: String,
}

impl CurrentSet {
    /// Reads a first bundle.
    pub(super) fn first(
        bundle: &Bundle,
        version: String,
    ) -> Result<(CurrentSet, Rules), SourceError> {
        let files = bundle.read_files().map_err(|found| SourceError::Invalid(found.into()))?;
        let rules = bundle.with_data(&files)?;
        let files_digest = bundle.digest_of_files();
        Ok((CurrentSet { version, files_digest, files }, rules))
    }

    /// Reads the next one. Where only data changed, the files are not read again.
    pub(super) fn next(&mut self, bundle: &Bundle, version: String) -> Result<Update, SourceError> {
        if bundle.digest_of_files() == self.files_digest {
            let rules = bundle.with_data(&self.files)?;
            self.version.clone_from(&version);
            return Ok(Update { rules, version });
        }
        let (next, rules) = CurrentSet::first(bundle, version.clone())?;
        *self = next;
        Ok(Update { rules, version })
    }
}
