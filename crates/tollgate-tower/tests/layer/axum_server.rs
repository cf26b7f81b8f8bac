//! The layer in an axum server.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use http::{Request, Response};
use tollgate::testing::ManualClock;
use tollgate_rules::RuleLimiter;
use tollgate_tower::headers::HeaderStyle;
use tollgate_tower::{Peer, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::serve::{get, hello, serve};

#[tokio::test]
async fn a_refusal_has_headers_with_the_retry_time() {
    let rules = "rules: [{ name: edge, per: ip, limit: 2/h fixed }]".parse().unwrap();
    let clock = ManualClock::new();
    let limiter = RuleLimiter::builder().clock(&clock).build(rules);
    let address = hello(RateLimitLayer::new(limiter)).await;
    let first = get(address, "/", "").await;
    assert_eq!(first.status, 200);
    assert_eq!(first.header("ratelimit-policy"), Some(r#""edge";q=2;w=3600"#));
    assert!(first.header("ratelimit").unwrap().starts_with(r#""edge";r=1;t="#), "{first:?}");
    assert_eq!(get(address, "/", "").await.status, 200);
    let refused = get(address, "/", "").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert!(refused.text.contains(r#""rule":"edge""#), "{refused:?}");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    clock.advance(Duration::from_secs(seconds));
    assert_eq!(get(address, "/", "").await.status, 200);
}

#[tokio::test]
async fn clones_share_one_limiter() {
    // axum clones the service of a layer for every route and connection, so a counter inside the
    // service, as in tower's own limit, would count each clone separately.
    let layer = RateLimitLayer::per_ip("5/h".parse().unwrap());
    let app = Router::new()
        .route("/a", on_get(|| async { "a" }))
        .route("/b", on_get(|| async { "b" }))
        .layer(layer.clone())
        .merge(Router::new().route("/c", on_get(|| async { "c" })).layer(layer));
    let address = serve(app).await;
    let mut passed = 0;
    for path in ["/a", "/b", "/c"].into_iter().cycle().take(30) {
        passed += usize::from(get(address, path, "").await.status == 200);
    }
    assert_eq!(passed, 5);
}

#[tokio::test]
async fn attributes_domains_and_header_styles_can_be_configured() {
    #[derive(Clone)]
    struct Org(&'static str);
    let rules = "
domain: shop
attributes: [org]
rules: [{ name: api, per: org, limit: 1/h }]
";
    let layer = RateLimitLayer::from_rules(rules.parse().unwrap())
        .domain("shop")
        .headers(HeaderStyle::Draft6)
        .attribute("org", |head| head.extensions.get::<Org>().map(|org| org.0.to_owned()));
    let service = layer.layer(service_fn(respond));
    let send = |org| {
        let mut request = Request::new(String::new());
        request.extensions_mut().insert(Org(org));
        service.clone().oneshot(request)
    };
    let reply = send("acme").await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["ratelimit-limit"]),
        (200, &"1".parse().unwrap())
    );
    assert_eq!(send("acme").await.unwrap().status(), 429);
    assert_eq!(send("other").await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_application_can_write_its_own_refusals() {
    let layer = RateLimitLayer::per_key("1/h".parse().unwrap(), |_| None).on_refused(|refusal| {
        let path = refusal.head.uri.path();
        Response::builder().status(420).body(format!("calm down at {path}")).unwrap()
    });
    let address = hello(layer).await;
    assert_eq!(get(address, "/x", "").await.status, 200);
    let refused = get(address, "/x", "").await;
    assert_eq!(refused.status, 420);
    assert!(refused.text.ends_with("calm down at /x"), "{refused:?}");
}

#[tokio::test]
async fn the_client_address_comes_from_peer_connect_info_or_a_function() {
    for source in 0..3 {
        let mut layer = RateLimitLayer::per_ip("1/h".parse().unwrap());
        if source == 2 {
            layer =
                layer.peer(|head| head.extensions.get::<SocketAddr>().map(|address| address.ip()));
        }
        let service = layer.layer(service_fn(respond));
        let send = |last: u8| {
            let mut request = Request::new(String::new());
            let address = SocketAddr::from(([192, 0, 2, last], 1));
            match source {
                0 => drop(request.extensions_mut().insert(Peer(address.ip()))),
                1 => drop(request.extensions_mut().insert(axum::extract::ConnectInfo(address))),
                _ => drop(request.extensions_mut().insert(address)),
            }
            service.clone().oneshot(request)
        };
        assert_eq!(send(1).await.unwrap().status(), 200);
        assert_eq!(send(1).await.unwrap().status(), 429);
        assert_eq!(send(2).await.unwrap().status(), 200, "another address, source {source}");
    }
}

#[tokio::test]
async fn a_server_that_tells_no_address_is_an_error_that_says_what_to_change() {
    let layer = RateLimitLayer::per_ip("5/h".parse().unwrap());
    let router = || Router::new().route("/", on_get(|| async { "hello" })).layer(layer.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let without = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router()).into_future());
    let reply = get(without, "/", "").await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (500, Some("application/problem+json"))
    );
    for text in ["client-address-missing", "into_make_service_with_connect_info::<SocketAddr>()"] {
        assert!(reply.text.contains(text), "{reply:?}");
    }
    let grpc = get(without, "/", "content-type: application/grpc\r\n").await;
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("13")));
    // The same application, served with the addresses of its clients.
    let with = serve(router()).await;
    assert_eq!(get(with, "/", "").await.status, 200);
}

#[tokio::test]
async fn requests_without_an_address_by_choice_share_one_counter() {
    let layer = RateLimitLayer::per_ip("1/h".parse().unwrap()).peer(|_| None);
    let service = layer.layer(service_fn(respond));
    let send = || service.clone().oneshot(Request::new(String::new()));
    assert_eq!(send().await.unwrap().status(), 200);
    assert_eq!(send().await.unwrap().status(), 429);
}

#[tokio::test]
async fn rules_that_need_no_address_work_without_one() {
    for rules in [
        "rules: [{ name: all, limit: 1/h }]",
        "rules: [{ name: all, limit: 1/h }, { name: seen, per: ip, limit: 1/h, mode: shadow }]",
        "rules: [{ name: all, limit: 1/h }, { name: skip, per: ip, limit: 1/h, missing_key: skip }]",
    ] {
        let layer = RateLimitLayer::from_rules(rules.parse().unwrap());
        let service = layer.layer(service_fn(respond));
        let send = || service.clone().oneshot(Request::new(String::new()));
        assert_eq!(send().await.unwrap().status(), 200, "{rules}");
        assert_eq!(send().await.unwrap().status(), 429, "{rules}");
    }
}

#[tokio::test]
async fn the_layer_calls_the_service_that_it_polled_ready() {
    /// A service that panics when it is called before it is polled ready, as tower allows.
    struct ReadyCheckedService(bool);
    impl Clone for ReadyCheckedService {
        fn clone(&self) -> ReadyCheckedService {
            ReadyCheckedService(false)
        }
    }
    impl Service<Request<String>> for ReadyCheckedService {
        type Response = Response<String>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Response<String>, Self::Error>>;
        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Self::Error>> {
            self.0 = true;
            std::task::Poll::Ready(Ok(()))
        }
        fn call(&mut self, _: Request<String>) -> Self::Future {
            assert!(std::mem::take(&mut self.0), "not ready");
            std::future::ready(Ok(Response::new(String::new())))
        }
    }
    tokio::time::pause();
    let layer = RateLimitLayer::per_ip("100/s burst 1".parse().unwrap());
    let mut service = layer.wait_up_to(Duration::from_secs(60)).layer(ReadyCheckedService(false));
    for _ in 0..5 {
        // The layer delays every request after the first.
        let mut request = Request::new(String::new());
        request.extensions_mut().insert(Peer([192, 0, 2, 1].into()));
        let reply = service.ready().await.unwrap().call(request).await;
        assert_eq!(reply.unwrap().status(), 200);
    }
}

async fn respond(_: Request<String>) -> Result<Response<String>, std::convert::Infallible> {
    Ok(Response::new("hello".to_owned()))
}
