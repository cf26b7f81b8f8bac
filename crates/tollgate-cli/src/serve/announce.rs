//! The output of a server after its start: its addresses, and calls to try.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tollgate_server::config::StoreChoice;
use tollgate_server::net::{Address, Bind};
use tollgate_server::{Addresses, Config};

use super::args::ServeArgs;
use crate::style::Style;

/// The route of a call that the sample rules deny the sixth time.
const SAMPLE_ROUTE: &str = "POST /login";
/// The maximum number of domains that are printed.
const DOMAINS_SHOWN: usize = 5;

/// The facts that are printed about a started server.
pub(super) struct Announcement<'a> {
    pub(super) args: &'a ServeArgs,
    pub(super) addresses: &'a Addresses,
    pub(super) tls: TlsDoors,
    /// The domains of the rules in use.
    pub(super) domains: Vec<String>,
    /// Whether the rules in use are the sample.
    pub(super) has_sample_rules: bool,
    /// The store of the counters.
    pub(super) store: StoreChoice,
    /// The data folder.
    pub(super) data: PathBuf,
    /// The write token, if this start created it and the output is a terminal: other outputs are
    /// logs, which many can read.
    pub(super) created_token: Option<String>,
}

/// Whether each door has TLS.
pub(super) struct TlsDoors {
    pub(super) http: bool,
    pub(super) gateway: bool,
    pub(super) admin: bool,
}

impl TlsDoors {
    pub(super) fn from_config(config: &Config) -> TlsDoors {
        let has_tls = |bind: Option<&Bind>| bind.is_some_and(|bind| bind.tls.is_some());
        TlsDoors {
            http: has_tls(config.http.as_ref()),
            gateway: has_tls(config.gateway.as_ref().map(|gateway| &gateway.listen)),
            admin: has_tls(config.admin.as_ref()),
        }
    }
}

