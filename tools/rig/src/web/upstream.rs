//! An upstream that records its requests.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::Message;

/// The fate of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterResponse {
    /// The next request is read.
    Keep,
    /// The connection is closed.
    Close,
}

/// Handles a request by writing the bytes of a response to the stream.
type RequestHandler = dyn Fn(&Message, &mut TcpStream) -> AfterResponse + Send + Sync;

/// An HTTP/1.1 server that records its requests; stopped when dropped. It parses as leniently as
/// the most lenient upstreams, to reveal messages that two servers would interpret differently.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    inner: Arc<UpstreamInner>,
    /// The thread that accepts connections.
    listening: Option<JoinHandle<()>>,
}

struct UpstreamInner {
    answer: Box<RequestHandler>,
    stopped: AtomicBool,
    requests: Mutex<Vec<Message>>,
    /// All bytes received, by connection.
    raw: Mutex<Vec<Vec<u8>>>,
    streams: Mutex<Vec<TcpStream>>,
}

impl std::fmt::Debug for UpstreamInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("seen", &self.requests).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Starts an upstream that answers every request with 200 and `upstream`.
    pub fn start() -> Upstream {
        Upstream::answering(|request, stream| {
            let body = if request.method() == "HEAD" { "" } else { "upstream" };
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\nx-from: upstream\r\n\r\n";
            match stream.write_all(format!("{head}{body}").as_bytes()) {
                Ok(()) => AfterResponse::Keep,
                Err(_) => AfterResponse::Close,
            }
        })
    }

    /// Starts an upstream with a request handler. The body has been read, unless the request
    /// expects `100 Continue` or asks for another protocol.
    pub fn answering(
        answer: impl Fn(&Message, &mut TcpStream) -> AfterResponse + Send + Sync + 'static,
    ) -> Upstream {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Upstream::answering_at(any, answer)
    }

    /// Starts an upstream at this address, for example that of a stopped one.
    pub fn answering_at(
        address: SocketAddr,
        answer: impl Fn(&Message, &mut TcpStream) -> AfterResponse + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("it listens");
        let inner = Arc::new(UpstreamInner {
            answer: Box::new(answer),
            stopped: AtomicBool::new(false),
            requests: Mutex::default(),
            raw: Mutex::default(),
            streams: Mutex::default(),
        });
        let shared = inner.clone();
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Upstream { address, inner, listening: Some(listening) }
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests received.
    pub fn requests(&self) -> Vec<Message> {
        self.inner.requests.lock().expect("no test panics here").clone()
    }

    /// Returns the number of requests received.
    pub fn count(&self) -> usize {
        self.inner.requests.lock().expect("no test panics here").len()
    }

    /// Returns the last request received.
    pub fn last(&self) -> Message {
        self.requests().pop().expect("a request")
    }

    /// Returns all bytes received, by connection.
    pub fn raw(&self) -> Vec<String> {
        let raw = self.inner.raw.lock().expect("no test panics here");
        raw.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// Returns the number of connections opened.
    pub fn connections(&self) -> usize {
        self.inner.raw.lock().expect("no test panics here").len()
    }

    /// Closes every connection, and goes on listening.
    pub fn cut(&self) {
        for stream in self.inner.streams.lock().expect("no test panics here").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.inner.stopped.store(true, Ordering::SeqCst);
        // A connection wakes the listening thread, which is then joined: a connection accepted
        // after the end would look like a broken response instead of a missing upstream.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(listening) = self.listening.take().filter(|_| woken) {
            let _ = listening.join();
        }
        self.cut();
    }
}

impl UpstreamInner {
    fn serve(&self, mut stream: TcpStream) {
        let number = {
            let mut raw = self.raw.lock().expect("no test panics here");
            raw.push(Vec::new());
            raw.len() - 1
        };
        let _ = stream.set_nodelay(true);
        let (Ok(reading), Ok(closer)) = (stream.try_clone(), stream.try_clone()) else { return };
        self.streams.lock().expect("no test panics here").push(closer);
        if self.stopped.load(Ordering::SeqCst) {
            // The connection arrived after the others were cut.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        let mut reading = BufReader::new(RecordedStream { stream: reading, number, inner: self });
        while let Ok(Some(mut request)) = Message::read_head(&mut reading) {
            let holds_back =
                request.header("expect").is_some() || request.header("upgrade").is_some();
            let whole = holds_back || request.read_body(&mut reading, false).is_ok();
            self.requests.lock().expect("no test panics here").push(request.clone());
            if !whole || (self.answer)(&request, &mut stream) == AfterResponse::Close {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// A stream that records the bytes read.
struct RecordedStream<'i> {
    stream: TcpStream,
    number: usize,
    inner: &'i UpstreamInner,
}

impl Read for RecordedStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(into)?;
        let mut raw = self.inner.raw.lock().expect("no test panics here");
        raw[self.number].extend_from_slice(&into[..length]);
        Ok(length)
    }
}
