//! An upstream that keeps what it was sent.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::Message;

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next request is read.
    Keep,
    /// It is closed.
    Close,
}

/// How requests are answered: with bytes written to the stream.
type Answer = dyn Fn(&Message, &mut TcpStream) -> Next + Send + Sync;

/// A server of HTTP/1.1 that keeps what it was sent. It reads as leniently as the most lenient of
/// upstreams, so that what two servers would read differently shows. Gone when dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    inside: Arc<Inside>,
    /// Who takes connections.
    listening: Option<JoinHandle<()>>,
}

struct Inside {
    answer: Box<Answer>,
    is_over: AtomicBool,
    seen: Mutex<Vec<Message>>,
    /// Every byte that came, one text for each connection.
    raw: Mutex<Vec<Vec<u8>>>,
    streams: Mutex<Vec<TcpStream>>,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Upstream {
    /// One that answers everything with 200 and `upstream`.
    pub fn start() -> Upstream {
        Upstream::answering(|request, stream| {
            let body = if request.method() == "HEAD" { "" } else { "upstream" };
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\nx-from: upstream\r\n\r\n";
            match stream.write_all(format!("{head}{body}").as_bytes()) {
                Ok(()) => Next::Keep,
                Err(_) => Next::Close,
            }
        })
    }

    /// One that answers in its own way. The request has been read with its body, unless it expects
    /// to be told to go on, or asks for another protocol.
    pub fn answering(
        answer: impl Fn(&Message, &mut TcpStream) -> Next + Send + Sync + 'static,
    ) -> Upstream {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Upstream::at(any, answer)
    }

    /// The same at an address of its own: one that comes back where another one was.
    pub fn at(
        address: SocketAddr,
        answer: impl Fn(&Message, &mut TcpStream) -> Next + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("it listens");
        let inside = Arc::new(Inside {
            answer: Box::new(answer),
            is_over: AtomicBool::new(false),
            seen: Mutex::default(),
            raw: Mutex::default(),
            streams: Mutex::default(),
        });
        let shared = inside.clone();
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Upstream { address, inside, listening: Some(listening) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as gateways are told.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests it read.
    pub fn seen(&self) -> Vec<Message> {
        self.inside.seen.lock().expect("no test panics here").clone()
    }

    /// How many requests it read.
    pub fn count(&self) -> usize {
        self.inside.seen.lock().expect("no test panics here").len()
    }

    /// The last request it read.
    pub fn last(&self) -> Message {
        self.seen().pop().expect("a request")
    }

    /// Every byte that came, one text for each connection.
    pub fn raw(&self) -> Vec<String> {
        let raw = self.inside.raw.lock().expect("no test panics here");
        raw.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.inside.raw.lock().expect("no test panics here").len()
    }

    /// Closes every connection, and goes on listening.
    pub fn cut(&self) {
        for stream in self.inside.streams.lock().expect("no test panics here").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.inside.is_over.store(true, Ordering::SeqCst);
        // Wakes who waits for connections, and waits for the end: a connection that was taken and
        // never served would be an answer that broke off, not an upstream that is gone.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(listening) = self.listening.take().filter(|_| woken) {
            let _ = listening.join();
        }
        self.cut();
    }
}

impl Inside {
    fn serve(&self, mut stream: TcpStream) {
        let number = {
            let mut raw = self.raw.lock().expect("no test panics here");
            raw.push(Vec::new());
            raw.len() - 1
        };
        let _ = stream.set_nodelay(true);
        let (Ok(reading), Ok(kept)) = (stream.try_clone(), stream.try_clone()) else { return };
        self.streams.lock().expect("no test panics here").push(kept);
        if self.is_over.load(Ordering::SeqCst) {
            // Too late to be cut with the others.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        let mut reading = BufReader::new(Taped { stream: reading, number, inside: self });
        while let Ok(Some(mut request)) = Message::read_head(&mut reading) {
            let holds_back =
                request.header("expect").is_some() || request.header("upgrade").is_some();
            let whole = holds_back || request.read_body(&mut reading, false).is_ok();
            self.seen.lock().expect("no test panics here").push(request.clone());
            if !whole || (self.answer)(&request, &mut stream) == Next::Close {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Writes down what is read.
struct Taped<'i> {
    stream: TcpStream,
    number: usize,
    inside: &'i Inside,
}

impl Read for Taped<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(into)?;
        let mut raw = self.inside.raw.lock().expect("no test panics here");
        raw[self.number].extend_from_slice(&into[..length]);
        Ok(length)
    }
}
