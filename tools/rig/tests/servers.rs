//! Servers start, answer, stop, restart, and are gone when dropped.

use std::net::TcpStream;
use std::process::Command;

use tollgate_rig::{Flavour, Redis, Setup, until};

/// Returns whether a process exists.
fn exists(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

fn starts_and_is_gone(flavour: Flavour, field: &str, version: &str) {
    let redis = Redis::start_flavour(flavour);
    assert_eq!(redis.command(&["PING"]).unwrap().text(), "PONG");
    let text = redis.info(field).unwrap();
    assert!(text.starts_with(version), "{field} is {text}");
    let (pid, port, folder) = (redis.pid(), redis.port(), redis.folder().to_owned());
    assert!(exists(pid) && folder.exists());
    drop(redis);
    assert!(!exists(pid) && !folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn redis_7() {
    starts_and_is_gone(Flavour::Redis7, "redis_version", "7.0.");
}

#[test]
fn redis_6_2_has_no_functions() {
    starts_and_is_gone(Flavour::Redis62, "redis_version", "6.2.");
    let error = Redis::start_flavour(Flavour::Redis62).command(&["FUNCTION", "LIST"]).unwrap_err();
    assert!(error.to_string().contains("unknown command"), "{error}");
}

#[test]
fn valkey_9_1() {
    starts_and_is_gone(Flavour::Valkey, "valkey_version", "9.1.");
}

#[test]
fn a_server_is_gone_after_a_panic() {
    let pid = std::sync::OnceLock::new();
    let panicked = std::thread::scope(|scope| {
        let test = scope.spawn(|| {
            let redis = Redis::start();
            pid.set(redis.pid()).unwrap();
            panic!("as a test does that fails");
        });
        test.join().is_err()
    });
    assert!(panicked && !exists(*pid.get().unwrap()));
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let setup = Setup::new(Flavour::Redis7).args(["--no-such-setting", "1"]);
    let panic = std::panic::catch_unwind(|| setup.start()).unwrap_err();
    let text = panic.downcast::<String>().unwrap();
    assert!(text.contains("it ended") && text.contains("no-such-setting"), "{text}");
}

#[test]
fn a_stopped_server_is_silent_and_a_killed_one_restarts_on_its_port() {
    let redis = Redis::start_with(&["--maxmemory", "7mb"]);
    assert_eq!(redis.info("maxmemory").unwrap(), "7340032");
    redis.command(&["SET", "a", "1"]).unwrap();
    redis.stop();
    let mut client = redis.client().unwrap();
    client.send(&["GET", "a"]).unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", redis.pid())).unwrap();
    until("the process is stopped", || state().contains(") T "));
    redis.cont();
    assert_eq!(client.reply().unwrap().text(), "1");

    redis.kill();
    assert!(!redis.is_running() && redis.client().is_err());
    redis.restart();
    assert!(redis.command(&["GET", "a"]).unwrap().text().is_empty());
    assert_eq!(redis.info("maxmemory").unwrap(), "7340032");
}

#[test]
fn replies_of_every_kind() {
    let redis = Redis::start();
    let script = "return {1, 'two', {err = 'THREE went wrong'}, false, {5}}";
    let reply = redis.command(&["EVAL", script, "0"]).unwrap();
    assert_eq!(reply.text(), "1\ntwo\nTHREE went wrong\n\n5");
    assert_eq!(reply.list()[4].list()[0].int(), Some(5));
    let error = redis.command(&["INCR"]).unwrap_err().to_string();
    assert!(error.starts_with("ERR wrong number"), "{error}");
}

#[test]
fn processor_time_grows_with_work() {
    let redis = Redis::start();
    let before = redis.cpu();
    let loops = "for i = 1, 3000000 do local x = i % 7 end return 1";
    redis.command(&["EVAL", loops, "0"]).unwrap();
    assert!(redis.cpu() > before);
}

#[test]
fn tls_and_users() {
    let users = "user ann on >secret ~* +ping\n";
    let redis = Setup::new(Flavour::Redis7).tls().users(users).start();
    let files = redis.certificates().unwrap();
    let ask = |login: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["--tls", "--cacert"]).arg(&files.ca);
        let output = command.args(["-u", &redis.url(), "-e"]).args(login).arg("PING").output();
        let output = output.unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let login = ["--user", "ann", "--pass", "secret", "--no-auth-warning"];
    assert_eq!(ask(&login).trim(), "PONG");
    let whoami = redis.client().and_then(|mut client| {
        client.command(&["AUTH", "ann", "secret"])?;
        client.command(&["GET", "a"])
    });
    assert!(whoami.unwrap_err().to_string().starts_with("NOPERM"));
}
