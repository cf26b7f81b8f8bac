//! The run: threads with connections each, until all is done.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tollgate_server::net::Address;

use super::args::Door;
use super::drive;
use super::message::Message;
use super::pace::{Plan, Tally, Turns};
use super::{answer, wire};

/// How often a person is told how it goes.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What every thread does.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) door: Door,
    pub(super) to: Address,
    pub(super) token: Option<String>,
    pub(super) message: Message,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    pub(super) requests: Option<u64>,
    pub(super) keys: u32,
}

/// What one thread did, and the first thing that went wrong.
type Done = (Tally, Option<anyhow::Error>);

/// Runs it all. Threads take every `threads`-th connection.
pub(super) fn run(
    work: &Work,
    plan: &Arc<Plan>,
    threads: u32,
    bar: &ProgressBar,
) -> anyhow::Result<Done> {
    let running: Vec<JoinHandle<anyhow::Result<Done>>> = (0..threads)
        .map(|thread| {
            let (work, plan) = (work.clone(), plan.clone());
            std::thread::spawn(move || one_thread(&work, &plan, thread, threads))
        })
        .collect();
    while !bar.is_hidden() && running.iter().any(|thread| !thread.is_finished()) {
        std::thread::park_timeout(TELL_EVERY);
        let answered = plan.answered.load(Ordering::Relaxed);
        let ms = plan.clock.now().since(plan.start).as_nanos() / 1_000_000;
        bar.set_position(if work.requests.is_some() { answered } else { ms });
        bar.set_message(format!("{} decisions/s", answered * 1000 / ms.max(1)));
    }
    bar.finish_and_clear();
    let (mut total, mut first) = (Tally::new(), None);
    for thread in running {
        let done = thread.join().map_err(|_| anyhow::anyhow!("a thread was lost"))?;
        let (tally, error) = done?;
        total.add(&tally);
        first = first.or(error);
    }
    Ok((total, first))
}

/// A bar for a person; nothing when nobody watches.
pub(super) fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
    let bar = ProgressBar::new(length);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

fn one_thread(work: &Work, plan: &Plan, thread: u32, threads: u32) -> anyhow::Result<Done> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tally = RefCell::new(Tally::new());
    let first = Cell::new(None);
    let mine = (thread..work.connections).step_by(threads as usize);
    let (sum, trouble) = (&tally, &first);
    let connections = mine.map(|number| async move {
        if let Err(error) = one_connection(work, plan, sum, number).await {
            // The first is the cause as a rule.
            trouble.set(Some(trouble.take().unwrap_or(error)));
        }
    });
    runtime.block_on(together(connections));
    Ok((tally.into_inner(), first.into_inner()))
}

async fn one_connection(
    work: &Work,
    plan: &Plan,
    tally: &RefCell<Tally>,
    number: u32,
) -> anyhow::Result<()> {
    let asking = |number: u32, of: u32| {
        let share =
            |all: u64| all / u64::from(of) + u64::from(u64::from(number) < all % u64::from(of));
        Turns::new(plan, tally, work.requests.map(share), number, of, work.keys)
    };
    let mut stream = drive::connect(&work.to).await?;
    let (message, pipeline) = (&work.message, work.pipeline);
    match work.door {
        Door::Http => {
            let mut turns = asking(number, work.connections);
            drive::stream(stream, message, answer::http, 1, &mut turns).await
        }
        Door::Resp => {
            if let Some(token) = &work.token {
                let hello = wire::command(&["AUTH", token]);
                drive::introduce(&mut stream, &hello).await.context("the token was refused")?;
            }
            let mut turns = asking(number, work.connections);
            drive::stream(stream, message, answer::resp, pipeline.into(), &mut turns).await
        }
        Door::Grpc => {
            let sender = drive::shake_hands(stream).await?;
            let url = wire::envoy_url(&host(&work.to));
            let first = Cell::new(None);
            let streams = (0..pipeline).map(|stream| {
                let (sender, url, first) = (sender.clone(), &url, &first);
                let mut turns = asking(number * pipeline + stream, work.connections * pipeline);
                async move {
                    let token = work.token.as_deref();
                    if let Err(error) = drive::calls(sender, url, token, message, &mut turns).await
                    {
                        first.set(Some(first.take().unwrap_or(error)));
                    }
                }
            });
            together(streams).await;
            first.into_inner().map_or(Ok(()), Err)
        }
    }
}

/// What goes into the `Host` header.
pub(super) fn host(to: &Address) -> String {
    match to {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(_) => "localhost".to_owned(),
    }
}

/// Waits for all of them, each woken on its own.
async fn together(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: futures_util::stream::FuturesUnordered<_> = futures.collect();
    while futures_util::StreamExt::next(&mut all).await.is_some() {}
}
