//! The domains of several files.

use std::collections::HashMap;
use std::sync::Arc;

use super::descriptor_tree::DescriptorTree;
use super::{CheckPlan, RateLimitRequest, RateLimitResponse, descriptor_reader};
use crate::Source;
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::yaml;
use tollgate::MemoryStore;

/// The domains of several files.
///
/// ```
/// use tollgate_rules::{Source, envoy::Domains};
/// let files = [
///     ("auth.yaml", "{ domain: auth, key: login, rate_limit: { unit: minute, requests: 10 } }"),
///     ("mail.yaml", "{ domain: mail, key: email, rate_limit: { unit: day, requests: 5 } }"),
/// ];
/// let domains = Domains::read(files.map(|(name, text)| Source::new(name, text)))?;
/// assert!(domains.get("auth").is_some() && domains.get("mail").is_some());
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Domains {
    trees: HashMap<Box<str>, Arc<DescriptorTree>>,
    diagnostics: Diagnostics,
}

impl Domains {
    /// Reads files, or returns the errors of all of them.
    pub fn read(sources: impl IntoIterator<Item = Source>) -> Result<Domains, Diagnostics> {
        Domains::read_shared(sources, SharedDomains::ShortFiles)
    }

    /// Reads files of which several may describe one domain, as with `MERGE_DOMAIN_CONFIG`.
    ///
    /// Files may not describe the same key at the top level of their domain.
    ///
    /// ```
    /// use tollgate_rules::{Source, envoy::Domains};
    /// let limit = "rate_limit: { unit: day, requests_per_unit: 5 }";
    /// let file = |key: &str| {
    ///     Source::new(key, format!("{{ domain: d, descriptors: [{{ key: {key}, {limit} }}] }}"))
    /// };
    /// assert!(Domains::read([file("a"), file("b")]).is_err());
    /// assert!(Domains::read_merged([file("a"), file("b")]).is_ok());
    /// assert!(Domains::read_merged([file("a"), file("a")]).is_err());
    /// ```
    pub fn read_merged(sources: impl IntoIterator<Item = Source>) -> Result<Domains, Diagnostics> {
        Domains::read_shared(sources, SharedDomains::AllFiles)
    }

    fn read_shared(
        sources: impl IntoIterator<Item = Source>,
        shared: SharedDomains,
    ) -> Result<Domains, Diagnostics> {
        let sources: Arc<[Source]> = sources.into_iter().collect();
        let mut diagnostics = Diagnostics::new(sources.clone());
        let mut trees = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            match yaml::parse(&source.text, number as u32) {
                Ok(root) => trees.extend(descriptor_reader::read(&root, &mut diagnostics)),
                Err(error) => diagnostics.push(error),
            }
        }
        let trees = join(trees, shared, &mut diagnostics);
        diagnostics.sort();
        if diagnostics.has_errors() {
            return Err(diagnostics);
        }
        let trees = trees.into_iter().map(|tree| (tree.domain.clone(), Arc::new(tree))).collect();
        Ok(Domains { trees, diagnostics })
    }

    /// Returns the descriptors of a domain.
    pub fn get(&self, domain: &str) -> Option<&DescriptorTree> {
        self.trees.get(domain).map(|tree| &**tree)
    }

    /// Returns the warnings about the files.
    pub fn warnings(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// Plans the checks of a request. An unknown domain limits nothing.
    pub fn plan(&self, request: &RateLimitRequest<'_>) -> CheckPlan<'_> {
        match self.get(request.domain) {
            Some(tree) => tree.plan(request),
            None => CheckPlan::unlimited(request.descriptors.len()),
        }
    }

    /// Decides a request with a memory store.
    pub fn decide(&self, store: &MemoryStore, request: &RateLimitRequest<'_>) -> RateLimitResponse {
        self.plan(request).decide(store)
    }
}

/// Which files may share a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SharedDomains {
    /// Files in the short form, of one key each.
    #[default]
    ShortFiles,
    /// All files.
    AllFiles,
}

/// Makes one tree of each domain. Files that may share a domain add their descriptors to it.
pub(crate) fn join(
    trees: Vec<DescriptorTree>,
    shared: SharedDomains,
    diagnostics: &mut Diagnostics,
) -> Vec<DescriptorTree> {
    let mut joined: Vec<DescriptorTree> = Vec::with_capacity(trees.len());
    let mut by_domain: HashMap<Box<str>, usize> = HashMap::new();
    for tree in trees {
        let Some(known) = by_domain.get(&tree.domain).and_then(|number| joined.get_mut(*number))
        else {
            by_domain.insert(tree.domain.clone(), joined.len());
            joined.push(tree);
            continue;
        };
        if let Some(error) = cannot_share(known, &tree, shared) {
            diagnostics.push(error);
            continue;
        }
        known.names.merge(tree.names);
        for (span, earlier) in known.root.extend(tree.root, known.separator) {
            let message = "another file of this domain describes this key";
            let error = Diagnostic::error("duplicate-descriptor", span, message);
            diagnostics.push(error.related(earlier, "this one"));
        }
    }
    for tree in &mut joined {
        tree.names.warn_about_unknown(diagnostics);
        tree.name_metrics();
    }
    joined
}

/// Returns why two files cannot share their domain, if they cannot.
fn cannot_share(
    known: &DescriptorTree,
    tree: &DescriptorTree,
    shared: SharedDomains,
) -> Option<Diagnostic> {
    let error = |message: String, help: &str| {
        let error = Diagnostic::error("duplicate-domain", tree.span, message);
        Some(error.related(known.span, "this one").help(help))
    };
    if !(known.is_short && tree.is_short || shared == SharedDomains::AllFiles) {
        let message = format!("the domain {:?} has a file already", tree.domain);
        let help = "put the descriptors of a domain into one file, or merge the files of a domain \
                    with --envoy-merge-domains";
        return error(message, help);
    }
    if known.separator != tree.separator {
        let message = format!("only one file of the domain {:?} is `strict`", tree.domain);
        return error(message, "write `strict` in all files of a domain, or in none");
    }
    None
}
