//! The size of one counter under limits that clients send.

use tollgate::testing::ManualClock;

use super::RULES;
use super::client::{RespClient, RespReply, command};
use crate::support::start_with;

/// Returns the memory of the counters.
fn memory(client: &mut RespClient) -> u64 {
    let RespReply::Bulk(info) = client.call_text("INFO memory") else { panic!("no text") };
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.parse().ok()).expect("a number of bytes")
}

/// Each command would add an entry to the log of one key, without end.
#[test]
fn a_limit_that_cannot_be_stored_is_rejected_and_takes_no_memory() {
    let server = start_with(RULES, |_| {});
    let mut client = RespClient::connect(server.resp());
    let text = "1000000000000/d log min_gap 1us count_denied";
    client.send(command(&["TG.LIMIT", "k", text]).repeat(1_000));
    for _ in 0..1_000 {
        assert_eq!(
            client.read().error(),
            "ERR a log stores every request of its window, at most 10000 and not 1000000000000: \
             use a sliding window; did you mean \"1000000000000/d sliding count_denied\"?"
        );
    }
    assert_eq!(memory(&mut client), 0);
    let sliding = client.call(&["TG.LIMIT", "k", "1000000000000/d sliding count_denied"]);
    assert_eq!(sliding.field("limit").int(), 1_000_000_000_000);
}

#[test]
fn the_largest_log_is_bounded() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    for _ in 0..130 {
        // Batches share one time, so the minimum gap is what makes each command an entry.
        clock.advance(std::time::Duration::from_micros(1));
        let text = "10k/d log min_gap 1us count_denied";
        client.send(command(&["TG.LIMIT", "k", text]).repeat(100));
        (0..100).for_each(|_| _ = client.read());
    }
    let bytes = memory(&mut client);
    assert!((100_000..300_000).contains(&bytes), "{bytes}");
}

/// Clients add ever new keys, each with a state on the heap.
#[test]
fn the_counters_stay_within_the_maximum_memory() {
    const MAX: u64 = 16 << 20;
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| {
        config.clock = Some((&clock).into());
        config.max_memory = Some(MAX);
    });
    let mut client = RespClient::connect(server.resp());
    let exhausted = ["TG.LIMIT", "exhausted", "5/h log", "COST", "5"];
    assert_eq!(client.call(&exhausted).field("allowed").int(), 1);
    for batch in 0..600 {
        let keys = (0..100).map(|key| format!("{batch}-{key}"));
        let commands = keys.flat_map(|key| command(&["TG.LIMIT", &key, "5/h log"]));
        client.send(commands.collect::<Vec<u8>>());
        (0..100).for_each(|_| assert_eq!(client.read().field("allowed").int(), 1));
        let bytes = memory(&mut client);
        assert!(bytes <= MAX, "{bytes} bytes in batch {batch}");
    }
    assert!(memory(&mut client) > MAX / 2);
    assert_eq!(client.call(&exhausted[..3]).field("allowed").int(), 0);
}
