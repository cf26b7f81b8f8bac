//! The endpoints and metrics of envoyproxy/ratelimit, for domains in its format.

use tollgate_server::net::Bind;
use tollgate_server::sources::Origin;

use super::client::AdminClient;
use crate::http::client::HttpClient;
use crate::support::{TestServer, start, start_with};

const LIMITS: &str = "
domain: mail
descriptors:
  - key: sender
    rate_limit: { unit: minute, requests_per_unit: 10 }
    descriptors:
      - { key: kind, value: ad, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: bulk, quota_mode: true, rate_limit: { unlimited: true } }
  - { key: user, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 1000 } }
";

fn json(entries: &[(&str, &str)], hits: u32) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(key, value)| format!(r#"{{"key":"{key}","value":"{value}"}}"#))
        .collect();
    let entries = entries.join(",");
    format!(r#"{{"domain":"mail","descriptors":[{{"entries":[{entries}]}}],"hitsAddend":{hits}}}"#)
}

fn metric(server: &TestServer, series: &str) -> Option<f64> {
    let text = HttpClient::connect(server.http()).send("GET", "/metrics", "").body;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[test]
fn health_and_limits_are_reported_as_by_the_original() {
    let server = start(LIMITS);
    let mut client = HttpClient::connect(server.http());
    for method in ["GET", "POST", "PUT"] {
        let health = client.send(method, "/healthcheck", "");
        assert_eq!((health.status, health.body.as_str()), (200, "OK"), "{method}");
        let limits = client.send(method, "/rlconfig", "");
        let expected = "\
            mail.sender: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false\n\
            mail.sender.kind_ad: unit=DAY requests_per_unit=2, shadow_mode: true, quota_mode: false\n\
            mail.bulk: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: true\n\
            mail.user: unit=HOUR requests_per_unit=1000, shadow_mode: false, quota_mode: false\n";
        assert_eq!((limits.status, limits.body.as_str()), (200, expected), "{method}");
    }
}

#[test]
fn limits_are_not_shown_without_a_token_on_a_public_address() {
    let server = start_with(LIMITS, |config| {
        config.admin = Some(Bind::plain("0.0.0.0:0".parse().unwrap()));
    });
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], server.admin().port()));
    assert_eq!(AdminClient::new(at, None).get("/rlconfig").status, 401);
    assert_eq!(AdminClient::new(at, None).get("/healthcheck").status, 200);
    let token = server.admin_token();
    assert_eq!(AdminClient::new(at, Some(&token)).get("/rlconfig").status, 200);
}

#[test]
fn metrics_have_the_names_and_labels_of_the_original() {
    let server = start(LIMITS);
    let mut client = HttpClient::connect(server.http());
    client.post("/json", &json(&[("sender", "ann")], 9));
    client.post("/json", &json(&[("sender", "ann")], 4));
    client.post("/json", &json(&[("sender", "ann"), ("kind", "ad")], 5));
    client.post("/json", &json(&[("user", "203.0.113.7")], 1));
    client.post("/json", &json(&[("bulk", "x")], 1));
    client.post("/json", "{\"domain\":\"elsewhere\",\"descriptors\":[{}]}");
    client.post("/json", "{\"domain\":\"\"}");
    let hits = |labels: &str| {
        let names = ["total_hits", "over_limit", "near_limit", "within_limit", "shadow_mode"];
        let series = names.map(|name| format!("ratelimit_service_rate_limit_{name}{{{labels}}}"));
        series.iter().map(|series| metric(&server, series)).collect::<Option<Vec<f64>>>()
    };
    let sender = "domain=\"mail\",key1=\"sender\"";
    assert_eq!(hits(sender), Some(vec![13.0, 3.0, 2.0, 9.0, 0.0]));
    let ad = format!("{sender},key2=\"kind_ad\"");
    assert_eq!(hits(&ad), Some(vec![5.0, 3.0, 1.0, 0.0, 3.0]));
    let user = "domain=\"mail\",key1=\"user_203_0_113_7\"";
    assert_eq!(hits(user), Some(vec![1.0, 0.0, 0.0, 1.0, 0.0]));
    assert_eq!(hits("domain=\"mail\",key1=\"bulk\""), None, "unlimited");
    // A pattern for `over_limit` must not find a second series, which is always 0.
    let text = HttpClient::connect(server.http()).send("GET", "/metrics", "").body;
    let local_cache = "ratelimit_service_rate_limit_over_limit_with_local_cache";
    assert!(text.contains(&format!("# TYPE {local_cache} counter")));
    assert!(!text.lines().any(|line| line.starts_with(local_cache)));
    let of_service = |name: &str| metric(&server, &format!("ratelimit_service_{name}"));
    assert_eq!(of_service("rate_limit_domain_not_found"), Some(1.0));
    assert_eq!(of_service("should_rate_limit_error{err_type=\"service_error\"}"), Some(1.0));
    assert_eq!(of_service("should_rate_limit_error{err_type=\"redis_error\"}"), Some(0.0));
    assert_eq!(of_service("total_requests{grpc_method=\"ShouldRateLimit\"}"), Some(6.0));
    assert!(of_service("config_load_success") >= Some(1.0));
    assert_eq!(of_service("config_load_error"), Some(0.0));
}

