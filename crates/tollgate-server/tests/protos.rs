//! The code generated from `proto/` is up to date.
//!
//! The generated code is checked in, so that users neither need `protoc` nor wait for a build script.
//! `TOLLGATE_WRITE_PROTOS=1 cargo test --test protos` generates it again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost_build::Config;

const FILE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The messages of requests: the door reads them by hand, so only tests need generated code.
const REQUEST_MODULES: [&str; 2] = ["pub mod extensions {", "pub mod r#type {"];
const REQUEST_MESSAGE: &str = ".envoy.service.ratelimit.v3.RateLimitRequest";

/// Compares a generated file with the one that is checked in.
fn check(name: &str, generated: &[u8]) {
    let path = folder("src/doors/grpc/proto").join(name);
    if std::env::var_os("TOLLGATE_WRITE_PROTOS").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let checked_in = std::fs::read(&path).unwrap_or_default();
    let hint = "run TOLLGATE_WRITE_PROTOS=1 cargo test -p tollgate-server --test protos";
    assert!(checked_in == generated, "{name} is out of date: {hint}");
}

#[test]
fn generated_code_is_up_to_date() {
    let descriptors = protox::compile([FILE], [folder("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let includes = "mod.rs";
    Config::new()
        .out_dir(out.path())
        .include_file(includes)
        .disable_comments(["."])
        .type_attribute(REQUEST_MESSAGE, "#[cfg(test)]")
        .compile_fds(descriptors.clone())
        .unwrap();
    let mut all = String::from(
        "//! Envoy's messages. Generated from `proto/` by `tests/protos.rs`: do not edit.\n\n",
    );
    let tree = std::fs::read_to_string(out.path().join(includes)).unwrap();
    for line in tree.lines() {
        match line.split_once("include!(\"").and_then(|(_, rest)| rest.split_once('"')) {
            Some((file, _)) => all += &std::fs::read_to_string(out.path().join(file)).unwrap(),
            None if line.starts_with("//") || line.starts_with("#") => {}
            None => {
                if REQUEST_MODULES.contains(&line.trim_start()) {
                    writeln!(all, "#[cfg(test)]").unwrap();
                }
                writeln!(all, "{line}").unwrap();
            }
        }
    }
    check("mod.rs", all.as_bytes());
    check("descriptors.bin", &prost::Message::encode_to_vec(&descriptors));
}
