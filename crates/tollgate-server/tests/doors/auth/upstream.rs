//! An upstream that answers and counts every request.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An upstream behind a proxy.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    served: Arc<AtomicU64>,
}

impl Upstream {
    pub(super) fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::new(AtomicU64::new(0));
        let count = served.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = count.clone();
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    let mut line = String::new();
                    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
                        if line.trim_end().is_empty() {
                            count.fetch_add(1, Ordering::Relaxed);
                            let response = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nupstream";
                            if reader.get_mut().write_all(response.as_bytes()).is_err() {
                                return;
                            }
                        }
                        line.clear();
                    }
                });
            }
        });
        Upstream { address, served }
    }

    /// Returns the number of requests that arrived.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}