#[test]
fn statistics_survive_a_reload_and_values_are_bounded() {
    let server = start(LIMITS);
    let mut client = HttpClient::connect(server.http());
    for user in 0..300 {
        client.post("/json", &json(&[("user", &format!("u{user}"))], 1));
    }
    let total = |labels: &str| {
        metric(&server, &format!("ratelimit_service_rate_limit_total_hits{{{labels}}}"))
    };
    assert_eq!(total("domain=\"mail\",key1=\"user_u255\""), Some(1.0));
    assert_eq!(total("domain=\"mail\",key1=\"user_u256\""), None);
    assert_eq!(total("domain=\"mail\",key1=\"user\""), Some(44.0), "values beyond 256");
    server.write_rules(&LIMITS.replace("requests_per_unit: 1000", "requests_per_unit: 999"));
    let mut is_active =
        || client.send("GET", "/rlconfig", "").body.contains("requests_per_unit=999");
    assert!((0..10_000).any(|_| is_active()), "the new file is not active");
    client.post("/json", &json(&[("user", "u255")], 1));
    assert_eq!(total("domain=\"mail\",key1=\"user_u255\""), Some(2.0));
}

#[test]
fn a_server_without_envoy_files_has_none_of_these_metrics() {
    let server = start("{ domain: shop, rules: [{ name: api, limit: 5/min }] }");
    let text = HttpClient::connect(server.http()).send("GET", "/metrics", "").body;
    assert!(!text.contains("ratelimit_service"), "{text}");
    let limits = HttpClient::connect(server.http()).send("GET", "/rlconfig", "");
    assert_eq!((limits.status, limits.body.as_str()), (200, ""));
}

#[test]
fn files_of_one_domain_are_merged_if_that_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let other = "{ domain: mail, descriptors: [{ key: org, rate_limit: { unit: day, requests_per_unit: 1 } }] }";
    std::fs::write(folder.path().join("a.yaml"), LIMITS).unwrap();
    std::fs::write(folder.path().join("b.yaml"), other).unwrap();
    let server = start_with("rules: []", |config| {
        config.rules = Some(Origin::path(folder.path()).merge_domains(true));
    });
    let mut client = HttpClient::connect(server.http());
    let org = json(&[("org", "acme")], 1);
    assert_eq!([0; 2].map(|_| client.post("/json", &org).status), [200, 429]);
    assert!(client.send("GET", "/rlconfig", "").body.contains("mail.sender.kind_ad"));
    assert!(Origin::path(folder.path()).open().is_err(), "not by default");
}
