//! Settings: flags take precedence over variables, those over the file; errors have a reason.

use std::path::Path;

use crate::process::{Server, command, until};
use crate::support::folder;

/// Runs `tollgate serve --check`, which prints errors.
fn check(folder: &Path, env: &[(&str, &str)], more: &[&str]) -> (i32, String) {
    let args: Vec<&str> = ["serve", "--check"].iter().chain(more).copied().collect();
    let output = command(folder, &args).envs(env.iter().copied()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap_or(-1), text)
}

#[test]
fn every_kind_of_error_in_the_file_has_its_line() {
    let cases = [
        (
            "http = 8080",
            "tollgate.toml:1: http: \"8080\" is no address; write 127.0.0.1:8080, :8080, [::1]:8080 or unix:/path/to/socket, or off",
        ),
        ("\nhtpt = \"127.0.0.1:1\"", "tollgate.toml:2: unknown key `htpt`; did you mean `http`?"),
        (
            "[bounds]\nbdoy = 1",
            "tollgate.toml:2: unknown key `bounds_bdoy`; did you mean `bounds_body`?",
        ),
        (
            "colour = 1",
            "tollgate.toml:1: unknown key `colour`; see tollgate serve --help: every flag is a key",
        ),
        (
            "[bounds]\n# why\nbody = 0",
            "tollgate.toml:3: bounds_body: write a whole number from 1, such as 5000, 100k, 16M or 64KiB",
        ),
        (
            "max_memory = \"1MiB\"",
            "tollgate.toml:1: max_memory: write a size of at least 16MiB, such as 512MiB or 2GiB",
        ),
        (
            "[bounds]\nidle_timeout = 5",
            "tollgate.toml:2: bounds_idle_timeout: write a length of time with its unit, such as 10s, 500ms or 2min",
        ),
        (
            "log_denied = 1.5",
            "tollgate.toml:1: log_denied: write a share from 0 (none) to 1 (all), such as 0.01",
        ),
        (
            "headers = \"draft-7\"",
            "tollgate.toml:1: headers: write one of draft-10, draft-8, draft-6, legacy, envoy-03, none",
        ),
        ("json = \"yes\"", "tollgate.toml:1: json: write true or false"),
        (
            "admin = \"off\"",
            "tollgate.toml:1: admin: \"off\" is no address; write 127.0.0.1:8080, :8080, [::1]:8080 or unix:/path/to/socket",
        ),
        (
            "http = [\"a\", \"b\"]",
            "tollgate.toml:1: http: write one value, a number or a text in quotes",
        ),
        (
            "trusted_proxies = [\"10.0.0.0/8\", \"example.com\"]",
            "tollgate.toml:1: trusted_proxies: \"example.com\" is no network; write 10.0.0.0/8 or 192.0.2.1",
        ),
        (
            "store = \"peers\"",
            "tollgate.toml:1: store: the store `peers` is not available in this version; write memory or redis://host:6379",
        ),
        (
            "store = \"disk\"",
            "tollgate.toml:1: store: there is no such store; write memory or redis://host:6379",
        ),
        (
            "store = [\"redis://one\", \"redis://user:guess-me@two/three\"]",
            "tollgate.toml:1: store: redis://***@two/three: \"three\" is not a database: write a number such as 0",
        ),
        (
            "log_level = \"loud\"",
            "tollgate.toml:1: log_level: write error, warn, info, debug or trace, or as tollgate=debug,warn",
        ),
        (
            "rules_token = \"short\"",
            "tollgate.toml:1: rules_token: a token needs at least 16 characters",
        ),
        (
            "config = \"other.toml\"",
            "tollgate.toml:1: unknown key `config`; see tollgate serve --help: every flag is a key",
        ),
    ];
    for (text, expected) in cases {
        let folder = folder(&[("tollgate.toml", text)]);
        let (code, message) = check(folder.path(), &[], &[]);
        assert_eq!((code, message.as_str()), (2, &*format!("error: {expected}\n")), "{text}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let folder = folder(&[("tollgate.toml", "http = 1\n[drain]\nnotice = \"soon\"\n")]);
    let (code, message) = check(folder.path(), &[], &[]);
    assert_eq!(code, 2);
    assert!(message.contains("tollgate.toml:1: http: "), "{message}");
    assert!(message.contains("tollgate.toml:3: drain_notice: "), "{message}");
}

