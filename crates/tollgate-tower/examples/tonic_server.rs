//! A tonic server behind rules; a caller that is refused reads when to come back.
//!
//! ```text
//! ResourceExhausted: refused by the rule "calls": come back in 1min
//! ```

use tollgate_tower::RateLimitLayer;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = "rules: [{ name: calls, per: ip, limit: 1/min }]".parse()?;
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let address = incoming.local_addr()?;
    let server = Server::builder().layer(RateLimitLayer::from_rules(rules)).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));

    // Everything below is the client.
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    client.check(HealthCheckRequest::default()).await?;
    let refused = client.check(HealthCheckRequest::default()).await.unwrap_err();
    println!("{:?}: {}", refused.code(), refused.message());
    assert!(refused.get_details_retry_info().and_then(|info| info.retry_delay).is_some());
    Ok(())
}
