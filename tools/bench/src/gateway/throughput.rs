//! The processor time per request of each proxy, in interleaved rounds.

use serde_json::{Value, json};

use super::configs::{FREE, TIGHT};
use super::proxies::{Proxy, ProxyKind};
use super::upstream::{LONG, LONG_BODY};
use crate::doors::load_generators::{LoadResult, LoadShape, run_h2load, run_wrk};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// The traffic of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyCase {
    Allowed,
    /// Requests without a limit.
    Free,
    Refused,
    Http2,
    LongResponse,
    LongRequest,
}

impl ProxyCase {
    const ALL: [ProxyCase; 6] = [
        ProxyCase::Allowed,
        ProxyCase::Free,
        ProxyCase::Refused,
        ProxyCase::Http2,
        ProxyCase::LongResponse,
        ProxyCase::LongRequest,
    ];

    fn name(self) -> &'static str {
        match self {
            ProxyCase::Allowed => "allowed",
            ProxyCase::Free => "no limit",
            ProxyCase::Refused => "refused",
            ProxyCase::Http2 => "HTTP/2, 10 × 10",
            ProxyCase::LongResponse => "64 KiB responses",
            ProxyCase::LongRequest => "64 KiB requests",
        }
    }

    /// Loads a proxy, and checks that the responses are those of the case.
    fn load(self, proxy: &Proxy, seconds: f64) -> Result<LoadResult, String> {
        let url = |path: &str| format!("http://{}{path}", proxy.address);
        let wrk = |path: &str, script: &str| run_wrk(&url(path), 50, seconds, script);
        let upload = format!("wrk.method = 'POST'\nwrk.body = string.rep('x', {LONG_BODY})\n");
        let (result, refused) = match self {
            ProxyCase::Allowed => wrk("/", "")?,
            ProxyCase::Free => wrk(FREE, "")?,
            ProxyCase::Refused => wrk(TIGHT, "")?,
            ProxyCase::LongResponse => wrk(LONG, "")?,
            ProxyCase::LongRequest => wrk("/", &upload)?,
            ProxyCase::Http2 => {
                let shape = LoadShape { connections: 10, depth: 10 };
                (run_h2load(&url("/"), shape, seconds, &[])?, 0.0)
            }
        };
        let (least, most) = match self {
            // The first request passes, and may pass again each minute.
            ProxyCase::Refused => (0.99, 1.0),
            _ => (0.0, 0.0),
        };
        let share = refused / result.decisions;
        if share < least || share > most {
            let name = proxy.kind.name();
            return Err(format!("{name}, {}: a share of {share:.3} was refused", self.name()));
        }
        Ok(result)
    }
}

/// The result of one load.
#[derive(Clone, Copy, Debug)]
struct ProxySample {
    requests: f64,
    per_second: f64,
    cpu_s: f64,
}

impl ProxySample {
    fn take(proxy: &Proxy, case: ProxyCase, seconds: f64) -> Result<ProxySample, String> {
        let before = proxy.cpu();
        let result = case.load(proxy, seconds)?;
        let cpu_s = proxy.cpu().since(before).total();
        Ok(ProxySample { requests: result.decisions, per_second: result.per_second, cpu_s })
    }

    fn per_cpu_second(&self) -> f64 {
        self.requests / self.cpu_s
    }

    fn cpu_us(&self) -> f64 {
        1e6 / self.per_cpu_second()
    }
}

/// A proxy in a case, with a sample for each round.
struct ProxyCell<'a> {
    proxy: &'a Proxy,
    case: ProxyCase,
    samples: Vec<ProxySample>,
}

impl ProxyCell<'_> {
    fn median(&self, of: impl Fn(&ProxySample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }

    /// Returns requests per CPU-second as a share of another proxy's: the median over rounds.
    fn share_of(&self, other: &ProxyCell) -> f64 {
        let rounds = self.samples.iter().zip(&other.samples);
        median(rounds.map(|(ours, theirs)| ours.per_cpu_second() / theirs.per_cpu_second()))
    }
}

