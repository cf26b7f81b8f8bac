//! The processes under load: a server, a gateway, and a stub upstream in this process.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Rules with several algorithms, a ladder of bans, a queue and a cost that is settled.
const RULES: &str = include_str!("rules.yaml");

/// A process of `tollgate`. It is killed when it is dropped.
#[derive(Debug)]
struct TollgateProcess {
    child: Child,
    /// The output of its start.
    started: Value,
    folder: tempfile::TempDir,
}

/// The server, the gateway and the upstream behind it.
#[derive(Debug)]
pub(crate) struct SoakServers {
    server: TollgateProcess,
    gateway: TollgateProcess,
    upstream: SocketAddr,
}

impl SoakServers {
    pub(crate) async fn start(program: &Path) -> Result<SoakServers, String> {
        let upstream = start_upstream().await.map_err(|error| error.to_string())?;
        let any = "127.0.0.1:0";
        let server = ["serve", "--http", any, "--grpc", any, "--resp", any];
        let url = format!("http://{upstream}");
        let gateway = ["gateway", "--listen", any, "--http", any, "--to", &url];
        let server = TollgateProcess::start(program, &server)?;
        let gateway = TollgateProcess::start(program, &gateway)?;
        Ok(SoakServers { server, gateway, upstream })
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.child.id()
    }

    pub(crate) fn gateway_pid(&self) -> u32 {
        self.gateway.child.id()
    }

    /// Returns the address of a door of the server.
    pub(crate) fn server_door(&self, name: &str) -> SocketAddr {
        self.server.door(name)
    }

    /// Returns the address of the gateway.
    pub(crate) fn gateway_door(&self) -> SocketAddr {
        self.gateway.door("gateway")
    }

    /// Returns the address of the upstream behind the gateway.
    pub(crate) fn upstream(&self) -> SocketAddr {
        self.upstream
    }

    /// Returns the panics of workers that both processes report.
    pub(crate) async fn panics(&self) -> Result<u64, String> {
        let mut panics = 0;
        for process in [&self.server, &self.gateway] {
            let ready = get(process.door("http"), "/readyz").await;
            let ready = ready.map_err(|error| format!("/readyz: {error}"))?;
            let body: Value = serde_json::from_str(&ready)
                .map_err(|error| format!("/readyz: {error} in {ready:?}"))?;
            let all = body["panics"].as_array().into_iter().flatten();
            panics += all.filter_map(|panic| panic["count"].as_u64()).sum::<u64>();
        }
        Ok(panics)
    }
}

impl TollgateProcess {
    fn start(program: &Path, args: &[&str]) -> Result<TollgateProcess, String> {
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
        // The program runs in a folder of its own.
        let program = &program.canonicalize().map_err(failed)?;
        let folder = tempfile::tempdir().map_err(failed)?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path("rules.yaml"), RULES).map_err(failed)?;
        let log = File::create(path("log")).map_err(failed)?;
        let mut child = Command::new(program)
            .args(args)
            .args(["--json", "--rules", "rules.yaml", "--data", "data", "--snapshot", "1s"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        let started = serde_json::from_str(&line).map_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
            let log = fs::read_to_string(path("log")).unwrap_or_default();
            format!("{} did not start: {line}{log}", program.display())
        })?;
        Ok(TollgateProcess { child, started, folder })
    }

    fn door(&self, name: &str) -> SocketAddr {
        let text = self.started[name].as_str().unwrap_or_default();
        let address = text.rsplit("//").next().unwrap_or_default().trim_end_matches('/');
        address.parse().unwrap_or_else(|_| panic!("no address of {name}: {}", self.started))
    }
}

impl Drop for TollgateProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A reader of the log may want to know why.
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("{log}");
        }
    }
}

/// Starts an upstream that reads every body and answers with a few bytes.
async fn start_upstream() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(|request: Request<Incoming>| async move {
                let _ = request.into_body().collect().await;
                let body = Bytes::from_static(br#"{"usage":{"total_tokens":7}}"#);
                let mut response = Response::new(Full::new(body));
                let json = hyper::header::HeaderValue::from_static("application/json");
                response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
                Ok::<_, Infallible>(response)
            });
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
        }
    });
    Ok(address)
}

/// Returns the body of a `GET`.
pub(crate) async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    body.ok_or_else(|| std::io::Error::other(format!("no answer: {answer:?}")))
}
