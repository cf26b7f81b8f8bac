//! Going down in good order.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream};
use tollgate_server::{Config, Server, StartError};

use crate::support::{OPEN, start};

#[test]
fn requests_under_way_are_answered_and_connections_end() {
    let (go_on, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let upstream = Upstream::answering(move |request, stream| {
        if request.target() == "/slow" {
            let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        AfterResponse::Keep
    });
    let gateway = start(OPEN, &upstream);
    let mut idle = gateway.connect();
    assert_eq!(idle.get("/").status(), 200);
    let mut busy = gateway.connect();
    busy.write("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n");
    while upstream.count() < 2 {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let down = gateway.stop();
    assert!(idle.rest().is_some_and(|rest| rest.is_empty()), "who is idle is let go at once");
    go_on.send(()).unwrap();
    let answer = busy.read().unwrap();
    assert_eq!((answer.status(), answer.header("connection")), (200, Some("close")));
    assert!(busy.rest().is_some_and(|rest| rest.is_empty()));
    down.join().unwrap();
}

#[test]
fn it_must_be_clear_whose_rules_apply() {
    let folder = tempfile::tempdir().unwrap();
    for domain in ["shop", "mail"] {
        let rules = format!("domain: {domain}\nrules: [{{ name: all, limit: 1/s }}]");
        std::fs::write(folder.path().join(format!("{domain}.yaml")), rules).unwrap();
    }
    let started = |domain: Option<&str>| {
        let mut config = Config::default();
        (config.http, config.grpc, config.resp) = (None, None, None);
        config.rules = Some(tollgate_server::sources::Origin::path(folder.path()));
        let upstream = "http://127.0.0.1:9".parse().unwrap();
        let mut options = tollgate_server::config::GatewayOptions::to(vec![upstream]);
        options.listen = tollgate_server::net::Bind::plain("127.0.0.1:0".parse().unwrap());
        options.domain = domain.map(str::to_owned);
        config.gateway = Some(options);
        config.drain.notice = Duration::ZERO;
        let checked = Server::check(&config).map_err(|error| error.to_string());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let started = runtime.block_on(async {
            match Server::start(config).await {
                Ok(server) => {
                    server.stop().await;
                    Ok(())
                }
                Err(error @ StartError::Gateway(_)) => Err(error.to_string()),
                Err(other) => panic!("{other}"),
            }
        });
        assert_eq!(checked, started);
        started
    };
    assert_eq!(started(Some("shop")), Ok(()));
    let wrong = started(None).unwrap_err();
    assert!(wrong.contains("--domain") && wrong.contains("mail, shop"), "{wrong}");
    let wrong = started(Some("shpo")).unwrap_err();
    assert!(wrong.contains("\"shpo\"") && wrong.contains("shop"), "{wrong}");
}
