//! Web pages cannot use a door on a loopback address.

use tollgate_server::net::Bind;

use super::client::HttpClient;
use crate::support::{TestServer, start_with};

const RULES: &str = "domain: shop\nrules: [{ name: edge, per: ip, limit: 100/s }]\n";
const LIMIT: &str = r#"{"key":"k","limit":"1000/h"}"#;

fn start() -> TestServer {
    start_with(RULES, |config| {
        config.admin = Some(Bind::plain("127.0.0.1:0".parse().unwrap()));
        config.hosts = vec!["limits.example.com".to_owned()];
    })
}

/// Returns the status of a request with that `Host` and these headers.
fn status(
    client: &mut HttpClient,
    (method, path): (&str, &str),
    host: &str,
    headers: &[&str],
    body: &str,
) -> u16 {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    headers.iter().for_each(|header| request += &format!("{header}\r\n"));
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    client.write(request);
    client.read().unwrap().status
}

#[test]
fn a_name_that_was_rebound_to_this_machine_is_refused() {
    let server = start();
    let mut http = HttpClient::connect(server.http());
    let mut admin = HttpClient::connect(server.admin());
    for (host, expected) in [
        ("evil.example", 403),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("[::1]:8080", 200),
        ("tollgate", 200),
        ("limits.example.com", 200),
    ] {
        assert_eq!(status(&mut http, ("POST", "/v1/limit"), host, &[], LIMIT), expected, "{host}");
        assert_eq!(status(&mut http, ("GET", "/metrics"), host, &[], ""), expected, "{host}");
        assert_eq!(status(&mut admin, ("GET", "/livez"), host, &[], ""), expected, "{host}");
    }
    // Proxies pass on the names of their clients.
    let auth = ("GET", "/v1/auth?domain=shop");
    let from_page = ["Origin: https://other.example", "Sec-Fetch-Site: cross-site"];
    assert_eq!(status(&mut http, auth, "shop.example", &from_page, ""), 200);
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let server = start();
    let own = server.http().to_string();
    let same_origin = format!("Origin: http://{own}");
    let json = "Content-Type: application/json";
    let form = "Content-Type: application/x-www-form-urlencoded";
    let mut client = HttpClient::connect(server.http());
    for (headers, expected) in [
        (&["Origin: https://evil.example"][..], 403),
        (&["Origin: null"], 403),
        (&["Origin: http://127.0.0.1:1"], 403),
        (&["Origin: https://evil.example", json], 403),
        (&["Sec-Fetch-Site: cross-site"], 403),
        (&["Sec-Fetch-Site: same-site", form], 403),
        (&["Content-Type: text/plain"], 415),
        (&["Content-Type: Text/Plain; charset=UTF-8"], 415),
        (&["Content-Type: multipart/form-data; boundary=x"], 415),
        (&["Referer: https://evil.example/", form], 415),
        (&[same_origin.as_str(), form], 415),
        (&[same_origin.as_str(), "Sec-Fetch-Site: same-origin", json], 200),
        (&[json], 200),
        // This is what `curl -d` sends.
        (&[form], 200),
        (&[], 200),
    ] {
        let call = ("POST", "/v1/limit");
        assert_eq!(status(&mut client, call, &own, headers, LIMIT), expected, "{headers:?}");
    }
    // A preflight is not answered, so that no page may send other methods, types or headers.
    client.write(format!(
        "OPTIONS /v1/reset HTTP/1.1\r\nHost: {own}\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    ));
    let response = client.read().unwrap();
    assert_eq!(response.status, 405);
    assert_eq!(response.header("access-control-allow-origin"), None);
}
