//! The faults of the proxy, in front of a real server.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use tollgate_rig::{Client, Proxy, Redis, until};

fn behind_a_proxy() -> (Redis, Proxy, Client) {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let mut client = Client::connect(proxy.port()).unwrap();
    assert_eq!(client.command(&["INCR", "a"]).unwrap().int(), Some(1));
    (redis, proxy, client)
}

fn counter(redis: &Redis) -> Option<i64> {
    redis.command(&["GET", "a"]).unwrap().int()
}

#[test]
fn a_reply_is_swallowed_after_the_command_was_executed() {
    let (redis, proxy, mut client) = behind_a_proxy();
    proxy.swallow_replies(true);
    assert!(client.command(&["INCR", "a"]).is_err());
    assert_eq!((counter(&redis), proxy.swallowed()), (Some(2), 1));
    proxy.swallow_replies(false);
    let mut client = Client::connect(proxy.port()).unwrap();
    assert_eq!(client.command(&["INCR", "a"]).unwrap().int(), Some(3));
}

#[test]
fn held_bytes_arrive_later() {
    let (redis, proxy, mut client) = behind_a_proxy();
    proxy.hold(true);
    client.send(&["INCR", "a"]).unwrap();
    let late = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    late.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!((&late).read(&mut [0]).is_err());
    assert_eq!(counter(&redis), Some(1));
    proxy.hold(false);
    assert_eq!(client.reply().unwrap().int(), Some(2));
}

#[test]
fn bytes_drip() {
    let (redis, proxy, mut client) = behind_a_proxy();
    proxy.drip(true);
    client.send(&["INCR", "a"]).unwrap();
    assert_eq!(counter(&redis), Some(1));
    proxy.drip(false);
    assert_eq!(client.reply().unwrap().int(), Some(2));
}

#[test]
fn connections_are_cut_and_new_ones_accepted() {
    let (redis, proxy, mut client) = behind_a_proxy();
    proxy.hold(true);
    client.send(&["INCR", "a"]).unwrap();
    proxy.cut();
    assert!(client.reply().is_err());
    proxy.hold(false);
    let mut client = Client::connect(proxy.port()).unwrap();
    // The delayed command is not repeated.
    assert_eq!(client.command(&["INCR", "a"]).unwrap().int(), Some(2));
    assert_eq!((proxy.accepted(), proxy.open()), (2, 1));
    redis.kill();
    assert!(client.command(&["PING"]).is_err());
    until("the connection is forgotten", || proxy.open() == 0);
    drop(proxy);
    assert!(client.command(&["PING"]).is_err());
}
