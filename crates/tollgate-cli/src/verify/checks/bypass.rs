//! The bypass corpus: requests that try to pass a limit of `1/h`, through the gateway and past
//! forward-auth. Admissions are counted at a stub upstream.

use std::collections::HashMap;
use std::net::SocketAddr;

use tollgate_server::bypass_corpus::{BYPASS_CASES, BypassCase, BypassOutcome, CountedAttribute};

use super::super::check::{CheckContext, CheckRun};
use super::super::harness::{ChildServer, HttpConnection, HttpMessage, StubUpstream};
use super::super::measurement::Measurement;

/// The number of requests of each case.
const ATTEMPTS: usize = 4;

/// Where the requests of a case go.
#[derive(Clone, Copy, Debug)]
struct BypassDoors {
    gateway: SocketAddr,
    /// The HTTP door, for forward-auth.
    http: SocketAddr,
}

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let upstream = StubUpstream::start()?;
    let mut tally = BypassTally::default();
    let cases: Vec<&BypassCase> = match context.quick {
        // Every eighth case, and the first of them is no trick.
        true => BYPASS_CASES.iter().step_by(8).collect(),
        false => BYPASS_CASES.iter().collect(),
    };
    for (number, case) in cases.iter().enumerate() {
        context.step(format!("case {} of {}: {}", number + 1, cases.len(), case.name));
        for door in [BypassDoor::Gateway, BypassDoor::ForwardAuth] {
            let server = start(context, case.rules, &upstream)?;
            let doors =
                BypassDoors { gateway: server.door("gateway")?, http: server.door("http")? };
            tally.add(case, door, send_all(doors, &upstream, case, door)?);
        }
    }
    Ok(CheckRun::Measured(tally.measurements()))
}

fn start(
    context: &CheckContext,
    rules: &str,
    upstream: &StubUpstream,
) -> anyhow::Result<ChildServer> {
    let folder = context.workspace.folder()?;
    std::fs::write(folder.join("rules.yaml"), rules)?;
    let (any, url) = ("127.0.0.1:0", upstream.url());
    let args = ["--http", any, "--listen", any, "--to", &url];
    let more = ["--rules", "rules.yaml", "--snapshot", "off", "--data", "data"];
    ChildServer::start(context, &folder, &[&args[..], &more[..]].concat())
}

/// A door that the corpus is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BypassDoor {
    Gateway,
    ForwardAuth,
}

/// The results of one case.
#[derive(Debug, Default)]
struct CaseTally {
    /// Requests that were rejected as ambiguous.
    rejected: usize,
    /// What the upstream read in each request that reached it; none if the limit is not about it.
    received: Vec<Option<String>>,
}

/// Sends all requests of a case.
fn send_all(
    doors: BypassDoors,
    upstream: &StubUpstream,
    case: &BypassCase,
    door: BypassDoor,
) -> anyhow::Result<CaseTally> {
    let mut tally = CaseTally::default();
    upstream.take();
    for number in 0..ATTEMPTS {
        let fill = |text: &str| text.replace("{n}", &number.to_string());
        let target = fill(case.target);
        let headers: Vec<(&str, String)> =
            case.headers.iter().map(|(name, value)| (*name, fill(value))).collect();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let status = match door {
            BypassDoor::Gateway => HttpConnection::open(doors.gateway)?
                .send(case.method, &target, &headers, "")?
                .status(),
            BypassDoor::ForwardAuth => {
                let described = [("X-Forwarded-Method", case.method), ("X-Forwarded-Uri", &target)];
                let described = [&described[..], &headers[..]].concat();
                let decided =
                    HttpConnection::open(doors.http)?.send("GET", "/v1/auth", &described, "")?;
                if decided.status() == 200 {
                    // The proxy passes the request on as it came.
                    HttpConnection::open(upstream.address())?.send(
                        case.method,
                        &target,
                        &headers,
                        "",
                    )?;
                }
                decided.status()
            }
        };
        tally.rejected += usize::from(status == 400);
    }
    tally.received = upstream.take().iter().map(|request| value_read(case, request)).collect();
    Ok(tally)
}

