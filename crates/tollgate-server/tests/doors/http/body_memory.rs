//! The memory of request bodies: bounded, and shared fairly by clients.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_rig::until;

use super::client::HttpClient;
use crate::support::{DEADLINE, TestServer, start_with};

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";
const MIB: usize = 1 << 20;
/// The memory for all bodies by default; a client may have as much as is free, so half of it.
const BUDGET: usize = 64 * MIB;
/// The growth of this process that is allowed for: the bodies, and the buffers of 1000 streams.
const MAX_GROWTH: usize = BUDGET + 128 * MIB;

/// Starts a server on which unfinished bodies do not time out within a test.
fn start() -> TestServer {
    start_with(RULES, |config| config.bounds.header_timeout = Duration::from_secs(300))
}

/// Returns the value of a series.
fn metric(server: &TestServer, series: &str) -> usize {
    let text = HttpClient::connect(server.http()).send("GET", "/metrics", "").body;
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series}")).parse::<f64>().unwrap() as usize
}

fn buffered(server: &TestServer) -> usize {
    metric(server, "tollgate_buffered_body_bytes")
}

/// Returns the memory of this process, which includes the server's.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Connects from another address of this machine.
async fn connect_from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Sends a megabyte on each of several streams, and the end of none; returns the statuses that came.
async fn flood(stream: TcpStream, path: &'static str, streams: usize) -> Vec<u16> {
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut sending = JoinSet::new();
    let mut open = Vec::new();
    for _ in 0..streams {
        client = client.ready().await.unwrap();
        let request = Request::post(format!("http://tollgate{path}")).body(()).unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        sending.spawn(async move {
            let junk = Bytes::from_static(&[b' '; 16 << 10]);
            let mut left = 1_000_000;
            while left > 0 {
                body.reserve_capacity(junk.len().min(left));
                let capacity = std::future::poll_fn(|context| body.poll_capacity(context)).await;
                let Some(Ok(capacity)) = capacity else { break };
                let length = capacity.min(left).min(junk.len());
                if body.send_data(junk.slice(..length), false).is_err() {
                    break;
                }
                left -= length;
            }
            body
        });
        open.push(response);
    }
    let bodies = sending.join_all().await;
    let mut statuses = Vec::new();
    for mut response in open {
        let answered = timeout(Duration::ZERO, &mut response).await;
        statuses.extend(answered.into_iter().flatten().map(|response| response.status().as_u16()));
    }
    // Keeps the connection and its streams open until the runtime of the test ends.
    tokio::spawn(async move {
        let _open = (client, bodies);
        let _ = connection.await;
    });
    statuses
}

#[test]
fn unfinished_bodies_of_one_client_leave_memory_to_others() {
    let server = start();
    let before = resident();
    let flooded = async {
        let mut floods = JoinSet::new();
        for _ in 0..4 {
            let stream = TcpStream::connect(server.http()).await.unwrap();
            floods.spawn(flood(stream, "/v1/batch", 250));
        }
        floods.join_all().await.concat()
    };
    let statuses = server.block_on(async { timeout(4 * DEADLINE, flooded).await.unwrap() });
    let (used, grown) = (buffered(&server), resident().saturating_sub(before));
    println!(
        "4 connections with 250 unfinished bodies of 1 MB: {} MiB are buffered, the process grew by {} MiB",
        used / MIB,
        grown / MIB
    );
    assert!(used <= BUDGET / 2, "{used}");
    assert!(used >= BUDGET / 8, "the attack took place: {used}");
    assert!(grown < MAX_GROWTH, "{grown}");
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    assert!(metric(&server, "tollgate_bodies_refused_total") >= 500);

    // Another client sends a body in pieces; and one that comes at once needs none of it.
    let status = server.block_on(async {
        let stream = connect_from("127.0.0.2", server.http()).await;
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("http://tollgate/v1/check").body(()).unwrap();
        let mut client = client.ready().await.unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        for _ in 0..100 {
            body.send_data(Bytes::from_static(b"          "), false).unwrap();
        }
        body.send_data(Bytes::from_static(b"{}"), true).unwrap();
        timeout(DEADLINE, response).await.unwrap().unwrap().status().as_u16()
    });
    assert_eq!(status, 200);
    assert_eq!(HttpClient::connect(server.http()).post("/v1/check", "{}").status, 200);
}

#[test]
fn memory_comes_back_when_clients_leave() {
    let server = start();
    let half: Vec<_> = (0..50)
        .map(|_| {
            let mut client = HttpClient::connect(server.http());
            client.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n");
            client.write(vec![b' '; 500_000]);
            client
        })
        .collect();
    until("the bodies are being read", || buffered(&server) >= 20 * MIB);
    assert!(buffered(&server) <= BUDGET / 2);
    drop(half);
    until("the memory comes back", || buffered(&server) == 0);
}

#[test]
fn bodies_of_the_admin_api_count_too() {
    let server = start();
    let token = server.admin_token();
    let mut client = HttpClient::connect(server.http());
    client.write(format!(
        "POST /v1/simulate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    ));
    client.write(vec![b' '; 500_000]);
    until("the body is being read", || buffered(&server) >= 500_000);
    client.write(vec![b' '; 400_000]);
    assert_eq!(client.read().unwrap().status, 400, "nothing but spaces");
    until("the memory comes back", || buffered(&server) == 0);
}
