//! The fuzz targets of requests on HTTP/1.1 connections: hyper reads the requests that the guard reads.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::{GuardFinding, RequestGuard, StreamPosition};
use crate::net::http::MAX_HEAD_BYTES;

/// A head that is followed by a chunked body.
const CHUNKED_HEAD: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A request as a reader of the connection understood it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReadRequest {
    method: String,
    /// The path and the query; empty for a target of another form.
    target: String,
    /// The body; `None` if it is not complete.
    body: Option<Vec<u8>>,
}

/// What the guard found on a connection.
#[derive(Debug, PartialEq, Eq)]
struct GuardReport {
    finding: GuardFinding,
    /// The number of bytes in front of the first ambiguous one.
    sound: usize,
    requests: Vec<ReadRequest>,
}

/// Follows any bytes as requests on a connection. The first byte is the size of the pieces in which
/// they come.
///
/// The finding does not depend on the pieces. Up to an ambiguity, hyper reads the requests and bodies
/// that the guard reads: no more, and no others. It may refuse more than the guard does.
pub fn fuzz_request_guard(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    check(bytes, usize::from(*size).max(1));
}

/// Follows any bytes as a chunked body, and what comes after it. The first byte is the size of the
/// pieces.
pub fn fuzz_chunks(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    check(&[CHUNKED_HEAD, bytes].concat(), usize::from(*size).max(1));
}

fn check(bytes: &[u8], size: usize) {
    let report = follow(bytes);
    for size in [bytes.len().max(1), size] {
        assert_eq!(finding(bytes, size), (report.finding, report.sound), "in pieces of {size}");
    }
    let by_hyper = read_by_hyper(&bytes[..report.sound]);
    // The gateway refuses the request with the ambiguous head by its number, and all after it.
    let is_refused = matches!(report.finding, GuardFinding::Head(..));
    let is_more = by_hyper.len() > report.requests.len();
    assert!(is_refused || !is_more, "hyper reads more: {by_hyper:?}, {report:?}");
    for (hyper, guard) in by_hyper.iter().zip(&report.requests) {
        assert_eq!(hyper, guard);
    }
}

/// Returns the finding about bytes in pieces, and the number of bytes that are sound.
///
/// Behind an ambiguous head nothing is inspected any more, so all bytes count as sound.
fn finding(bytes: &[u8], size: usize) -> (GuardFinding, usize) {
    let (mut guard, mut passed) = (RequestGuard::new(MAX_HEAD_BYTES), 0);
    for piece in bytes.chunks(size) {
        passed += piece.len();
        match guard.inspect(piece) {
            GuardFinding::Sound => {}
            GuardFinding::Head(number, reason) => {
                return (GuardFinding::Head(number, reason), bytes.len());
            }
            GuardFinding::Body(ambiguous) => return (GuardFinding::Body(0), passed - ambiguous),
        }
    }
    (GuardFinding::Sound, bytes.len())
}

/// Follows bytes one at a time, and returns the requests that the guard saw.
fn follow(bytes: &[u8]) -> GuardReport {
    let (mut guard, mut requests) = (RequestGuard::new(MAX_HEAD_BYTES), Vec::new());
    let (mut start, mut body_start) = (0, None);
    for (at, byte) in bytes.iter().enumerate() {
        let heads = guard.heads;
        match guard.inspect(std::slice::from_ref(byte)) {
            GuardFinding::Sound => {}
            GuardFinding::Head(number, reason) => {
                let finding = GuardFinding::Head(number, reason);
                return GuardReport { finding, sound: bytes.len(), requests };
            }
            GuardFinding::Body(_) => {
                return GuardReport { finding: GuardFinding::Body(0), sound: at, requests };
            }
        }
        if guard.heads > heads {
            requests.push(request_of(&bytes[start..=at]));
            body_start = Some((at + 1, matches!(guard.position, StreamPosition::Chunks(_))));
        }
        if matches!(guard.position, StreamPosition::Head)
            && let Some((from, is_chunked)) = body_start.take()
        {
            let body = &bytes[from..=at];
            let body = if is_chunked { unchunked(body) } else { body.to_vec() };
            requests.last_mut().expect("a body belongs to a request").body = Some(body);
            start = at + 1;
        }
    }
    GuardReport { finding: GuardFinding::Sound, sound: bytes.len(), requests }
}

/// Reads the request line of a head, without its body.
fn request_of(head: &[u8]) -> ReadRequest {
    let head = String::from_utf8_lossy(head);
    let line = head.trim_start_matches("\r\n").split("\r\n").next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let target = if target.starts_with('/') { target } else { "" };
    ReadRequest { method: method.to_owned(), target: target.to_owned(), body: None }
}

/// Decodes a chunked body whose framing is sound.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = std::str::from_utf8(&bytes[..digits]).expect("digits are text");
        let size = usize::from_str_radix(size, 16).expect("the size is sound");
        let line = bytes.iter().position(|byte| *byte == b'\n').expect("the size line ends");
        if size == 0 {
            return body;
        }
        let (data, rest) = bytes[line + 1..].split_at(size);
        body.extend_from_slice(data);
        bytes = &rest[2..];
    }
}

/// Lets hyper serve a connection, and returns the requests it read.
fn read_by_hyper(bytes: &[u8]) -> Vec<ReadRequest> {
    let read: Rc<RefCell<Vec<ReadRequest>>> = Rc::default();
    let record = |request: Request<Incoming>| {
        let read = read.clone();
        async move {
            let (method, uri) = (request.method().to_string(), request.uri());
            let path = uri.path_and_query().filter(|_| uri.authority().is_none());
            let path = path.map_or("", |path| path.as_str());
            let target = if path.starts_with('/') { path } else { "" }.to_owned();
            let index = read.borrow().len();
            read.borrow_mut().push(ReadRequest { method, target, body: None });
            let body = request.into_body().collect().await.ok();
            let body = body.map(|body| body.to_bytes().to_vec());
            read.borrow_mut()[index].body = body;
            // A success would end the connection after CONNECT.
            let mut response = Response::new(Empty::<Bytes>::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            Ok::<_, Infallible>(response)
        }
    };
    let connection = TokioIo::new(tokio::io::join(bytes, tokio::io::sink()));
    let mut server = http1::Builder::new();
    server.half_close(true).max_buf_size(MAX_HEAD_BYTES);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without drivers starts");
    // An error is how hyper refuses a request.
    let _ = runtime.block_on(server.serve_connection(connection, service_fn(record)));
    read.take()
}
