//! Pipelines, concurrent clients and the last commands before a shutdown.

use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};

use tollgate::testing::ManualClock;

use super::RULES;
use super::client::{RespClient, RespReply, command};
use crate::support::{start, start_with};

#[test]
fn replies_come_in_the_order_of_the_commands() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut client = RespClient::connect(server.resp());
    let mut sent = Vec::new();
    // More limits than a connection caches, mixed with other commands.
    for round in 0..200_u32 {
        let (key, burst) = (format!("k{}", round % 7), (round % 11).to_string());
        sent.extend(command(&["CL.THROTTLE", &key, &burst, "1", "60"]));
        let text = format!("{}/min", round % 9 + 1);
        sent.extend(command(&["TG.LIMIT", &key, &text]));
        if round % 5 == 0 {
            sent.extend(command(&["ECHO", &round.to_string()]));
        }
        if round % 6 == 0 {
            sent.extend(command(&["NOTHING"]));
        }
    }
    client.send(&sent);
    for round in 0..200_u32 {
        let limit = i64::from(round % 11 + 1);
        assert_eq!(client.read().items()[1], RespReply::Int(limit), "round {round}");
        assert_eq!(client.read().field("limit"), &RespReply::Int(i64::from(round % 9 + 1)));
        if round % 5 == 0 {
            assert_eq!(client.read(), RespReply::bulk(&round.to_string()));
        }
        if round % 6 == 0 {
            assert!(client.read().error().starts_with("ERR unknown command 'NOTHING'"));
        }
    }
}

#[test]
fn concurrent_clients_get_exactly_the_limit_of_one_key() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let admitted = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut client = RespClient::connect(server.resp());
                for _ in 0..4 {
                    client.send(command(&["CL.THROTTLE", "hot", "999", "1", "3600"]).repeat(25));
                    let denied = (0..25).map(|_| client.read().items()[0].int()).sum::<i64>();
                    admitted.fetch_add(25 - denied, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 1_000);
}

#[test]
fn a_pipeline_longer_than_any_buffer_is_answered() {
    let server = start(RULES);
    let mut client = RespClient::connect(server.resp());
    let mut writer = client.stream.try_clone().unwrap();
    let count = 20_000;
    let sender = std::thread::spawn(move || {
        for number in 0..count {
            writer.write_all(&command(&["ECHO", &format!("{number:0>100}")])).unwrap();
        }
    });
    for number in 0..count {
        assert_eq!(client.read(), RespReply::Bulk(format!("{number:0>100}")));
    }
    sender.join().unwrap();
}

#[test]
fn received_commands_are_answered_before_a_shutdown() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let mut clients: Vec<_> = (0..20).map(|_| RespClient::connect(server.resp())).collect();
    for client in &mut clients {
        assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
        client.send(command(&["CL.THROTTLE", "k", "99999", "1", "60"]).repeat(500));
        client.send("*2\r\n$4\r\nECHO\r\n$5\r\nhal");
    }
    let address = server.resp();
    server.stop();
    for mut client in clients {
        let replies = String::from_utf8(client.read_to_end()).unwrap();
        assert_eq!(replies.matches("*5\r\n:0\r\n").count(), 500, "{}", replies.len());
    }
    assert!(std::net::TcpStream::connect(address).is_err());
}
