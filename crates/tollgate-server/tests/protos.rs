//! What is generated from `proto/` is what `proto/` says. Checked in, because users should neither
//! need `protoc` nor wait for a build script; `TOLLGATE_WRITE_PROTOS=1 cargo test --test protos`
//! writes it anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost_build::Config;

const FILE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn folder(inside: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(inside)
}

/// Files are compared as bytes; a difference is mended by writing them anew.
fn check(name: &str, generated: &[u8]) {
    let path = folder("src/doors/grpc/proto").join(name);
    if std::env::var_os("TOLLGATE_WRITE_PROTOS").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    let hint = "run TOLLGATE_WRITE_PROTOS=1 cargo test -p tollgate-server --test protos";
    assert!(kept == generated, "{name} is not what proto/ says: {hint}");
}

#[test]
fn what_is_generated_is_what_is_written() {
    let descriptors = protox::compile([FILE], [folder("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let includes = "mod.rs";
    Config::new()
        .out_dir(out.path())
        .include_file(includes)
        .disable_comments(["."])
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
            None => writeln!(all, "{line}").unwrap(),
        }
    }
    check("mod.rs", all.as_bytes());
    check("descriptors.bin", &prost::Message::encode_to_vec(&descriptors));
}
