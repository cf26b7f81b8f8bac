//! Recognises the format of a file, so that a file of another program is an error and not a file
//! without limits.

use anyhow::bail;
use tollgate_rules::Source;
use tollgate_rules::yaml::{YamlFile, YamlNode};

use super::args::SourceSystem;
use super::nginx;

/// A format that a file can be recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    Importable(SourceSystem),
    /// A rules file of tollgate.
    Rules,
    /// The configuration of the Envoy proxy, not of its rate limit service.
    EnvoyProxy,
    /// An object of Kubernetes that contains something else.
    Kubernetes,
}

impl FileFormat {
    fn of(source: &Source) -> Option<FileFormat> {
        let Ok(file) = YamlFile::read(source) else { return nginx_format(source) };
        let by_yaml = file.documents().iter().find_map(of_document);
        by_yaml.or_else(|| nginx_format(source))
    }

    /// Returns what the file is, and what to do with it.
    fn advice(self) -> String {
        match self {
            FileFormat::Importable(system) => {
                let name = system.name();
                format!("it looks like {}: use `tollgate import {name}`", system.description())
            }
            FileFormat::Rules => {
                "it looks like a rules file of tollgate, which needs no import".into()
            }
            FileFormat::EnvoyProxy => {
                "it looks like the configuration of the Envoy proxy: its limits are in \
                                       the files of the rate limit service that it asks"
                    .into()
            }
            FileFormat::Kubernetes => {
                "it looks like an object of Kubernetes: import the configuration inside it".into()
            }
        }
    }
}

/// Refuses files that are not written for the system they are imported from.
pub(super) fn check(sources: &[Source], from: SourceSystem) -> anyhow::Result<()> {
    for source in sources {
        let name = &source.name;
        let wanted = from.description();
        match FileFormat::of(source) {
            Some(FileFormat::Importable(found)) if found == from => {}
            Some(other) => bail!("{name} is not {wanted}: {}", other.advice()),
            None if source.text.trim().is_empty() => bail!("{name} is empty, and not {wanted}"),
            // Syntax errors are reported by the reader, with their place.
            None if is_readable(source, from) => {
                bail!("{name} is not {wanted}: it has none of {}", from.marks())
            }
            None => {}
        }
    }
    Ok(())
}

/// Returns whether the text can be read at all, whatever its contents mean.
fn is_readable(source: &Source, from: SourceSystem) -> bool {
    match from {
        SourceSystem::Nginx => nginx::directive_names(source).is_some(),
        _ => YamlFile::read(source).is_ok(),
    }
}

fn of_document(root: &YamlNode<'_>) -> Option<FileFormat> {
    let has = |key: &str| root.get(key).is_some();
    let has_list = |key: &str| root.get(key).is_some_and(YamlNode::is_list);
    let is_limit =
        |node: &YamlNode<'_>| node.get("max_value").is_some() && node.get("seconds").is_some();
    let limits = root.get("limits").unwrap_or(root);
    if limits.is_list() && limits.items().iter().any(is_limit) {
        return Some(FileFormat::Importable(SourceSystem::Limitador));
    }
    if has("_format_version") || has("_transform") {
        return Some(FileFormat::Importable(SourceSystem::Kong));
    }
    if has("static_resources") || has("dynamic_resources") {
        return Some(FileFormat::EnvoyProxy);
    }
    if has("descriptors") || has("domain") && (has("rate_limit") || has("key")) {
        return Some(FileFormat::Importable(SourceSystem::Envoy));
    }
    if has("rules") {
        return Some(FileFormat::Rules);
    }
    if has("apiVersion") && has("kind") {
        return Some(FileFormat::Kubernetes);
    }
    let of_kong = ["services", "routes", "plugins", "consumers", "consumer_groups"];
    of_kong.into_iter().any(has_list).then_some(FileFormat::Importable(SourceSystem::Kong))
}

/// Recognises nginx by its directives.
fn nginx_format(source: &Source) -> Option<FileFormat> {
    const MARKS: [&str; 10] = [
        "http",
        "server",
        "events",
        "location",
        "upstream",
        "limit_req_zone",
        "limit_conn_zone",
        "limit_req",
        "limit_conn",
        "include",
    ];
    let names = nginx::directive_names(source)?;
    let is_mark = |name: &String| MARKS.contains(&name.as_str());
    names.iter().any(is_mark).then_some(FileFormat::Importable(SourceSystem::Nginx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_what_is_typical_of_them() {
        use SourceSystem::{Envoy, Kong, Limitador, Nginx};
        for (text, expected) in [
            ("domain: a\ndescriptors: []", Some(FileFormat::Importable(Envoy))),
            ("domain: a\nkey: b\nrate_limit: {}", Some(FileFormat::Importable(Envoy))),
            (
                "- { namespace: a, max_value: 1, seconds: 1 }",
                Some(FileFormat::Importable(Limitador)),
            ),
            ("limits: [{ max_value: 1, seconds: 1 }]", Some(FileFormat::Importable(Limitador))),
            ("_format_version: '3.0'", Some(FileFormat::Importable(Kong))),
            ("plugins: []", Some(FileFormat::Importable(Kong))),
            ("http { server { } }", Some(FileFormat::Importable(Nginx))),
            ("limit_req_zone $uri zone=a:1m rate=1r/s;", Some(FileFormat::Importable(Nginx))),
            ("rules: []", Some(FileFormat::Rules)),
            ("static_resources: {}", Some(FileFormat::EnvoyProxy)),
            ("apiVersion: v1\nkind: ConfigMap", Some(FileFormat::Kubernetes)),
            ("hello", None),
            ("a: b", None),
            ("", None),
            ("http {", None),
        ] {
            assert_eq!(FileFormat::of(&Source::new("f", text)), expected, "{text}");
        }
    }
}
