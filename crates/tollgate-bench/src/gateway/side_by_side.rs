//! What requests cost each proxy, in rounds that all of them share.

use serde_json::{Value, json};

use super::configs::{FREE, TIGHT};
use super::lineup::{Kind, Proxy};
use super::upstream::{LONG, LONG_BODY};
use crate::doors::loaders::{Counted, Shape, h2load_by, wrk_by};
use crate::measure::{median, try_interleave};
use crate::options::Options;
use crate::report::{Table, rate};
use crate::sections::Section;
use crate::targets::Target;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Allowed,
    /// No limit looks at them.
    Free,
    Refused,
    Http2,
    LongAnswer,
    LongRequest,
}

impl Case {
    const ALL: [Case; 6] = [
        Case::Allowed,
        Case::Free,
        Case::Refused,
        Case::Http2,
        Case::LongAnswer,
        Case::LongRequest,
    ];

    fn name(self) -> &'static str {
        match self {
            Case::Allowed => "allowed",
            Case::Free => "no limit",
            Case::Refused => "refused",
            Case::Http2 => "HTTP/2, 10 × 10",
            Case::LongAnswer => "64 KiB answers",
            Case::LongRequest => "64 KiB requests",
        }
    }

    /// Does it for so long, and makes sure that answers are what they should be.
    fn press(self, proxy: &Proxy, seconds: f64) -> Result<Counted, String> {
        let url = |path: &str| format!("http://{}{path}", proxy.address);
        let wrk = |path: &str, script: &str| wrk_by(&url(path), 50, seconds, script);
        let upload = format!("wrk.method = 'POST'\nwrk.body = string.rep('x', {LONG_BODY})\n");
        let (counted, refused) = match self {
            Case::Allowed => wrk("/", "")?,
            Case::Free => wrk(FREE, "")?,
            Case::Refused => wrk(TIGHT, "")?,
            Case::LongAnswer => wrk(LONG, "")?,
            Case::LongRequest => wrk("/", &upload)?,
            Case::Http2 => {
                let shape = Shape { connections: 10, depth: 10 };
                (h2load_by(&url("/"), shape, seconds, &[])?, 0.0)
            }
        };
        let (least, most) = match self {
            // The first passes, and may pass again each minute.
            Case::Refused => (0.99, 1.0),
            _ => (0.0, 0.0),
        };
        let share = refused / counted.decisions;
        if share < least || share > most {
            let name = proxy.kind.name();
            return Err(format!("{name}, {}: a share of {share:.3} was refused", self.name()));
        }
        Ok(counted)
    }
}

/// What one press showed.
#[derive(Clone, Copy, Debug)]
struct Sample {
    requests: f64,
    per_second: f64,
    cpu_s: f64,
}

impl Sample {
    fn take(proxy: &Proxy, case: Case, seconds: f64) -> Result<Sample, String> {
        let before = proxy.cpu();
        let counted = case.press(proxy, seconds)?;
        let cpu_s = proxy.cpu().since(before).total();
        Ok(Sample { requests: counted.decisions, per_second: counted.per_second, cpu_s })
    }

    fn per_cpu_second(&self) -> f64 {
        self.requests / self.cpu_s
    }

    fn cpu_us(&self) -> f64 {
        1e6 / self.per_cpu_second()
    }
}

/// A proxy in a case, and a sample of it for each round.
struct Cell<'a> {
    proxy: &'a Proxy,
    case: Case,
    samples: Vec<Sample>,
}

impl Cell<'_> {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }

    /// Requests per CPU-second, as a share of another's: the median over rounds.
    fn share_of(&self, other: &Cell) -> f64 {
        let rounds = self.samples.iter().zip(&other.samples);
        median(rounds.map(|(ours, theirs)| ours.per_cpu_second() / theirs.per_cpu_second()))
    }
}

/// Measures all proxies.
pub(super) fn run(proxies: &[Proxy], options: &Options) -> Result<Section, String> {
    for proxy in proxies {
        // Connections to the upstream are opened, tables and memory are touched.
        Case::Allowed.press(proxy, 1.0)?;
    }
    let mut cells = Vec::new();
    for case in Case::ALL {
        for proxy in proxies {
            cells.push(Cell { proxy, case, samples: Vec::new() });
        }
    }
    try_interleave("proxies", options.rounds, &mut cells, |cell| {
        let sample = Sample::take(cell.proxy, cell.case, options.seconds as f64)?;
        cell.samples.push(sample);
        Ok(())
    })?;
    Ok(section(proxies, &cells))
}

fn section(proxies: &[Proxy], cells: &[Cell]) -> Section {
    let find = |kind: Kind, case: Case| {
        cells.iter().find(|cell| cell.proxy.kind == kind && cell.case == case)
    };
    let mut heads = vec!["", ""];
    heads.extend(Case::ALL.map(Case::name));
    let mut table = Table::new(heads);
    for proxy in proxies {
        let mut row = |name: &str, figure: &str, shown: &dyn Fn(&Cell) -> String| {
            let cells = Case::ALL.map(|case| find(proxy.kind, case).map_or("-".to_owned(), shown));
            table.row([name.to_owned(), figure.to_owned()].into_iter().chain(cells));
        };
        row(proxy.kind.name(), "per CPU-second", &|cell| {
            let share = find(Kind::Nginx, cell.case).map(|nginx| cell.share_of(nginx));
            let share = share.map_or(String::new(), |share| format!(" · {share:.2}"));
            format!("{}{share}", rate(cell.median(Sample::per_cpu_second)))
        });
        row("", "CPU µs", &|cell| format!("{:.1}", cell.median(Sample::cpu_us)));
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

/// At least 0.8 of what nginx does with a CPU-second, and more than Envoy and Traefik do.
fn targets<'a>(find: &dyn Fn(Kind, Case) -> Option<&'a Cell<'a>>) -> Vec<Target> {
    let mut targets = Vec::new();
    for case in [Case::Allowed, Case::Refused, Case::Http2, Case::LongAnswer, Case::LongRequest] {
        for (peer, most) in [(Kind::Nginx, 1.25), (Kind::Envoy, 1.0), (Kind::Traefik, 1.0)] {
            let pair = find(Kind::Tollgate, case).zip(find(peer, case));
            targets.push(Target {
                what: format!("{}, CPU of tollgate / {}", case.name(), peer.name()),
                measured: pair.map(|(ours, theirs)| theirs.share_of(ours)),
                most,
            });
        }
    }
    targets
}

fn as_json(cell: &Cell) -> Value {
    json!({
        "proxy": cell.proxy.kind.name(),
        "case": cell.case.name(),
        "per_cpu_second": cell.median(Sample::per_cpu_second),
        "cpu_us": cell.median(Sample::cpu_us),
        "per_second": cell.median(|sample| sample.per_second),
        "cpu_us_rounds": cell.samples.iter().map(Sample::cpu_us).collect::<Vec<_>>(),
    })
}