#[test]
fn errors_of_several_settings_are_reported() {
    let folder = folder(&[
        ("broken.toml", "http = \n"),
        ("rules.yaml", "rules: [{ nmae: x }]"),
        ("weak", "ann:short"),
    ]);
    for (args, expected) in [
        (&["--config", "none.toml"][..], "cannot read the settings none.toml"),
        (&["--config", "broken.toml"], "broken.toml:1: "),
        (&["--rules", "none.yaml"], "none.yaml"),
        (&["--rules", "rules.yaml"], "nmae"),
        (&["--rules", "ftp://x/y"], "--rules: ftp://x/y: a URL begins with http:// or https://"),
        (
            &["--data-tokens", "weak"],
            "cannot use the tokens in weak: token 1: a token needs at least 16",
        ),
        (&["--admin-tokens", "none"], "cannot use the tokens in none"),
        (&["--tls-cert", "c.pem"], "--tls-cert needs --tls-key: give the private key too"),
        (&["--grpc-tls-key", "k.pem"], "--grpc-tls-key needs --grpc-tls-cert"),
        (
            &["--tls-client-ca", "ca.pem"],
            "--tls-client-ca needs TLS: give --tls-cert and --tls-key",
        ),
        (&["--tls-cert", "c.pem", "--tls-key", "k.pem"], "c.pem: "),
        (&["--otlp", "127.0.0.1:4317"], "--otlp: 127.0.0.1:4317: "),
        (&["--store", "memory", "--store", "redis://a"], "in memory or in Redis, not in both"),
        (&["--store", "redis://a redis://a"], "--store: two groups are called"),
        (&["--store-prefix", "shop"], "--store-prefix has no effect on the memory store"),
        (
            &["--store", "redis://a", "--store-prefix", "a b"],
            "--store-prefix: the prefix \"a b\" has a space in it: write letters",
        ),
        (
            &["--store", "redis://a", "--store-timeout", "2min"],
            "--store-timeout: the time-out is 120s: write one between 1 ms and 60 s",
        ),
        (
            &["--store", "redis://a", "--store-password-file", "none"],
            "--store-password-file: cannot read none",
        ),
        (
            &["--store", "redis://a", "--store-cert", "c.pem"],
            "--store-cert needs --store-key: give both",
        ),
        (&["--threads", "0"], "'--threads <N>': write a whole number from 1"),
        (&["--http", "example"], "is no address; write 127.0.0.1:8080"),
    ] {
        let (code, message) = check(folder.path(), &[], args);
        assert_eq!(code, 2, "{args:?}: {message}");
        assert!(message.contains("error: ") && message.contains(expected), "{args:?}: {message}");
    }
    let (code, message) = check(folder.path(), &[("TOLLGATE_HTTP", "x")], &[]);
    assert!(code == 2 && message.contains("is no address"), "{message}");
}

