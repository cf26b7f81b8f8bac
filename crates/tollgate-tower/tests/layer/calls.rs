//! The layer in a gRPC server: clients read refusals with common libraries.

use std::time::Duration;

use tokio::net::TcpListener;
use tollgate_tower::RateLimitLayer;
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

/// Starts a server with the health service behind the given rules; returns a client for it.
async fn connect(rules: &str) -> HealthClient<Channel> {
    let layer = RateLimitLayer::from_rules(rules.parse().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn check(client: &mut HealthClient<Channel>) -> Result<(), tonic::Status> {
    client.check(HealthCheckRequest::default()).await.map(drop)
}

#[tokio::test]
async fn a_refused_call_has_a_retry_delay() {
    let mut client = connect("rules: [{ name: health, per: ip, limit: 1/min }]").await;
    check(&mut client).await.unwrap();
    let status = check(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains(r#"refused by the rule "health""#), "{status:?}");
    let delay = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!(delay > Duration::from_secs(1) && delay <= Duration::from_secs(60), "{delay:?}");
    let violations = status.get_details_quota_failure().unwrap().violations;
    assert_eq!(violations[0].subject, "rule:health");
    assert_eq!(violations[0].description, status.message());
    assert!(status.metadata().contains_key("ratelimit"));
}

#[tokio::test]
async fn each_kind_of_refusal_has_its_code() {
    for (rule, code) in [
        ("limit: 1/h, then: shed", Code::Unavailable),
        ("when: method == 'POST', then: deny 403", Code::PermissionDenied),
        ("when: method == 'POST', then: deny 401", Code::Unauthenticated),
        ("when: method == 'POST', then: deny", Code::ResourceExhausted),
    ] {
        let mut client = connect(&format!("rules: [{{ name: r, {rule} }}]")).await;
        let mut statuses = Vec::new();
        for _ in 0..2 {
            statuses.extend(check(&mut client).await.err().map(|status| status.code()));
        }
        assert_eq!(statuses.last(), Some(&code), "{rule}");
    }
}

#[tokio::test]
async fn rules_see_the_address_of_the_client() {
    let mut client =
        connect("rules: [{ name: local, when: 'ip in [\"127.0.0.0/8\"]', then: deny 403 }]").await;
    assert_eq!(check(&mut client).await.unwrap_err().code(), Code::PermissionDenied);
}
