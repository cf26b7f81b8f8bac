//! The proxies that are trusted to report the client's address.

use std::net::IpAddr;

use ipnet::IpNet;

use super::tree::Directive;
use crate::import::draft::RulesDraft;
use crate::import::finding::Effect;

/// Reads `set_real_ip_from` and what belongs to it.
pub(super) fn read(http: &[Directive], draft: &mut RulesDraft) {
    let last = |name: &str| http.iter().rev().find(|directive| directive.name == name);
    find_inner(http, draft);
    let mut proxies = Vec::new();
    for proxy in http.iter().filter(|directive| directive.name == "set_real_ip_from") {
        match network(proxy.arg(0)) {
            Some(network) => proxies.push(network.to_string()),
            None if proxy.arg(0) == "unix:" => {}
            None => {
                let message = format!(
                    "`{}` is left out: a trusted proxy is an address or a network",
                    proxy.text()
                );
                draft.find(Effect::MorePermissive, &proxy.origin, message);
            }
        }
    }
    draft.trusted_proxies = proxies;
    if draft.trusted_proxies.is_empty() {
        return;
    }
    let header = last("real_ip_header").map_or("X-Real-IP", |directive| directive.arg(0));
    let Some(directive) = last("real_ip_header").or_else(|| last("set_real_ip_from")) else {
        return;
    };
    let message = if !header.eq_ignore_ascii_case("x-forwarded-for") {
        format!(
            "the client's address comes from {header}; rules take it from X-Forwarded-For, which the \
             proxies must set"
        )
    } else if last("real_ip_recursive").is_none_or(|directive| directive.arg(0) != "on") {
        "without `real_ip_recursive` nginx takes the last forwarded address; rules take the last one \
         that is not a trusted proxy's"
            .to_owned()
    } else {
        return;
    };
    draft.find(Effect::MorePermissive, &directive.origin, message);
}

/// Reads an address or a network; bits behind the prefix do not matter, as in nginx.
fn network(text: &str) -> Option<IpNet> {
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().or_else(alone).map(|network| network.trunc())
}

/// Reports proxies that only a server or a location trusts.
fn find_inner(http: &[Directive], draft: &mut RulesDraft) {
    for block in http.iter().filter(|directive| matches!(&*directive.name, "server" | "location")) {
        for directive in &block.block {
            if matches!(
                &*directive.name,
                "set_real_ip_from" | "real_ip_header" | "real_ip_recursive"
            ) {
                let message = format!(
                    "`{}` is left out: trusted proxies are those of all requests",
                    directive.text()
                );
                draft.find(Effect::MorePermissive, &directive.origin, message);
            }
        }
        find_inner(&block.block, draft);
    }
}
