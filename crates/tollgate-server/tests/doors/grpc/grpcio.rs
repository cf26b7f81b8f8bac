//! grpcio, with the messages that Envoy's API is published as.

use super::start;
use crate::support::python;

#[test]
fn grpcio_asks_about_limits() {
    let server = start();
    let said = python("grpc/client.py", &["limits", &server.grpc().to_string()]);
    assert_eq!(said.trim(), "limits: fine");
}

#[test]
fn grpcio_asks_about_health() {
    let server = start();
    let said = python("grpc/client.py", &["health", &server.grpc().to_string()]);
    assert_eq!(said.trim(), "health: fine");
}

#[test]
fn grpcio_finds_the_service_by_reflection() {
    let server = start();
    let said = python("grpc/client.py", &["reflection", &server.grpc().to_string()]);
    assert_eq!(said.trim(), "reflection: fine");
}
