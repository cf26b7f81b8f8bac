//! `tollgate simulate FILE --log`: denials in every log format.

mod support;

use std::io::Write;

use support::{folder, json, path, tollgate};

const RULES: &str = "
domain: shop
attributes: [user]
rules:
  - { name: login, route: POST /login, per: ip, limit: 3/min }
  - { name: trial, route: /export, per: user, limit: 1/day, mode: shadow }
";
const CURRENT: &str = "
domain: shop
rules:
  - { name: login, route: POST /login, per: ip, limit: 5/min }
  - { name: closed, route: /old, then: deny }
";

/// Returns six logins from one address within a minute and one from another, in the common format.
fn logins() -> String {
    let line = |second: u32, ip: &str| {
        format!("{ip} - - [01/Jan/2026:12:00:{second:02} +0000] \"POST /login HTTP/1.1\" 401 7\n")
    };
    let mut log: String = (0..6).map(|second| line(second, "203.0.113.7")).collect();
    log += &line(6, "2001:db8:1:2::9");
    log += "203.0.113.9 - ann [01/Jan/2026:12:00:07 +0000] \"GET /old HTTP/1.1\" 200 7\n";
    log
}

#[test]
fn denials_are_reported_by_rule_and_key() {
    let folder = folder(&[("new.yaml", RULES), ("access.log", &logins())]);
    let (rules, log) = (path(&folder, "new.yaml"), path(&folder, "access.log"));
    let run = tollgate(&["simulate", &rules, "--log", &log], "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let start =
        format!("{log}: 8 requests from 2026-01-01 12:00:00 to 2026-01-01 12:00:07 UTC\n\nrules ");
    assert!(run.stdout.starts_with(&start), "{}", run.stdout);
    let end = format!(
        "{rules}: 5 allowed, 3 denied (37.5 %); no rule matches 1

rule   requests  denied  in shadow
login         7       3          0

Most denied
  rule   key          denied  first                last
  login  203.0.113.7       3  2026-01-01 12:00:03  2026-01-01 12:00:05
"
    );
    assert!(run.stdout.ends_with(&end), "{}", run.stdout);
}

#[test]
fn a_candidate_is_compared_with_the_current_rules() {
    let files = [("new.yaml", RULES), ("current.yaml", CURRENT), ("access.log", &logins())];
    let folder = folder(&files);
    let [rules, current, log] =
        ["new.yaml", "current.yaml", "access.log"].map(|n| path(&folder, n));
    let args = ["simulate", &rules, "--log", &log, "--against", &current];
    let run = tollgate(&args, "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let end = format!(
        "
Against {current}, which denied 2: 2 newly denied, 1 no longer

Newly denied, by the candidate's rules
  rule   key          denied  first                last
  login  203.0.113.7       2  2026-01-01 12:00:03  2026-01-01 12:00:04

No longer denied, by the current rules
  rule    key  denied  first                last
  closed  all       1  2026-01-01 12:00:07  2026-01-01 12:00:07
"
    );
    assert!(run.stdout.ends_with(&end), "{}", run.stdout);

    let (code, report) = json(&[&args[..], &["--json"]].concat(), "");
    assert_eq!(code, 0);
    assert_eq!(
        (&report["log"]["requests"], &report["log"]["from"]),
        (&8.into(), &"2026-01-01T12:00:00Z".into())
    );
    assert_eq!(
        (&report["candidate"]["denied"], &report["current"]["denied"]),
        (&3.into(), &2.into())
    );
    let newly = &report["change"]["newly_denied_keys"];
    assert_eq!((&newly["count"], &newly["partial"]), (&1.into(), &false.into()));
    assert_eq!(
        (&newly["top"][0]["key"], &newly["top"][0]["denied"]),
        (&"203.0.113.7".into(), &2.into())
    );
    assert_eq!(report["change"]["no_longer_denied"], 1);
}

#[test]
fn every_format_gives_the_same_result() {
    let times = ["12:00:00", "12:00:01", "12:00:02", "12:00:03"];
    let lines = |line: &dyn Fn(&str) -> String| times.map(line).concat();
    let json_line = |time: &str| {
        format!(
            r#"{{"ts":"2026-01-01T{time}Z","remote_addr":"203.0.113.7","request":"POST /login HTTP/1.1","status":401}}{}"#,
            '\n'
        )
    };
    let envoy = |time: &str| {
        format!(
            "[2026-01-01T{time}.000Z] \"POST /login HTTP/2\" 401 - 0 7 1 1 \"203.0.113.7\" \"-\" \"-\" \"-\" \"-\"\n"
        )
    };
    let combined = |time: &str| {
        format!(
            "203.0.113.7 - - [01/Jan/2026:{time} +0000] \"POST /login HTTP/1.1\" 401 7 \"-\" \"a \\\"b\\\"\"\n"
        )
    };
    let mixed = [json_line(times[0]), envoy(times[1]), combined(times[2]), json_line(times[3])];
    let folder = folder(&[("new.yaml", RULES)]);
    let rules = path(&folder, "new.yaml");
    for (format, log) in [
        ("json", lines(&json_line)),
        ("envoy", lines(&envoy)),
        ("combined", lines(&combined)),
        ("common", lines(&combined)),
        ("auto", mixed.concat()),
    ] {
        let args = ["simulate", &rules, "--log", "-", "--json", "--format", format];
        let (_, report) = json(&args, &log);
        assert_eq!(report["log"]["requests"], 4, "{format}: {report}");
        let top = &report["candidate"]["denied_keys"]["top"];
        assert_eq!(
            (&top[0]["key"], &top[0]["first"]),
            (&"203.0.113.7".into(), &"2026-01-01T12:00:03Z".into())
        );
    }
}

#[test]
fn lines_out_of_order_are_sorted() {
    let folder = folder(&[("new.yaml", RULES)]);
    let mut lines: Vec<String> = logins().lines().map(|line| format!("{line}\n")).collect();
    lines.swap(0, 5);
    lines.swap(2, 6);
    let args = ["simulate", &path(&folder, "new.yaml"), "--log", "-", "--json"];
    assert_eq!(json(&args, &lines.concat()), json(&args, &logins()));
}

#[test]
fn rules_can_count_outcomes() {
    let rules = "rules: [{ name: guess, per: ip, limit: 2/h, count: response.status == 401 }]";
    let folder = folder(&[("new.yaml", rules)]);
    let log: String = [401, 200, 200, 401, 200, 401]
        .iter()
        .zip(0..)
        .map(|(status, at)| format!("{{\"ts\":{at},\"ip\":\"203.0.113.7\",\"status\":{status}}}\n"))
        .collect();
    let args = ["simulate", &path(&folder, "new.yaml"), "--log", "-", "--json"];
    let (_, report) = json(&args, &log);
    // Two wrong passwords, at 0 and 3; later logins are denied.
    let top = &report["candidate"]["denied_keys"]["top"][0];
    assert_eq!((&top["denied"], &top["first"]), (&2.into(), &"1970-01-01T00:00:04Z".into()));
}

#[test]
fn fields_can_have_any_name() {
    let rules = "attributes: [org]\nrules: [{ name: org, per: org, limit: 1/h }]";
    let folder = folder(&[("new.yaml", rules)]);
    let rules = path(&folder, "new.yaml");
    let log = r#"{"when":"2026-01-01","who":{"tenant":"acme"}}"#.to_owned() + "\n";
    let log = log.repeat(2);
    let maps = ["--map", "when=time", "--map", "who.tenant=org"];
    let args = ["simulate", &rules, "--log", "-", "--json"];
    let (_, report) = json(&[&args[..], &maps].concat(), &log);
    assert_eq!(report["candidate"]["denied_keys"]["top"][0]["key"], "acme");
    let run = tollgate(&[&args[..4], &["--map", "when=time", "--top", "1"]].concat(), &log);
    assert!(run.stdout.contains("(missing): the log lacks an attribute"), "{}", run.stdout);
}

#[test]
fn denials_of_shadow_rules_are_counted_separately() {
    let folder = folder(&[("new.yaml", RULES)]);
    let line = "192.0.2.1 - bob [01/Jan/2026:12:00:00 +0000] \"GET /export HTTP/1.1\" 200 7\n";
    let args = ["simulate", &path(&folder, "new.yaml"), "--log", "-"];
    let run = tollgate(&args, &line.repeat(3));
    let text = "3 allowed, 0 denied (0.0 %), 2 more if shadow rules were enforced\n";
    assert!(run.stdout.contains(text), "{}", run.stdout);
    assert!(run.stdout.contains("Most denied in shadow\n"), "{}", run.stdout);
}

#[test]
fn broken_lines_are_counted_and_shown() {
    let folder = folder(&[("new.yaml", RULES)]);
    let rules = path(&folder, "new.yaml");
    let log = format!("nonsense\n{}\u{1b}[31m{{\n", logins());
    let run = tollgate(&["simulate", &rules, "--log", "-"], &log);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("2 lines could not be read:\n  line 1: no time in brackets"));
    assert!(run.stdout.contains("  line 10: ") && !run.stdout.contains('\u{1b}'), "{}", run.stdout);

    let run = tollgate(&["simulate", &rules, "--log", "-", "--format", "json"], "{\"a\":1}\n");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let expected = "error: no line of stdin could be read as an access log; line 1: no time: expected a \
                    field such as time, timestamp or ts\n  {\"a\":1}\n";
    assert!(run.stderr.starts_with(expected), "{}", run.stderr);
    let run = tollgate(&["simulate", &rules, "--log", "-"], "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "stdin: 0 requests\n"));
}

#[test]
fn gzipped_logs_and_plots() {
    let folder = folder(&[("new.yaml", RULES)]);
    let [rules, log, plot] = ["new.yaml", "access.log.gz", "out.svg"].map(|n| path(&folder, n));
    let file = std::fs::File::create(&log).unwrap();
    let mut zip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    zip.write_all(logins().as_bytes()).unwrap();
    zip.finish().unwrap();
    let (code, report) = json(&["simulate", &rules, "--log", &log, "--json", "--plot", &plot], "");
    assert_eq!((code, &report["candidate"]["denied"]), (0, &3.into()));
    let svg = std::fs::read_to_string(&plot).unwrap();
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let mut texts = document.descendants().filter_map(|node| node.text());
    assert!(texts.any(|text| text.contains("5 allowed, 3 denied")), "{svg}");
    assert!(svg.contains("after 2026-01-01 12:00:00 UTC"), "{svg}");
}

#[test]
fn conflicting_arguments_are_refused() {
    let folder = folder(&[("new.yaml", RULES), ("bad.yaml", "rules: 5")]);
    let [rules, bad] = ["new.yaml", "bad.yaml"].map(|name| path(&folder, name));
    for args in [
        &[&*rules][..],
        &["--log", "-"],
        &[&rules, "--log", "-", "--limit", "1/s"],
        &[&rules, "--log", "-", "--map", "client"],
        &[&rules, "--log", "-", "--format", "xml"],
        &[&rules, "--log", "no/such.log"],
        &[&rules, "--log", "-", "--against", "no/such.yaml"],
        &[&rules, "--log", "-", "--plot", "no/such/folder/out.svg"],
        &[&bad, "--log", "-"],
    ] {
        let run = tollgate(&[&["simulate"], args].concat(), "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with("error: "), "{args:?}: {}", run.stderr);
    }
}
