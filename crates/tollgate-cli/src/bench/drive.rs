//! Asking on one connection, again and again.

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

use super::answer::{self, Answer, Read};
use super::message::Message;
use super::pace::Turns;

/// What a connection's bytes run over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

pub(super) async fn connect(to: &Address) -> anyhow::Result<Box<dyn Stream>> {
    let why = || format!("cannot connect to {to}");
    match to {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await.with_context(why)?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.with_context(why)?)),
    }
}

/// Sends so many requests at once, reads their answers, and starts over.
pub(super) async fn stream(
    mut stream: impl Stream,
    message: &Message,
    read: Read,
    pipeline: u64,
    turns: &mut Turns<'_>,
) -> anyhow::Result<()> {
    let (mut asked, mut arrived) = (Vec::new(), Vec::with_capacity(1 << 16));
    while let Some((count, start)) = turns.next(pipeline).await {
        asked.clear();
        for _ in 0..count {
            message.write(turns.key(), &mut asked);
        }
        stream.write_all(&asked).await?;
        let mut left = count;
        while left > 0 {
            if stream.read_buf(&mut arrived).await? == 0 {
                turns.tally.borrow_mut().failed += left;
                bail!("the server closed the connection");
            }
            let (mut used, mut answers) = (0, 0);
            while let Some((length, answer)) = read(&arrived[used..])? {
                turns.tally.borrow_mut().count(answer);
                used += length;
                answers += 1;
            }
            arrived.drain(..used);
            turns.answered(answers, start);
            left = left.checked_sub(answers).context("more answers than questions")?;
        }
    }
    Ok(())
}

/// Says something first, and waits for a line.
pub(super) async fn introduce(stream: &mut impl Stream, words: &[u8]) -> anyhow::Result<()> {
    stream.write_all(words).await?;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') && line.len() < 1024 {
        line.push(stream.read_u8().await?);
    }
    match line.first() {
        Some(b'+') => Ok(()),
        _ => bail!("{}", String::from_utf8_lossy(&line).trim_end()),
    }
}

/// A connection of HTTP/2, on which many may ask at once.
pub(super) async fn shake_hands(stream: impl Stream) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(async move {
        // Who asks learns of its end.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Asks one request after another on a shared connection of HTTP/2.
pub(super) async fn calls(
    mut sender: SendRequest<Full<Bytes>>,
    url: &str,
    token: Option<&str>,
    message: &Message,
    turns: &mut Turns<'_>,
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
        let asked = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let whole = body.collect().await?;
            let status = |headers: &hyper::HeaderMap| headers.get("grpc-status").cloned();
            let status = whole.trailers().and_then(status).or_else(|| status(&head.headers));
            failed.set(status.is_none_or(|status| status != "0"));
            anyhow::Ok(answer::envoy(&whole.to_bytes()))
        };
        let answered = asked.await;
        let answer = if failed.get() {
            Answer::Failed
        } else {
            *answered.as_ref().unwrap_or(&Answer::Failed)
        };
        turns.tally.borrow_mut().count(answer);
        turns.answered(1, start);
        answered.context("the server closed the connection")?;
    }
    Ok(())
}
