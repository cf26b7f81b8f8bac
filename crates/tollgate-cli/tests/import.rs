//! `tollgate import`: each configuration under `tests/import` gives the rules and the notes beside
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
    let (rules, notes) = (text(&output.stdout), text(&output.stderr));
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    assert_eq!(output.status.code(), Some(code), "{file}: {notes}");
    compare(&format!("{stem}.rules.yaml"), rules);
    compare(&format!("{stem}.notes.txt"), notes);
    if let Err(found) = Rules::read([Source::new(file, rules)]) {
        panic!("{file} gave rules that are not valid:\n{found}");
    }
}

#[test]
fn nginx() {
    golden("nginx", "nginx/basic.conf", 0);
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
    golden("limitador", "limitador/limits.yaml", 1);
}

#[test]
fn kong() {
    golden("kong", "kong/shop.yaml", 1);
    golden("kong", "kong/global.yaml", 0);
}

#[test]
fn json_output_has_rules_and_notes() {
    let output = import(&["envoy", "envoy/tree.yaml", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = std::fs::read_to_string(folder().join("envoy/tree.rules.yaml")).unwrap();
    assert_eq!(answer["rules"], rules.as_str());
    let notes = answer["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note["severity"] == "left_out" && note["line"] == 42));
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
        ("limitador", file("d.yaml", "a: b\n"), "no list of limits"),
        ("kong", folder.path().join("absent").to_str().unwrap().to_owned(), "absent"),
    ] {
        let output = import(&[from, &path]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
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
