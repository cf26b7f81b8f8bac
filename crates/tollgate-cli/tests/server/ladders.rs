//! Bans of ladders and modes, from the command line.

use crate::process::{Server, until};

const GUARD: &str = "
domain: guard
rules:
  - { name: login, per: ip, limit: 2/h, then: 'ban [10min, 1h] after 2 denials in 1min' }
";

const LOGIN: [&str; 3] = ["check", "guard", "ip=192.0.2.1"];

fn guarded() -> Server {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    let file = server.folder.path().join("guard.yaml");
    std::fs::write(&file, GUARD).unwrap();
    let (code, message) = server.run(&["rules", "put", "guard", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{message}");
    server
}

#[test]
fn a_ban_is_listed_exported_and_lifted() {
    let server = guarded();
    let codes = [(); 5].map(|()| server.run(&LOGIN).0);
    assert_eq!(codes, [0, 0, 1, 1, 1]);
    let (_, listed) = server.run(&["ban", "list"]);
    assert!(listed.contains("192.0.2.1") && listed.contains("its ladder, rung 1"), "{listed}");
    assert_eq!(server.run(&["ban", "export"]).1, "192.0.2.1\n");
    assert_eq!(server.run(&["ban", "export", "--format", "nginx"]).1, "deny 192.0.2.1;\n");
    let (_, json) = server.run(&["ban", "export", "--format", "json", "--rule", "login"]);
    assert!(json.contains("\"by\":\"ladder\""), "{json}");
    let top = || server.run(&["top", "--by", "denied"]).1;
    until("the noisy key", || top().contains("192.0.2.1 (banned)"));
    let lift = ["ban", "lift", "--rule", "login", "--key", "192.0.2.1", "--domain", "guard"];
    let (code, message) = server.run(&lift);
    assert_eq!((code, &*message), (0, "lifted the ban of 192.0.2.1\n"));
    assert_eq!(server.run(&lift).1, "192.0.2.1 was not banned by login\n");
    assert_eq!(server.run(&["ban", "list"]).1.lines().count(), 1);
    let (code, message) = server.run(&["ban", "lift", "--rule", "none", "--key", "a"]);
    assert_eq!(code, 2, "{message}");
}

#[test]
fn a_mode_is_set_and_cleared_and_all_rules_can_be_switched_off() {
    let server = guarded();
    let mode = |args: &[&str]| server.run(&[&["rules", "mode"][..], args].concat());
    assert_eq!([(); 3].map(|()| server.run(&LOGIN).0), [0, 0, 1]);
    let (code, message) = mode(&["*", "off", "--for", "1h", "--reason", "an incident"]);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("* is off now"), "{message}");
    assert_eq!(server.run(&LOGIN).0, 0);
    let (_, listed) = server.run(&["rules", "modes"]);
    assert!(listed.contains("off") && listed.contains("an incident"), "{listed}");
    assert_eq!(mode(&["*", "--clear"]).0, 0);
    assert_eq!(server.run(&LOGIN).0, 1);
    assert_eq!(mode(&["login", "shadow", "--domain", "guard"]).0, 0);
    assert_eq!(server.run(&LOGIN).0, 0);
    let (code, message) = mode(&["login", "on", "--domain", "guard"]);
    assert!(code != 0 && message.contains("enforce"), "{code}: {message}");
    let (code, message) = mode(&["none", "--clear"]);
    assert!(code == 2 && message.contains("tollgate rules modes"), "{message}");
}
