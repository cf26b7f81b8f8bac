//! How evenly requests leave a queue: 1,000 a second, through the library and through the gateway.
//!
//! More requests arrive than may pass, so the queue is never empty and a request leaves every millisecond.
//! The measurement is how far the time between two of them is from a millisecond.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Time};
use tollgate_rules::{Request, RuleLimiter};

use crate::cores;
use crate::gateway_process::{FILES, GatewayProcess};
use crate::options::Options;
use crate::report::{self, Table};
use crate::targets::{self, Target};

const RULES: &str =
    "rules: [{ name: even, limit: 1k/s leaky burst 1, then: queue 200 up to 1s }]\n";
const EVERY: Duration = Duration::from_millis(1);
/// The number of clients, each of which sends a request as soon as the previous one has passed.
const CLIENTS: usize = 32;
/// Departures at the start that are not measured.
const FIRST: usize = 100;
/// The highest 99th percentile of the deviation.
const MOST_US: f64 = 2_000.0;

/// Measures both and prints the results.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    report::machine();
    println!(
        "method:  {} s at 1,000/s each, {CLIENTS} clients; how far from a millisecond two \
         neighbours leave, in µs",
        options.seconds
    );
    let count = options.seconds * 1_000 + FIRST;
    let rows = [("library", library(count)?), ("gateway", gateway(count)?)];
    let mut table = Table::new(["", "per second", "p50", "p99", "max"]);
    let mut all = Vec::new();
    for (name, times) in rows {
        let times = &times[FIRST.min(times.len())..];
        let jitter = jitter(times);
        let per_second = per_second(times).ok_or(format!("{name}: nothing went through"))?;
        let at = |share: f64| jitter[((jitter.len() - 1) as f64 * share) as usize];
        let cells = [at(0.5), at(0.99), at(1.0)].map(|us| format!("{us:.0}"));
        let row = [name.to_owned(), format!("{per_second:.1}")].into_iter().chain(cells);
        table.row(row);
        let what = format!("p99 of {name} in µs");
        all.push(Target { what, measured: Some(at(0.99)), most: MOST_US });
    }
    table.print();
    targets::table(&all);
    Ok(())
}

fn per_second(times: &[Time]) -> Option<f64> {
    let (first, last) = (times.first()?, times.last()?);
    Some((times.len() - 1) as f64 * 1e9 / last.since(*first).as_nanos().max(1) as f64)
}

/// Returns the deviations from even times in µs, the smallest first.
fn jitter(times: &[Time]) -> Vec<f64> {
    let apart = times.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos() as f64 / 1e3);
    let mut all: Vec<f64> = apart.map(|us| (us - EVERY.as_micros() as f64).abs()).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn library(count: usize) -> Result<Vec<Time>, String> {
    let rules = RULES.parse().map_err(|error| format!("{error}"))?;
    let limiter = RuleLimiter::new(rules);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (left, leaves) = channel();
    runtime.block_on(async {
        for _ in 0..CLIENTS {
            let (limiter, left) = (limiter.clone(), left.clone());
            tokio::spawn(async move {
                while limiter.admit(&Request::empty()).await.allowed {
                    if left.send(limiter.clock().now()).is_err() {
                        return;
                    }
                }
            });
        }
        let mut times = Vec::with_capacity(count);
        while times.len() < count {
            // The clock wakes the waiting requests; this loop only collects the times now and then.
            limiter.admit(&Request::empty()).await;
            times.push(limiter.clock().now());
            // Collect all earlier departures, including the last one, so that none is missing.
            times.extend(leaves.try_iter());
        }
        times.sort_unstable();
        Ok(times)
    })
}

fn gateway(count: usize) -> Result<Vec<Time>, String> {
    let failed = |error: std::io::Error| error.to_string();
    cores::pin_to_load_core(FILES)?;
    let (arrived, arrivals) = channel();
    let upstream = upstream(arrived).map_err(failed)?;
    let server = GatewayProcess::start("shaping", RULES, upstream)?;
    let address = server.address;
    for _ in 0..CLIENTS {
        // The thread ends when the gateway does.
        thread::spawn(move || ask(address));
    }
    let times = departures(&arrivals, count);
    drop(server);
    times
}

fn departures(arrivals: &Receiver<Time>, count: usize) -> Result<Vec<Time>, String> {
    let patience = Duration::from_secs(10);
    let next = |_| arrivals.recv_timeout(patience).map_err(|_| "the gateway sends nothing on");
    let times: Result<Vec<Time>, &str> = (0..count).map(next).collect();
    let mut times = times?;
    times.sort_unstable();
    Ok(times)
}

/// Sends one request after the other.
fn ask(address: SocketAddr) -> std::io::Result<()> {
    let stream = TcpStream::connect(address)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    loop {
        (&stream).write_all(b"GET / HTTP/1.1\r\nhost: even\r\n\r\n")?;
        if !read_head(&mut answers)? {
            return Ok(());
        }
    }
}

/// Starts an upstream with empty responses that reports when each request arrives.
fn upstream(arrived: Sender<Time>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let clock = Arc::new(Clock::system());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (arrived, clock) = (arrived.clone(), clock.clone());
            thread::spawn(move || answer(&stream, &clock, &arrived));
        }
    });
    Ok(address)
}

fn answer(stream: &TcpStream, clock: &Clock, arrived: &Sender<Time>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream);
    let mut answers = stream;
    while read_head(&mut requests)? && arrived.send(clock.now()).is_ok() {
        answers.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
    Ok(())
}

/// Reads a head, and returns whether there was one.
fn read_head(from: &mut impl BufRead) -> std::io::Result<bool> {
    let mut line = String::new();
    loop {
        line.clear();
        match (from.read_line(&mut line)?, line.trim_end()) {
            (0, _) => return Ok(false),
            (_, "") => return Ok(true),
            _ => {}
        }
    }
}
