//! A client that is nothing but HTTP/2, so that it can do what libraries would not let it.

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

/// A connection; what became of it is known once the task is done.
pub(super) struct Client {
    requests: SendRequest<Bytes>,
    pub(super) connection: JoinHandle<Result<(), h2::Error>>,
}

/// An answer: the code of gRPC, what it says, and the message if there is one.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) says: String,
    pub(super) message: Bytes,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(super) async fn over<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: I) -> Client {
        let (requests, connection) = h2::client::handshake(io).await.unwrap();
        let connection = tokio::spawn(connection);
        Client { requests: requests.ready().await.unwrap(), connection }
    }

    /// Begins a call of any method.
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

    /// Asks, and reads the answer.
    pub(super) async fn ask(&mut self, request: &RateLimitRequest) -> Answer {
        self.ask_with(request, &[]).await
    }

    pub(super) async fn ask_with(
        &mut self,
        request: &RateLimitRequest,
        headers: &[(&str, &str)],
    ) -> Answer {
        let (answer, mut body) = self.begin_with(PATH, headers).await;
        finish(&mut body, framed(&request.encode_to_vec()));
        read(answer.await.unwrap()).await
    }

    /// Asks about one entry; the answer's code, and what is left.
    pub(super) async fn hit(&mut self, key: &str, value: &str) -> (i32, u32) {
        let answer = self.ask(&question(&[(key, value)])).await.response();
        (answer.overall_code, answer.statuses[0].limit_remaining)
    }
}

impl Answer {
    pub(super) fn response(&self) -> RateLimitResponse {
        assert_eq!(self.code, 0, "{}", self.says);
        RateLimitResponse::decode(self.message.clone()).unwrap()
    }
}

/// A question of the domain `demo`, with one descriptor for each entry.
pub(super) fn question(entries: &[(&str, &str)]) -> RateLimitRequest {
    let descriptor = |(key, value): &(&str, &str)| RateLimitDescriptor {
        entries: vec![Entry { key: (*key).into(), value: (*value).into() }],
        ..Default::default()
    };
    let descriptors = entries.iter().map(descriptor).collect();
    RateLimitRequest { domain: "demo".into(), descriptors, hits_addend: 0 }
}

/// Sends the last of a request. A refusal may have come before it; then nobody wants it.
pub(super) fn finish(body: &mut SendStream<Bytes>, bytes: Bytes) {
    let _ = body.send_data(bytes, true);
}

/// A message as gRPC sends it.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

pub(super) async fn read(response: Response<RecvStream>) -> Answer {
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
    Answer { code, says: text(&trailers, "grpc-message"), message }
}
