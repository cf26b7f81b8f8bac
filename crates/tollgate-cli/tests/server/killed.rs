//! Deferred requests of a server that is killed again and again, at any moment and at the worst ones:
//! all that was accepted arrives, and never more than the limit allows.
//!
//! What is promised is about decisions, not about arrivals, which come later by as much as the machine
//! is busy. A replay is decided on between the one before it and the moment that is written down in the
//! database before it is sent; a request that passes directly, between its being sent and its arrival.
//! So of every decision it is known between which moments it fell, and for every window, however
//! short or long, and however many kills are in it:
//!
//! - **Replays** decided within it are at most `BURST + RATE * window`. A bucket that had seen them all
//!   would hold no less than one that starts full and is charged for those of the last `BURST / RATE`
//!   seconds: what was taken earlier has come back, or was taken by these.
//! - **All requests** decided within it are at most that and those that passed directly in a life that
//!   was over before the last decision: these, and nothing else, a kill makes the limit forget. Within
//!   one life there are none: `BURST + RATE * window` for all.
#![allow(clippy::disallowed_methods, reason = "measures real servers, within a deadline")]

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_rig::{Message, Next, Upstream};

use crate::deferred::post;
use crate::process::{DEADLINE, Server, until};
use crate::support::folder;

const KILLS: usize = 50;
const RATE: f64 = 20.0;
const BURST: f64 = 20.0;
const RULES: &str = "rules: [{ name: job, route: POST /job, limit: 20/s burst 20, then: defer }]";

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A request at the upstream.
struct Arrival {
    at_ms: i64,
    name: String,
    /// The id and the number of the attempt, if it was deferred.
    replay: Option<(String, usize)>,
    /// Whether it was answered.
    is_taken: bool,
}

/// An upstream that writes down what arrives. While there is a trap, the next replay is not answered:
/// whoever set the trap is told, and has all the time to kill the server that sent it.
#[derive(Clone, Default)]
struct Upside {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    trap: Arc<Mutex<Option<Sender<()>>>>,
}

impl Upside {
    fn start(&self) -> Upstream {
        let this = self.clone();
        Upstream::answering(move |request: &Message, stream: &mut TcpStream| {
            let at_ms = now_ms();
            let replay = request.header("tollgate-deferred").map(|attempt| {
                let id = request.header("idempotency-key").unwrap();
                (id.to_owned(), attempt.parse().unwrap())
            });
            let trap = replay.is_some().then(|| this.trap.lock().unwrap().take()).flatten();
            let is_taken = trap.is_none();
            let name = request.text();
            this.arrivals.lock().unwrap().push(Arrival { at_ms, name, replay, is_taken });
            if let Some(trap) = trap {
                let _ = trap.send(());
                // Until the other side is gone.
                let _ = stream.set_read_timeout(Some(DEADLINE));
                let _ = stream.read(&mut [0]);
                return Next::Close;
            }
            match stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") {
                Ok(()) => Next::Keep,
                Err(_) => Next::Close,
            }
        })
    }
}

/// When a server is killed.
enum Moment {
    /// After some time.
    After(Duration),
    /// As soon as so many requests were accepted.
    Accepted(usize),
    /// While a replay is at the upstream.
    OnItsWay,
}

impl Moment {
    fn any(random: &mut fastrand::Rng) -> Moment {
        match random.u8(0..4) {
            0 => Moment::Accepted(random.usize(1..5)),
            1 => Moment::OnItsWay,
            _ => Moment::After(Duration::from_micros(random.u64(1_000..250_000))),
        }
    }
}

/// A request of the client: what it is called, when it was sent, and the answer, if any.
struct Posted {
    name: String,
    sent_ms: i64,
    status: Option<u16>,
}

/// Posts until it has had enough, or is told that it is over. Says when something is accepted.
fn client(
    life: usize,
    address: String,
    is_over: Arc<AtomicBool>,
) -> (JoinHandle<Vec<Posted>>, Receiver<()>) {
    let (accepted, told) = channel();
    let posting = std::thread::spawn(move || {
        let wanted = if life == 0 { 40 } else { 9 };
        let mut posted = Vec::new();
        for number in 0..wanted {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let (name, sent_ms) = (format!("{life}.{number}"), now_ms());
            let status = post(&address, &name);
            if status == Some(202) {
                let _ = accepted.send(());
            }
            posted.push(Posted { name, sent_ms, status });
        }
        posted
    });
    (posting, told)
}

/// From when to when a server lived.
struct Life {
    began_ms: i64,
    ended_ms: i64,
}

/// A decision to let a request go: between which moments it fell, in which life, on what.
#[derive(Clone, Copy)]
struct Decided {
    from_ms: i64,
    to_ms: i64,
    life: usize,
    is_replay: bool,
}

