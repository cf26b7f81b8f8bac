//! The traffic: clients of every door, at a bounded rate, over connections that come and go.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::latency::{LatencyRecorder, SoakDoor};
use crate::servers::{SoakServers, get};

/// The number of clients at each door.
const CLIENTS: u32 = 4;
/// The number of clients in all.
const ALL_CLIENTS: u32 = 6 * CLIENTS;
/// The number of different keys. All are seen during the warm-up, so that memory settles.
const KEYS: u32 = 2_000;
/// The number of requests after which a client opens another connection.
const REQUESTS_PER_CONNECTION: u32 = 200;
/// The time after which a request counts as failed.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The time between two reads of the metrics.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(5);

/// Starts all clients; they run until the runtime ends.
pub(crate) fn start(servers: &SoakServers, latencies: &Arc<LatencyRecorder>, rate: u32) {
    let pause = Duration::from_secs_f64(f64::from(ALL_CLIENTS) / f64::from(rate));
    let (http, resp, grpc) =
        (servers.server_door("http"), servers.server_door("resp"), servers.server_door("grpc"));
    let gateway = servers.gateway_door();
    for _ in 0..CLIENTS {
        spawn(SoakDoor::Http, http, pause, latencies, HttpClient::connect_to_http);
        spawn(SoakDoor::Auth, http, pause, latencies, HttpClient::connect_to_auth);
        spawn(SoakDoor::Gateway, gateway, pause, latencies, HttpClient::connect_to_gateway);
        let upstream = servers.upstream();
        spawn(SoakDoor::Control, upstream, pause, latencies, HttpClient::connect_to_gateway);
        spawn(SoakDoor::Grpc, grpc, pause, latencies, GrpcClient::connect);
        spawn(SoakDoor::Resp, resp, pause, latencies, RespClient::connect);
    }
    tokio::spawn(async move {
        let mut ticks = interval(SCRAPE_INTERVAL);
        loop {
            ticks.tick().await;
            let _ = get(http, "/metrics").await;
        }
    });
}

/// A client of a door on one connection.
trait SoakClient: Sized + Send + 'static {
    /// Sends the request with a number, and reads its answer.
    fn request(&mut self, number: u32) -> impl Future<Output = io::Result<()>> + Send;
}

/// Starts a client that connects again and again.
fn spawn<C: SoakClient, F: Future<Output = io::Result<C>> + Send>(
    door: SoakDoor,
    address: SocketAddr,
    pause: Duration,
    latencies: &Arc<LatencyRecorder>,
    connect: impl Fn(SocketAddr) -> F + Send + 'static,
) {
    let latencies = latencies.clone();
    tokio::spawn(async move {
        let mut ticks = interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut client = match connect(address).await {
                Ok(client) => client,
                Err(error) => {
                    latencies.record_failure(door, &format!("cannot connect: {error}"));
                    continue;
                }
            };
            for _ in 0..REQUESTS_PER_CONNECTION {
                ticks.tick().await;
                let started = Instant::now();
                match timeout(TIMEOUT, client.request(fastrand::u32(..))).await {
                    Ok(Ok(())) => latencies.record(door, started.elapsed()),
                    Ok(Err(error)) => {
                        latencies.record_failure(door, &error.to_string());
                        break;
                    }
                    Err(_) => {
                        latencies.record_failure(door, "no answer in time");
                        break;
                    }
                }
            }
        }
    });
}

/// Connects to a door. Small writes leave at once, or a request would wait for an acknowledgement.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A client of HTTP/1.1.
struct HttpClient {
    sender: http1::SendRequest<Full<Bytes>>,
    request: fn(u32) -> Request<Full<Bytes>>,
}

impl HttpClient {
    async fn connect(
        address: SocketAddr,
        request: fn(u32) -> Request<Full<Bytes>>,
    ) -> io::Result<HttpClient> {
        let stream = TokioIo::new(connect(address).await?);
        let (sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(HttpClient { sender, request })
    }

    async fn connect_to_http(address: SocketAddr) -> io::Result<HttpClient> {
        HttpClient::connect(address, http_request).await
    }

    async fn connect_to_auth(address: SocketAddr) -> io::Result<HttpClient> {
        HttpClient::connect(address, auth_request).await
    }

    async fn connect_to_gateway(address: SocketAddr) -> io::Result<HttpClient> {
        HttpClient::connect(address, gateway_request).await
    }
}

impl SoakClient for HttpClient {
    async fn request(&mut self, number: u32) -> io::Result<()> {
        self.sender.ready().await.map_err(io::Error::other)?;
        let sent = self.sender.send_request((self.request)(number));
        let response = sent.await.map_err(io::Error::other)?;
        let status = response.status();
        response.into_body().collect().await.map_err(io::Error::other)?;
        // A refusal is an answer; a failure of the server is not.
        match status.is_server_error() {
            true => Err(io::Error::other(format!("the answer is {status}"))),
            false => Ok(()),
        }
    }
}

fn post(path: &str, body: String) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", "localhost");
    let request = request.header("content-type", "application/json");
    request.body(Full::from(body)).expect("the request is valid")
}

