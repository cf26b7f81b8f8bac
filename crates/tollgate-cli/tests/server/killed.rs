//! Deferred requests of a server that is killed repeatedly, at random and at the worst moments: all
//! accepted requests arrive, and never more than the limit allows.
//!
//! The guarantee is about decisions, not arrivals, which are later by as much as the machine is busy. A
//! replay is decided between the previous replay and the time in the database that is written before it
//! is sent; a request that passes directly, between its sending and its arrival. So the time of every
//! decision has known bounds, and for every window, of any length and with any number of kills:
//!
//! - **Replays** decided in it are at most `BURST + RATE * window`. A bucket that is charged with all of
//!   them has no less than a full bucket that is charged with those of the last `BURST / RATE` seconds,
//!   because earlier charges have refilled.
//! - **All requests** decided in it are at most that plus those that passed directly in a life that
//!   ended before the last decision: a kill makes the limit forget these, and nothing else. Within one
//!   life there are none of them, so the bound is `BURST + RATE * window`.
#![allow(clippy::disallowed_methods, reason = "measures real servers, within a deadline")]

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_rig::{AfterResponse, Message, Upstream};

use crate::deferred::post;
use crate::process::{DEADLINE, Server, until};
use crate::support::folder;

const KILLS: usize = 50;
const RATE: f64 = 20.0;
const BURST: f64 = 10.0;
const RULES: &str = "rules: [{ name: job, route: POST /job, limit: 20/s burst 10, then: defer }]";

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A request at the upstream.
struct Arrival {
    at_ms: i64,
    name: String,
    /// The id and the number of the attempt, if it was deferred.
    replay: Option<(String, usize)>,
    /// Whether the upstream sent a response.
    is_taken: bool,
}

/// An upstream that records what arrives. While a trap is set, the next replay gets no response; the
/// test is notified, and can kill the server that sent it.
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
                // This waits until the client closes the connection.
                let _ = stream.set_read_timeout(Some(DEADLINE));
                let _ = stream.read(&mut [0]);
                return AfterResponse::Close;
            }
            match stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") {
                Ok(()) => AfterResponse::Keep,
                Err(_) => AfterResponse::Close,
            }
        })
    }
}

/// The moment at which a server is killed.
enum Moment {
    /// After some time.
    After(Duration),
    /// As soon as this number of requests was accepted.
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

/// A request of the client: its name, its time, and the response, if any.
struct Posted {
    name: String,
    sent_ms: i64,
    status: Option<u16>,
}

/// Posts many requests at once, so that they exceed the limit on a busy machine too. Sends a message for
/// each accepted one.
fn post_all(life: usize, address: String) -> (JoinHandle<Vec<Posted>>, Receiver<()>) {
    let (accepted, notified) = channel();
    let one = move |number: usize, accepted: &Sender<()>| {
        let (name, sent_ms) = (format!("{life}.{number}"), now_ms());
        let status = post(&address, &name);
        if status == Some(202) {
            let _ = accepted.send(());
        }
        Posted { name, sent_ms, status }
    };
    let posting = std::thread::spawn(move || {
        std::thread::scope(|scope| {
            let numbers = 0..if life == 0 { 60 } else { 5 };
            let (one, accepted) = (&one, &accepted);
            let posts = numbers.map(|number| scope.spawn(move || one(number, accepted)));
            let posts: Vec<_> = posts.collect();
            posts.into_iter().map(|post| post.join().unwrap()).collect()
        })
    });
    (posting, notified)
}

/// The start and the end of a server process.
struct Life {
    began_ms: i64,
    ended_ms: i64,
}

/// A decision to send a request: the bounds of its time, its life, and the request.
#[derive(Clone, Copy)]
struct Decided {
    from_ms: i64,
    to_ms: i64,
    life: usize,
    is_replay: bool,
}

/// Returns the attempts in the database: id and time, in order.
fn attempts(data: &Path) -> Vec<(String, i64)> {
    let database = rusqlite::Connection::open(data.join("deferred.db")).unwrap();
    let sql = "SELECT id, at_ms FROM attempts JOIN items USING (seq) ORDER BY attempts.rowid";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Checks every window, and returns the maximum number of decisions in a second.
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
fn killed_fifty_times_the_server_delivers_all_requests_within_the_rate() {
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
        let (posting, accepted) = post_all(life, server.at("gateway").to_owned());
        let moment = match life {
            // From now on some requests wait.
            0 => Moment::Accepted(10),
            _ => Moment::any(&mut random),
        };
        match moment {
            Moment::After(time) => std::thread::park_timeout(time),
            // There may be fewer if no more are accepted.
            Moment::Accepted(count) => drop(accepted.iter().take(count).count()),
            Moment::OnItsWay => {
                let (trap, sprung) = channel();
                *upside.trap.lock().unwrap() = Some(trap);
                trapped += usize::from(sprung.recv_timeout(Duration::from_secs(1)).is_ok());
            }
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        *upside.trap.lock().unwrap() = None;
        posted.extend(posting.join().unwrap());
        lives.push(Life { began_ms, ended_ms: now_ms() });
    }
    let began_ms = now_ms();
    let server = start();
    // A request without a response may be lost.
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
        life.expect("a server ran then")
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
    assert!(accepted.len() > KILLS / 2, "too few: {}", accepted.len());
    assert!(trapped > 0, "never killed while a replay was on its way");
}
