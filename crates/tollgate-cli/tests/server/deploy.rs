//! The files under `deploy/` match the program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::command;
use crate::support::folder;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Returns the settings file with every key set.
fn uncommented() -> String {
    let text = std::fs::read_to_string(deploy("tollgate.toml")).unwrap();
    let is_key = |line: &str| {
        let name = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let lines = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(key) if is_key(key) => key,
        _ => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns every flag of `tollgate serve` as a key.
fn flags() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let help = command(folder.path(), &["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.split("\nOptions:").nth(1).unwrap();
    let lines = options.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let names = lines.map(|line| line.split([' ', '<', '[']).next().unwrap().replace('-', "_"));
    names.filter(|name| name != "config" && name != "check").collect()
}

#[test]
fn the_settings_file_has_every_key_and_no_other() {
    let mut section = String::new();
    let mut keys = BTreeSet::new();
    for line in uncommented().lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = format!("{}_", name.trim_end_matches(']'));
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.insert(format!("{section}{key}"));
        }
    }
    assert_eq!(keys, flags());
}

#[test]
fn the_values_of_the_settings_file_are_valid() {
    let as_written = std::fs::read_to_string(deploy("tollgate.toml")).unwrap();
    let folder = folder(&[("tollgate.toml", &as_written), ("all.toml", &uncommented())]);
    let run = |more: &[&str]| {
        let args = [&["serve", "--check"], more].concat();
        let output = command(folder.path(), &args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&[]), (Some(0), String::new()));
    // The paths in the file do not exist, but all keys are read before that is an error.
    let (code, message) = run(&["--config", "all.toml"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("/etc/tollgate/") && !message.contains("all.toml:"), "{message}");
}

#[test]
fn envoy_accepts_the_example() {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components");
    let components = std::env::var_os("TOLLGATE_COMPONENTS").map_or(default, PathBuf::from);
    assert!(components.is_dir(), "run cargo xtask components");
    let mut envoy = Command::new(components.join("servers/bin/envoy"));
    let output = envoy.arg("-c").arg(deploy("envoy.yaml")).args(["--mode", "validate"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The systemd unit and the image run commands that exist.
#[test]
fn the_unit_and_the_image_call_commands_that_exist() {
    let unit = std::fs::read_to_string(deploy("tollgate.service")).unwrap();
    assert!(unit.contains("\nExecStart=/usr/local/bin/tollgate serve\n"));
    let image = std::fs::read_to_string(deploy("Dockerfile")).unwrap();
    assert!(image.contains(r#"CMD ["/usr/local/bin/tollgate", "check", "--ready"]"#));
    let variables = image.split("TOLLGATE_").skip(1).map(|rest| rest.split('=').next().unwrap());
    let known = flags();
    for variable in variables {
        assert!(known.contains(&variable.to_lowercase()), "{variable}");
    }
}
