//! The servers of a configuration and their names.

use super::tree::Directive;
use crate::import::condition::Pattern;
use crate::import::draft::RulesDraft;
use crate::import::finding::Effect;

/// A server and its hosts.
#[derive(Clone, Debug)]
pub(super) struct Server<'t> {
    pub(super) directive: &'t Directive,
    pub(super) hosts: Vec<Pattern>,
    /// Whether it also gets requests for hosts that no server has.
    pub(super) is_default: bool,
}

impl Server<'_> {
    /// Returns the value of `$server_name`.
    pub(super) fn first_name(&self) -> &str {
        let names = self.directive.block.iter().find(|directive| directive.name == "server_name");
        names.map_or("", |names| names.arg(0))
    }
}

/// Returns the servers of an http block, the default one first.
pub(super) fn all<'t>(http: &'t [Directive], draft: &mut RulesDraft) -> Vec<Server<'t>> {
    let mut servers: Vec<Server<'t>> = Vec::new();
    for directive in http.iter().filter(|directive| directive.name == "server") {
        servers.push(Server { directive, hosts: hosts(directive, draft), is_default: false });
    }
    // A server that only redirects, with names that another server has too, needs no limits.
    let named = |servers: &[Server<'_>], but: usize, host: &Pattern| {
        let others = servers.iter().enumerate().filter(|(index, _)| *index != but);
        others.into_iter().any(|(_, server)| server.hosts.contains(host))
    };
    let redirects = |server: &Server<'_>| server.directive.block.iter().any(|d| d.name == "return");
    let mut index = 0;
    while index < servers.len() {
        let server = &servers[index];
        let is_redundant = redirects(server)
            && !server.hosts.is_empty()
            && server.hosts.iter().all(|host| named(&servers, index, host));
        match is_redundant {
            true => drop(servers.remove(index)),
            false => index += 1,
        }
    }
    if servers.is_empty() {
        return servers;
    }
    let default = servers.iter().position(|server| is_marked(server.directive)).unwrap_or(0);
    servers[default].is_default = true;
    find_ports(&servers, draft);
    servers.sort_by_key(|server| !server.is_default);
    servers.retain(|server| {
        let reachable = server.is_default || !server.hosts.is_empty();
        if !reachable {
            let message = "left out: a server without a name that is not the default one cannot be \
                           identified by its host";
            draft.find(Effect::MorePermissive, &server.directive.origin, message);
        }
        reachable
    });
    servers
}

fn is_marked(server: &Directive) -> bool {
    let listens = server.block.iter().filter(|directive| directive.name == "listen");
    listens.flat_map(|listen| &listen.args).any(|arg| arg == "default_server" || arg == "default")
}

/// Reports servers that differ only in their port, which is no attribute of a request.
fn find_ports(servers: &[Server<'_>], draft: &mut RulesDraft) {
    for (index, server) in servers.iter().enumerate() {
        let has_same_host =
            |other: &&Server<'_>| other.hosts.iter().any(|h| server.hosts.contains(h));
        if let Some(other) = servers[..index].iter().find(has_same_host) {
            let message = format!(
                "this server has the same name as the one at line {}: rules cannot distinguish them \
                 by port, so limits of both apply",
                other.directive.origin.line
            );
            draft.find(Effect::Stricter, &server.directive.origin, message);
        }
    }
}

fn hosts(server: &Directive, draft: &mut RulesDraft) -> Vec<Pattern> {
    let mut hosts = Vec::new();
    let names = server.block.iter().filter(|directive| directive.name == "server_name");
    for directive in names {
        for name in &directive.args {
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                // Names that no host has.
                "" | "_" | "--" | "!@#" => {}
                regex if regex.starts_with('~') => {
                    let message =
                        format!("left out: a server name by regular expression ({regex})");
                    draft.find(Effect::MorePermissive, &directive.origin, message);
                }
                name if name.starts_with('.') => {
                    hosts.push(Pattern::Exact(name[1..].to_owned()));
                    hosts.push(Pattern::Glob(format!("*{name}")));
                }
                name if name.contains('*') => hosts.push(Pattern::Glob(name.to_owned())),
                name => hosts.push(Pattern::Exact(name.to_owned())),
            }
        }
    }
    hosts
}
