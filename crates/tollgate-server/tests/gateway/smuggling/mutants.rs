//! Mutants of everything in this folder: whatever becomes of a request when bytes of it are lost,
//! doubled or exchanged, the upstream sees no more requests than were decided, and none that could
//! be read in two ways.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tollgate_rig::Upstream;

use super::{Corpus, chunks, lengths, lines, post};
use crate::strict;
use crate::support::{OPEN, start_with};

const MUTANTS: usize = 2_000;
const AT_ONCE: usize = 8;
const SHORT: Duration = Duration::from_millis(200);
/// Ends a connection that has come this far.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: stub\r\nConnection: close\r\n\r\n";

/// What is put in, beside bytes of any kind.
const PIECES: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    ":",
    ",",
    ";",
    "0",
    "5",
    "f",
    "x",
    "\r\n ",
    "\r\n\r\n",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "Host: stub\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: Upgrade\r\nUpgrade: x\r\n",
    "HTTP/1.1",
    "GET /in HTTP/1.1\r\n",
];

/// What mutants are made of: the corpus, and requests there is nothing wrong with.
fn parents() -> Corpus {
    let sound = [
        post("Content-Length: 5", "hello"),
        post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked", "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"),
        post("X: y", ""),
        post("Expect: 100-continue\r\nContent-Length: 5", "hello"),
        post("Connection: close, x\r\nX: y", ""),
    ];
    let sound = sound.map(|bytes| (bytes, super::Fate::Passes(2)));
    // Those there is nothing wrong with get further, so there are as many of them.
    let odd = [lengths::corpus(), lines::corpus(), chunks::corpus()].concat();
    let sound: Corpus = sound.into_iter().cycle().take(odd.len()).collect();
    [odd, sound].concat()
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=bytes.len());
        let end = (at + rng.usize(1..12)).min(bytes.len());
        match rng.u8(..5) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            2 if at < bytes.len() => bytes[at] = rng.u8(..128),
            _ => {
                let piece = rng.choice(PIECES).expect("there are pieces");
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
}

#[test]
fn no_mutant_is_more_than_what_was_decided() {
    let upstream = Upstream::start();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.bounds.header_timeout = SHORT;
        config.bounds.idle_timeout = 2 * SHORT;
        let options = config.gateway.as_mut().unwrap();
        options.upload_timeout = SHORT;
    });
    let (parents, address) = (parents(), gateway.address());
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= MUTANTS {
                        break;
                    }
                    let mut rng = Rng::with_seed(n as u64);
                    let mut bytes = rng.choice(&parents).expect("there are parents").0.clone();
                    mutate(&mut bytes, &mut rng);
                    bytes.extend_from_slice(LAST.as_bytes());
                    let mut client = tollgate_rig::WebClient::connect(address);
                    client.write(bytes);
                    let answers = std::iter::from_fn(|| client.read_head()).take(1).count();
                    answered.fetch_add(answers, Ordering::Relaxed);
                    client.rest();
                }
            });
        }
    });
    let (decided, answered) = (gateway.decisions(), answered.into_inner());
    let requests = strict::requests(&upstream).unwrap_or_else(|why| {
        panic!("sent on: {}", why.chars().take(2_000).collect::<String>());
    });
    println!(
        "{MUTANTS} mutants: {answered} answered, {decided} decided, {} sent on",
        requests.len()
    );
    assert!(requests.len() <= decided, "{} sent on, {decided} decided", requests.len());
    assert!(requests.len() * 4 >= decided * 3, "most of what is decided is sent on");
    assert!(answered * 2 > MUTANTS, "most are answered: {answered}");
}
