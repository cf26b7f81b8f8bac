//! A real Envoy whose rate limit filter uses this server, before a counting upstream.

mod scenarios;
mod setup;

use std::sync::atomic::{AtomicBool, Ordering};

use setup::{EnvoyResponse, EnvoySetup};

use super::{RULES, start, start_with_rules};

#[test]
fn envoy_follows_our_decisions() {
    let setup = EnvoySetup::new(start());
    let replies: Vec<EnvoyResponse> = (0..5).map(|_| setup.get(&[("x-user", "ann")])).collect();
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    assert_eq!(setup.passed(), 3, "counted upstream");
    // Envoy derives these headers from the statuses.
    let header =
        |index: usize, name: &str| replies[index].header(name).unwrap_or_default().to_owned();
    assert_eq!(header(0, "x-ratelimit-limit"), "3, 3;w=3600;name=\"users\"");
    assert_eq!(
        (header(0, "x-ratelimit-remaining"), header(0, "x-ratelimit-reset")),
        ("2".into(), "3593".into())
    );
    assert_eq!(header(3, "x-ratelimit-remaining"), "0");
    assert_eq!(header(3, "x-envoy-ratelimited"), "true");
    assert_eq!(setup.get(&[("x-user", "bob")]).code, 200, "another user");
    assert_eq!(setup.get(&[]).code, 200, "nothing to limit by");
}

#[test]
fn every_descriptor_gets_a_status() {
    let setup = EnvoySetup::new(start());
    let both = [("x-user", "ann"), ("x-heavy", "job")];
    let reply = setup.get(&both);
    // `x-heavy` costs 4 of 10.
    assert_eq!(reply.header("x-ratelimit-limit"), Some("3, 3;w=3600;name=\"users\", 10;w=86400"));
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(setup.get(&both).code, 200);
    let reply = setup.get(&both);
    assert_eq!((reply.code, reply.header("x-ratelimit-remaining")), (429, Some("0")));
    assert_eq!(setup.passed(), 2);
    // The rule in shadow mode counts and allows; the other one always refuses.
    for _ in 0..3 {
        let reply = setup.get(&[("x-watched", "y")]);
        assert_eq!((reply.code, reply.header("x-ratelimit-limit")), (200, Some("1, 1;w=3600")));
    }
    assert_eq!(setup.get(&[("x-watched", "y"), ("x-never", "y")]).code, 429);
}

#[test]
fn envoy_forwards_our_headers() {
    let setup = EnvoySetup::new(super::start_configured(|config| config.envoy_headers = true));
    let reply = setup.get(&[("x-user", "ann")]);
    let names = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    assert_eq!(names.map(|name| reply.header(name)), [Some("3"), Some("2"), Some("3593")]);
}

#[test]
fn the_style_of_headers_applies_to_envoy() {
    use tollgate_server::config::HeaderStyle;
    for (style, envoy_headers, expected) in [
        (HeaderStyle::Envoy03, false, [Some("3, 3;w=3600;name=\"users\""), Some("3593"), None]),
        (HeaderStyle::Legacy, true, [Some("3"), Some("1767272400"), None]),
        (HeaderStyle::Draft6, true, [None, None, Some("3;w=3600")]),
        (HeaderStyle::Draft6, false, [None, None, None]),
    ] {
        let server = super::start_configured(|config| {
            (config.headers, config.envoy_headers) = (style, envoy_headers);
        });
        // Envoy writes no headers of its own here.
        let setup = EnvoySetup::without_own_headers(server);
        let reply = setup.get(&[("x-user", "ann")]);
        let names = ["x-ratelimit-limit", "x-ratelimit-reset", "ratelimit-policy"];
        assert_eq!(names.map(|name| reply.header(name)), expected, "{style:?}");
    }
}

#[test]
fn envoy_can_use_domains_of_native_rules() {
    let rules = "
domain: demo
attributes: [heavy, never, user]
rules:
  - { name: users, when: has(user), per: user, limit: 3/h }
  - { name: jobs, when: has(heavy), per: heavy, limit: 10/15min }
  - { name: closed, when: has(never), then: deny }
";
    let setup = EnvoySetup::new(start_with_rules(rules, |_| {}));
    let replies: Vec<EnvoyResponse> = (0..4).map(|_| setup.get(&[("x-user", "ann")])).collect();
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!((codes, setup.passed()), (vec![200, 200, 200, 429], 3));
    assert_eq!(replies[0].header("x-ratelimit-limit"), Some("3, 3;w=3600;name=\"users\""));
    assert_eq!(replies[0].header("x-ratelimit-remaining"), Some("2"));
    // A job costs 4, a refused request costs nothing, and 15 minutes have no unit.
    let replies: Vec<EnvoyResponse> = (0..3).map(|_| setup.get(&[("x-heavy", "job")])).collect();
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [200, 200, 429]);
    assert_eq!(replies[2].header("x-ratelimit-limit"), Some("10"));
    assert_eq!(replies[2].header("x-ratelimit-remaining"), Some("2"));
}

#[test]
fn rules_are_replaced_under_load_without_wrong_decisions() {
    let setup = EnvoySetup::new(start());
    let done = AtomicBool::new(false);
    let limit = "  - { key: user, rate_limit: { unit: hour, requests_per_unit: LIMIT } }\n";
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let (setup, done) = (&setup, &done);
                scope.spawn(move || {
                    let mut sent = 0;
                    while !done.load(Ordering::Relaxed) || sent < 50 {
                        let user = format!("{number}-{sent}");
                        assert_eq!(setup.get(&[("x-user", &user)]).code, 200);
                        assert_eq!(setup.get(&[("x-never", &user)]).code, 429);
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        for version in 0..30 {
            let rules = RULES.replace(
                "descriptors:\n",
                &format!("descriptors:\n{}", limit.replace("LIMIT", &(version + 2).to_string())),
            );
            // The old entry of users disappears.
            let rules = rules.replacen("  - key: user\n    rate_limit: { name: users, unit: hour, requests_per_unit: 3 }\n", "", 1);
            setup.write_rules(&rules);
            setup.wait_for_limit(version + 2);
        }
        done.store(true, Ordering::Relaxed);
        let sent: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(sent >= 100);
    });
}

#[test]
fn without_a_server_envoy_follows_its_failure_mode() {
    let mut setup = EnvoySetup::new(start());
    let never = [("x-never", "x")];
    assert_eq!((setup.get(&never).code, setup.get_strict(&never).code), (429, 429));
    setup.kill();
    assert_eq!(setup.get(&never).code, 200, "Envoy fails open by default");
    assert_eq!(setup.get_strict(&never).code, 500, "failure_mode_deny");
    let passed = setup.passed();
    setup.revive();
    // Envoy reconnects with its next request.
    setup.until(|setup| setup.get(&never).code == 429);
    setup.until(|setup| setup.get_strict(&never).code == 429);
    let since = setup.passed();
    assert_eq!((setup.get(&never).code, setup.passed()), (429, since));
    assert!(passed >= 1);
}
