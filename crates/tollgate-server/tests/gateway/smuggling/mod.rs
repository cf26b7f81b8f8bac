//! Requests that two servers could read differently. Whatever a client sends, the upstream sees as
//! many requests as there were decisions, and each of them in an unambiguous form.

mod answers;
mod chunks;
mod downgrade;
mod lengths;
mod lines;
mod mutants;
mod pipelines;
mod real;
mod upgrade;

use std::time::Duration;

use tollgate_rig::{Message, Upstream, WebClient, until};

use crate::strict;
use crate::support::{Gateway, OPEN, start_with};

/// What should never be taken for a request of its own without being decided on.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: stub\r\n\r\n";

/// What becomes of a connection's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Refused by its head: 400 unless said otherwise, nothing decided, nothing sent on.
    Refused,
    /// The head may be decided on, but the body is wrong: no answer but an error, and nothing after
    /// it.
    Broken,
    /// The body is wrong, but may pass for another form that ends the request. The request may be
    /// answered; nothing after it is.
    Swallowed,
    /// The number of requests, each decided on and answered with 200.
    Passes(usize),
}

/// What is sent on a connection of its own, and what should become of it.
type Corpus = Vec<(Vec<u8>, Fate)>;

/// A gateway and a stub that are sent one thing after the other.
struct Range {
    upstream: Upstream,
    gateway: Gateway,
}

impl Range {
    fn new() -> Range {
        let upstream = Upstream::start();
        let gateway = impatient(&upstream.url());
        Range { upstream, gateway }
    }

    /// Sends bytes on a connection of their own; the answers until it ends.
    fn fire(&self, bytes: &[u8], fate: Fate) -> Vec<Message> {
        fire(&self.gateway, bytes, fate)
    }

    /// What is wrong with what became of these bytes, if anything.
    fn verdict(&self, bytes: &[u8], fate: Fate) -> Result<(), String> {
        let (decided, sent) = (self.gateway.decisions(), self.upstream.count());
        let answers = self.fire(bytes, fate);
        let statuses: Vec<_> = answers.iter().map(Message::status).collect();
        let decided = self.gateway.decisions() - decided;
        // What broke off may still be on its way to the stub.
        let expected = if let Fate::Passes(count) = fate { count } else { 0 };
        if expected > 0 && statuses.len() == expected {
            until("the stub has counted", || self.upstream.count() - sent >= expected);
        }
        let sent = self.upstream.count() - sent;
        let found = format!("{statuses:?}, {decided} decided, {sent} sent on");
        let is_so = match fate {
            Fate::Refused => {
                statuses.len() == 1
                    && (400..=505).contains(&statuses[0])
                    && (decided, sent) == (0, 0)
            }
            // What breaks off is counted by the stub only when it notices.
            Fate::Broken => {
                decided <= 1 && statuses.len() <= 1 && statuses.iter().all(|status| *status >= 400)
            }
            Fate::Swallowed => decided <= 1 && statuses.len() <= 1,
            Fate::Passes(count) => {
                statuses == vec![200; count] && (decided, sent) == (count, count)
            }
        };
        if fate == Fate::Refused && is_so && answers[0].header("connection") != Some("close") {
            return Err(format!("not told that the connection ends: {:?}", answers[0]));
        }
        is_so.then_some(()).ok_or(found)
    }

    /// Sends everything of a corpus; all that goes wrong is told at once.
    fn hold(&self, corpus: impl IntoIterator<Item = (Vec<u8>, Fate)>) {
        let mut wrong = String::new();
        for (bytes, fate) in corpus {
            if let Err(found) = self.verdict(&bytes, fate) {
                let shown = String::from_utf8_lossy(&bytes).chars().take(200).collect::<String>();
                wrong += &format!("\n{shown:?}\n  should be {fate:?}: {found}");
            }
        }
        let decided = self.gateway.decisions();
        match strict::requests(&self.upstream) {
            Ok(requests) if requests.len() <= decided => {}
            Ok(requests) => wrong += &format!("\n{} sent, {decided} decided", requests.len()),
            Err(why) => wrong += &format!("\nthe upstream was sent {why}"),
        }
        assert!(wrong.is_empty(), "{wrong}");
        let after = self.gateway.connect().get("/after");
        assert_eq!((after.status(), after.text().as_str()), (200, "upstream"), "and it goes on");
    }
}

/// Sends bytes on a connection of their own; the answers until it ends. Who passes stays until the
/// last answer; everybody else is shown the door.
fn fire(gateway: &Gateway, bytes: &[u8], fate: Fate) -> Vec<Message> {
    let mut client = gateway.connect();
    client.write(bytes);
    answers(&mut client, fate)
}

fn answers(client: &mut WebClient, fate: Fate) -> Vec<Message> {
    let mut answers = Vec::new();
    if let Fate::Passes(count) = fate {
        answers.extend((0..count).map_while(|_| client.read()));
        client.finish();
    }
    answers.extend(std::iter::from_fn(|| client.read()));
    answers
}

/// A gateway that does not wait long for the rest of a body.
fn impatient(to: &str) -> Gateway {
    start_with(OPEN, &[to], |config| {
        config.gateway.as_mut().unwrap().upload_timeout = Duration::from_millis(300);
    })
}

/// A request with these fields and this body, and the smuggled one right behind it.
fn post(fields: impl AsRef<[u8]>, body: &str) -> Vec<u8> {
    let mut bytes = b"POST /first HTTP/1.1\r\nHost: stub\r\n".to_vec();
    bytes.extend_from_slice(fields.as_ref());
    bytes.extend_from_slice(format!("\r\n\r\n{body}{SMUGGLED}").as_bytes());
    bytes
}
