//! The current rule set of a source, and its replacement.

use tollgate_rules::Rules;

use super::SourceError;
use crate::bundle::Bundle;

/// The last valid bundle.
#[derive(Debug)]
pub(super) struct CurrentSet {
    pub(super) version: String,
    /// A digest of the files, which detects changes.
    files_digest: String,
    /// The compiled files, without the data.
    files: Rules,
}

/// New rules with their version.
#[derive(Debug)]
pub(super) struct RulesUpdate {
    pub(super) rules: Rules,
    pub(super) version: String,
}

impl CurrentSet {
    /// Compiles the first bundle.
    pub(super) fn first(
        bundle: &Bundle,
        version: String,
    ) -> Result<(CurrentSet, Rules), SourceError> {
        let files = bundle.read_files().map_err(|found| SourceError::Invalid(found.into()))?;
        let rules = bundle.with_data(&files)?;
        let files_digest = bundle.files_digest();
        Ok((CurrentSet { version, files_digest, files }, rules))
    }

    /// Compiles the next bundle. If only data changed, the files are not parsed again.
    pub(super) fn next(
        &mut self,
        bundle: &Bundle,
        version: String,
    ) -> Result<RulesUpdate, SourceError> {
        if bundle.files_digest() == self.files_digest {
            let rules = bundle.with_data(&self.files)?;
            self.version.clone_from(&version);
            return Ok(RulesUpdate { rules, version });
        }
        let (next, rules) = CurrentSet::first(bundle, version.clone())?;
        *self = next;
        Ok(RulesUpdate { rules, version })
    }
}
