//! The threads of a benchmark and their connections.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tollgate_server::net::Address;

use super::args::BenchDoor;
use super::connection;
use super::request_template::RequestTemplate;
use super::schedule::{BenchSchedule, BenchTally, ConnectionSchedule};
use super::{bench_request, response};

/// The update interval of the progress bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// The settings of a benchmark.
#[derive(Clone, Debug)]
pub(super) struct BenchSettings {
    pub(super) door: BenchDoor,
    pub(super) to: Address,
    pub(super) token: Option<String>,
    pub(super) message: RequestTemplate,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    pub(super) requests: Option<u64>,
    pub(super) keys: u32,
}

/// The tally of a thread, and its first error.
type ThreadResult = (BenchTally, Option<anyhow::Error>);

/// Runs the benchmark. Each thread has every `threads`-th connection.
pub(super) fn run(
    settings: &BenchSettings,
    plan: &Arc<BenchSchedule>,
    threads: u32,
    bar: &ProgressBar,
) -> anyhow::Result<ThreadResult> {
    let running: Vec<JoinHandle<anyhow::Result<ThreadResult>>> = (0..threads)
        .map(|thread| {
            let (settings, plan) = (settings.clone(), plan.clone());
            std::thread::spawn(move || one_thread(&settings, &plan, thread, threads))
        })
        .collect();
    while !bar.is_hidden() && running.iter().any(|thread| !thread.is_finished()) {
        std::thread::park_timeout(BAR_INTERVAL);
        let answered = plan.answered.load(Ordering::Relaxed);
        let ms = plan.clock.now().since(plan.start).as_nanos() / 1_000_000;
        bar.set_position(if settings.requests.is_some() { answered } else { ms });
        bar.set_message(format!("{} decisions/s", answered * 1000 / ms.max(1)));
    }
    bar.finish_and_clear();
    let (mut total, mut first) = (BenchTally::new(), None);
    for thread in running {
        let done = thread.join().map_err(|_| anyhow::anyhow!("a client thread panicked"))?;
        let (tally, error) = done?;
        total.add(&tally);
        first = first.or(error);
    }
    Ok((total, first))
}

/// Returns a progress bar, hidden unless standard error is a terminal.
pub(super) fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
    let bar = ProgressBar::new(length);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

fn one_thread(
    settings: &BenchSettings,
    plan: &BenchSchedule,
    thread: u32,
    threads: u32,
) -> anyhow::Result<ThreadResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tally = RefCell::new(BenchTally::new());
    let first = Cell::new(None);
    let connections = (thread..settings.connections).step_by(threads as usize);
    let (shared_tally, first_error) = (&tally, &first);
    let connections = connections.map(|number| async move {
        if let Err(error) = one_connection(settings, plan, shared_tally, number).await {
            // The first error is usually the cause of the others.
            first_error.set(Some(first_error.take().unwrap_or(error)));
        }
    });
    runtime.block_on(join_all(connections));
    Ok((tally.into_inner(), first.into_inner()))
}

async fn one_connection(
    settings: &BenchSettings,
    plan: &BenchSchedule,
    tally: &RefCell<BenchTally>,
    number: u32,
) -> anyhow::Result<()> {
    let schedule = |number: u32, of: u32| {
        let share =
            |all: u64| all / u64::from(of) + u64::from(u64::from(number) < all % u64::from(of));
        ConnectionSchedule::new(
            plan,
            tally,
            settings.requests.map(share),
            number,
            of,
            settings.keys,
        )
    };
    let mut stream = connection::connect(&settings.to).await?;
    let (message, pipeline) = (&settings.message, settings.pipeline);
    match settings.door {
        BenchDoor::Http => {
            let mut turns = schedule(number, settings.connections);
            connection::pipeline(stream, message, response::http, 1, &mut turns).await
        }
        BenchDoor::Resp => {
            if let Some(token) = &settings.token {
                let auth = bench_request::command(&["AUTH", token]);
                connection::send_command(&mut stream, &auth)
                    .await
                    .context("the server refused the token; give another with --token")?;
            }
            let mut turns = schedule(number, settings.connections);
            connection::pipeline(stream, message, response::resp, pipeline.into(), &mut turns).await
        }
        BenchDoor::Grpc => {
            let sender = connection::http2_handshake(stream).await?;
            let url = bench_request::envoy_url(&host(&settings.to));
            let first = Cell::new(None);
            let streams = (0..pipeline).map(|stream| {
                let (sender, url, first) = (sender.clone(), &url, &first);
                let mut turns =
                    schedule(number * pipeline + stream, settings.connections * pipeline);
                async move {
                    let token = settings.token.as_deref();
                    if let Err(error) =
                        connection::grpc_calls(sender, url, token, message, &mut turns).await
                    {
                        first.set(Some(first.take().unwrap_or(error)));
                    }
                }
            });
            join_all(streams).await;
            first.into_inner().map_or(Ok(()), Err)
        }
    }
}

/// Returns the `Host` header.
pub(super) fn host(to: &Address) -> String {
    match to {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(_) => "localhost".to_owned(),
    }
}

/// Waits for all futures, each woken separately.
async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: futures_util::stream::FuturesUnordered<_> = futures.collect();
    while futures_util::StreamExt::next(&mut all).await.is_some() {}
}
