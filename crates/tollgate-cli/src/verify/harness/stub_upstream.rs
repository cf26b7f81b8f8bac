//! A stub upstream that records every request it gets.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::super::workspace::lock;
use super::{HttpMessage, IO_TIMEOUT};

/// The maximum number of recorded requests.
const MAX_RECORDED: usize = 100_000;

/// An HTTP/1.1 server that answers every request with 200, until it is dropped.
pub(crate) struct StubUpstream {
    address: SocketAddr,
    recorded: Arc<Mutex<RecordedRequests>>,
}

#[derive(Default)]
struct RecordedRequests {
    requests: Vec<HttpMessage>,
    is_over: bool,
}

impl StubUpstream {
    pub(crate) fn start() -> std::io::Result<StubUpstream> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let recorded: Arc<Mutex<RecordedRequests>> = Arc::default();
        let shared = Arc::clone(&recorded);
        std::thread::Builder::new().name("stub upstream".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if lock(&shared).is_over {
                    return;
                }
                let shared = Arc::clone(&shared);
                // An error of a connection is its end.
                let serve = move || drop(serve(stream, &shared));
                let _ = std::thread::Builder::new().name("stub connection".to_owned()).spawn(serve);
            }
        })?;
        Ok(StubUpstream { address, recorded })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Removes and returns the recorded requests.
    pub(crate) fn take(&self) -> Vec<HttpMessage> {
        std::mem::take(&mut lock(&self.recorded).requests)
    }
}

impl Drop for StubUpstream {
    fn drop(&mut self) {
        lock(&self.recorded).is_over = true;
        // A connection wakes the listening thread, which then sees the end.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: TcpStream, recorded: &Mutex<RecordedRequests>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = HttpMessage::read(&mut reader)? {
        let is_head = request.line.starts_with("HEAD ");
        {
            let mut recorded = lock(recorded);
            if recorded.is_over {
                return Ok(());
            }
            if recorded.requests.len() < MAX_RECORDED {
                recorded.requests.push(request);
            }
        }
        let body = if is_head { "" } else { "ok" };
        write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{body}")?;
    }
    Ok(())
}
