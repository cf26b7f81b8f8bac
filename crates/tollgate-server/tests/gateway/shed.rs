//! Requests dropped by their priority, and a limit that a noisy client shares with polite ones.

use serde_json::Value;
use tollgate_rig::{Message, Upstream, WebClient};

use crate::support::{Gateway, start};

const SHED: &str = "
rules:
  - name: fleet
    limit: 10/h
    then: shed
    priority: header[\"x-priority\"]
";

fn get(client: &mut WebClient, name: &str, value: &str) -> Message {
    client.get_with("/", &[(name, value)])
}

#[test]
fn the_least_important_go_first() {
    let upstream = Upstream::start();
    let gateway = start(SHED, &upstream);
    let mut client = gateway.connect();
    let mut passed = |priority: &str| {
        let answers = (0..10).map(|_| get(&mut client, "x-priority", priority).status());
        answers.filter(|status| *status == 200).count()
    };
    assert_eq!([passed("batch"), passed("normal"), passed("critical")], [5, 3, 2]);
    let refused = get(&mut client, "x-priority", "batch");
    assert_eq!(refused.status(), 503);
    // Six must be there, at one every six minutes.
    let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((5 * 360 + 1..=6 * 360).contains(&retry), "{retry}");
    let problem: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(problem["code"], "temporary-reduced-capacity", "{problem}");
    assert_eq!(upstream.count(), 10);
    for (priority, count) in [("batch", 6), ("normal", 7), ("critical", 8)] {
        let labels = format!("domain=\"default\",rule=\"fleet\",priority=\"{priority}\"");
        assert_eq!(gateway.metric(&format!("tollgate_shed_total{{{labels}}}")), count);
    }
    let shed = "tollgate_decisions_total{domain=\"default\",rule=\"fleet\",outcome=\"shed\"}";
    assert_eq!(gateway.metric(shed), 21);
}

/// Nine who ask for what is theirs, and one who asks for everything: how many of the nine's 90
/// requests passed, and how many of the other's. What is spent does not come back in time to matter, so
/// that nothing depends on how quick the machine is.
fn nine_and_one(gateway: &Gateway) -> (usize, usize) {
    let mut client = gateway.connect();
    let mut ask = |who: &str| usize::from(get(&mut client, "x-client", who).status() == 200);
    let mut polite: usize = (0..9).map(|one| ask(&format!("polite-{one}"))).sum();
    let noisy: usize = (0..250).map(|_| ask("noisy")).sum();
    polite += (0..81).map(|one| ask(&format!("polite-{}", one % 9))).sum::<usize>();
    (polite, noisy)
}

#[test]
fn a_noisy_client_gets_what_the_polite_ones_leave() {
    let upstream = Upstream::start();
    let plain = start("rules: [{ name: api, limit: 200/day }]", &upstream);
    let (polite, noisy) = nine_and_one(&plain);
    assert_eq!((polite, noisy), (9, 191), "who comes first has it all");
    drop(plain);

    let rules = "
rules:
  - name: api
    limit: 200/day
    fair: { by: 'header[\"x-client\"]' }
";
    let fair = start(rules, &upstream);
    let (polite, noisy) = nine_and_one(&fair);
    assert_eq!(polite, 90, "none of them is refused");
    assert!((2..=30).contains(&noisy), "{noisy}");
    assert_eq!(upstream.count(), 200 + polite + noisy);
    assert_eq!(fair.metric("tollgate_fair_tenants{domain=\"default\",rule=\"api\"}"), 10);
    let (_, top) = fair.admin("GET", "/v1/top?by=denied&limit=1");
    assert_eq!(top["keys"][0]["key"], "noisy", "{top}");
}