/// Measures all proxies.
pub(super) fn run(proxies: &[Proxy], options: &Options) -> Result<Section, String> {
    for proxy in proxies {
        // Opens connections to the upstream, and touches tables and memory.
        ProxyCase::Allowed.load(proxy, 1.0)?;
    }
    let mut cells = Vec::new();
    for case in ProxyCase::ALL {
        for proxy in proxies {
            cells.push(ProxyCell { proxy, case, samples: Vec::new() });
        }
    }
    try_interleave("proxies", options.rounds, &mut cells, |cell| {
        let sample = ProxySample::take(cell.proxy, cell.case, options.seconds as f64)?;
        cell.samples.push(sample);
        Ok(())
    })?;
    Ok(section(proxies, &cells))
}

fn section(proxies: &[Proxy], cells: &[ProxyCell]) -> Section {
    let find = |kind: ProxyKind, case: ProxyCase| {
        cells.iter().find(|cell| cell.proxy.kind == kind && cell.case == case)
    };
    let mut heads = vec!["", ""];
    heads.extend(ProxyCase::ALL.map(ProxyCase::name));
    let mut table = Table::new(heads);
    for proxy in proxies {
        let mut row = |name: &str, figure: &str, shown: &dyn Fn(&ProxyCell) -> String| {
            let cells =
                ProxyCase::ALL.map(|case| find(proxy.kind, case).map_or("-".to_owned(), shown));
            table.row([name.to_owned(), figure.to_owned()].into_iter().chain(cells));
        };
        row(proxy.kind.name(), "per CPU-second", &|cell| {
            let share = find(ProxyKind::Nginx, cell.case).map(|nginx| cell.share_of(nginx));
            let share = share.map_or(String::new(), |share| format!(" · {share:.2}"));
            format!("{}{share}", rate(cell.median(ProxySample::per_cpu_second)))
        });
        row("", "CPU µs", &|cell| format!("{:.1}", cell.median(ProxySample::cpu_us)));
        row("", "per second", &|cell| rate(cell.median(|sample| sample.per_second)));
    }
    Section {
        title: "50 connections of HTTP/1.1 (wrk), 10 of HTTP/2 with 10 streams each (h2load): \
                requests per CPU-second of the proxy · as a share of nginx's"
            .to_owned(),
        table,
        targets: targets(&find),
        figures: json!({ "work": cells.iter().map(as_json).collect::<Vec<_>>() }),
    }
}

/// Returns the targets: at least 0.8 of nginx per CPU-second, and more than Envoy and Traefik.
fn targets<'a>(find: &dyn Fn(ProxyKind, ProxyCase) -> Option<&'a ProxyCell<'a>>) -> Vec<Target> {
    let mut targets = Vec::new();
    for case in [
        ProxyCase::Allowed,
        ProxyCase::Refused,
        ProxyCase::Http2,
        ProxyCase::LongResponse,
        ProxyCase::LongRequest,
    ] {
        for (peer, most) in
            [(ProxyKind::Nginx, 1.25), (ProxyKind::Envoy, 1.0), (ProxyKind::Traefik, 1.0)]
        {
            let pair = find(ProxyKind::Tollgate, case).zip(find(peer, case));
            targets.push(Target {
                what: format!("{}, CPU of tollgate / {}", case.name(), peer.name()),
                measured: pair.map(|(ours, theirs)| theirs.share_of(ours)),
                most,
            });
        }
    }
    targets
}

fn as_json(cell: &ProxyCell) -> Value {
    json!({
        "proxy": cell.proxy.kind.name(),
        "case": cell.case.name(),
        "per_cpu_second": cell.median(ProxySample::per_cpu_second),
        "cpu_us": cell.median(ProxySample::cpu_us),
        "per_second": cell.median(|sample| sample.per_second),
        "cpu_us_rounds": cell.samples.iter().map(ProxySample::cpu_us).collect::<Vec<_>>(),
    })
}
