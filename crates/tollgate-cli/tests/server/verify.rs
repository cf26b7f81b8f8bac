//! `tollgate verify`: the guarantees of the built binary, and of binaries with faults.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tollgate_rig::Redis;

use crate::process::{command, until};

/// Returns `tollgate verify` with its temporary files in a folder.
fn verify(folder: &TempDir, args: &[&str]) -> Command {
    let args = [&["verify", "--json"], args].concat();
    let mut command = command(folder.path(), &args);
    let temporary = folder.path().join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    command.env("TMPDIR", temporary);
    command
}

/// Runs a command; returns its exit code, its JSON and its standard error.
fn run(mut command: Command) -> (i32, Value, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}\n{error}"));
    (output.status.code().unwrap_or(-1), report, error)
}

/// Checks that nothing is left of a run: no file, and no process in its folder.
fn assert_nothing_is_left(folder: &TempDir) {
    let temporary = folder.path().join("tmp");
    until("end of all processes", || processes_in(&temporary) == 0);
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn processes_in(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let folders = processes.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
    folders.filter(|working| working.starts_with(folder)).count()
}

fn check_result<'r>(report: &'r Value, check: &str) -> &'r Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|one| one["name"] == check).unwrap_or_else(|| panic!("{check}: {report}"))
}

#[test]
fn all_guarantees_hold_and_nothing_is_left() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let args = ["--quick", "--store", &redis.url(), "--report", "report.md"];
    let (code, report, error) = run(verify(&folder, &args));
    assert_eq!((code, &*error), (0, ""), "{report:#}");
    let checks = report["checks"].as_array().unwrap();
    assert_eq!((checks.len(), &report["holds"]), (10, &Value::from(10)), "{report:#}");
    let mut guarantees: Vec<u64> = Vec::new();
    let page = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    for check in checks {
        guarantees.extend(check["guarantees"].as_array().unwrap().iter().flat_map(Value::as_u64));
        let measurements = check["measurements"].as_array().unwrap();
        assert!(!measurements.is_empty(), "{check}");
        for measured in measurements {
            assert!(measured["figure"].is_u64() && measured["bound"]["value"].is_u64(), "{check}");
            assert!(page.contains(measured["subject"].as_str().unwrap()), "{page}");
        }
    }
    guarantees.sort_unstable();
    guarantees.dedup();
    assert_eq!(guarantees, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_nothing_is_left(&folder);
    let count = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*')) do \
                 if redis.call('PTTL', key) == -1 then n = n + 1 end end return n";
    assert_eq!(redis.command(&["EVAL", count, "0"]).unwrap().int(), Some(0), "keys without an end");
}

/// A binary that writes no snapshots in time and waits too long for its store.
#[test]
fn a_server_that_breaks_its_guarantees_is_found() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let (mutant, binary) = (folder.path().join("mutant"), env!("CARGO_BIN_EXE_tollgate"));
    let script = format!(
        "#!/bin/sh\nfor word; do shift; case $word in 500ms) word=1h;; 400ms) word=2s;; esac\n\
         set -- \"$@\" \"$word\"; done\nexec '{binary}' \"$@\"\n"
    );
    std::fs::write(&mutant, script).unwrap();
    std::fs::set_permissions(&mutant, PermissionsExt::from_mode(0o755)).unwrap();
    let args = ["--quick", "--only", "crash", "--only", "store-faults", "--program", "mutant"];
    let (code, report, _) = run(verify(&folder, &[&args[..], &["--store", &redis.url()]].concat()));
    assert_eq!(code, 1, "{report:#}");
    for check in ["crash", "store-faults"] {
        let check = check_result(&report, check);
        assert_eq!(check["state"], "broken", "{check:#}");
        // The longest time that is lost, and the slowest call.
        assert_eq!(check["measurements"][0]["holds"], false, "{check:#}");
    }
    assert_nothing_is_left(&folder);
}

#[test]
fn a_check_that_cannot_run_is_skipped_and_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (code, report, error) = run(verify(&folder, &["--only", "store-faults"]));
    assert_eq!((code, &report["skipped"]), (2, &Value::from(1)), "{report:#}");
    let note = check_result(&report, "store-faults")["note"].as_str().unwrap();
    assert!(note.contains("--store redis://"), "{note}");
    assert!(error.contains("nothing is verified"), "{error}");
    let few_files = "ulimit -n 300; exec \"$0\" verify --json --only hostile-input";
    let mut shell = Command::new("sh");
    shell.args(["-c", few_files, env!("CARGO_BIN_EXE_tollgate")]);
    let (code, report, _) = run(shell);
    let note = check_result(&report, "hostile-input")["note"].as_str().unwrap();
    assert!(code == 2 && note.contains("the limit is 300: run `ulimit -n 1024`"), "{note}");
    let (code, report, _) =
        run(verify(&folder, &["--only", "crash", "--program", "/no/such/program"]));
    assert_eq!(
        (code, &check_result(&report, "crash")["state"]),
        (2, &Value::from("error")),
        "{report:#}"
    );
    let (code, report, _) =
        run(verify(&folder, &["--only", "store-faults", "--store", "rediss://:secret@x"]));
    let note = check_result(&report, "store-faults")["note"].as_str().unwrap();
    assert!(code == 2 && note.contains("without TLS") && !note.contains("secret"), "{note}");
}

#[test]
fn a_signal_ends_all_servers_and_removes_all_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = verify(&folder, &["--only", "crash"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("server of a check", || processes_in(&folder.path().join("tmp")) > 0);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut status = None;
    until("its end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(2));
    assert_nothing_is_left(&folder);
}
