//! The valid parts of a file, for tools that convert it to rules.

use std::sync::Arc;

use super::descriptor_tree::{DescriptorLevel, DescriptorNode, DescriptorTree};
use super::rate_limit::{CountedLimit, RateLimit};
use super::{Unit, descriptor_reader};
use crate::Source;
use crate::read::diagnostic::Diagnostics;
use crate::read::source::SourceSpan;
use crate::read::yaml;

/// A domain and its descriptors as they are written.
///
/// ```
/// use tollgate_rules::{Source, envoy::DomainOutline};
/// let text = "{ domain: mail, key: email, rate_limit: { unit: day, requests: 5 }, typo: 1 }";
/// let (domains, diagnostics) = DomainOutline::read(&Source::new("mail.yaml", text))?;
/// assert_eq!(domains[0].descriptors[0].limits[0].rate.as_ref().unwrap().requests, 5);
/// assert_eq!(diagnostics.errors().count(), 1);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct DomainOutline {
    /// The name; empty if the file has none.
    pub domain: String,
    /// The line of the name, counted from 1.
    pub line: usize,
    /// The descriptors of the first level.
    pub descriptors: Vec<DescriptorOutline>,
}

/// A descriptor as it is written.
#[derive(Clone, Debug)]
pub struct DescriptorOutline {
    /// The key; empty if it is missing.
    pub key: String,
    /// The value; empty for a descriptor of every value.
    pub value: String,
    /// The line of the value or of the key, counted from 1.
    pub line: usize,
    /// The limits, all of which apply.
    pub limits: Vec<LimitOutline>,
    /// Whether `shadow_mode` is set.
    pub shadow: bool,
    /// Whether `quota_mode` is set.
    pub quota: bool,
    /// Whether all values that match share a counter.
    pub shared: bool,
    /// The descriptors of the next level.
    pub descriptors: Vec<DescriptorOutline>,
}

/// A limit of a descriptor as it is written.
#[derive(Clone, Debug)]
pub struct LimitOutline {
    /// The name, if it has one.
    pub name: Option<String>,
    /// The line it begins on, counted from 1.
    pub line: usize,
    /// The names of limits that do not apply where this one does.
    pub replaces: Vec<String>,
    /// The rate; none if the limit is unlimited.
    pub rate: Option<RateOutline>,
}

/// The rate of a limit.
#[derive(Clone, Debug)]
pub struct RateOutline {
    /// The number of requests; 0 lets nothing pass.
    pub requests: u32,
    /// The unit of time.
    pub unit: Unit,
    /// The number of units in a window.
    pub multiplier: u32,
    /// The options that follow the rate in the grammar of limits: `fixed count_denied`.
    pub options: String,
}

impl DomainOutline {
    /// Reads the valid parts of a file and the errors about the others.
    ///
    /// Each YAML document is a domain. The result is an error if the file is not YAML or has too many
    /// errors.
    pub fn read(source: &Source) -> Result<(Vec<DomainOutline>, Diagnostics), Diagnostics> {
        let file = yaml::YamlFile::read(source)?;
        let mut diagnostics = Diagnostics::new(Arc::from([source.clone()]));
        let mut domains = Vec::new();
        for root in file.documents() {
            let line = |span: SourceSpan| file.line_at(span);
            let tree = descriptor_reader::read_valid_parts(root, &mut diagnostics);
            if let Some(tree) = &tree {
                tree.names.warn_about_unknown(&mut diagnostics);
            }
            domains.extend(tree.map(|tree| domain(&tree, &line)));
        }
        diagnostics.sort();
        if diagnostics.is_full() {
            return Err(diagnostics); // The reader stops there: the rest of the file is missing.
        }
        Ok((domains, diagnostics))
    }
}

fn domain(tree: &DescriptorTree, line: &impl Fn(SourceSpan) -> usize) -> DomainOutline {
    DomainOutline {
        domain: tree.domain().to_owned(),
        line: line(tree.span),
        descriptors: descriptors(&tree.root, line),
    }
}

fn descriptors(
    level: &DescriptorLevel,
    line: &impl Fn(SourceSpan) -> usize,
) -> Vec<DescriptorOutline> {
    let descriptor = |node: &DescriptorNode| DescriptorOutline {
        key: node.key.to_string(),
        value: node.value.to_string(),
        line: line(node.span),
        limits: node.limits.iter().map(|limit| limit_outline(limit, line)).collect(),
        shadow: node.shadow,
        quota: node.quota,
        shared: node.shared,
        descriptors: descriptors(&node.children, line),
    };
    level.nodes().iter().map(descriptor).collect()
}

fn limit_outline(limit: &RateLimit, line: &impl Fn(SourceSpan) -> usize) -> LimitOutline {
    LimitOutline {
        name: limit.name.as_deref().map(str::to_owned),
        line: line(limit.span),
        replaces: limit.replaces.iter().map(|name| name.to_string()).collect(),
        rate: limit.counted.as_ref().map(rate),
    }
}

fn rate(counted: &CountedLimit) -> RateOutline {
    let text = counted.limit.to_string();
    RateOutline {
        requests: counted.requests,
        unit: counted.unit,
        multiplier: counted.multiplier,
        options: text.split_once(' ').map_or("", |(_, options)| options).to_owned(),
    }
}
