//! One connection that sends requests and reads responses.

use std::cell::Cell;

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tollgate_server::net::Address;

use super::request_template::RequestTemplate;
use super::response::{self, BenchOutcome, ResponseParser};
use super::schedule::ConnectionSchedule;

/// A TCP or Unix connection.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// Connects to a door.
pub(super) async fn connect(to: &Address) -> anyhow::Result<Box<dyn ByteStream>> {
    let failed = || format!("cannot connect to {to}; choose another address with --to");
    match to {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await.with_context(failed)?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.with_context(failed)?)),
    }
}

/// Sends batches of `pipeline` requests, and reads the responses of each.
pub(super) async fn pipeline(
    mut stream: impl ByteStream,
    message: &RequestTemplate,
    read: ResponseParser,
    size: u64,
    turns: &mut ConnectionSchedule<'_>,
) -> anyhow::Result<()> {
    let (mut sent, mut received) = (Vec::new(), Vec::with_capacity(1 << 16));
    while let Some((count, start)) = turns.next(size).await {
        sent.clear();
        for _ in 0..count {
            message.write(turns.key(), &mut sent);
        }
        stream.write_all(&sent).await?;
        let mut left = count;
        while left > 0 {
            if stream.read_buf(&mut received).await? == 0 {
                turns.tally.borrow_mut().failed += left;
                bail!("the server closed the connection");
            }
            let (mut used, mut responses) = (0, 0);
            while let Some((length, outcome)) = read(&received[used..])? {
                turns.tally.borrow_mut().count(outcome);
                used += length;
                responses += 1;
            }
            received.drain(..used);
            turns.answered(responses, start);
            left = left
                .checked_sub(responses)
                .context("the server sent more responses than requests")?;
        }
    }
    Ok(())
}

/// Sends a Redis command and waits for its status line.
pub(super) async fn send_command(
    stream: &mut impl ByteStream,
    command: &[u8],
) -> anyhow::Result<()> {
    stream.write_all(command).await?;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') && line.len() < 1024 {
        line.push(stream.read_u8().await?);
    }
    match line.first() {
        Some(b'+') => Ok(()),
        _ => bail!("{}", String::from_utf8_lossy(&line).trim_end()),
    }
}

/// Performs the HTTP/2 handshake.
pub(super) async fn http2_handshake(
    stream: impl ByteStream,
) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(async move {
        // An error also reaches the requests of the connection.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Sends gRPC calls one after another on a shared HTTP/2 connection.
pub(super) async fn grpc_calls(
    mut sender: SendRequest<Full<Bytes>>,
    url: &str,
    token: Option<&str>,
    message: &RequestTemplate,
    turns: &mut ConnectionSchedule<'_>,
) -> anyhow::Result<()> {
    let mut body = Vec::new();
    while let Some((_, start)) = turns.next(1).await {
        body.clear();
        message.write(turns.key(), &mut body);
        let mut request =
            Request::post(url).header("content-type", "application/grpc").header("te", "trailers");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(&body)))?;
        let failed = Cell::new(true);
        let call = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let whole = body.collect().await?;
            let status = |headers: &hyper::HeaderMap| headers.get("grpc-status").cloned();
            let status = whole.trailers().and_then(status).or_else(|| status(&head.headers));
            failed.set(status.is_none_or(|status| status != "0"));
            anyhow::Ok(response::envoy(&whole.to_bytes()))
        };
        let result = call.await;
        let outcome = if failed.get() {
            BenchOutcome::Failed
        } else {
            *result.as_ref().unwrap_or(&BenchOutcome::Failed)
        };
        turns.tally.borrow_mut().count(outcome);
        turns.answered(1, start);
        result.context("the server closed the connection")?;
    }
    Ok(())
}
