//! Validation of bundles before a change is committed.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_rules::{DataError, Rules};

use crate::bundle::{Bundle, BundleError};
use crate::problem::Result;

/// The reasons why data is left out, which others read without waiting for the database.
pub(super) type SharedLeftOut = Arc<Mutex<Vec<String>>>;

/// A validator that compiles bundles as a limiter would.
#[derive(Default)]
pub(super) struct BundleChecker {
    /// The files compiled last, with their digest. Data changes more often than files.
    files: Option<(String, Rules)>,
    external: Option<ExternalFiles>,
    left_out: SharedLeftOut,
}

/// Rules files of an external origin, which may change so that the data no longer matches.
struct ExternalFiles {
    rules: Rules,
    /// The data that does not match.
    left_out: Vec<DataError>,
    /// The data that would not match after the change that was checked last.
    next: Vec<DataError>,
}

impl BundleChecker {
    /// Returns the rules of the external origin, if there is one.
    pub(super) fn external(&self) -> Option<&Rules> {
        self.external.as_ref().map(|external| &external.rules)
    }

    /// Returns the reasons why data is left out, which each committed change updates.
    pub(super) fn shared_left_out(&self) -> SharedLeftOut {
        self.left_out.clone()
    }

    fn share_left_out(&self) {
        let left_out = self.external.iter().flat_map(|external| &external.left_out);
        *self.left_out.lock() = left_out.map(ToString::to_string).collect();
    }

    /// Uses external files from now on. Data that does not match them is left out and logged.
    pub(super) fn set_external_files(&mut self, rules: Rules, bundle: &Bundle) -> Rules {
        let (fitting, left_out) = rules.with_fitting_data(&bundle.data);
        for error in &left_out {
            tracing::error!(%error, "ignoring data that does not match the rules; fix or remove it");
        }
        self.external = Some(ExternalFiles { rules, left_out, next: Vec::new() });
        self.share_left_out();
        fitting
    }

    /// Records that the change checked last was committed.
    pub(super) fn commit(&mut self) {
        if let Some(external) = &mut self.external {
            external.left_out = std::mem::take(&mut external.next);
        }
        self.share_left_out();
    }

    /// Compiles a bundle; files that have not changed are not parsed again.
    pub(super) fn check(&mut self, bundle: &Bundle) -> Result<Rules> {
        if let Some(external) = &mut self.external {
            return external.check(bundle);
        }
        let digest = bundle.files_digest();
        let files = match &self.files {
            Some((known, files)) if *known == digest => files.clone(),
            _ => bundle.read_files().map_err(BundleError::from)?,
        };
        let rules = bundle.with_data(&files)?;
        self.files = Some((digest, files));
        Ok(rules)
    }
}

impl ExternalFiles {
    /// Compiles a bundle with the external files.
    ///
    /// Data that was left out before does not make a change invalid, because the change may be the
    /// first of several that repair it.
    fn check(&mut self, bundle: &Bundle) -> Result<Rules> {
        let (rules, left_out) = self.rules.with_fitting_data(&bundle.data);
        let is_new =
            |error: &&DataError| self.left_out.iter().all(|known| known.message != error.message);
        let newly = left_out.iter().find(is_new);
        if let Some(error) =
            newly.or(left_out.last()).filter(|_| left_out.len() > self.left_out.len())
        {
            return Err(BundleError::from(error.clone()).into());
        }
        self.next = left_out;
        Ok(rules)
    }
}
