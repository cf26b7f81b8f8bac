//! The policies under `examples/rules`: each file is valid, has no warnings, and passes its tests.

use std::path::{Path, PathBuf};

use tollgate_rules::Rules;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules")
}

fn load(path: &Path) -> Rules {
    let rules = Rules::from_file(path).unwrap_or_else(|error| panic!("{error}"));
    assert!(rules.warnings().is_empty(), "{}", rules.warnings());
    rules
}

/// Declares one test for each file, so that a failure names it.
macro_rules! examples {
    ($($name:ident: $file:literal,)*) => {
        $(#[test]
        fn $name() {
            let results = load(&examples().join($file)).run_cases();
            assert!(results.len() >= 1, "there are no tests");
            let failures: Vec<String> = results
                .iter()
                .filter(|case| !case.passed())
                .map(|case| format!("{}\n{}", case.name, case.failures))
                .collect();
            assert!(failures.is_empty(), "{}", failures.join("\n\n"));
        })*

        #[test]
        fn every_example_has_a_test() {
            let mut files: Vec<String> = std::fs::read_dir(examples())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with(".yaml"))
                .collect();
            files.sort();
            let mut tested = vec![$($file),*];
            tested.sort();
            assert_eq!(files, tested);
        }
    };
}

examples! {
    api_keys: "api-keys.yaml",
    client_api_method: "client-api-method.yaml",
    discord: "discord.yaml",
    github: "github.yaml",
    hour_and_minute: "hour-and-minute.yaml",
    lets_encrypt: "lets-encrypt.yaml",
    login: "login.yaml",
    nginx: "nginx.yaml",
    night: "night.yaml",
    openai: "openai.yaml",
    org_team_member: "org-team-member.yaml",
    overload: "overload.yaml",
    partner: "partner.yaml",
    quota: "quota.yaml",
    shopify: "shopify.yaml",
    stripe: "stripe.yaml",
    x: "x.yaml",
}

#[test]
fn mails_and_logins_by_domain() {
    use tollgate::testing::ManualClock;
    use tollgate_rules::{Request, RuleLimiter};
    let clock = ManualClock::new();
    let rules = load(&examples().join("by-domain"));
    let limiter = RuleLimiter::builder().clock(&clock).build(rules);
    let passes = |domain: &str, key: &str, value: &str| {
        let request = Request::empty().domain(domain).attribute(key, value);
        (0..20).filter(|_| limiter.decide_now(&request).allowed).count()
    };
    assert_eq!(passes("auth", "login", "ann"), 10);
    assert_eq!(passes("auth", "login", "bob"), 10);
    assert_eq!(passes("messaging", "email", "ann"), 5);
    clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(passes("auth", "login", "ann"), 10);
    assert_eq!(passes("messaging", "email", "ann"), 0);
}
