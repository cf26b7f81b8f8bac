//! Deciding by plain attributes allocates nothing.

mod support;

use support::rules::Fixture;
use tollgate_rules::Request;

#[test]
fn a_decision_on_plain_attributes_allocates_nothing() {
    let fixture = Fixture::new(
        r#"
trusted_proxies: [10.0.0.0/8]
attributes: { org: 'header["x-org"]' }
plans: { default: { api: 1M/h }, pro: { api: 2M/h } }
overrides: [{ match: { org: other }, rule: api, limit: 5/h }]
lists: { office: [192.0.2.0/24] }
rules:
  - { name: office, when: ip in lists.office, then: allow }
  - { name: edge, per: ip, limit: 1M/s }
  - { name: api, route: "/api/{kind}", per: [org, param.kind], limit: plan.api }
  - { name: get, when: method == "GET" && plan != "free", per: endpoint, limit: 1M/min }
"#,
    );
    let ip = "10.0.0.1".parse().unwrap();
    let decide = || {
        let request = Request::new("GET", "/api/orders?page=2")
            .peer(ip)
            .header("X-Forwarded-For", "198.51.100.7, 203.0.113.9")
            .header("X-Org", "acme")
            .attribute("plan", "pro");
        let decision = fixture.limiter.decide_now(&request);
        assert!(decision.allowed && decision.limits().count() == 3);
    };
    decide(); // the first request of a key allocates its counter
    let used = allocation_counter::measure(|| (0..10).for_each(|_| decide()));
    assert_eq!(used.count_total, 0);
}
