//! Characters that clients send raw in a query.

use tollgate_rig::Upstream;

use crate::support::{OPEN, start};

#[test]
fn raw_quotes_and_angle_brackets_are_forwarded_escaped() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    for (sent, forwarded) in [
        ("/a?q=\"b\"", "/a?q=%22b%22"),
        ("/a?<script>alert(1)</script>", "/a?%3Cscript%3Ealert(1)%3C/script%3E"),
        ("/a?x={\"y\":[1]}&z=|^`", "/a?x={%22y%22:[1]}&z=|^`"),
        ("/a?x=%22", "/a?x=%22"),
    ] {
        assert_eq!(client.get(sent).status(), 200, "{sent}");
        assert_eq!(upstream.last().target(), forwarded, "{sent}");
    }
    assert_eq!(upstream.connections(), 1);
    // The body of a request is never changed.
    let body = "?x=\"<>\"\r\nGET /?<> HTTP/1.1\r\n\r\n";
    assert_eq!(client.send("POST", "/a?<>", &[("Referer", "/?<>")], body).status(), 200);
    let seen = upstream.last();
    assert_eq!((seen.text().as_str(), seen.header("referer")), (body, Some("/?<>")));
    assert_eq!(upstream.count(), 5);
}

#[test]
fn rules_count_both_spellings_as_one() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: q, per: 'query[\"q\"]', limit: 1/h }]";
    let gateway = start(rules, &upstream);
    let mut client = gateway.connect();
    assert_eq!(client.get("/?q=<a>").status(), 200);
    assert_eq!(client.get("/?q=%3Ca%3E").status(), 429);
    assert_eq!(client.get("/?q=%3ca>").status(), 429);
    assert_eq!(client.get("/?q=<b>").status(), 200);
}

#[test]
fn a_long_query_of_such_characters_does_not_fit_into_one_read() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    let raw = "<".repeat(8_000);
    assert_eq!(client.get(&format!("/?{raw}")).status(), 200);
    assert_eq!(upstream.last().target(), format!("/?{}", "%3C".repeat(8_000)));
    assert_eq!(client.get("/next").status(), 200);
    assert_eq!(client.get(&format!("/?{}", "<".repeat(60_000))).status(), 431);
}
