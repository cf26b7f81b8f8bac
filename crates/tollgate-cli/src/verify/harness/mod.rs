//! What the checks need of the outside world: servers, clients, a stub upstream, a proxy with faults.

mod child_server;
mod fault_proxy;
mod http2_client;
mod http_client;
mod resp_client;
mod stub_upstream;

use std::time::Duration;

pub(super) use child_server::{ChildServer, MEMORY_UNKNOWN};
pub(super) use fault_proxy::{FaultProxy, ProxyFault};
pub(super) use http_client::{HttpConnection, HttpMessage};
pub(super) use http2_client::{CLIENT_PREFACE, Http2Frame, grpc_check, grpc_request_head};
pub(super) use resp_client::RespConnection;
pub(super) use stub_upstream::StubUpstream;

/// The maximum wait for a server: long enough for a busy machine, and short of the checks' own limits.
const IO_TIMEOUT: Duration = Duration::from_secs(10);
