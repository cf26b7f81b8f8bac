//! The text output: tables, comparisons, the demonstration, and errors.

mod support;

use support::{file, tollgate, tollgate_in};

const TRACE: &str = r#"{"at_us": 0, "key": "ann", "cost": 15}
{"at_us": 50000, "key": "bob"}
{"at_us": 100000, "key": "ann", "cost": 9}
{"at_us": 100000, "key": "ann", "op": "settle", "cost": 9}
{"at_us": 100000, "key": "ann", "cost": 21}
"#;

#[test]
fn a_table_is_aligned_and_summed_up() {
    let run = tollgate(&["simulate", "--limit", "10/s burst 20", "--trace", "-"], TRACE);
    assert_eq!(
        run.stdout,
        "   at  key  op      cost  verdict   left  retry in  full in  wait
    0  ann  check     15  allowed   5/20         -     1.5s     0
 50ms  bob  check      1  allowed  19/20         -    100ms     0
100ms  ann  check      9  denied    6/20     300ms     1.4s     0
100ms  ann  settle     9  in debt   0/20     300ms     2.3s     0
100ms  ann  check     21  never     0/20         -     2.3s     0
4 requests: 2 allowed, 2 denied; 1 other operation. Most denied: ann 2 of 3
"
    );
}

#[test]
fn a_comparison_shows_the_counts_of_each_algorithm() {
    // Ten before the boundary of a second, ten after it.
    let trace: String =
        (0..20).map(|i| format!("{{\"at_us\":{}}}\n", 990_000 + i * 1_000)).collect();
    let args = ["simulate", "--limit", "10/s", "--trace", "-"];
    let compare = ["--compare", "fixed_window,sliding_log,token-bucket"];
    let run = tollgate(&[&args[..], &compare[..]].concat(), &trace);
    assert_eq!(run.code, 2, "an unknown name is an error: {}", run.stdout);
    assert!(run.stderr.contains("token_bucket"), "{}", run.stderr);

    let compare = ["--compare", "fixed_window,Sliding_Log,leaky_bucket,fixed"];
    let run = tollgate(&[&args[..], &compare[..]].concat(), &trace);
    let table: Vec<&str> = run.stdout.lines().skip_while(|line| !line.contains("peak")).collect();
    assert_eq!(
        table[..4],
        [
            "                 allowed  denied  longest run  peak in 1s",
            "fixed_window          20       0            0          20  10/s fixed",
            "sliding_log           10      10           10          10  10/s log",
            "leaky_bucket          10      10           10          10  10/s leaky",
        ]
    );

    let run = tollgate(&[&args[..], &compare[..], &["--json"]].concat(), &trace);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 60);
    assert!(lines[0].ends_with(r#""wait_us":0,"algorithm":"fixed_window"}"#), "{}", lines[0]);
    assert!(lines[1].ends_with(r#""algorithm":"sliding_log"}"#), "{}", lines[1]);
}

#[test]
fn a_limit_without_a_rate_cannot_be_compared() {
    let args = ["simulate", "--trace", "-", "--compare", "all", "--limit", "5 concurrent"];
    let run = tollgate(&args, "");
    assert_eq!(run.code, 2);
    let expected =
        "error: --compare needs limits with a period, such as 10/s; \"5 concurrent\" has none\n";
    assert_eq!(run.stderr, expected);
}

#[test]
fn the_demonstration_is_always_the_same() {
    let program = env!("CARGO_BIN_EXE_tollgate");
    let demo = tollgate(&["simulate", "--demo"], "");
    assert_eq!((demo.code, demo.stderr.as_str()), (0, ""));
    let shown = demo.stdout.replace(program, "tollgate");
    assert_eq!(shown, include_str!("snapshots/demo.txt"));
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns");
    assert!(!shown.contains('\x1b'), "coloured without a terminal");
}

#[test]
fn the_demonstration_matches_its_explanation() {
    let run = tollgate(&["simulate", "--demo", "--json"], "");
    let lines = || run.stdout.lines();
    assert!(
        lines()
            .filter(|line| line.contains("\"cron\""))
            .all(|line| line.contains("\"allowed\":true"))
    );
    let in_burst = |line: &&str| {
        let answer: serde_json::Value = serde_json::from_str(line).expect("JSON");
        answer["algorithm"] == "token_bucket"
            && (5_500_000..5_620_000).contains(&answer["at_us"].as_u64().unwrap())
    };
    assert!(lines().filter(in_burst).all(|line| line.contains("\"allowed\":true")));
    assert!(lines().filter(in_burst).count() >= 12);
}

#[test]
fn errors_in_a_trace_point_at_their_characters() {
    let (_folder, path) = file("{\"at_us\": 0}\n\n{\"at_us\": 1, \"op\": \"chek\"}\n");
    let path = path.to_str().unwrap();
    let run = tollgate(&["simulate", "--limit", "1/s", "--json", "--trace", path], "");
    assert_eq!((run.code, run.stdout.lines().count()), (2, 1));
    assert_eq!(
        run.stderr,
        format!(
            r#"error: {path}:3:20: unknown op "chek": expected check, peek, reserve, refund, settle or reset
  {{"at_us": 1, "op": "chek"}}
                     ^^^^^^
did you mean "check"?
"#
        )
    );
    for (line, place, what) in [
        (r#"{"at_us": 0, "cots": 1}"#, "stdin:1:14: ", "did you mean \"cost\"?"),
        (
            r#"{"at_us": 0, "cost": -1}"#,
            "stdin:1:22: ",
            "cost is -1: expected a whole number from 0",
        ),
        (r#"{"key": "é"}"#, "stdin:1:12: ", "at_us is missing: expected the time in microseconds"),
        (r#"{"at_us": 0"#, "stdin:1:11: ", "EOF while parsing an object: expected one JSON object"),
        (r#"{"at_us": 18446744073709552}"#, "stdin:1:11: ", "from 0 to 18446744073709551"),
    ] {
        let run = tollgate(&["simulate", "--limit", "1/s", "--trace", "-"], line);
        assert_eq!(run.code, 2, "{line}");
        assert!(run.stderr.starts_with(&format!("error: {place}")), "{}", run.stderr);
        assert!(run.stderr.contains(what), "{}", run.stderr);
    }
}

#[test]
fn errors_on_the_command_line_are_explained() {
    let run = tollgate(&["simulate", "--limit", "10/mn", "--trace", "-"], "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("\n  10/mn\n     ^^\ndid you mean \"10/min\"?"), "{}", run.stderr);

    let run = tollgate(&["simulate", "--limit", "10/s", "--trace", "no/such.jsonl"], "");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.starts_with("error: cannot read the trace no/such.jsonl: "),
        "{}",
        run.stderr
    );

    let run = tollgate(&["simulate", "--trace", "-"], "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--limit <LIMIT>"), "{}", run.stderr);
}

/// A variable that is left over from elsewhere does not change what one call does.
#[test]
fn flags_of_one_call_are_no_variables() {
    let (_folder, path) = file("{\"at_us\": 0}\n");
    let env = [("TOLLGATE_LIMIT", "1/h"), ("TOLLGATE_COMPARE", "gcra"), ("TOLLGATE_JSON", "yes")];
    let args = ["simulate", "--limit", "5/min", "--trace", path.to_str().unwrap()];
    let run = tollgate_in(&env, &args, "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.contains(r#""limit":5,"remaining":4"#), "{}", run.stdout);
    assert!(!run.stdout.contains("gcra"), "{}", run.stdout);
    let help = tollgate(&["simulate", "--help"], "").stdout;
    assert!(help.contains("[env: TOLLGATE_JSON=]") && !help.contains("TOLLGATE_LIMIT"), "{help}");
    let run = tollgate_in(&[("TOLLGATE_CHECK", "true")], &["serve", "--threads", "x"], "");
    assert!(run.stderr.contains("--threads"), "{}", run.stderr);
}

#[test]
fn the_version_is_printed() {
    let version = format!("tollgate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(tollgate(&["--version"], "").stdout, version);
}
