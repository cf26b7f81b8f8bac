//! `tollgate import`: each configuration under `tests/import` gives the rules and the findings beside
//! it. `UPDATE=1` writes them again; review the changes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tollgate_rules::{Rules, Source};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import")
}

fn import(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder()).arg("import").args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

/// Compares a text with a file, or writes the file.
fn compare(file: &str, found: &str) {
    let path = folder().join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, found).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{file} differs; look at it and run with UPDATE=1");
}

/// Imports one file, compares both outputs, and reads the rules back.
fn golden(from: &str, file: &str, code: i32) {
    let output = import(&[from, file]);
    let (rules, findings) = (text(&output.stdout), text(&output.stderr));
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    assert_eq!(output.status.code(), Some(code), "{file}: {findings}");
    compare(&format!("{stem}.rules.yaml"), rules);
    compare(&format!("{stem}.findings.txt"), findings);
    if let Err(found) = Rules::read([Source::new(file, rules)]) {
        panic!("{file} gave rules that are not valid:\n{found}");
    }
}

#[test]
fn nginx() {
    golden("nginx", "nginx/basic.conf", 1);
    golden("nginx", "nginx/exact.conf", 0);
    golden("nginx", "nginx/servers.conf", 1);
    golden("nginx", "nginx/many.conf", 1);
}

#[test]
fn envoy() {
    golden("envoy", "envoy/tree.yaml", 1);
    golden("envoy", "envoy/short.yaml", 0);
}

#[test]
fn limitador() {
    golden("limitador", "limitador/limits.yaml", 0);
    golden("limitador", "limitador/left_out.yaml", 1);
}

#[test]
fn kong() {
    golden("kong", "kong/shop.yaml", 1);
    golden("kong", "kong/global.yaml", 0);
}

#[test]
fn json_output_has_rules_and_findings() {
    let output = import(&["envoy", "envoy/tree.yaml", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = std::fs::read_to_string(folder().join("envoy/tree.rules.yaml")).unwrap();
    assert_eq!(answer["rules"], rules.as_str());
    let findings = answer["findings"].as_array().unwrap();
    let is_wanted = |finding: &serde_json::Value| {
        finding["effect"] == "more_permissive" && finding["line"] == 42
    };
    assert!(findings.iter().any(is_wanted));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
}

#[test]
fn several_domains_need_a_folder_or_a_choice() {
    let output = import(&["limitador", "limitador/two.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("several domains (a, b)"));

    let output = import(&["limitador", "limitador/two.yaml", "--domain", "b"]);
    assert!(text(&output.stdout).contains("2/min fixed first_hit"));
    assert_eq!(output.status.code(), Some(0));

    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let output = import(&["limitador", "limitador/two.yaml", "--out", path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), ""));
    for (file, limit) in [("a.yaml", "1/min"), ("b.yaml", "2/min")] {
        assert!(std::fs::read_to_string(out.path().join(file)).unwrap().contains(limit));
    }
}

#[test]
fn an_unreadable_file_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (from, path, expected) in [
        ("nginx", file("a.conf", "http {\n  limit_req \"x"), "a.conf:2:"),
        ("envoy", file("b.yaml", "domain: [\n"), "b.yaml:"),
        ("envoy", file("c.yaml", "descriptors: []\n"), "`domain`"),
        ("limitador", file("e.yaml", "limits: { max_value: 1 }\n"), "limits with `max_value`"),
        ("limitador", file("d.yaml", "a: b\n"), "is not a list of limits for Limitador"),
        ("kong", folder.path().join("absent").to_str().unwrap().to_owned(), "absent"),
    ] {
        let output = import(&[from, &path]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_file_of_another_program_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = [
        ("nginx", "nginx", file("a.conf", "http { server { location / { } } }\n")),
        ("envoy", "Envoy's rate limit service", file("b.yaml", "domain: a\ndescriptors: []\n")),
        (
            "limitador",
            "Limitador",
            file("c.yaml", "- { namespace: a, max_value: 1, seconds: 1 }\n"),
        ),
        ("kong", "Kong", file("d.yaml", "_format_version: '3.0'\nplugins: []\n")),
        ("", "tollgate", file("e.yaml", "rules: []\n")),
        ("", "the Envoy proxy", file("f.yaml", "static_resources: {}\n")),
        ("", "Kubernetes", file("g.yaml", "apiVersion: v1\nkind: ConfigMap\n")),
        ("", "empty", file("h.yaml", "\n")),
    ];
    for from in ["nginx", "envoy", "limitador", "kong"] {
        for (own, name, path) in &files {
            let output = import(&[from, path]);
            let stderr = text(&output.stderr);
            match from == *own {
                true => assert_eq!(output.status.code(), Some(0), "{from} {path}: {stderr}"),
                false => {
                    let ended = (output.status.code(), output.stdout.len());
                    assert_eq!(ended, (Some(2), 0), "{from} {path}: {stderr}");
                    assert!(stderr.contains(name), "{from} {path}: {stderr}");
                }
            }
        }
    }
}

#[test]
fn findings_are_comments_at_their_place() {
    let output = import(&["nginx", "nginx/basic.conf"]);
    let rules = text(&output.stdout);
    let zone = "nginx/basic.conf:2: limit_req_zone $binary_remote_addr zone=perip:10m rate=10r/s";
    let finding = "MORE PERMISSIVE: the zone \"perip\" is used with different bursts";
    let at = rules.find(finding).expect("the finding is in the rules");
    assert!(rules[..at].rfind(zone).is_some_and(|zone| at - zone < 200), "{rules}");
}

#[test]
fn a_file_that_includes_itself_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loop.conf");
    std::fs::write(&path, "include loop.conf;\n").unwrap();
    let output = import(&["nginx", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nested too deeply"));
}
