//! Several files, one domain each: a directory of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::tree::Tree;
use super::{Plan, RateLimitAnswer, RateLimitRequest, read};
use crate::MemoryStore;
use crate::rules::diagnostic::{Diagnostic, Diagnostics};
use crate::rules::{Source, yaml};

/// The domains of several files.
///
/// ```
/// use tollgate::rules::{Source, envoy::Domains};
/// let files = [
///     ("auth.yaml", "{ domain: auth, key: login, rate_limit: { unit: minute, requests: 10 } }"),
///     ("mail.yaml", "{ domain: mail, key: email, rate_limit: { unit: day, requests: 5 } }"),
/// ];
/// let domains = Domains::read(files.map(|(name, text)| Source::new(name, text)))?;
/// assert!(domains.get("auth").is_some() && domains.get("mail").is_some());
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Domains {
    trees: HashMap<Box<str>, Arc<Tree>>,
    found: Diagnostics,
}

impl Domains {
    /// Reads files; if anything is wrong with any of them, all that is wrong is returned.
    pub fn read(sources: impl IntoIterator<Item = Source>) -> Result<Domains, Diagnostics> {
        let sources: Arc<[Source]> = sources.into_iter().collect();
        let mut found = Diagnostics::new(sources.clone());
        let mut trees = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            match yaml::parse(&source.text, number as u32) {
                Ok(root) => trees.extend(read::read(&root, &mut found)),
                Err(error) => found.push(error),
            }
        }
        let trees = join(trees, &mut found);
        found.sort();
        if found.has_errors() {
            return Err(found);
        }
        let trees = trees.into_iter().map(|tree| (tree.domain.clone(), Arc::new(tree))).collect();
        Ok(Domains { trees, found })
    }

    /// The descriptors of a domain.
    pub fn get(&self, domain: &str) -> Option<&Tree> {
        self.trees.get(domain).map(|tree| &**tree)
    }

    /// What is doubtful about the files.
    pub fn warnings(&self) -> &Diagnostics {
        &self.found
    }

    /// What to ask a store about a request. An unknown domain limits nothing.
    pub fn plan(&self, request: &RateLimitRequest<'_>) -> Plan<'_> {
        match self.get(request.domain) {
            Some(tree) => tree.plan(request),
            None => Plan::unlimited(request.descriptors.len()),
        }
    }

    /// Answers a request, counting in a memory store.
    pub fn decide(&self, store: &MemoryStore, request: &RateLimitRequest<'_>) -> RateLimitAnswer {
        self.plan(request).decide(store)
    }
}

/// Makes one tree of each domain. Files of one key may share a domain; others may not.
pub(crate) fn join(trees: Vec<Tree>, found: &mut Diagnostics) -> Vec<Tree> {
    let mut joined: Vec<Tree> = Vec::with_capacity(trees.len());
    let mut by_domain: HashMap<Box<str>, usize> = HashMap::new();
    for tree in trees {
        let Some(known) = by_domain.get(&tree.domain).and_then(|number| joined.get_mut(*number))
        else {
            by_domain.insert(tree.domain.clone(), joined.len());
            joined.push(tree);
            continue;
        };
        if !(known.is_short && tree.is_short && known.joint == tree.joint) {
            let message = format!("the domain {:?} has a file already", tree.domain);
            let error = Diagnostic::error("duplicate-domain", tree.place, message);
            let error = error.related(known.place, "this one");
            found.push(error.help("put the descriptors of a domain into one file"));
            continue;
        }
        for (place, earlier) in known.root.extend(tree.root, known.joint) {
            let message = "this key has a file already";
            let error = Diagnostic::error("duplicate-descriptor", place, message);
            found.push(error.related(earlier, "this one"));
        }
    }
    joined
}
