//! Nine polite clients beside a noisy one that sends a hundred times as much.
//!
//! They share a real gateway in front of an upstream with limited capacity.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Span, Time};
use tollgate_rig::{WebClient, Workers};

use crate::gateway_process::{FILES, GatewayProcess};
use crate::measure::try_interleave;
use crate::options::Options;
use crate::report::{self, Table};
use crate::targets::{self, Target};
use crate::{cores, workload};

/// The number of workers of the upstream, each busy for [`EACH`]: 800 requests a second.
const WORKERS: usize = 16;
const EACH: Duration = Duration::from_millis(20);
const MOST: usize = 80;

const POLITE: usize = 9;
/// The connections of the noisy client, each as busy as a polite client.
const TIMES: usize = 100;
const PER_SECOND: u64 = 10;
/// The time at the start that is not measured.
const SETTLING: Span = Span::from_secs(1);
/// The highest p99 with the neighbour, relative to that without.
const MOST_HARM: f64 = 1.1;

const OPEN: &str = "rules: [{ name: upstream, limit: 1000000/s burst 1000000 }]";
/// Half the capacity of the upstream, shared fairly.
const FAIR: &str = "
rules:
  - { name: upstream, limit: 400/s burst 100, fair: { by: 'header[\"x-client\"]' } }
";

/// A scenario, and the results of the polite clients in all rounds.
struct NeighbourRun {
    name: &'static str,
    gateway: GatewayProcess,
    noisy: bool,
    taken_ms: Vec<f64>,
    errors: usize,
}

impl NeighbourRun {
    fn percentile_ms(&self, share: f64) -> f64 {
        let last = self.taken_ms.len().saturating_sub(1) as f64;
        self.taken_ms.get((last * share) as usize).copied().unwrap_or(f64::NAN)
    }

    fn error_rate(&self) -> f64 {
        self.errors as f64 / (self.errors + self.taken_ms.len()).max(1) as f64
    }

    /// Runs all clients for some seconds.
    fn round(&mut self, seconds: usize) {
        let clock = Arc::new(Clock::system());
        let begins = clock.now();
        let ends = begins + SETTLING + Span::from_secs(seconds as u64);
        let (sender, results) = channel();
        let clients = POLITE + if self.noisy { TIMES } else { 0 };
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                let client = Client {
                    number,
                    address: self.gateway.address,
                    clock: clock.clone(),
                    counts_from: begins + SETTLING,
                    sender: (number < POLITE).then(|| sender.clone()),
                };
                thread::spawn(move || client.send_until(ends))
            })
            .collect();
        drop(sender);
        for result in results {
            match result {
                Some(taken) => self.taken_ms.push(taken.as_nanos() as f64 / 1e6),
                None => self.errors += 1,
            }
        }
        for client in clients {
            client.join().expect("a client that comes to its end");
        }
        self.taken_ms.sort_by(f64::total_cmp);
    }
}

/// A client that sends requests at roughly even times, and waits for each response.
struct Client {
    number: usize,
    address: SocketAddr,
    clock: Arc<Clock>,
    counts_from: Time,
    /// Receives the latency of each response, `None` for errors; only for polite clients.
    sender: Option<Sender<Option<Span>>>,
}

impl Client {
    fn send_until(&self, ends: Time) {
        let name = match self.number < POLITE {
            true => format!("polite-{}", self.number),
            false => "noisy".to_owned(),
        };
        let mut connection = WebClient::connect(self.address);
        let period = 1_000_000_000 / PER_SECOND;
        let mut seed = (self.number as u64) << 32;
        let mut due = self.clock.now() + Span::from_nanos(workload::scatter(seed) % period);
        while due < ends {
            let early = due.since(self.clock.now());
            if !early.is_zero() {
                thread::park_timeout(early.into());
                continue;
            }
            let status = connection.get_with("/", &[("x-client", &name)]).status();
            // The latency counts from when the request was due, also if the previous response was late.
            let taken = self.clock.now().since(due);
            if let Some(sender) = self.sender.as_ref().filter(|_| due >= self.counts_from) {
                let _ = sender.send((status == 200).then_some(taken));
            }
            seed += 1;
            due = due + Span::from_nanos(period / 2 + workload::scatter(seed) % period);
        }
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    report::machine();
    println!(
        "method:  {} interleaved rounds of {} s; {POLITE} clients send {PER_SECOND} requests a second each, \
         one {TIMES} times as many; the upstream has {WORKERS} workers of {} ms and accepts {MOST}; \
         gateways on core 0, everything else on core 1",
        options.rounds,
        options.seconds,
        EACH.as_millis()
    );
    cores::pin_to_load_core(FILES)?;
    let workers = Workers::start(WORKERS, EACH, MOST);
    let upstream = workers.upstream().address();
    let run = |name, rules, noisy| {
        let gateway = GatewayProcess::start("neighbour", rules, upstream)?;
        Ok::<NeighbourRun, String>(NeighbourRun {
            name,
            gateway,
            noisy,
            taken_ms: Vec::new(),
            errors: 0,
        })
    };
    let mut runs = [
        run("without the neighbour", OPEN, false)?,
        run("with it, no limit", OPEN, true)?,
        run("with it, a fair limit", FAIR, true)?,
    ];
    try_interleave("neighbours", options.rounds, &mut runs, |run| {
        run.round(options.seconds);
        Ok(())
    })?;
    print(&runs);
    Ok(())
}

fn print(runs: &[NeighbourRun; 3]) {
    let mut table = Table::new(["polite clients", "requests", "p50 ms", "p99 ms", "errors"]);
    for run in runs {
        table.row([
            run.name.to_owned(),
            (run.taken_ms.len() + run.errors).to_string(),
            format!("{:.1}", run.percentile_ms(0.5)),
            format!("{:.1}", run.percentile_ms(0.99)),
            format!("{:.1} %", 100.0 * run.error_rate()),
        ]);
    }
    table.print();
    let [alone, harmed, fair] = runs;
    let ratio = |run: &NeighbourRun| Some(run.percentile_ms(0.99) / alone.percentile_ms(0.99));
    println!("  without a limit, p99 is {:.1} times as long", ratio(harmed).unwrap_or(f64::NAN));
    targets::table(&[
        Target { what: "p99, fair / alone".to_owned(), measured: ratio(fair), most: MOST_HARM },
        Target {
            what: "errors in percent, fair less alone".to_owned(),
            measured: Some(100.0 * (fair.error_rate() - alone.error_rate())),
            most: 0.0,
        },
    ]);
}
