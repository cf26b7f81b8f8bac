//! Bodies of a hundred megabytes, both ways at once: they stream, and nothing piles up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::DEADLINE;
use crate::support::{OPEN, start_with};

const SIZE: usize = 100 << 20;
const PART: usize = 64 << 10;
/// What may be in memory of it: buffers of sockets, frames, and of the test itself.
const MOST_MEMORY: usize = 24 << 20;

/// Memory of this process, in bytes: now, or at the most so far.
pub(crate) fn memory(what: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

/// An upstream that reads a body to its end, then answers with one of its own. It says when the
/// first part has come, and how much came in all.
fn upstream() -> (SocketAddr, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serve(stream, &tell);
    });
    (address, told)
}

fn serve(stream: TcpStream, tell: &Sender<usize>) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut wire = BufReader::with_capacity(PART, stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        wire.read_line(&mut line).unwrap();
    }
    let (mut part, mut came) = (vec![0; PART], 0);
    while came < SIZE {
        let length = wire.read(&mut part).unwrap();
        if came == 0 {
            tell.send(length).unwrap();
        }
        came += length;
    }
    tell.send(came).unwrap();
    let stream = wire.get_mut();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // Who reads it may leave before the end.
    for _ in 0..SIZE / PART {
        if stream.write_all(&part).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

#[test]
fn large_bodies_stream_without_piling_up() {
    let (address, told) = upstream();
    let gateway = start_with(OPEN, &[&format!("http://{address}")], |_| {});
    let before = memory("VmRSS:");
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: stub\r\nContent-Length: {SIZE}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b'x'; PART];
    stream.write_all(&part).unwrap();
    assert!(told.recv_timeout(DEADLINE).unwrap() > 0, "the first part is there before the last");
    for _ in 1..SIZE / PART {
        stream.write_all(&part).unwrap();
    }
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), SIZE);
    let mut wire = BufReader::with_capacity(PART, stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        wire.read_line(&mut line).unwrap();
    }
    let (mut buffer, mut came) = (vec![0; PART], 0);
    while came < SIZE {
        came += wire.read(&mut buffer).unwrap();
    }
    let grown = memory("VmHWM:").saturating_sub(before);
    println!("100 MB up and 100 MB down: memory grew by {} KB", grown >> 10);
    assert!(grown < MOST_MEMORY, "{grown}");
}

#[test]
fn who_does_not_read_holds_nothing_but_buffers() {
    let (address, _told) = upstream();
    let gateway = start_with(OPEN, &[&format!("http://{address}")], |_| {});
    let before = memory("VmRSS:");
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: stub\r\nContent-Length: {SIZE}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b'x'; PART];
    for _ in 0..SIZE / PART {
        stream.write_all(&part).unwrap();
    }
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    // Time enough for a gateway that would read on regardless.
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    let grown = memory("VmHWM:").saturating_sub(before);
    println!("a client that does not read: memory grew by {} KB", grown >> 10);
    assert!(grown < MOST_MEMORY, "{grown}");
}
