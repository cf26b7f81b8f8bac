//! Keys that change: in a file, and at a URL.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream, until};
use tollgate_server::config::JwtKeySource;

use super::{KNOWN, made_tokens, verifying, with_token, write};

/// What a key server answers: a status and a body.
type Served = Arc<Mutex<(u16, String)>>;

fn key_server(first: String) -> (Upstream, Served) {
    let served: Served = Arc::new(Mutex::new((200, first)));
    let shared = served.clone();
    let server = Upstream::answering(move |_, stream| {
        let (status, body) = shared.lock().unwrap().clone();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n");
        let _ = stream.write_all((head + &body).as_bytes());
        AfterResponse::Keep
    });
    (server, served)
}

fn url(server: &Upstream) -> JwtKeySource {
    JwtKeySource::Url(format!("{}/jwks.json", server.url()).parse().unwrap())
}

#[test]
fn a_file_is_read_again_when_it_changes() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = write(folder.path(), "keys", &made["jwks"].to_string());
    let (gateway, _) = verifying(KNOWN, &upstream, keys, &[], |_| {});
    let (old, new) = (made["named"].as_str().unwrap(), made["rotated"]["token"].as_str().unwrap());
    let statuses = || (with_token(&gateway, old).status(), with_token(&gateway, new).status());
    assert_eq!(statuses(), (418, 200));
    write(folder.path(), "keys", "{ broken");
    gateway.reload();
    assert_eq!(statuses(), (418, 200), "the last valid keys stay in use");
    write(folder.path(), "keys", &made["rotated"]["jwks"].to_string());
    // A cached token of a key that is gone is not valid either.
    until("the new keys are used", || statuses() == (200, 418));
}

#[test]
fn a_url_is_requested_again_and_keeps_the_last_valid_keys() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let (server, served) = key_server(made["jwks"].to_string());
    let (gateway, _) = verifying(KNOWN, &upstream, url(&server), &[], |options| {
        options.refresh = Duration::from_millis(50);
    });
    let (old, new) = (made["named"].as_str().unwrap(), made["rotated"]["token"].as_str().unwrap());
    let statuses = || (with_token(&gateway, old).status(), with_token(&gateway, new).status());
    assert_eq!(statuses(), (418, 200));
    for (status, body) in
        [(500, String::new()), (200, "{}".into()), (200, "[".into()), (200, "x".repeat(1 << 20))]
    {
        let before = server.count();
        *served.lock().unwrap() = (status, body);
        until("the URL is requested again", || server.count() > before + 1);
        assert_eq!(statuses(), (418, 200), "the last valid keys stay in use");
    }
    *served.lock().unwrap() = (200, made["rotated"]["jwks"].to_string());
    until("the new keys are used", || statuses() == (200, 418));
}

#[test]
fn unknown_keys_cause_few_requests() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let (server, served) = key_server(made["jwks"].to_string());
    let (gateway, _) = verifying(KNOWN, &upstream, url(&server), &[], |options| {
        options.refresh = Duration::from_secs(2);
    });
    let started = server.count();
    *served.lock().unwrap() = (200, made["rotated"]["jwks"].to_string());
    let new = made["rotated"]["token"].as_str().unwrap();
    let mut tries = 0;
    until("the new key is known", || {
        tries += 1;
        with_token(&gateway, new).status() == 418
    });
    // Each of many tokens named an unknown key.
    let requests = server.count() - started;
    assert!(requests <= 4, "{requests} requests for {tries} tokens");
}

#[test]
fn a_key_server_that_does_not_answer_at_the_start_is_asked_again() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let (server, served) = key_server(made["jwks"].to_string());
    served.lock().unwrap().0 = 503;
    let (gateway, _) = verifying(KNOWN, &upstream, url(&server), &[], |options| {
        options.refresh = Duration::from_millis(100);
    });
    let token = made["named"].as_str().unwrap();
    assert_eq!(with_token(&gateway, token).status(), 200, "no key, no claims");
    served.lock().unwrap().0 = 200;
    until("the keys are there", || with_token(&gateway, token).status() == 418);
}

#[test]
fn keys_that_anyone_could_replace_or_know_are_refused() {
    use tollgate_server::config::{JwtAlgorithm, JwtOptions};
    use tollgate_server::{Config, Server};
    let check = |url: &str, algorithms: &[JwtAlgorithm]| {
        let mut options = JwtOptions::new(JwtKeySource::Url(url.parse().unwrap()));
        options.algorithms = algorithms.to_vec();
        let mut config = Config::default();
        config.identity.jwt = Some(options);
        Server::check(&config).map_err(|error| error.to_string())
    };
    let safe = [JwtAlgorithm::Rs256];
    assert_eq!(check("https://id.example/jwks", &safe), Ok(()));
    assert!(check("http://id.example/jwks", &safe).unwrap_err().contains("https"));
    let shared = check("https://id.example/jwks", &[JwtAlgorithm::Hs256]).unwrap_err();
    assert!(shared.contains("shared secret"), "{shared}");
    assert!(check("https://id.example/jwks", &[]).unwrap_err().contains("no algorithm"));
}