/// Returns a call of the HTTP door; some are invalid.
fn http_request(number: u32) -> Request<Full<Bytes>> {
    let key = number % KEYS;
    match number / KEYS % 8 {
        0 => post("/v1/limit", format!(r#"{{"key":"k{key}","limit":"50/s"}}"#)),
        1 => post("/v1/peek", format!(r#"{{"key":"k{key}","limit":"50/s"}}"#)),
        2 => post(
            "/v1/batch",
            format!(
                r#"{{"requests":[{{"attributes":{{"user":"u{key}"}}}},{{"key":"b","limit":"9/s"}}]}}"#
            ),
        ),
        3 => post("/v1/check", "{ this is no JSON".to_owned()),
        _ => post(
            "/v1/check",
            format!(
                r#"{{"domain":"soak","attributes":{{"user":"u{key}","org":"o{}","route":"POST /login"}}}}"#,
                key % 50
            ),
        ),
    }
}

/// Returns a request of a proxy that asks before it forwards.
fn auth_request(number: u32) -> Request<Full<Bytes>> {
    let request = Request::get("/v1/auth")
        .header("host", "localhost")
        .header("x-forwarded-method", "GET")
        .header("x-forwarded-uri", format!("/page/{}", number % KEYS))
        .header("x-forwarded-for", format!("203.0.113.{}", number % 250));
    request.body(Full::default()).expect("the request is valid")
}

/// Returns a request through the gateway; some have a body, some are delayed or refused.
fn gateway_request(number: u32) -> Request<Full<Bytes>> {
    let (method, path, body) = match number % 6 {
        0 => ("POST", "/login", "x".repeat(number as usize / 6 % 20_000)),
        1 => ("GET", "/slow", String::new()),
        2 => ("GET", "/parallel", String::new()),
        _ => ("GET", "/page?x=1", String::new()),
    };
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    request.body(Full::from(body)).expect("the request is valid")
}

/// A client of Envoy's rate limit service.
struct GrpcClient(http2::SendRequest<Full<Bytes>>);

impl GrpcClient {
    async fn connect(address: SocketAddr) -> io::Result<GrpcClient> {
        let stream = TokioIo::new(connect(address).await?);
        let handshake = http2::handshake(TokioExecutor::new(), stream).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(GrpcClient(sender))
    }
}

impl SoakClient for GrpcClient {
    async fn request(&mut self, number: u32) -> io::Result<()> {
        let path = "http://localhost/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let request = Request::post(path).header("content-type", "application/grpc");
        let body = rate_limit_request(&format!("u{}", number % KEYS));
        let request = request.body(Full::from(body)).map_err(io::Error::other)?;
        self.0.ready().await.map_err(io::Error::other)?;
        let response = self.0.send_request(request).await.map_err(io::Error::other)?;
        let early = response.headers().get("grpc-status").cloned();
        let body = response.into_body().collect().await.map_err(io::Error::other)?;
        let status = body.trailers().and_then(|all| all.get("grpc-status").cloned()).or(early);
        match status {
            Some(status) if status == "0" => Ok(()),
            other => Err(io::Error::other(format!("the status is {other:?}"))),
        }
    }
}

/// Returns a framed `RateLimitRequest` with one entry.
fn rate_limit_request(user: &str) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap_or(0)];
        field.extend_from_slice(bytes);
        field
    };
    let entry = field(1, &[field(1, b"user"), field(2, user.as_bytes())].concat());
    let message = [field(1, b"soak"), field(2, &entry)].concat();
    let length = u32::try_from(message.len()).unwrap_or(0).to_be_bytes();
    [&[0][..], &length, &message].concat()
}

/// A client of the Redis protocol.
struct RespClient {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl RespClient {
    async fn connect(address: SocketAddr) -> io::Result<RespClient> {
        Ok(RespClient { stream: connect(address).await?, buffer: vec![0; 16 << 10] })
    }
}

impl SoakClient for RespClient {
    /// Sends a pipeline that ends in a command whose answer is known.
    async fn request(&mut self, number: u32) -> io::Result<()> {
        let key = number % KEYS;
        let pipeline = format!(
            "TG.LIMIT l{key} \"20/s burst 40\"\r\nCL.THROTTLE t{key} 15 30 60\r\n\
             TG.LIMIT w{key} \"100/min sliding\"\r\nNO.SUCH.COMMAND\r\nECHO end{key}\r\n"
        );
        self.stream.write_all(pipeline.as_bytes()).await?;
        let end = format!("end{key}\r\n");
        let mut filled = 0;
        while !self.buffer[..filled].ends_with(end.as_bytes()) {
            if filled == self.buffer.len() {
                return Err(io::Error::other("the answer is too long"));
            }
            match self.stream.read(&mut self.buffer[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}