impl Announcement<'_> {
    pub(super) fn write(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.args.json {
            writeln!(out, "{}", self.json())?;
        } else {
            self.text(&mut out, Style::when(io::stdout().is_terminal()))?;
        }
        out.flush()
    }

    fn json(&self) -> serde_json::Value {
        let Addresses { http, grpc, resp, gateway, admin, .. } = self.addresses;
        let [grpc, resp] = [grpc, resp].map(|door| door.as_ref().map(Address::to_string));
        json!({
            "http": http.as_ref().map(|door| url(door, self.tls.http)),
            "grpc": grpc,
            "resp": resp,
            "gateway": gateway.as_ref().map(|door| url(door, self.tls.gateway)),
            "admin": admin.as_ref().map(|door| url(door, self.tls.admin)),
            "store": self.store(),
            "rules": self.args.rules,
            "domains": self.domains,
            "data": self.data.display().to_string(),
            "admin_token": self.created_token,
            "tokens": self.tokens().display().to_string(),
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
        })
    }

    /// Returns the path of the file of tokens for the admin API.
    fn tokens(&self) -> PathBuf {
        self.args.access.admin_tokens.clone().unwrap_or_else(|| tokens_file(&self.data))
    }

    /// Returns the store of the counters, without passwords.
    fn store(&self) -> String {
        match &self.store {
            StoreChoice::Redis(options) => options.to_string(),
            _ => "memory".to_owned(),
        }
    }

    fn text(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        let Addresses { http, grpc, resp, gateway, admin, .. } = self.addresses;
        writeln!(out, "{}\n", style.bold(concat!("tollgate ", env!("CARGO_PKG_VERSION"))))?;
        let mut line = |name: &str, what: String, note: &str| {
            writeln!(out, "  {} {what:<27} {}", style.dim(format!("{name:<6}")), style.dim(note))
        };
        if let Some(gateway) = gateway {
            let to: Vec<String> = self.args.gateway.to.iter().map(ToString::to_string).collect();
            line("proxy", url(gateway, self.tls.gateway), &format!("to {}", to.join(", ")))?;
        }
        if let Some(http) = http {
            line(
                "HTTP",
                url(http, self.tls.http),
                "decisions, forward-auth, /metrics, /openapi.json",
            )?;
        }
        if let Some(grpc) = grpc {
            line("gRPC", grpc.to_string(), "Envoy's rate limit service, health, reflection")?;
        }
        if let Some(resp) = resp {
            line("RESP", resp.to_string(), "CL.THROTTLE and TG.*, for any Redis client")?;
        }
        if let Some(admin) = admin {
            line("admin", url(admin, self.tls.admin), "the admin API")?;
        }
        if let StoreChoice::Redis(_) = self.store {
            line("store", self.store(), "shared counters")?;
        }
        let data = self.data.display();
        let domains = self.domain_list();
        match &self.args.rules {
            Some(rules) => {
                line("rules", rules.clone(), &format!("{domains}; reloaded when they change"))?;
            }
            None => {
                let sample = if self.has_sample_rules { "a sample, " } else { "" };
                let note = format!("{sample}{domains}; changed by tollgate rules put");
                line("rules", format!("in {data}"), &note)?;
            }
        }
        line("tokens", self.tokens().display().to_string(), "for the admin API")?;
        if let Some(token) = &self.created_token {
            writeln!(out, "\nThe admin token was created by this start. It is printed only once:")?;
            writeln!(out, "  {token}")?;
        }
        self.hints(out, style)
    }

    fn hints(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        let Addresses { http, grpc, resp, gateway, .. } = self.addresses;
        if let Some(gateway) = gateway {
            let (what, call, path) = match self.has_sample_rules {
                true => ("the sixth login a minute is refused", "-X POST ", "/login"),
                false => ("the response is that of the upstream", "", "/"),
            };
            writeln!(out, "\n{}", style.bold(format!("Try it: {what}")))?;
            return writeln!(
                out,
                "  curl -i {call}{}",
                curl_target(gateway, self.tls.gateway, path)
            );
        }
        let no_tokens = self.args.access.data_tokens.is_none();
        if let (Some(http), true) = (http, no_tokens) {
            let (what, route) = match self.has_sample_rules {
                true => ("the sixth call is denied", SAMPLE_ROUTE),
                false => ("a decision by these rules", "GET /"),
            };
            let attributes = format!(r#""attributes":{{"ip":"192.0.2.1","route":"{route}"}}"#);
            let body = match self.domains.first() {
                Some(domain) => format!(r#"{{"domain":{},{attributes}}}"#, json!(domain)),
                None => format!("{{{attributes}}}"),
            };
            writeln!(out, "\n{}", style.bold(format!("Try it: {what}")))?;
            let target = curl_target(http, self.tls.http, "/v1/check");
            writeln!(out, "  curl -s {target} -d {}", shell_quoted(&body))?;
        }
        if let (Some(Address::Tcp(resp)), true) = (resp, no_tokens) {
            let host = match resp.ip() {
                ip if ip.is_loopback() && ip.is_ipv4() || ip.is_unspecified() => String::new(),
                ip => format!("-h {ip} "),
            };
            let port = resp.port();
            writeln!(out, "  redis-cli {host}-p {port} CL.THROTTLE user:42 4 5 60")?;
        }
        if let (Some(Address::Tcp(grpc)), true) = (grpc, no_tokens) {
            let domain = self.domains.first().map_or("demo", String::as_str);
            let domain = domain.escape_debug();
            writeln!(out, "  Envoy: a cluster at {grpc}, domain {domain} in its ratelimit filter")?;
        }
        Ok(())
    }

    /// Returns the domains as text: `domain shop`, `domains api, shop, …`.
    fn domain_list(&self) -> String {
        let shown = self.domains.iter().take(DOMAINS_SHOWN);
        let shown: Vec<String> = shown.map(|name| name.escape_debug().to_string()).collect();
        let noun = if self.domains.len() == 1 { "domain" } else { "domains" };
        let more = if self.domains.len() > DOMAINS_SHOWN { ", …" } else { "" };
        format!("{noun} {}{more}", shown.join(", "))
    }
}

/// Returns the tokens file of a data folder.
pub(super) fn tokens_file(data: &Path) -> PathBuf {
    data.join("tokens")
}

fn url(address: &Address, tls: bool) -> String {
    match address {
        Address::Tcp(address) => format!("http{}://{address}", if tls { "s" } else { "" }),
        Address::Unix(_) => address.to_string(),
    }
}

/// Quotes a text as one word of a shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns the arguments of curl for a door.
fn curl_target(door: &Address, tls: bool, path: &str) -> String {
    let insecure = if tls { "-k " } else { "" };
    match door {
        Address::Tcp(address) => {
            // 0.0.0.0 is no address to connect to.
            let host = match address.ip() {
                ip if ip.is_unspecified() => format!("localhost:{}", address.port()),
                _ => address.to_string(),
            };
            let scheme = if tls { "https" } else { "http" };
            format!("{insecure}{scheme}://{host}{path}")
        }
        Address::Unix(socket) => {
            format!("--unix-socket {} http://tollgate{path}", socket.display())
        }
    }
}