/// The attempts in the database: the id and when, in their order.
fn attempts(data: &Path) -> Vec<(String, i64)> {
    let database = rusqlite::Connection::open(data.join("deferred.db")).unwrap();
    let sql = "SELECT id, at_ms FROM attempts JOIN items USING (seq) ORDER BY attempts.rowid";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Checks every window; the most that was decided within a second.
fn check(what: &str, decided: &[Decided]) -> usize {
    let mut by_end = decided.to_vec();
    by_end.sort_by_key(|decided| decided.to_ms);
    let mut most = 0;
    for from_ms in decided.iter().map(|decided| decided.from_ms) {
        let (mut count, mut last_life) = (0, 0);
        let mut direct: HashMap<usize, usize> = HashMap::new();
        for one in by_end.iter().filter(|one| one.from_ms >= from_ms) {
            count += 1;
            last_life = last_life.max(one.life);
            *direct.entry(one.life).or_default() += usize::from(!one.is_replay);
            let forgotten: usize =
                direct.iter().filter(|(life, _)| **life < last_life).map(|(_, count)| count).sum();
            let seconds = (one.to_ms - from_ms) as f64 / 1e3;
            let allowed = BURST + RATE * seconds + forgotten as f64;
            assert!(
                count as f64 <= allowed,
                "{what}: {count} within {seconds} s, {forgotten} of them forgotten: allowed {allowed}"
            );
            if seconds <= 1.0 {
                most = most.max(count);
            }
        }
    }
    most
}

#[test]
fn killed_fifty_times_it_delivers_everything_it_accepted_at_no_more_than_the_rate() {
    let upside = Upside::default();
    let upstream = upside.start();
    let data = tempfile::tempdir().unwrap();
    let start = || {
        let more = ["--to", &upstream.url(), "--rules", "rules.yaml", "--data"];
        let more: Vec<&str> = more.into_iter().chain(data.path().to_str()).collect();
        Server::gateway(folder(&[("rules.yaml", RULES)]), &more)
    };
    let mut random = fastrand::Rng::with_seed(7);
    let (mut lives, mut posted, mut trapped) = (Vec::new(), Vec::new(), 0);
    for life in 0..KILLS {
        let began_ms = now_ms();
        let mut server = start();
        let is_over = Arc::new(AtomicBool::new(false));
        let (posting, accepted) = client(life, server.at("gateway").to_owned(), is_over.clone());
        match Moment::any(&mut random) {
            Moment::After(time) => std::thread::park_timeout(time),
            // Fewer, if the client has had enough.
            Moment::Accepted(count) => drop(accepted.iter().take(count).count()),
            Moment::OnItsWay => {
                let (trap, sprung) = channel();
                *upside.trap.lock().unwrap() = Some(trap);
                trapped += usize::from(sprung.recv_timeout(Duration::from_secs(2)).is_ok());
            }
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        *upside.trap.lock().unwrap() = None;
        is_over.store(true, Ordering::Relaxed);
        posted.extend(posting.join().unwrap());
        lives.push(Life { began_ms, ended_ms: now_ms() });
    }
    let began_ms = now_ms();
    let server = start();
    // Whoever got no answer was promised nothing.
    let accepted: HashSet<&String> =
        posted.iter().filter(|it| it.status == Some(202)).map(|it| &it.name).collect();
    until("delivery of all that was accepted", || {
        let arrivals = upside.arrivals.lock().unwrap();
        let taken: HashSet<&String> =
            arrivals.iter().filter(|it| it.is_taken).map(|it| &it.name).collect();
        accepted.is_subset(&taken)
    });
    drop(server);
    lives.push(Life { began_ms, ended_ms: now_ms() });

    let arrivals = upside.arrivals.lock().unwrap();
    let attempts = attempts(data.path());
    let mut written: HashMap<&str, Vec<i64>> = HashMap::new();
    attempts.iter().for_each(|(id, at_ms)| written.entry(id).or_default().push(*at_ms));
    let mut seen = HashSet::new();
    for arrival in arrivals.iter() {
        let Some((id, attempt)) = &arrival.replay else { continue };
        assert!(seen.insert((id, attempt)), "{id} arrived twice as attempt {attempt}");
        let at_ms = written[id.as_str()][attempt - 1];
        assert!(at_ms <= arrival.at_ms, "{id} was sent before that was written down");
    }

    let life_at = |at_ms: i64| {
        let life = lives.iter().position(|life| (life.began_ms..=life.ended_ms).contains(&at_ms));
        life.expect("somebody lived then")
    };
    let mut before_ms = 0;
    let replays = attempts.iter().map(|(_, at_ms)| {
        let life = life_at(*at_ms);
        let from_ms = lives[life].began_ms.max(std::mem::replace(&mut before_ms, *at_ms));
        // Times are cut to milliseconds.
        Decided { from_ms, to_ms: at_ms + 1, life, is_replay: true }
    });
    let mut decided: Vec<Decided> = replays.collect();
    let most_replays = check("replays", &decided);
    let sent: HashMap<&str, i64> = posted.iter().map(|it| (it.name.as_str(), it.sent_ms)).collect();
    let direct = arrivals.iter().filter(|arrival| arrival.replay.is_none()).map(|arrival| {
        let life = arrival.name.split_once('.').unwrap().0.parse().unwrap();
        let from_ms = sent[arrival.name.as_str()];
        Decided { from_ms, to_ms: arrival.at_ms + 1, life, is_replay: false }
    });
    decided.extend(direct);
    let most = check("all", &decided);
    println!(
        "kills {KILLS} ({trapped} while a replay was on its way), accepted and delivered {}, \
         arrivals {}: direct {}, replays {} of {} that began, again {}; most within a second: \
         replays {most_replays} (allowed {}), all {most}",
        accepted.len(),
        arrivals.len(),
        arrivals.len() - seen.len(),
        seen.len(),
        attempts.len(),
        seen.len() - seen.iter().map(|(id, _)| id).collect::<HashSet<_>>().len(),
        BURST + RATE,
    );
    assert!(accepted.len() > KILLS, "too few to tell: {}", accepted.len());
    assert!(trapped > 0, "never killed while a replay was on its way");
}
