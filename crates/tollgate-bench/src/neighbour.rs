//! What nine polite clients see of a noisy neighbour who asks a hundred times as often, through a
//! real gateway in front of an upstream that can only do so much.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Span, Time};
use tollgate_rig::{WebClient, Workers};

use crate::measure::try_interleave;
use crate::options::Options;
use crate::our_gateway::{FILES, OurGateway};
use crate::report::{self, Table};
use crate::targets::{self, Target};
use crate::{cores, workload};

/// The upstream: so many workers, each busy for so long, 800 a second; so many requests at once.
const WORKERS: usize = 16;
const EACH: Duration = Duration::from_millis(20);
const MOST: usize = 80;

const POLITE: usize = 9;
/// The noisy one has as many connections, each of which asks as often as a polite client.
const TIMES: usize = 100;
const PER_SECOND: u64 = 10;
/// Not looked at, while everybody arrives.
const SETTLING: Span = Span::from_secs(1);
/// Of what they see without the neighbour.
const MOST_HARM: f64 = 1.1;

const OPEN: &str = "rules: [{ name: upstream, limit: 1000000/s burst 1000000 }]";
/// Half of what the upstream can do, shared fairly.
const FAIR: &str = "
rules:
  - { name: upstream, limit: 400/s burst 100, fair: { by: 'header[\"x-client\"]' } }
";

/// One of the runs, and what the polite ones saw in all of its rounds.
struct Run {
    name: &'static str,
    gateway: OurGateway,
    noisy: bool,
    taken_ms: Vec<f64>,
    errors: usize,
}

impl Run {
    fn at(&self, share: f64) -> f64 {
        let last = self.taken_ms.len().saturating_sub(1) as f64;
        self.taken_ms.get((last * share) as usize).copied().unwrap_or(f64::NAN)
    }

    fn error_rate(&self) -> f64 {
        self.errors as f64 / (self.errors + self.taken_ms.len()).max(1) as f64
    }

    /// Everybody asks for a while.
    fn round(&mut self, seconds: usize) {
        let clock = Arc::new(Clock::system());
        let begins = clock.now();
        let ends = begins + SETTLING + Span::from_secs(seconds as u64);
        let (tell, told) = channel();
        let clients = POLITE + if self.noisy { TIMES } else { 0 };
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                let client = Client {
                    number,
                    address: self.gateway.address,
                    clock: clock.clone(),
                    counts_from: begins + SETTLING,
                    tell: (number < POLITE).then(|| tell.clone()),
                };
                thread::spawn(move || client.ask_until(ends))
            })
            .collect();
        drop(tell);
        for seen in told {
            match seen {
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

/// Somebody who asks at even times, more or less, and waits for each answer.
struct Client {
    number: usize,
    address: SocketAddr,
    clock: Arc<Clock>,
    counts_from: Time,
    /// Who is told how long answers took, none for errors; only of polite ones.
    tell: Option<Sender<Option<Span>>>,
}

impl Client {
    fn ask_until(&self, ends: Time) {
        let name = match self.number < POLITE {
            true => format!("polite-{}", self.number),
            false => "noisy".to_owned(),
        };
        let mut connection = WebClient::connect(self.address);
        let period = 1_000_000_000 / PER_SECOND;
        let mut dice = (self.number as u64) << 32;
        let mut due = self.clock.now() + Span::from_nanos(workload::scatter(dice) % period);
        while due < ends {
            let early = due.since(self.clock.now());
            if !early.is_zero() {
                thread::park_timeout(early.into());
                continue;
            }
            let status = connection.get_with("/", &[("x-client", &name)]).status();
            // From when it was due, also if the answer before came late.
            let taken = self.clock.now().since(due);
            if let Some(tell) = self.tell.as_ref().filter(|_| due >= self.counts_from) {
                let _ = tell.send((status == 200).then_some(taken));
            }
            dice += 1;
            due = due + Span::from_nanos(period / 2 + workload::scatter(dice) % period);
        }
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    report::machine();
    println!(
        "method:  {} interleaved rounds of {} s; {POLITE} clients ask {PER_SECOND} times a second each, \
         one {TIMES} times as often; the upstream has {WORKERS} workers of {} ms and room for {MOST}; \
         gateways on core 0, everybody else on core 1",
        options.rounds,
        options.seconds,
        EACH.as_millis()
    );
    cores::settle_in(FILES)?;
    let workers = Workers::start(WORKERS, EACH, MOST);
    let upstream = workers.upstream().address();
    let run = |name, rules, noisy| {
        let gateway = OurGateway::start("neighbour", rules, upstream)?;
        Ok::<Run, String>(Run { name, gateway, noisy, taken_ms: Vec::new(), errors: 0 })
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

fn print(runs: &[Run; 3]) {
    let mut table = Table::new(["what the polite see", "requests", "p50 ms", "p99 ms", "errors"]);
    for run in runs {
        table.row([
            run.name.to_owned(),
            (run.taken_ms.len() + run.errors).to_string(),
            format!("{:.1}", run.at(0.5)),
            format!("{:.1}", run.at(0.99)),
            format!("{:.1} %", 100.0 * run.error_rate()),
        ]);
    }
    table.print();
    let [alone, harmed, fair] = runs;
    let ratio = |run: &Run| Some(run.at(0.99) / alone.at(0.99));
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
