//! The store that is given for the checks of shared counters, as its servers are told to reach it.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail};
use hyper::Uri;

use super::super::check::{CheckContext, CheckRun, StoreAddress};
use super::super::harness::ChildServer;

/// A store that a proxy can stand in front of.
#[derive(Debug)]
pub(super) struct ProxiedStore {
    /// The address of the store itself.
    pub(super) address: SocketAddr,
    /// The text of the URL before and after the host and the port.
    before: String,
    after: String,
}

impl ProxiedStore {
    /// Parses `redis://[user:password@]host[:port][/db]`.
    pub(super) fn parse(store: &StoreAddress) -> anyhow::Result<ProxiedStore> {
        // The text may contain a password, so no error quotes it.
        let expected =
            "--store: these checks need an address such as redis://localhost:6379, without TLS";
        let uri: Uri = store.reveal().parse().ok().context(expected)?;
        if !matches!(uri.scheme_str(), Some("redis" | "valkey")) {
            bail!(expected);
        }
        let authority = uri.authority().context(expected)?.as_str();
        let host_port = authority.rsplit('@').next().unwrap_or(authority);
        if host_port.contains(',') || host_port.is_empty() {
            bail!(expected);
        }
        let host = uri.host().context(expected)?.trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(6379);
        let resolved = (host, port).to_socket_addrs().map(|mut addresses| addresses.next());
        let resolved = resolved.with_context(|| format!("--store: cannot resolve {host}"))?;
        let address = resolved.with_context(|| format!("--store: {host} has no address"))?;
        // The user may be called like the host.
        let (scheme, rest) = store.reveal().split_once(authority).context(expected)?;
        let user = authority.strip_suffix(host_port).unwrap_or_default();
        Ok(ProxiedStore { address, before: format!("{scheme}{user}"), after: rest.to_owned() })
    }

    /// Returns the URL of the store at another address.
    fn url_at(&self, address: SocketAddr) -> String {
        format!("{}{address}{}", self.before, self.after)
    }

    /// Starts a server that reaches the store at an address, with keys under a prefix.
    pub(super) fn start_server(
        &self,
        context: &CheckContext,
        address: SocketAddr,
        prefix: &str,
        (rules, timeout): (&str, &str),
    ) -> anyhow::Result<ChildServer> {
        let folder = context.workspace.folder()?;
        std::fs::write(folder.join("rules.yaml"), rules)?;
        // A file, because arguments show the password to everyone; TOML reads strings of JSON.
        let settings = format!("store = {}\n", serde_json::Value::from(self.url_at(address)));
        std::fs::write(folder.join("tollgate.toml"), settings)?;
        let args = ["--http", "127.0.0.1:0", "--rules", "rules.yaml", "--data", "data"];
        let store = ["--store-prefix", prefix, "--store-timeout", timeout];
        // A secret in a file, because one in the store would stay there.
        let secret = format!("{:032x}", fastrand::u128(..));
        std::fs::write(folder.join("secret"), secret)?;
        let secret = ["--key-secret-file", "secret"];
        ChildServer::start(context, &folder, &[&args[..], &store[..], &secret[..]].concat())
    }
}

/// Returns the result of a check without a store.
pub(super) fn skipped() -> CheckRun {
    CheckRun::Skipped("no store is given: add --store redis://localhost:6379".to_owned())
}

/// Returns a prefix for the keys of one check, which no other server has.
pub(super) fn key_prefix() -> String {
    format!("tollgate-verify-{:016x}", fastrand::u64(..))
}

/// Returns the store, if one is given.
pub(super) fn given(context: &CheckContext) -> anyhow::Result<Option<ProxiedStore>> {
    context.store.as_ref().map(ProxiedStore::parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_replaced_and_the_rest_stays() {
        let proxy: SocketAddr = "127.0.0.1:99".parse().unwrap();
        for (url, address, proxied) in [
            ("redis://127.0.0.1:7000", "127.0.0.1:7000", "redis://127.0.0.1:99"),
            ("redis://127.0.0.1", "127.0.0.1:6379", "redis://127.0.0.1:99"),
            ("valkey://ann:pw@127.0.0.1:1/3", "127.0.0.1:1", "valkey://ann:pw@127.0.0.1:99/3"),
            ("redis://:pw@[::1]:1?name=x", "[::1]:1", "redis://:pw@127.0.0.1:99?name=x"),
        ] {
            let store = ProxiedStore::parse(&StoreAddress::new(url)).unwrap();
            assert_eq!(store.address.to_string(), address, "{url}");
            assert_eq!(store.url_at(proxy), proxied, "{url}");
        }
        for url in ["rediss://:secret@host", "redis+cluster://a:1,b:2", "memory", "redis://"] {
            let error = ProxiedStore::parse(&StoreAddress::new(url)).unwrap_err().to_string();
            assert!(error.contains("--store") && !error.contains("secret"), "{url}: {error}");
        }
    }
}
