//! A raw HTTP/2 client, which can send what gRPC libraries do not allow.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use super::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

pub(super) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A client connection; its task ends with the result of the connection.
pub(super) struct GrpcClient {
    requests: SendRequest<Bytes>,
    pub(super) connection: JoinHandle<Result<(), h2::Error>>,
}

/// A response: the gRPC code, its message, and the protobuf message if there is one.
#[derive(Debug)]
pub(super) struct GrpcResponse {
    pub(super) code: i32,
    pub(super) status_message: String,
    pub(super) message: Bytes,
}

impl GrpcClient {
    pub(super) async fn connect(address: SocketAddr) -> GrpcClient {
        GrpcClient::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(super) async fn over<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        io: I,
    ) -> GrpcClient {
        let (requests, connection) = h2::client::handshake(io).await.unwrap();
        let connection = tokio::spawn(connection);
        GrpcClient { requests: requests.ready().await.unwrap(), connection }
    }

    /// Starts a call of any method.
    pub(super) async fn begin(&mut self, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
        self.begin_with(path, &[]).await
    }

    pub(super) async fn begin_with(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::post(format!("http://tollgate{path}"));
        request = request.header("content-type", "application/grpc").header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.requests = self.requests.clone().ready().await.unwrap();
        self.requests.send_request(request.body(()).unwrap(), false).unwrap()
    }

    /// Sends a request and reads the response.
    pub(super) async fn call(&mut self, request: &RateLimitRequest) -> GrpcResponse {
        self.call_with(request, &[]).await
    }

    pub(super) async fn call_with(
        &mut self,
        request: &RateLimitRequest,
        headers: &[(&str, &str)],
    ) -> GrpcResponse {
        let (response, mut body) = self.begin_with(PATH, headers).await;
        finish(&mut body, framed(&request.encode_to_vec()));
        read(response.await.unwrap()).await
    }

    /// Sends one entry; returns the code and the remaining limit.
    pub(super) async fn hit(&mut self, key: &str, value: &str) -> (i32, u32) {
        let response = self.call(&descriptors_request(&[(key, value)])).await.response();
        (response.overall_code, response.statuses[0].limit_remaining)
    }
}

impl GrpcResponse {
    pub(super) fn response(&self) -> RateLimitResponse {
        assert_eq!(self.code, 0, "{}", self.status_message);
        RateLimitResponse::decode(self.message.clone()).unwrap()
    }
}

/// Returns a request of the domain `demo` with one descriptor for each entry.
pub(super) fn descriptors_request(entries: &[(&str, &str)]) -> RateLimitRequest {
    let descriptor = |(key, value): &(&str, &str)| RateLimitDescriptor {
        entries: vec![Entry { key: (*key).into(), value: (*value).into() }],
        ..Default::default()
    };
    let descriptors = entries.iter().map(descriptor).collect();
    RateLimitRequest { domain: "demo".into(), descriptors, hits_addend: 0 }
}

/// Sends the end of a request; errors are ignored, because a refusal may have come before.
pub(super) fn finish(body: &mut SendStream<Bytes>, bytes: Bytes) {
    let _ = body.send_data(bytes, true);
}

/// Returns a message with its gRPC prefix.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

pub(super) async fn read(response: Response<RecvStream>) -> GrpcResponse {
    let (head, mut body) = response.into_parts();
    assert_eq!(
        (head.status.as_u16(), &head.headers["content-type"]),
        (200, &http::HeaderValue::from_static("application/grpc"))
    );
    let mut bytes = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
    let text = |headers: &HeaderMap, name: &str| {
        headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let code = text(&trailers, "grpc-status").parse().unwrap();
    let message = if bytes.is_empty() { Bytes::new() } else { bytes.split_off(5).freeze() };
    GrpcResponse { code, status_message: text(&trailers, "grpc-message"), message }
}
