//! Reads bundles as a limiter would, before anything is committed.

use tollgate::rules::{DataError, Rules};

use super::problem::Result;
use crate::bundle::{Bundle, BundleError};

/// Reads bundles as a limiter would.
#[derive(Default)]
pub(super) struct Checker {
    /// The files as they were last read: data changes more often than they do.
    files: Option<(String, Rules)>,
    outside: Option<Outside>,
}

/// Files that come from elsewhere, and change without asking whether the data still fits them.
struct Outside {
    rules: Rules,
    /// What does not.
    left_out: Vec<DataError>,
    /// What would not after the change that was checked last.
    next: Vec<DataError>,
}

impl Checker {
    /// The rules whose files come from elsewhere, if they do.
    pub(super) fn outside(&self) -> Option<&Rules> {
        self.outside.as_ref().map(|outside| &outside.rules)
    }

    /// Why some of the data is left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        self.outside.iter().flat_map(|outside| &outside.left_out).map(ToString::to_string)
    }

    /// Takes files from elsewhere from now on. Data that does not fit them is left out, and said.
    pub(super) fn move_outside(&mut self, rules: Rules, bundle: &Bundle) -> Rules {
        let (fitting, left_out) = rules.with_fitting_data(&bundle.data);
        for error in &left_out {
            tracing::error!(%error, "left out: it does not fit the rules");
        }
        self.outside = Some(Outside { rules, left_out, next: Vec::new() });
        fitting
    }

    /// The change that was checked last was made.
    pub(super) fn commit(&mut self) {
        if let Some(outside) = &mut self.outside {
            outside.left_out = std::mem::take(&mut outside.next);
        }
    }

    /// Reads a bundle; the files only if they changed.
    pub(super) fn check(&mut self, bundle: &Bundle) -> Result<Rules> {
        if let Some(outside) = &mut self.outside {
            return outside.check(bundle);
        }
        let digest = bundle.digest_of_files();
        let files = match &self.files {
            Some((known, files)) if *known == digest => files.clone(),
            _ => bundle.read_files().map_err(BundleError::from)?,
        };
        let rules = bundle.with_data(&files)?;
        self.files = Some((digest, files));
        Ok(rules)
    }
}

impl Outside {
    /// What was left out before is no reason to refuse a change: it may be the first of several
    /// that put it right.
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
