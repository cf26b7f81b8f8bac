//! A real Envoy, whose rate limit filter asks us before a stub upstream that counts.

mod stage;

use std::sync::atomic::{AtomicBool, Ordering};

use stage::{Reply, Stage};

use super::{RULES, start, start_by};

#[test]
fn envoy_lets_pass_what_we_let_pass() {
    let stage = Stage::new(start());
    let replies: Vec<Reply> = (0..5).map(|_| stage.get(&[("x-user", "ann")])).collect();
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    assert_eq!(stage.passed(), 3, "counted upstream");
    // Envoy writes these from the statuses.
    let told =
        |index: usize, name: &str| replies[index].header(name).unwrap_or_default().to_owned();
    assert_eq!(told(0, "x-ratelimit-limit"), "3, 3;w=3600;name=\"users\"");
    assert_eq!(
        (told(0, "x-ratelimit-remaining"), told(0, "x-ratelimit-reset")),
        ("2".into(), "3593".into())
    );
    assert_eq!(told(3, "x-ratelimit-remaining"), "0");
    assert_eq!(told(3, "x-envoy-ratelimited"), "true");
    assert_eq!(stage.get(&[("x-user", "bob")]).code, 200, "somebody else");
    assert_eq!(stage.get(&[]).code, 200, "nothing to limit by");
}

#[test]
fn envoy_is_told_about_every_descriptor() {
    let stage = Stage::new(start());
    let both = [("x-user", "ann"), ("x-heavy", "job")];
    let reply = stage.get(&both);
    // `x-heavy` costs 4 of 10.
    assert_eq!(reply.header("x-ratelimit-limit"), Some("3, 3;w=3600;name=\"users\", 10;w=86400"));
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(stage.get(&both).code, 200);
    let reply = stage.get(&both);
    assert_eq!((reply.code, reply.header("x-ratelimit-remaining")), (429, Some("0")));
    assert_eq!(stage.passed(), 2);
    // The one in shadow counts and lets pass, the other never does.
    for _ in 0..3 {
        let reply = stage.get(&[("x-watched", "y")]);
        assert_eq!((reply.code, reply.header("x-ratelimit-limit")), (200, Some("1, 1;w=3600")));
    }
    assert_eq!(stage.get(&[("x-watched", "y"), ("x-never", "y")]).code, 429);
}

#[test]
fn envoy_passes_our_headers_on() {
    let stage = Stage::new(super::start_also(|config| config.envoy_headers = true));
    let reply = stage.get(&[("x-user", "ann")]);
    let told = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    assert_eq!(told.map(|name| reply.header(name)), [Some("3"), Some("2"), Some("3593")]);
}

#[test]
fn envoy_may_ask_domains_written_as_rules() {
    let rules = "
domain: demo
rules:
  - { name: users, when: has(user), per: user, limit: 3/h }
  - { name: jobs, when: has(heavy), per: heavy, limit: 10/15min }
  - { name: closed, when: has(never), then: deny }
";
    let stage = Stage::new(start_by(rules, |_| {}));
    let replies: Vec<Reply> = (0..4).map(|_| stage.get(&[("x-user", "ann")])).collect();
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!((codes, stage.passed()), (vec![200, 200, 200, 429], 3));
    assert_eq!(replies[0].header("x-ratelimit-limit"), Some("3, 3;w=3600;name=\"users\""));
    assert_eq!(replies[0].header("x-ratelimit-remaining"), Some("2"));
    // A job costs 4, and what is refused costs nothing; there is no word for 15 minutes.
    let replies: Vec<Reply> = (0..3).map(|_| stage.get(&[("x-heavy", "job")])).collect();
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [200, 200, 429]);
    assert_eq!(replies[2].header("x-ratelimit-limit"), Some("10"));
    assert_eq!(replies[2].header("x-ratelimit-remaining"), Some("2"));
}

#[test]
fn rules_are_replaced_under_load_without_a_wrong_answer() {
    let stage = Stage::new(start());
    let done = AtomicBool::new(false);
    let limit = "  - { key: user, rate_limit: { unit: hour, requests_per_unit: LIMIT } }\n";
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..2)
            .map(|number| {
                let (stage, done) = (&stage, &done);
                scope.spawn(move || {
                    let mut asked = 0;
                    while !done.load(Ordering::Relaxed) || asked < 50 {
                        let user = format!("{number}-{asked}");
                        assert_eq!(stage.get(&[("x-user", &user)]).code, 200);
                        assert_eq!(stage.get(&[("x-never", &user)]).code, 429);
                        asked += 1;
                    }
                    asked
                })
            })
            .collect();
        for version in 0..30 {
            let rules = RULES.replace(
                "descriptors:\n",
                &format!("descriptors:\n{}", limit.replace("LIMIT", &(version + 2).to_string())),
            );
            // The old entry for users goes.
            let rules = rules.replacen("  - key: user\n    rate_limit: { name: users, unit: hour, requests_per_unit: 3 }\n", "", 1);
            stage.write_rules(&rules);
            stage.wait_for_limit(version + 2);
        }
        done.store(true, Ordering::Relaxed);
        let asked: usize = asking.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(asked >= 100);
    });
}

#[test]
fn while_we_are_gone_envoy_does_as_it_was_told() {
    let mut stage = Stage::new(start());
    let never = [("x-never", "x")];
    assert_eq!((stage.get(&never).code, stage.get_strict(&never).code), (429, 429));
    stage.kill();
    assert_eq!(stage.get(&never).code, 200, "allowed unless told otherwise");
    assert_eq!(stage.get_strict(&never).code, 500, "failure_mode_deny");
    let passed = stage.passed();
    stage.revive();
    // Envoy connects anew when it asks.
    stage.until(|stage| stage.get(&never).code == 429);
    stage.until(|stage| stage.get_strict(&never).code == 429);
    let since = stage.passed();
    assert_eq!((stage.get(&never).code, stage.passed()), (429, since));
    assert!(passed >= 1);
}
