//! `tollgate init`: the starter file, and existing files.

mod support;

use support::{folder, json, path, tollgate};

#[test]
fn the_starter_works_as_it_is() {
    let folder = folder(&[]);
    let file = path(&folder, "shop rules.yaml");
    let run = tollgate(&["init", &file], "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with(&format!("Wrote {file}.")), "{}", run.stdout);
    let program = env!("CARGO_BIN_EXE_tollgate");
    assert!(run.stdout.contains(&format!("\n  {program} test '{file}'\n")), "{}", run.stdout);
    for args in [
        &["validate", "--strict", &file][..],
        &["test", &file],
        &["explain", &file, "POST", "/login", "ip=203.0.113.7"],
    ] {
        let run = tollgate(args, "");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
    }
}

#[test]
fn a_file_is_overwritten_only_with_force() {
    let folder = folder(&[("tollgate.yaml", "mine")]);
    let file = path(&folder, "tollgate.yaml");
    let run = tollgate(&["init", &file], "");
    let expected = format!(
        "error: {file} is there already: name another file, or overwrite it with --force\n"
    );
    assert_eq!((run.code, run.stderr), (2, expected));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let (code, written) = json(&["init", &file, "--force", "--json"], "");
    assert_eq!((code, &written["file"]), (0, &serde_json::json!(file)));
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written["bytes"], text.len());
    assert_eq!(tollgate(&["init", "-"], "").stdout, text);
}

#[test]
fn a_path_that_cannot_be_written_is_an_error() {
    let run = tollgate(&["init", "no/such/folder/tollgate.yaml"], "");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.starts_with("error: cannot write no/such/folder/tollgate.yaml: "),
        "{}",
        run.stderr
    );
}
