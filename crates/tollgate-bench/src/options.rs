//! The command line.

/// What to measure and how hard.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The first word: which measurement.
    pub(crate) command: String,
    /// Words after it; only `doors`, `gateway` and the hidden commands take any.
    pub(crate) words: Vec<String>,
    pub(crate) keys: usize,
    pub(crate) rounds: usize,
    /// Decisions per thread, cell and round.
    pub(crate) decisions: usize,
    /// The largest table of the memory and scaling measurements.
    pub(crate) most_keys: usize,
    /// How long a server is loaded each time, in seconds.
    pub(crate) seconds: usize,
    /// How many connections say nothing.
    pub(crate) idle: usize,
    /// Print what `doors`, `gateway` or `redis` measured as JSON.
    pub(crate) json: bool,
    /// Write the instruction counts down instead of comparing them.
    pub(crate) record: bool,
}

pub(crate) const USAGE: &str = "\
usage: tollgate-bench [COMMAND] [OPTION …]

  engine         every limiter in every scenario, then targets met and missed (default)
  memory         bytes per key and insert stalls
  scaling        time per decision from 1 k to 10 M keys
  batch          16 decisions one by one and in one call
  rules          matching and deciding by 10 to 10 000 rules
  adaptive       limits that adapt, ours beside the published ones, simulated
  layer          what middleware adds to a request of an axum router
  doors [NAME …] servers side by side: resp, http, grpc; and tollgate's load, idle
  gateway [NAME …] the gateway beside nginx, HAProxy, Traefik and Envoy: work, latency, memory
  shaping        how evenly requests leave a queue, of the library and of the gateway
  neighbour      what polite clients of the gateway see of a noisy one, with fair shares and without
  redis          shared counters in Redis beside bare scripts, redis-cell and other limiters
  instructions   instructions per decision (valgrind), compared with instructions.txt

  --keys N       keys in a table (1000000)
  --rounds N     interleaved rounds (5)
  --decisions N  decisions per thread and round (1000000)
  --seconds N    how long a server is loaded each time (2)
  --idle N       doors idle: connections that say nothing (50000)
  --quick        a tenth of the keys, decisions and connections, a second, 3 rounds: shows that it
                 runs, no more
  --json         doors, gateway, redis: figures for machines
  --record       instructions: write the counts to instructions.txt";

impl Options {
    /// Reads the arguments, or says what is wrong with them.
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            command: String::new(),
            words: Vec::new(),
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
        let mut words = Vec::new();
        while let Some(arg) = args.next() {
            let mut number = || {
                let value = args.next().ok_or(format!("{arg} wants a number"))?;
                match value.replace('_', "").parse() {
                    Ok(number) if number > 0 => Ok(number),
                    _ => Err(format!("{arg} wants a number above 0, not `{value}`")),
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
                _ => words.push(arg),
            }
        }
        let mut words = words.into_iter();
        options.command = words.next().unwrap_or_else(|| "engine".to_owned());
        options.words = words.collect();
        Ok(options)
    }
}
