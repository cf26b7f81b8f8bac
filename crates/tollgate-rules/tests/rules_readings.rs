//! Requests that servers read differently: no spelling is a way around a limit.

use tollgate_rules::{Request, RuleLimiter};

/// Returns how many of the requests pass.
fn passed<'r>(rules: &str, requests: impl IntoIterator<Item = Request<'r>>) -> usize {
    let limiter = RuleLimiter::new(rules.parse().unwrap());
    requests.into_iter().filter(|request| limiter.decide_now(request).allowed).count()
}

fn gets<'r>(targets: &'r [&'r str]) -> impl Iterator<Item = Request<'r>> {
    targets.iter().map(|target| Request::new("GET", target))
}

#[test]
fn a_route_matches_every_spelling() {
    let login = "rules: [{ name: login, route: /login, limit: 1/h }]";
    let spellings = [
        "/login",
        "/LOGIN",
        "/Login",
        "/login;x=y",
        "/login;",
        "/x/..;/login",
        "//login",
        "/logi%6e",
    ];
    assert_eq!(passed(login, gets(&spellings)), 1);
    let literal = "rules: [{ name: me, route: /@Me/caf%c3%a9, limit: 1/h }]";
    assert_eq!(passed(literal, gets(&["/@me/caf\u{e9}", "/%40ME/caf%C3%A9"])), 1);
}

#[test]
fn an_escaped_slash_matches_in_both_readings() {
    let term = "rules: [{ name: search, route: '/search/{term}', limit: 1/h }]";
    assert_eq!(passed(term, gets(&["/search/a", "/search/a%2Fb", "/search/a%5cb"])), 1);
    let rest = "rules: [{ name: admin, route: /admin/**, limit: 1/h }]";
    assert_eq!(passed(rest, gets(&["/admin/a", "/admin%2Fb", "/admin%5Cb%2Fc"])), 1);
    let mixed = "rules: [{ name: admin, route: '/admin/{x}', limit: 1/h }]";
    assert_eq!(passed(mixed, gets(&["/admin/a", "/admin%2Fa%5Cb"])), 1);
    // A parameter is the segment as the service sees it.
    let by_term = "rules: [{ name: s, route: '/search/{term}', per: param.term, limit: 1/h }]";
    assert_eq!(passed(by_term, gets(&["/search/a%2fB", "/search/a%2FB", "/search/a%2Fb"])), 2);
}

#[test]
fn a_condition_holds_if_it_does_in_one_reading() {
    let path = "rules: [{ name: p, when: 'path.startsWith(\"/admin/\")', limit: 1/h }]";
    assert_eq!(passed(path, gets(&["/admin/x", "/ADMIN/x", "/admin%2Fx", "/admin;v/x"])), 1);
    let cased = "rules: [{ name: p, when: 'path == \"/Login\"', limit: 1/h }]";
    assert_eq!(passed(cased, gets(&["/Login", "/Login"])), 1, "as it is written");
    let query = "rules: [{ name: q, when: 'query[\"a\"] == \"x\"', limit: 1/h }]";
    let targets = ["/?a=x", "/?a=y&a=x", "/?a=x&a=y", "/?A=x"];
    assert_eq!(passed(query, gets(&targets)), 1);
    let other = "rules: [{ name: q, when: 'query[\"a\"] != \"x\"', limit: 1/h }]";
    assert_eq!(passed(other, gets(&["/?a=y", "/?a=y&a=x", "/?a=x&a=y"])), 1);
}

#[test]
fn an_exemption_must_hold_in_every_reading() {
    let rules = "
rules:
  - { name: open, route: /open/**, then: allow }
  - { name: flag, when: 'query[\"open\"] == \"1\"', then: allow }
  - { name: all, limit: 1/h }
";
    assert_eq!(passed(rules, gets(&["/open/a", "/Open/a", "/?open=1", "/open/a%2Fb"])), 4);
    assert_eq!(passed(rules, gets(&["/x", "/open%2Fa", "/?open=1&open=0", "/?open=0&open=1"])), 1);
}

#[test]
fn contradicting_values_identify_no_client() {
    let query = "rules: [{ name: q, per: 'query[\"k\"]', limit: 1/h, missing_key: skip }]";
    let targets: Vec<String> = (0..20).map(|n| format!("/?k=r{n}&k=real")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    assert_eq!(passed(query, gets(&targets)), 1);
    let cookie = "rules: [{ name: c, per: 'cookie[\"sid\"]', limit: 1/h, missing_key: skip }]";
    let cookies: Vec<String> = (0..20).map(|n| format!("sid=r{n}; sid=real")).collect();
    let sent = || cookies.iter().map(|cookies| Request::new("GET", "/").header("cookie", cookies));
    assert_eq!(passed(cookie, sent()), 1);
    let computed = "rules: [{ name: c, per: 'has(cookie.sid) ? cookie.sid : \"-\"', limit: 1/h }]";
    assert_eq!(passed(computed, sent()), 1);
    let spelled = ["sid=real", "sid=\"real\"", "sid=%72eal"];
    let spelled = spelled.map(|cookies| Request::new("GET", "/").header("cookie", cookies));
    assert_eq!(passed(cookie, spelled), 1);
    let header = "rules: [{ name: h, per: 'header[\"x-key\"]', limit: 1/h, missing_key: skip }]";
    let keys: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let alike = keys
        .iter()
        .map(|key| Request::new("GET", "/").header("X-Key", key).header("X_Key", "real"));
    assert_eq!(passed(header, alike), 1);
}

#[test]
fn contradicting_values_are_no_discount() {
    let cost = "rules: [{ name: c, limit: 100/h, cost: 'int(query[\"n\"])' }]";
    assert_eq!(passed(cost, gets(&["/?n=1&n=90", "/?n=1&n=90"])), 1);
    let count = "rules: [{ name: c, limit: 1/h, count: 'query[\"dry\"] != \"1\"' }]";
    assert_eq!(passed(count, gets(&["/?dry=1&dry=0", "/?dry=0&dry=1"])), 1);
}

#[test]
fn case_and_parameters_can_matter() {
    let rules = "
defaults: { path_case: exact, path_params: keep }
rules: [{ name: login, route: /login, limit: 1/h }]
";
    assert_eq!(passed(rules, gets(&["/login", "/LOGIN", "/login;x", "/login"])), 3);
    let per_path = |case| {
        format!("defaults: {{ path_case: {case} }}\nrules: [{{ name: p, per: path, limit: 1/h }}]")
    };
    assert_eq!(passed(&per_path("exact"), gets(&["/a", "/A"])), 2);
    assert_eq!(passed(&per_path("ignore"), gets(&["/a", "/A"])), 1);
    let ids = "rules: [{ name: f, route: '/files/{id}', per: param.id, limit: 1/h }]";
    assert_eq!(passed(ids, gets(&["/files/aB", "/FILES/Ab", "/Files/aB"])), 2);
}
