//! grpcio with the published messages of Envoy's API.

use super::start;
use crate::support::python;

#[test]
fn grpcio_gets_decisions() {
    let server = start();
    let output = python("grpc/client.py", &["limits", &server.grpc().to_string()]);
    assert_eq!(output.trim(), "limits: fine");
}

#[test]
fn grpcio_checks_health() {
    let server = start();
    let output = python("grpc/client.py", &["health", &server.grpc().to_string()]);
    assert_eq!(output.trim(), "health: fine");
}

#[test]
fn grpcio_finds_the_service_by_reflection() {
    let server = start();
    let output = python("grpc/client.py", &["reflection", &server.grpc().to_string()]);
    assert_eq!(output.trim(), "reflection: fine");
}
