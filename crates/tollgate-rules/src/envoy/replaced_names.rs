//! The names of limits, and the names that `replaces` refers to.

use std::collections::HashSet;
use std::sync::Arc;

use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::source::{SourceSpan, Spanned};
use crate::read::suggest;

/// The maximum number of names that a misspelled one is compared with.
const MAX_COMPARED: usize = 100;

/// The names of limits of a domain, and the names of the limits to be replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplacedNames {
    names: HashSet<Arc<str>>,
    replaced: Vec<(Arc<str>, SourceSpan)>,
}

impl ReplacedNames {
    /// Adds the name of a limit and the names that it replaces.
    pub(super) fn add(&mut self, name: Option<&Arc<str>>, replaces: &[Spanned<Arc<str>>]) {
        self.names.extend(name.cloned());
        self.replaced.extend(replaces.iter().map(|name| (name.value.clone(), name.span)));
    }

    /// Adds the names of another file of the domain.
    pub(super) fn merge(&mut self, other: ReplacedNames) {
        self.names.extend(other.names);
        self.replaced.extend(other.replaced);
    }

    /// Warns about names that no limit has.
    pub(super) fn warn_about_unknown(&self, diagnostics: &mut Diagnostics) {
        for (name, span) in &self.replaced {
            if self.names.contains(name) {
                continue;
            }
            let message = format!("no limit of this domain is called {name:?}");
            let warning = Diagnostic::warning("unknown-name", *span, message);
            let names = self.names.iter().take(MAX_COMPARED).map(|name| &**name);
            diagnostics.push(match suggest::closest(name, names) {
                Some(meant) => warning.fix(meant),
                None => warning.help("give the limit to be replaced that name"),
            });
        }
    }
}
