//! Servers that share a Redis, all as real processes.

use std::process::{Child, Command, Stdio};

use tollgate_rig::Redis;

use crate::process::{Server, until};
use crate::support::folder;

const LIMIT: usize = 250;
/// A long timeout, since the machine may be busy and these tests are not about time.
const PATIENT: [&str; 2] = ["--store-timeout", "10s"];

fn server(redis: &Redis, rules: &str, more: &[&str]) -> Server {
    let folder = folder(&[("rules.yaml", rules)]);
    let url = redis.url();
    let args = [&["--rules", "rules.yaml", "--store", &url], more].concat();
    Server::start_in(folder, &args)
}

/// Starts a client process that sends this number of requests.
fn client(server: &Server, times: usize, command: &[&str]) -> Child {
    let port = server.at("resp").rsplit(':').next().unwrap();
    let mut client = Command::new("redis-cli");
    client.args(["-p", port, "-r", &times.to_string()]).args(command);
    client.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Sends requests for one key from eight processes to two servers, and counts those that pass.
fn hammer(servers: &[Server; 2], command: &[&str], passed: impl Fn(&str) -> usize) -> usize {
    let clients: Vec<Child> =
        (0..8).map(|number| client(&servers[number % 2], 100, command)).collect();
    let message = |client: Child| String::from_utf8(client.wait_with_output().unwrap().stdout);
    clients.into_iter().map(|client| passed(&message(client).unwrap())).sum()
}

#[test]
fn eight_processes_through_two_servers_pass_exactly_as_often_as_the_limit_says() {
    let redis = Redis::start();
    let rules = format!(
        "attributes: [user]\nrules: [{{ name: api, per: user, limit: {LIMIT}/h fixed first_hit }}]"
    );
    let servers = [(), ()].map(|()| server(&redis, &rules, &PATIENT));
    // A map is printed with one line for each name and each value.
    let allowed = |message: &str| {
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines.iter().filter(|line| **line == "allowed").count(), 100, "{message}");
        lines.windows(2).filter(|pair| *pair == ["allowed", "1"]).count()
    };
    let check = ["TG.CHECK", "", "user", "ann"];
    assert_eq!(hammer(&servers, &check, allowed), LIMIT);
    let limit = ["TG.LIMIT", "mail", &format!("{LIMIT}/h log")];
    assert_eq!(hammer(&servers, &limit, allowed), LIMIT);
    // One token comes back every two hours.
    let throttle = ["CL.THROTTLE", "mail", &(LIMIT - 1).to_string(), "1", "7200"];
    let not_limited =
        |message: &str| message.lines().step_by(5).filter(|line| *line == "0").count();
    assert_eq!(hammer(&servers, &throttle, not_limited), LIMIT);
    assert_eq!(servers[0].start_output["store"], redis.url());
}

#[test]
fn an_outage_and_its_end_are_each_logged_once() {
    let redis = Redis::start();
    redis.kill();
    let rules = "
attributes: [user]
rules:
  - { name: open, per: user, limit: 5/h }
  - { name: share, per: user, limit: 10/h, on_error: local }
";
    let server = server(&redis, rules, &[]);
    let count_in_log = |text: &str| server.log().matches(text).count();
    let trouble = "a server of the store is down: redis at";
    server.wait_for_log(trouble);
    let line = server.log().lines().find(|line| line.contains(trouble)).unwrap().to_owned();
    for part in [
        "cannot be reached",
        "1 rule lets requests through (on_error: allow)",
        "1 rule enforces this node's share of the limit (on_error: local)",
    ] {
        assert!(line.contains(part), "{line}");
    }
    for _ in 0..3 {
        let (code, message) = server.run(&["check", "default", "user=ann"]);
        assert_eq!(code, 0, "{message}");
    }
    assert_eq!(server.status("/readyz"), 200);
    redis.restart();
    let well = "the store has recovered; `decisions` were made without it";
    server.wait_for_log(well);
    let line = server.log().lines().find(|line| line.contains(well)).unwrap().to_owned();
    assert!(line.contains("decisions=3") && line.contains("after="), "{line}");
    assert_eq!((count_in_log(trouble), count_in_log(well)), (1, 1), "{}", server.log());

    redis.kill();
    until("a second line", || count_in_log(trouble) == 2);
    redis.restart();
    until("a second line", || count_in_log(well) == 2);
    assert!(server.log().lines().any(|line| line.contains(well) && line.contains("decisions=0")));
}
