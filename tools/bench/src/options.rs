//! The command line.

/// The measurements and their size.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The first argument: the measurement.
    pub(crate) command: String,
    /// Further arguments; only `doors`, `gateway` and the hidden commands take any.
    pub(crate) arguments: Vec<String>,
    pub(crate) keys: usize,
    pub(crate) rounds: usize,
    /// Decisions per thread, cell and round.
    pub(crate) decisions: usize,
    /// The largest table of the memory and scaling measurements.
    pub(crate) most_keys: usize,
    /// The time of each load on a server, in seconds.
    pub(crate) seconds: usize,
    /// The number of idle connections.
    pub(crate) idle: usize,
    /// Whether to print the figures of `doors`, `gateway` or `redis` as JSON.
    pub(crate) json: bool,
    /// Whether to record the instruction counts instead of comparing them.
    pub(crate) record: bool,
}

pub(crate) const USAGE: &str = "\
usage: tollgate-bench [COMMAND] [OPTION …]

  engine         every limiter in every scenario, then targets met and missed (default)
  memory         bytes per key and insert stalls
  scaling        time per decision from 1 k to 10 M keys
  batch          16 decisions one by one and in one call
  rules          matching and deciding by 10 to 10 000 rules
  adaptive       adaptive limits, ours and the published ones, simulated
  layer          time that middleware adds to a request of an axum router
  doors [NAME …] comparison of servers: resp, http, grpc; and tollgate's load, idle
  gateway [NAME …] comparison with nginx, HAProxy, Traefik and Envoy: work, latency, memory
  shaping        evenness of requests that leave a queue, in the library and in the gateway
  neighbour      latency of polite clients beside a noisy one, with fair shares and without
  redis          shared counters in Redis: tollgate, bare scripts, redis-cell, other limiters
  instructions   instructions per decision (valgrind), compared with instructions.txt

  --keys N       keys in a table (1000000)
  --rounds N     interleaved rounds (5)
  --decisions N  decisions per thread and round (1000000)
  --seconds N    seconds of each load on a server (2)
  --idle N       doors idle: number of idle connections (50000)
  --quick        a tenth of the keys, decisions and connections, one second, 3 rounds: a smoke test
  --json         doors, gateway, redis: print JSON
  --record       instructions: write the counts to instructions.txt";

impl Options {
    /// Parses the arguments, or returns an error message.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            command: String::new(),
            arguments: Vec::new(),
            keys: 1_000_000,
            rounds: 5,
            decisions: 1_000_000,
            most_keys: 10_000_000,
            seconds: 2,
            idle: 50_000,
            json: false,
            record: false,
        };
        let mut args = args.collect::<Vec<_>>().into_iter();
        let mut arguments = Vec::new();
        while let Some(arg) = args.next() {
            let mut number = || {
                let value = args.next().ok_or(format!("{arg} needs a number"))?;
                match value.replace('_', "").parse() {
                    Ok(number) if number > 0 => Ok(number),
                    _ => Err(format!("{arg} needs a number above 0, not `{value}`")),
                }
            };
            match arg.as_str() {
                "--keys" => options.keys = number()?,
                "--rounds" => options.rounds = number()?,
                "--decisions" => options.decisions = number()?,
                "--seconds" => options.seconds = number()?,
                "--idle" => options.idle = number()?,
                "--json" => options.json = true,
                "--record" => options.record = true,
                "--quick" => {
                    options.keys = 100_000;
                    options.decisions = 100_000;
                    options.most_keys = 1_000_000;
                    options.seconds = 1;
                    options.idle = 5_000;
                    options.rounds = 3;
                }
                _ if arg.starts_with("--") => return Err(format!("unknown option {arg}")),
                _ => arguments.push(arg),
            }
        }
        let mut arguments = arguments.into_iter();
        options.command = arguments.next().unwrap_or_else(|| "engine".to_owned());
        options.arguments = arguments.collect();
        Ok(options)
    }
}
