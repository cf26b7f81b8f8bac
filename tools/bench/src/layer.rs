//! The cost that middleware adds to a request of an axum router, compared with tower_governor's.
//!
//! A router responds "hello", without a layer and with one; requests have the ten header fields of a
//! browser, from 250 addresses. There is no socket, so the difference is the layer alone: its decision,
//! its header fields, its part of the future and body.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use futures_util::FutureExt;
use http::request::Parts;
use http::{Request, StatusCode};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::headers::HeaderStyle;
use tower::ServiceExt;
use tower::layer::util::Identity;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::figures::{Case, Cell, Figures, KeyDistribution, KeyKind};
use crate::measure::{SubjectTrial, interleave, one_by_one};
use crate::options::Options;
use crate::report::Table;
use crate::subjects::Subject;
use crate::targets::{self, Target};

const CASE: Case =
    Case { keys: KeyKind::Text, traffic: KeyDistribution::Uniform, denied: false, threads: 1 };
const CLIENTS: u8 = 250;
/// A request takes many times as long as a decision alone, so fewer are measured.
const THIN: usize = 10;
const BARE: &str = "bare";
/// A layer that does nothing: the cost of any layer in axum.
const IDENTITY: &str = "identity";
const PER_IP: &str = "per-ip";
const PEER: &str = "tower_governor";

/// The names of the measured layers.
pub(crate) const NAMES: [&str; 9] = [
    BARE,
    IDENTITY,
    PER_IP,
    "per-ip-quiet",
    "per-header",
    "three-rules",
    "refused",
    PEER,
    "tower_governor-quiet",
];

/// The most that the layer may add to a request.
const MOST_ADDED_NS: f64 = 1000.0;

/// A router that responds at once, and its requests.
pub(crate) struct RoutedApp {
    app: Router,
    heads: Vec<Parts>,
}

impl RoutedApp {
    pub(crate) fn named(name: &str) -> Option<RoutedApp> {
        let app = Router::new().route("/orders/{id}", get(|| async { "hello" }));
        let wide = || "1000M/s burst 1000M".parse().expect("a limit");
        let governor = || {
            let mut config = GovernorConfigBuilder::default();
            config.per_nanosecond(1).burst_size(u32::MAX);
            config
        };
        let app = match name {
            BARE => app,
            IDENTITY => app.layer(Identity::new()),
            PER_IP => app.layer(RateLimitLayer::per_ip(wide())),
            "per-ip-quiet" => app.layer(RateLimitLayer::per_ip(wide()).headers(HeaderStyle::None)),
            "per-header" => {
                app.layer(RateLimitLayer::per_header("user-agent", wide()).expect("a name"))
            }
            "three-rules" => {
                let rules = "
rules:
  - { name: edge, per: ip, limit: 1000M/s burst 1000M }
  - { name: orders, route: 'GET /orders/{id}', per: [ip, endpoint], limit: 1000M/s burst 1000M }
  - { name: login, route: POST /login, per: ip, limit: 5/min }
";
                app.layer(RateLimitLayer::from_rules(rules.parse().expect("rules")))
            }
            "refused" => app.layer(RateLimitLayer::per_ip("1/day".parse().expect("a limit"))),
            PEER => app.layer(GovernorLayer::new(governor().use_headers().finish()?)),
            "tower_governor-quiet" => app.layer(GovernorLayer::new(governor().finish()?)),
            _ => return None,
        };
        Some(RoutedApp { app, heads: requests() })
    }
}

impl Subject<usize> for RoutedApp {
    fn allow(&self, client: &usize) -> bool {
        let head = self.heads[client % self.heads.len()].clone();
        let request = Request::from_parts(head, Body::empty());
        let response = self.app.clone().oneshot(request).now_or_never();
        response.is_some_and(|response| {
            response.is_ok_and(|response| response.status() == StatusCode::OK)
        })
    }
}

/// Returns requests of a browser, one for each client.
fn requests() -> Vec<Parts> {
    (0..CLIENTS)
        .map(|client| {
            let (mut head, ()) = Request::get("/orders/42?page=3")
                .header("host", "shop.example.com")
                .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101")
                .header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9")
                .header("accept-language", "en-GB,en;q=0.5")
                .header("accept-encoding", "gzip, deflate, br, zstd")
                .header("referer", "https://shop.example.com/orders")
                .header("cookie", "session=2f1c9a7e5b3d; theme=dark")
                .header("sec-fetch-mode", "navigate")
                .header("sec-fetch-site", "same-origin")
                .header("priority", "u=0, i")
                .body(())
                .expect("a request")
                .into_parts();
            let address = SocketAddr::from((Ipv4Addr::new(203, 0, 113, client), 40_000));
            head.extensions.insert(ConnectInfo(address));
            head
        })
        .collect()
}

/// Measures and prints.
pub(crate) fn run(options: &Options) {
    let clients: Vec<usize> = (0..options.decisions).collect();
    let sequences = Arc::new([clients, Vec::new()]);
    let mut cells: Vec<Cell> = NAMES
        .iter()
        .filter_map(|name| {
            let subject = Arc::new(RoutedApp::named(name)?);
            for client in 0..usize::from(CLIENTS) {
                subject.allow(&client);
            }
            let decide_all: fn(&RoutedApp, &[usize]) -> u64 = one_by_one;
            let track =
                SubjectTrial { subject, sequences: sequences.clone(), decide_all, thin: THIN };
            Some(Cell { subject: name, case: CASE, trial: Box::new(track), samples: Vec::new() })
        })
        .collect();
    let rounds = options.rounds * 2;
    interleave("layer", rounds, &mut cells, |cell| cell.samples.push(cell.trial.run(1)));
    let mut figures = Figures::default();
    figures.add(cells);

    println!("\nA request of an axum router, 1 thread: thread CPU ns, and what a layer adds");
    let mut table = Table::new(["layer", "CPU ns", "added ns", "ratio", "status 200, %"]);
    let mut targets = Vec::new();
    let bare = figures.find(BARE, CASE);
    for name in NAMES {
        let (Some(figure), Some(bare)) = (figures.find(name, CASE), bare) else { continue };
        let added = figure.above(bare);
        let ratio = figure.over(bare).value;
        let (time, passed) = (figure.cpu_ns(), figure.allowed() * 100.0);
        let cells = [time, added].map(|nanos| format!("{nanos:.0}"));
        let [time, shown] = cells;
        table.row([name.to_owned(), time, shown, format!("{ratio:.3}"), format!("{passed:.0}")]);
        if name == PER_IP || name == "three-rules" {
            let what = format!("{name}: ns added to a request");
            targets.push(Target { what, measured: Some(added), most: MOST_ADDED_NS });
        }
    }
    if let Some(ratio) = bare.and_then(|bare| {
        let added = |name| Some(figures.find(name, CASE)?.above(bare));
        Some(added(PER_IP)? / added(PEER)?)
    }) {
        let what = format!("{PER_IP} / {PEER}: ns added");
        targets.push(Target { what, measured: Some(ratio), most: 1.0 });
    }
    table.print();
    println!("\nTargets (median over rounds of the difference within a round)");
    targets::table(&targets);
}