/// Any text about a store may contain a password.
#[test]
fn the_password_of_a_store_is_never_printed() {
    let folder = folder(&[("password", "guess-me\n")]);
    let file = ["--store-password-file", "password"];
    for (env, args) in [
        (None, &["--store", "redis://user:guess-me@host:port"][..]),
        (None, &["--store", "guess-me"]),
        (None, &["--store", "redis//user:guess-me@host"]),
        (None, &["--store", "disk://user:guess-me@host"]),
        (Some(("TOLLGATE_STORE", "redis+cluster://:guess-me@host/7")), &[]),
        (Some(("TOLLGATE_STORE", "redis://:guess-me@host")), &["--store-prefix", "{}"]),
        (Some(("TOLLGATE_STORE_PASSWORD", "guess-me")), &["--store", "redis://a redis://a"]),
        (Some(("TOLLGATE_STORE_PASSWORD", "guess-me")), &["--help"]),
        (Some(("TOLLGATE_STORE", "redis://:guess-me@host")), &["--help"]),
        (None, &["--store", "redis://a", "--store-prefix", "", file[0], file[1]]),
    ] {
        let (code, message) = check(folder.path(), env.as_slice(), args);
        assert_eq!(code, if args == ["--help"] { 0 } else { 2 }, "{args:?}: {message}");
        assert!(!message.contains("guess-me"), "{args:?}: {message}");
    }
}

#[test]
fn valid_settings_are_confirmed_without_a_start() {
    let folder = folder(&[
        ("tollgate.toml", "rules = \"rules.yaml\"\nhttp = \"127.0.0.1:1\"\nthreads = 0x1\n"),
        ("rules.yaml", "rules: [{ name: all, limit: 1/s }]"),
    ]);
    let (code, message) = check(folder.path(), &[], &[]);
    let expected = "settings, rules, tokens and certificates are valid\n";
    assert_eq!((code, message.as_str()), (0, expected));
    assert!(!folder.path().join("tollgate-data").exists());
}

#[test]
fn flags_beat_variables_beat_the_file() {
    let text = "http = \"unix:file.sock\"\ngrpc = \"unix:file.sock\"\nresp = \"off\"\n\
                data = \"kept\"\njson = true\n[drain]\nnotice = 0\n";
    let folder = folder(&[("tollgate.toml", text)]);
    let mut command = command(folder.path(), &["serve", "--http", "unix:flag.sock"]);
    command.env("TOLLGATE_HTTP", "unix:variable.sock").env("TOLLGATE_GRPC", "unix:variable.sock");
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut server = Server { child, start_output: serde_json::Value::Null, folder };
    until("doors", || server.path("flag.sock").exists() && server.path("variable.sock").exists());
    assert!(!server.path("file.sock").exists());
    server.signal("-TERM");
    assert_eq!(server.wait().code(), Some(0));
    let message = std::io::read_to_string(server.child.stdout.take().unwrap()).unwrap();
    let start_output: serde_json::Value = serde_json::from_str(&message).unwrap();
    assert_eq!(start_output["grpc"], "unix:variable.sock");
    assert_eq!(
        (&start_output["resp"], &start_output["data"]),
        (&serde_json::Value::Null, &"kept".into())
    );
}

/// Variables of flags that belong to one call, and those that Kubernetes sets for a service called
/// tollgate, are none of the server's.
#[test]
fn stray_variables_do_not_prevent_a_start() {
    let folder = folder(&[]);
    let stray = [
        ("TOLLGATE_CHECK", "1"),
        ("TOLLGATE_COST", "x"),
        ("TOLLGATE_KEY", "x"),
        ("TOLLGATE_LIMIT", "x"),
        ("TOLLGATE_READY", "x"),
        ("TOLLGATE_DRY_RUN", "x"),
        ("TOLLGATE_DOMAIN", "x"),
        ("TOLLGATE_BY", "x"),
        ("TOLLGATE_PORT", "tcp://10.0.0.1:8080"),
        ("TOLLGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TOLLGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ("TOLLGATE_SERVICE_PORT", "8080"),
        ("TOLLGATE_SERVICE_PORT_HTTP", "8080"),
    ];
    let args = ["serve", "--json", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
    let mut command = command(folder.path(), &args);
    let server = Server::spawn(
        {
            command.envs(stray);
            command
        },
        folder,
    );
    let (code, message) = server.run(&["check", "--ready"]);
    assert_eq!(code, 0, "{message}");
}
