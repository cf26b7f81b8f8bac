//! gRPC through the gateway: grpcio asks a gRPC server behind it.

use tollgate_rig::Upstream;
use tollgate_server::net::Bind;

use crate::programs::python;
use crate::support::{OPEN, start_with};

#[test]
fn grpcio_calls_through_the_gateway() {
    // A tollgate with a gRPC door is the service; what stands before it is the gateway.
    let unused = Upstream::start();
    let service = start_with(OPEN, &[&unused.url()], |config| {
        config.grpc = Some(Bind::plain("127.0.0.1:0".parse().unwrap()));
    });
    let gateway = start_with(OPEN, &[&format!("h2c://{}", service.grpc())], |_| {});
    for what in ["health", "reflection"] {
        let said = python("grpc/client.py", &[what, &gateway.address().to_string()]);
        assert_eq!(said.trim(), format!("{what}: fine"));
    }
    assert!(gateway.decisions() >= 2);
}
