//! Public load generators: redis-benchmark, wrk, h2load. All servers of a door get the same one, on the
//! core that the servers do not use.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::decision_request::{DecisionRequest, KEYS};
use super::protocol::{EncodedRequest, grpc};

/// The concurrency of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadShape {
    pub(crate) connections: usize,
    /// Requests in flight on one connection: a pipeline, or streams.
    pub(crate) depth: usize,
}

/// The result of a load generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadResult {
    pub(crate) decisions: f64,
    pub(crate) per_second: f64,
}

/// Loads a server for about so many seconds.
pub(crate) fn load(
    address: SocketAddr,
    request: &DecisionRequest,
    shape: LoadShape,
    seconds: f64,
) -> Result<LoadResult, String> {
    match request {
        DecisionRequest::Resp(words) => {
            // redis-benchmark takes a number of requests, which a short run estimates.
            let short = redis_benchmark(address, words, shape, 20_000.0)?;
            let enough = (short.per_second * seconds).max(20_000.0).round();
            let long = redis_benchmark(address, words, shape, enough)?;
            Ok(LoadResult { decisions: short.decisions + long.decisions, ..long })
        }
        DecisionRequest::Http { .. } => wrk(address, request, shape, seconds),
        DecisionRequest::Grpc { path, message } => h2load(address, path, message, shape, seconds),
    }
}

fn redis_benchmark(
    address: SocketAddr,
    words: &[String],
    shape: LoadShape,
    requests: f64,
) -> Result<LoadResult, String> {
    let LoadShape { connections, depth } = shape;
    let options = format!(
        "-h {} -p {} -c {connections} -P {depth} -r {KEYS} -n {requests} --csv",
        address.ip(),
        address.port()
    );
    let text = run(Command::new("redis-benchmark").args(options.split(' ')).args(words))?;
    // "test","rps","avg_latency_ms",…
    let rate = text.lines().last().and_then(|line| line.rsplit("\",\"").nth(6)?.parse().ok());
    let rate = rate.ok_or_else(|| format!("redis-benchmark printed no rate:\n{text}"))?;
    Ok(LoadResult { decisions: requests, per_second: rate })
}

fn wrk(
    address: SocketAddr,
    request: &DecisionRequest,
    shape: LoadShape,
    seconds: f64,
) -> Result<LoadResult, String> {
    let encoded = EncodedRequest::new(request);
    let (before, after) = encoded.around_key();
    // Lua reads Rust's escapes of ASCII text.
    let [before, after] = [before, after].map(|part| String::from_utf8_lossy(part).into_owned());
    let script = format!(
        "local before, after = {before:?}, {after:?}\n\
         local random, format = math.random, string.format\n\
         request = function()\n\
           return before .. format('%012d', random(0, {})) .. after\n\
         end\n",
        KEYS - 1
    );
    let (result, refused) =
        run_wrk(&format!("http://{address}/"), shape.connections, seconds, &script)?;
    if refused > 0.0 {
        return Err(format!("wrk against {request:?}: {refused} were refused or failed"));
    }
    Ok(result)
}

/// Runs wrk with a script, and returns also the number of responses that were neither 2xx nor 3xx.
pub(crate) fn run_wrk(
    url: &str,
    connections: usize,
    seconds: f64,
    script: &str,
) -> Result<(LoadResult, f64), String> {
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
    let result =
        line.and_then(|(count, rest)| over(count.trim().parse().ok()?, rest.split_once(',')?.0));
    result.map(|result| (result, refused)).ok_or(format!("wrk printed no rate:\n{text}"))
}

fn h2load(
    address: SocketAddr,
    path: &str,
    message: &[u8],
    shape: LoadShape,
    seconds: f64,
) -> Result<LoadResult, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("body");
    fs::write(&file, grpc::body(message)).map_err(|error| error.to_string())?;
    let body = file.to_string_lossy();
    let grpc = ["--header", "content-type: application/grpc", "--header", "te: trailers"];
    let more = [&["--data", &*body][..], &grpc].concat();
    run_h2load(&format!("http://{address}{path}"), shape, seconds, &more)
}

/// Runs h2load with additional arguments.
pub(crate) fn run_h2load(
    url: &str,
    shape: LoadShape,
    seconds: f64,
    more: &[&str],
) -> Result<LoadResult, String> {
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
    let result = match (part(" succeeded"), part(" failed"), took) {
        (Some(done), Some(0.0), Some(took)) if done > 0.0 => over(done, took),
        _ => None,
    };
    result.ok_or_else(|| format!("h2load against {url}:\n{text}"))
}

/// Returns the rate of decisions in `950.12ms`, `2.00s` or `1.05m`.
fn over(decisions: f64, time: &str) -> Option<LoadResult> {
    let number = |unit| time.strip_suffix(unit)?.parse::<f64>().ok();
    let milliseconds = number("ms").map(|value| value / 1e3);
    let minutes = || number("m").map(|value| value * 60.0);
    let seconds = milliseconds.or_else(|| number("s")).or_else(minutes)?;
    Some(LoadResult { decisions, per_second: decisions / seconds })
}

/// Runs a generator to its end, and returns its output.
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
