//! The layer in an axum server.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use http::{Request, Response};
use tollgate::Limiter;
use tollgate::testing::ManualClock;
use tollgate_tower::headers::HeaderStyle;
use tollgate_tower::{Peer, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::serve::{get, hello, serve};

#[tokio::test]
async fn a_client_over_its_limit_is_told_when_to_come_back() {
    let rules = "rules: [{ name: edge, per: ip, limit: 2/h fixed }]".parse().unwrap();
    let clock = ManualClock::new();
    let limiter = Limiter::builder().clock(&clock).build_rules(rules);
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
    // axum clones a layer's service for every route and connection: what is kept in it, as tower's
    // own limit keeps it, is then counted by each for itself.
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
async fn attributes_domains_and_styles() {
    #[derive(Clone)]
    struct Org(&'static str);
    let rules = "
domain: shop
rules: [{ name: api, per: org, limit: 1/h }]
";
    let layer = RateLimitLayer::from_rules(rules.parse().unwrap())
        .domain("shop")
        .headers(HeaderStyle::Draft6)
        .attribute("org", |head| head.extensions.get::<Org>().map(|org| org.0.to_owned()));
    let service = layer.layer(service_fn(answer));
    let ask = |org| {
        let mut request = Request::new(String::new());
        request.extensions_mut().insert(Org(org));
        service.clone().oneshot(request)
    };
    let reply = ask("acme").await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["ratelimit-limit"]),
        (200, &"1".parse().unwrap())
    );
    assert_eq!(ask("acme").await.unwrap().status(), 429);
    assert_eq!(ask("other").await.unwrap().status(), 200);
}

#[tokio::test]
async fn refusals_in_ones_own_words() {
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
async fn every_way_to_tell_an_address() {
    for which in 0..3 {
        let mut layer = RateLimitLayer::per_ip("1/h".parse().unwrap());
        if which == 2 {
            layer = layer.peer(|head| head.extensions.get::<SocketAddr>().map(|it| it.ip()));
        }
        let service = layer.layer(service_fn(answer));
        let ask = |last: u8| {
            let mut request = Request::new(String::new());
            let address = SocketAddr::from(([192, 0, 2, last], 1));
            match which {
                0 => drop(request.extensions_mut().insert(Peer(address.ip()))),
                1 => drop(request.extensions_mut().insert(axum::extract::ConnectInfo(address))),
                _ => drop(request.extensions_mut().insert(address)),
            }
            service.clone().oneshot(request)
        };
        assert_eq!(ask(1).await.unwrap().status(), 200);
        assert_eq!(ask(1).await.unwrap().status(), 429);
        assert_eq!(ask(2).await.unwrap().status(), 200, "somebody else, told in way {which}");
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    /// Panics if it is called without having been asked whether it is ready, as tower allows.
    struct Strict(bool);
    impl Clone for Strict {
        fn clone(&self) -> Strict {
            Strict(false)
        }
    }
    impl Service<Request<String>> for Strict {
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
    let mut service = layer.wait_up_to(Duration::from_secs(60)).layer(Strict(false));
    for _ in 0..5 {
        // The second one and all after it are held back.
        let reply = service.ready().await.unwrap().call(Request::new(String::new())).await;
        assert_eq!(reply.unwrap().status(), 200);
    }
}

async fn answer(_: Request<String>) -> Result<Response<String>, std::convert::Infallible> {
    Ok(Response::new("hello".to_owned()))
}
