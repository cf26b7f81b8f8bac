//! Rules: who may do how much, written down in YAML.

mod address;
mod attribute;
mod diagnostic;
mod expr;
mod facts;
mod fault;
mod lists;
mod matcher;
mod path;
mod policy;
mod read;
mod request;
mod route;
mod schedule;
mod source;
mod suggest;
mod value;
mod written;
mod yaml;

use std::sync::Arc;

pub use diagnostic::{Diagnostic, Diagnostics, Finding, Severity};
pub use policy::{Ban, Consistency, MissingKey, Mode, OnError, Priority, Queue, Then, Unmatched};
pub use request::Request;
pub use source::Source;
pub use value::Value;

/// Rules that were read, checked and compiled. Clones share them.
#[derive(Clone, Debug)]
pub struct Rules {
    found: Diagnostics,
}

impl Rules {
    /// Reads texts; each is a domain of its own.
    pub fn read(sources: impl IntoIterator<Item = Source>) -> Result<Rules, Diagnostics> {
        let sources: Arc<[Source]> = sources.into_iter().collect();
        let mut found = Diagnostics::new(sources.clone());
        for (number, source) in sources.iter().enumerate() {
            match yaml::parse(&source.text, number as u32) {
                Ok(root) => drop(read::document(&root, &mut found)),
                Err(error) => found.push(error),
            }
        }
        found.sort();
        if found.has_errors() { Err(found) } else { Ok(Rules { found }) }
    }

    /// What is doubtful about them.
    pub fn warnings(&self) -> &Diagnostics {
        &self.found
    }
}
