//! Load by generators that everybody knows: redis-benchmark, wrk, h2load. The same one for all
//! servers behind a door, started on the core that the servers do not use.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::ask::{Ask, KEYS};
use super::talk::{Request, grpc};

/// How hard a server is pressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    /// Requests on their way on one connection: a pipeline, or streams.
    pub(crate) depth: usize,
}

/// What a generator counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) decisions: f64,
    pub(crate) per_second: f64,
}

/// Presses for about so many seconds.
pub(crate) fn press(
    address: SocketAddr,
    ask: &Ask,
    shape: Shape,
    seconds: f64,
) -> Result<Counted, String> {
    match ask {
        Ask::Resp(words) => {
            // It wants a number of requests: a short run says how many.
            let short = redis_benchmark(address, words, shape, 20_000.0)?;
            let enough = (short.per_second * seconds).max(20_000.0).round();
            let long = redis_benchmark(address, words, shape, enough)?;
            Ok(Counted { decisions: short.decisions + long.decisions, ..long })
        }
        Ask::Http { .. } => wrk(address, ask, shape, seconds),
        Ask::Grpc { path, message } => h2load(address, path, message, shape, seconds),
    }
}

fn redis_benchmark(
    address: SocketAddr,
    words: &[String],
    shape: Shape,
    requests: f64,
) -> Result<Counted, String> {
    let Shape { connections, depth } = shape;
    let options = format!(
        "-h {} -p {} -c {connections} -P {depth} -r {KEYS} -n {requests} --csv",
        address.ip(),
        address.port()
    );
    let text = run(Command::new("redis-benchmark").args(options.split(' ')).args(words))?;
    // "test","rps","avg_latency_ms",…
    let rate = text.lines().last().and_then(|line| line.rsplit("\",\"").nth(6)?.parse().ok());
    let rate = rate.ok_or_else(|| format!("redis-benchmark printed no rate:\n{text}"))?;
    Ok(Counted { decisions: requests, per_second: rate })
}

fn wrk(address: SocketAddr, ask: &Ask, shape: Shape, seconds: f64) -> Result<Counted, String> {
    let request = Request::new(ask);
    let (before, after) = request.around_key();
    // What Rust escapes in ASCII text, Lua reads the same way.
    let [before, after] = [before, after].map(|part| String::from_utf8_lossy(part).into_owned());
    let script = format!(
        "local before, after = {before:?}, {after:?}\n\
         local random, format = math.random, string.format\n\
         request = function()\n\
           return before .. format('%012d', random(0, {})) .. after\n\
         end\n",
        KEYS - 1
    );
    let (counted, refused) =
        wrk_by(&format!("http://{address}/"), shape.connections, seconds, &script)?;
    if refused > 0.0 {
        return Err(format!("wrk against {ask:?}: {refused} were refused or failed"));
    }
    Ok(counted)
}

/// What wrk counts with a script, and how many of the answers were neither 2xx nor 3xx.
pub(crate) fn wrk_by(
    url: &str,
    connections: usize,
    seconds: f64,
    script: &str,
) -> Result<(Counted, f64), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("requests.lua");
    fs::write(&file, script).map_err(|error| error.to_string())?;
    let text = run(Command::new("wrk")
        .args(["--threads", "1", "--connections", &connections.to_string()])
        .args(["--duration", &format!("{seconds:.0}s"), "--script"])
        .arg(file)
        .arg(url))?;
    if let Some(line) = text.lines().find(|line| line.contains("Socket errors")) {
        return Err(format!("wrk against {url}: {}", line.trim()));
    }
    let refused = text.lines().find(|line| line.contains("Non-2xx"));
    let refused = refused.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0);
    // «  123456 requests in 2.00s, 20.00MB read»
    let line = text.lines().find_map(|line| line.split_once(" requests in "));
    let counted =
        line.and_then(|(count, rest)| over(count.trim().parse().ok()?, rest.split_once(',')?.0));
    counted.map(|counted| (counted, refused)).ok_or(format!("wrk printed no rate:\n{text}"))
}

fn h2load(
    address: SocketAddr,
    path: &str,
    message: &[u8],
    shape: Shape,
    seconds: f64,
) -> Result<Counted, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("body");
    fs::write(&file, grpc::body(message)).map_err(|error| error.to_string())?;
    let body = file.to_string_lossy();
    let grpc = ["--header", "content-type: application/grpc", "--header", "te: trailers"];
    let more = [&["--data", &*body][..], &grpc].concat();
    h2load_by(&format!("http://{address}{path}"), shape, seconds, &more)
}

/// What h2load counts with more arguments than these.
pub(crate) fn h2load_by(
    url: &str,
    shape: Shape,
    seconds: f64,
    more: &[&str],
) -> Result<Counted, String> {
    let text = run(Command::new("h2load")
        .args(["--clients", &shape.connections.to_string()])
        .args(["--max-concurrent-streams", &shape.depth.to_string()])
        .args(["--duration", &format!("{seconds:.0}")])
        .args(more)
        .arg(url))?;
    // «finished in 2.00s, 1000.00 req/s, 1.00MB/s», «requests: … 2000 succeeded, 0 failed, …»
    let took = text.lines().find_map(|line| line.strip_prefix("finished in "));
    let took = took.and_then(|rest| Some(rest.split_once(',')?.0));
    let part = |name| text.split(", ").find_map(|part| part.strip_suffix(name)?.parse().ok());
    let counted = match (part(" succeeded"), part(" failed"), took) {
        (Some(done), Some(0.0), Some(took)) if done > 0.0 => over(done, took),
        _ => None,
    };
    counted.ok_or_else(|| format!("h2load against {url}:\n{text}"))
}

/// So many decisions in `950.12ms`, `2.00s` or `1.05m`.
fn over(decisions: f64, time: &str) -> Option<Counted> {
    let number = |unit| time.strip_suffix(unit)?.parse::<f64>().ok();
    let milliseconds = number("ms").map(|value| value / 1e3);
    let minutes = || number("m").map(|value| value * 60.0);
    let seconds = milliseconds.or_else(|| number("s")).or_else(minutes)?;
    Some(Counted { decisions, per_second: decisions / seconds })
}

/// Runs a generator to its end; what it printed.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("{name}: {error}: run `cargo xtask bench doors`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{name}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