/// Returns the value that an upstream reads in a request; none if the limit is not about it.
fn value_read(case: &BypassCase, request: &HttpMessage) -> Option<String> {
    match case.counted {
        CountedAttribute::Header => request.joined("x-api-key"),
        // Some frameworks take the target from this header.
        CountedAttribute::Route(_) => request.header("x-original-url").map(|_| "route".to_owned()),
        _ => None,
    }
}

impl CaseTally {
    /// Returns whether the requests were treated as the corpus expects.
    fn is_as_expected(&self, expected: BypassOutcome) -> bool {
        match expected {
            BypassOutcome::Rejected => self.rejected == ATTEMPTS && self.received.is_empty(),
            BypassOutcome::One => self.received.len() == 1,
            _ => {
                let mut by_value: HashMap<&str, usize> = HashMap::new();
                for value in self.received.iter().filter_map(Option::as_deref) {
                    *by_value.entry(value).or_default() += 1;
                }
                !self.received.is_empty() && by_value.values().all(|count| *count == 1)
            }
        }
    }
}

/// The figures of the corpus.
#[derive(Debug, Default)]
struct BypassTally {
    cases: u64,
    /// The cases that passed the limit, with their door.
    passed: [Vec<&'static str>; 2],
}

impl BypassTally {
    fn add(&mut self, case: &BypassCase, door: BypassDoor, tally: CaseTally) {
        let (index, expected) = match door {
            BypassDoor::Gateway => (0, case.gateway),
            BypassDoor::ForwardAuth => (1, case.auth),
        };
        self.cases += u64::from(index == 0);
        if !tally.is_as_expected(expected) {
            self.passed[index].push(case.name);
        }
    }

    fn measurements(&self) -> Vec<Measurement> {
        let doors = ["gateway", "forward-auth"];
        let measured = doors.iter().zip(&self.passed).map(|(door, passed)| {
            let mut subject =
                format!("{door}, {} cases × {ATTEMPTS} requests: passed the limit", self.cases);
            if !passed.is_empty() {
                subject += &format!(" ({})", passed.join("; "));
            }
            Measurement::exactly(subject, passed.len() as u64, "cases", 0)
        });
        measured.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upstream without a gateway in front of it: every request passes.
    #[test]
    fn a_gateway_without_a_limit_is_found() {
        let upstream = StubUpstream::start().unwrap();
        let doors = BypassDoors { gateway: upstream.address(), http: upstream.address() };
        let mut tally = BypassTally::default();
        let is_limited = |case: &&BypassCase| case.gateway != BypassOutcome::OnePerValue;
        let cases: Vec<_> = BYPASS_CASES.iter().filter(is_limited).collect();
        for case in &cases {
            let door = BypassDoor::Gateway;
            tally.add(case, door, send_all(doors, &upstream, case, door).unwrap());
        }
        assert_eq!(tally.passed[0].len(), cases.len(), "{tally:?}");
        assert!(!tally.measurements()[0].holds());
    }

    #[test]
    fn two_requests_of_one_value_are_found() {
        let received = |values: &[&str]| CaseTally {
            rejected: 0,
            received: values.iter().map(|value| Some((*value).to_owned())).collect(),
        };
        let per_value = BypassOutcome::OnePerValue;
        assert!(received(&["r0", "r1"]).is_as_expected(per_value));
        assert!(!received(&["r0", "r0"]).is_as_expected(per_value));
        assert!(!received(&[]).is_as_expected(per_value));
        assert!(!received(&["r0", "r1"]).is_as_expected(BypassOutcome::One));
        assert!(!received(&["r0"]).is_as_expected(BypassOutcome::Rejected));
    }
}
