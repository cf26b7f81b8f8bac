//! `tollgate simulate --json`: the output format, worked cases, and every operation.

mod support;

use support::{answers, file, tollgate};

/// Returns `allowed remaining retry_after_us reset_after_us wait_us` of each verdict.
fn brief(limits: &[&str], trace: &str) -> Vec<String> {
    let brief = |line: &String| {
        let answer: serde_json::Value = serde_json::from_str(line).expect("JSON");
        ["allowed", "remaining", "retry_after_us", "reset_after_us", "wait_us"]
            .map(|field| answer[field].to_string())
            .join(" ")
    };
    answers(limits, trace).iter().map(brief).collect()
}

#[test]
fn the_json_output_is_exact() {
    let trace = r#"{"at_us": 0, "key": "a", "cost": 1, "op": "check"}"#;
    assert_eq!(
        answers(&["10/s burst 20"], trace),
        [
            r#"{"at_us":0,"key":"a","allowed":true,"limit":20,"remaining":19,"retry_after_us":null,"reset_after_us":100000,"wait_us":0}"#
        ]
    );
}

#[test]
fn a_cost_above_the_limit_is_never_allowed() {
    assert_eq!(
        answers(&["10/s burst 20"], r#"{"at_us": 5, "key": "é\"", "cost": 21}"#),
        [
            r#"{"at_us":5,"key":"é\"","allowed":false,"limit":20,"remaining":20,"retry_after_us":null,"reset_after_us":0,"wait_us":0,"never":true}"#
        ]
    );
}

#[test]
fn token_bucket_worked_case() {
    // Capacity 10, refill 10/s, full at the start.
    let trace = r#"
        {"at_us": 300000, "cost": 6}
        {"at_us": 500000, "cost": 5}
        {"at_us": 1500000, "op": "peek"}"#;
    let expected = ["true 4 null 600000 0", "true 1 null 900000 0", "true 10 null 0 0"];
    assert_eq!(brief(&["10/s"], trace), expected);
}

#[test]
fn sliding_window_worked_case() {
    // Ten in the window before and six so far, 20 s into 60: 12.67 of 10, so one more is
    // rejected. It fits once less than four of the ten weigh in, just after 36 s.
    let trace = r#"
        {"at_us": 0, "cost": 10}
        {"at_us": 80000000, "op": "peek"}
        {"at_us": 80000000, "op": "settle", "cost": 6}
        {"at_us": 80000000}
        {"at_us": 96000001}"#;
    let answers = brief(&["10/min sliding"], trace);
    assert_eq!(answers[1], "true 4 null 34000001 0");
    assert!(answers[2].starts_with("false 0 10000001 "), "{answers:?}");
    assert!(answers[3].starts_with("false 0 16000001 "), "{answers:?}");
    assert!(answers[4].starts_with("true 0 null "), "{answers:?}");
}

#[test]
fn a_retry_passes_at_its_time_and_not_a_microsecond_earlier() {
    for limit in ["3/s", "7/min burst 3", "3/s fixed", "3/s sliding", "3/s log", "3/s gcra"] {
        let start = 5_100_000;
        let spend = format!("{{\"at_us\": {start}, \"cost\": 3}}\n{{\"at_us\": {start}}}\n");
        let denied: serde_json::Value =
            serde_json::from_str(&answers(&[limit], &spend)[1]).unwrap();
        assert_eq!(denied["allowed"], false, "{limit}");
        let retry = start + denied["retry_after_us"].as_u64().unwrap();
        for (at, allowed) in [(retry - 1, false), (retry, true)] {
            let trace = format!("{{\"at_us\": {start}, \"cost\": 3}}\n{{\"at_us\": {at}}}\n");
            let answer = &answers(&[limit], &trace)[1];
            assert!(answer.contains(&format!("\"allowed\":{allowed}")), "{limit}: {answer}");
        }
    }
}

#[test]
fn every_operation() {
    let trace = r#"
        {"at_us": 0, "cost": 8}
        {"at_us": 0, "op": "peek", "cost": 5}
        {"at_us": 0, "op": "refund", "cost": 3}
        {"at_us": 0, "op": "refund", "cost": 100}
        {"at_us": 0, "op": "reserve", "cost": 6}
        {"at_us": 0, "op": "settle", "cost": 2}
        {"at_us": 0, "op": "reserve", "cost": 6}
        {"at_us": 0, "op": "settle", "cost": 9}
        {"at_us": 0, "op": "settle", "cost": 1}
        {"at_us": 0, "op": "reset"}"#;
    assert_eq!(
        brief(&["10/s"], trace),
        [
            "true 2 null 800000 0",
            "true 2 null 800000 0",
            "true 5 null 500000 0",
            "true 10 null 0 0",
            "true 4 null 600000 0",
            "true 8 null 200000 0", // four go back
            "true 2 null 800000 0",
            "false 0 100000 1100000 0", // three more than there were: one is owed
            "false 0 200000 1200000 0", // nothing is open: all of it is charged
            "true 10 null 0 0",
        ]
    );
}

#[test]
fn a_reserve_waits_no_longer_than_it_may() {
    let trace = r#"
        {"at_us": 0, "cost": 10}
        {"at_us": 0, "op": "reserve", "cost": 2, "max_wait_us": 199999}
        {"at_us": 0, "op": "reserve", "cost": 2, "max_wait_us": 200000}
        {"at_us": 0, "op": "settle", "cost": 0}
        {"at_us": 0, "op": "reserve", "max_wait_us": 200000}"#;
    assert_eq!(
        brief(&["10/s"], trace),
        [
            "true 0 null 1000000 0",
            "false 0 200000 1000000 0",
            "true 0 null 1200000 200000",
            "true 0 null 1000000 0",
            "true 0 null 1100000 100000",
        ]
    );
}

#[test]
fn a_leaky_bucket_delays() {
    let trace = "{\"at_us\":0}\n{\"at_us\":0}\n{\"at_us\":0}";
    let waits = brief(&["10/s leaky"], trace);
    assert_eq!(
        waits.iter().map(|w| w.rsplit(' ').next().unwrap()).collect::<Vec<_>>(),
        ["0", "100000", "200000"]
    );
}

#[test]
fn several_limits_are_all_or_none_and_the_tightest_is_shown() {
    let trace = r#"
        {"at_us": 0, "cost": 3}
        {"at_us": 0, "cost": 3}
        {"at_us": 300000, "cost": 3}
        {"at_us": 600000, "cost": 3}
        {"at_us": 600000, "cost": 6}"#;
    let lines = answers(&["5/s", "8/h fixed"], trace);
    assert!(lines[0].contains(r#""allowed":true,"limit":5,"remaining":2"#), "{}", lines[0]);
    assert!(
        lines[1].contains(r#""allowed":false,"limit":5,"remaining":2,"retry_after_us":200000"#)
    );
    assert!(lines[2].contains(r#""allowed":true,"limit":5,"remaining":0"#), "{}", lines[2]);
    // Two of eight are left, and the other limit was not charged.
    assert!(lines[3].contains(r#""allowed":false,"limit":8,"remaining":2"#), "{}", lines[3]);
    assert!(
        lines[4].contains(r#""limit":5"#) && lines[4].contains(r#""never":true"#),
        "{}",
        lines[4]
    );
}

#[test]
fn keys_do_not_share() {
    let trace = "{\"at_us\":0,\"key\":\"a\"}\n{\"at_us\":0,\"key\":\"b\"}\n{\"at_us\":0}\n{\"at_us\":0,\"key\":\"a\"}";
    let allowed: Vec<bool> =
        brief(&["1/s"], trace).iter().map(|answer| answer.starts_with("true")).collect();
    assert_eq!(allowed, [true, true, true, false]);
}

#[test]
fn a_step_back_of_the_clock_warns_once() {
    let trace = "{\"at_us\":9}\n{\"at_us\":5}\n{\"at_us\":7}\n{\"at_us\":6}\n";
    let (_folder, path) = file(trace);
    let path = path.to_str().unwrap();
    let run = tollgate(&["simulate", "--limit", "9/s", "--json", "--trace", path], "");
    assert_eq!((run.code, run.stdout.lines().count()), (0, 4));
    let step =
        format!("warning: {path}:2: at_us goes back from 9 to 5: taken as a step of the clock\n");
    assert_eq!(run.stderr, format!("{step}warning: {path}: at_us goes back 2 times in all\n"));
}

#[test]
fn denials_and_an_empty_trace_are_no_failure() {
    let args = ["simulate", "--limit", "1/s", "--json", "--trace", "-"];
    assert_eq!(tollgate(&args, "{\"at_us\":0,\"cost\":5}").code, 0);
    let run = tollgate(&args, "\n\n");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
}
