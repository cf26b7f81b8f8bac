//! `tollgate test`: cases in the rules file and in a file beside it.

mod support;

use support::{folder, json, path, tollgate};

const RULES: &str = "
domain: shop
rules:
  - { name: login, route: POST /login, per: ip, limit: 5/min }
";
const INSIDE: &str = "
tests:
  - name: five, then none
    steps:
      - { request: POST /login ip=203.0.113.7, times: 6, expect: { allow: 5, deny: 1 } }
      - { at: 12s, request: POST /login ip=203.0.113.7, expect: allow }
";
const WRONG: &str = "
tests:
  - { name: all pass, request: POST /login ip=203.0.113.7, times: 9, expect: allow }
";

#[test]
fn cases_in_the_file_and_beside_it_are_run() {
    let rules = format!("{RULES}{INSIDE}");
    let folder = folder(&[("shop.yaml", &rules), ("shop.test.yaml", WRONG)]);
    let (file, beside) = (path(&folder, "shop.yaml"), path(&folder, "shop.test.yaml"));
    let run = tollgate(&["test", &file], "");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let start = format!(
        "{file}\n  ✓  five, then none  7 requests\n\n{beside}\n  ✗  all pass  9 requests\n"
    );
    assert!(run.stdout.starts_with(&start), "{}", run.stdout);
    for text in [&format!("{beside}:3:"), "expected allow true, got 5 of 9", "refused by login"] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    assert!(run.stdout.ends_with("2 cases: 1 passed, 1 failed\n"), "{}", run.stdout);
    // The file of cases and the directory give the same result.
    assert_eq!(tollgate(&["test", &beside], "").stdout, run.stdout);
    assert_eq!(tollgate(&["test", folder.path().to_str().unwrap()], "").stdout, run.stdout);
}

#[test]
fn json_output_has_the_same_content() {
    let folder = folder(&[("shop.yaml", &format!("{RULES}{WRONG}"))]);
    let file = path(&folder, "shop.yaml");
    let (code, report) = json(&["test", "--json", &file], "");
    assert_eq!((code, &report["passed"], &report["failed"]), (1, &0.into(), &1.into()));
    let case = &report["cases"][0];
    assert_eq!((&case["name"], &case["domain"]), (&"all pass".into(), &"shop".into()));
    assert_eq!((&case["passed"], &case["requests"]), (&false.into(), &9.into()));
    let failure = &case["failures"][0];
    assert_eq!((&failure["file"], &failure["line"]), (&file.into(), &7.into()));
    let (code, report) = json(&["test", "--json", "-"], &format!("{RULES}{INSIDE}"));
    assert_eq!((code, &report["passed"]), (0, &1.into()));
}

#[test]
fn a_file_without_cases_is_reported() {
    let run = tollgate(&["test", "-"], RULES);
    let expected = "stdin\n  no cases: add some under tests:\n0 cases: 0 passed, 0 failed\n";
    assert_eq!((run.code, run.stdout.as_str()), (0, expected));
}

#[test]
fn invalid_files_are_errors() {
    let folder = folder(&[("shop.yaml", RULES), ("shop.test.yaml", "tests: [{ expect: allow }]")]);
    let run = tollgate(&["test", &path(&folder, "shop.yaml")], "");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let beside = path(&folder, "shop.test.yaml");
    assert!(run.stderr.starts_with(&format!("error: {beside} is not valid:\n")), "{}", run.stderr);
    assert_eq!(tollgate(&["test", "no/such.yaml"], "").code, 2);
}
