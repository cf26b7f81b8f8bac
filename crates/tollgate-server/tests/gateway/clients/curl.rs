//! curl, by either protocol.

use std::process::Command;

use tollgate_rig::Upstream;

use crate::support::{Gateway, OPEN, start};

/// What curl prints: the heads of all answers and their bodies.
fn curl(gateway: &Gateway, options: &[&str], path: &str) -> String {
    let url = format!("http://{}{path}", gateway.address());
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "--max-time", "20", "--path-as-is"]).args(options).arg(url);
    let output = command.output().unwrap();
    let (said, error) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(said).unwrap()
}

#[test]
fn curl_is_limited_by_either_protocol() {
    for (option, version) in [("--http1.1", "HTTP/1.1"), ("--http2-prior-knowledge", "HTTP/2")] {
        let upstream = Upstream::start();
        let gateway =
            start("rules: [{ name: api, per: ip, limit: 2/h fixed first_hit }]", &upstream);
        let first = curl(&gateway, &[option], "/orders").to_lowercase();
        assert!(first.starts_with(&format!("{} 200", version.to_lowercase())), "{first}");
        assert!(first.contains("ratelimit: \"api\";r=1;t="), "{first}");
        assert!(first.ends_with("upstream"), "{first}");
        curl(&gateway, &[option], "/orders");
        let refused = curl(&gateway, &[option], "/orders").to_lowercase();
        assert!(refused.starts_with(&format!("{} 429", version.to_lowercase())), "{refused}");
        assert!(refused.contains("retry-after: ") && refused.contains("\"quota-exceeded\""));
        assert!(refused.contains("content-type: application/problem+json"), "{refused}");
        assert_eq!(upstream.count(), 2);
    }
}

#[test]
fn curl_sends_bodies_and_reads_heads() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    for option in ["--http1.1", "--http2-prior-knowledge"] {
        curl(&gateway, &[option, "-d", "a=b"], "/form");
        assert_eq!(upstream.last().text(), "a=b");
        curl(&gateway, &[option, "-d", "c=d", "-H", "Transfer-Encoding: chunked"], "/chunks");
        assert_eq!(upstream.last().text(), "c=d");
        let head = curl(&gateway, &[option, "-I"], "/head").to_lowercase();
        assert!(
            head.contains("content-length: 8") && !head.contains("upstream\r\n\r\nu"),
            "{head}"
        );
        assert_eq!(upstream.last().method(), "HEAD");
        curl(&gateway, &[option, "-b", "a=b; c=d"], "/cookies");
        assert_eq!(upstream.last().header("cookie"), Some("a=b; c=d"));
    }
}
