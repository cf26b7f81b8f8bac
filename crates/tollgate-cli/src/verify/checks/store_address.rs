//! The store that is given for the checks of shared counters, as its servers are told to reach it.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, bail};
use hyper::Uri;

use super::super::check::{CheckContext, CheckRun, StoreAddress};
use super::super::harness::ChildServer;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
        TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .with_context(|| format!("--store: cannot connect to {address}; is it running?"))?;
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
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_host_is_replaced_and_the_rest_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (store, proxy) = (listener.local_addr().unwrap(), "127.0.0.1:99".parse().unwrap());
        for (before, after) in
            [("redis://", ""), ("valkey://ann:pw@", "/3"), ("redis://127.0.0.1:pw@", "?name=x")]
        {
            let url = format!("{before}{store}{after}");
            let parsed = ProxiedStore::parse(&StoreAddress::new(&url)).unwrap();
            assert_eq!(parsed.address, store, "{url}");
            assert_eq!(parsed.url_at(proxy), format!("{before}127.0.0.1:99{after}"), "{url}");
        }
        drop(listener);
        let gone = format!("redis://:secret@{store}");
        for url in ["rediss://:secret@host", "redis+cluster://a:1,b:2", "memory", "redis://", &gone]
        {
            let error = ProxiedStore::parse(&StoreAddress::new(url)).unwrap_err().to_string();
            assert!(error.contains("--store") && !error.contains("secret"), "{url}: {error}");
        }
    }
}
