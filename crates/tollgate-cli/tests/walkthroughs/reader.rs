//! Runs the steps of a page: in bash, in an empty folder, with `tollgate` on the path.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tollgate_rig::Port;

use crate::page::{Page, PageStep};
use crate::printed::agrees;

/// The ports in pages: a service, the gateway, the HTTP door. Each test replaces them.
const SERVICE: u16 = 3000;
const GATEWAY: u16 = 8000;
const HTTP: u16 = 8080;

/// The time limit of a page in seconds.
const PATIENCE: &str = "120";

/// Free ports that replace those in pages.
struct Ports([(u16, Port); 3]);

impl Ports {
    fn free() -> Ports {
        Ports([SERVICE, GATEWAY, HTTP].map(|written| (written, Port::free())))
    }

    fn of(&self, written: u16) -> u16 {
        let found = self.0.iter().find(|(port, _)| *port == written);
        found.expect("it is one of those").1.number()
    }

    /// Replaces the ports of a text, where they are whole numbers.
    fn put_into(&self, text: &str) -> String {
        let mut result = String::new();
        for part in text.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
            let number = part.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            let known = self.0.iter().find(|(port, _)| number.parse() == Ok(*port));
            match known {
                Some((_, port)) => {
                    let _ = write!(result, "{}{}", port.number(), &part[number.len()..]);
                }
                None => result += part,
            }
        }
        result
    }
}

/// Runs the steps of a page, and compares the output.
pub(crate) fn follow(page: &Page) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in page.files() {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let ports = Ports::free();
    let steps = page.steps();
    // The script is outside the working folder, which belongs to the reader.
    let notes = tempfile::tempdir().unwrap();
    let script = script(&steps, &ports, notes.path());
    let ended = bash(&script, folder.path(), &ports);
    let message = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    let mut wrong = String::new();
    for (index, step) in steps.iter().enumerate() {
        let PageStep::Command { typed, printed } = step else { continue };
        let shown: Vec<String> = printed.iter().map(|line| ports.put_into(line)).collect();
        let seen = std::fs::read(notes.path().join(index.to_string())).unwrap_or_default();
        let seen = String::from_utf8_lossy(&seen);
        let lines: Vec<&str> = seen.lines().map(str::trim_end).collect();
        if !agrees(&shown, &lines) {
            let shown = shown.join("\n");
            wrong += &format!("$ {typed}\n--- the page says\n{shown}\n--- printed\n{seen}\n");
        }
    }
    assert!(wrong.is_empty(), "{}\n{wrong}--- besides\n{message}", page.name);
    assert!(ended.status.success(), "{}: {}\n{message}", page.name, ended.status);
}

/// Returns the steps as a bash script. The output of a step goes to a file with its number.
fn script(steps: &[PageStep], ports: &Ports, notes: &Path) -> String {
    // The servers are killed, because a drain would take time.
    let mut script = String::from("trap 'kill -9 $(jobs -p)' EXIT\n");
    for (index, step) in steps.iter().enumerate() {
        match step {
            PageStep::Paste(text) => {
                script += &ports.put_into(text);
                script += &await_servers(text, ports);
            }
            PageStep::Command { typed, .. } => {
                let typed = ports.put_into(typed);
                let note = notes.join(index.to_string());
                let _ = writeln!(script, "{{\n{typed}\n}} > '{}' 2>&1", note.display());
            }
        }
    }
    script + "exit 0\n"
}

/// Waits until the servers that were started respond.
fn await_servers(text: &str, ports: &Ports) -> String {
    let serves = text.contains("tollgate serve ") || text.contains("tollgate gateway ");
    let started = [
        (SERVICE, text.contains(&SERVICE.to_string())),
        (GATEWAY, text.contains(" --to ")),
        (HTTP, serves),
    ];
    let started = started.into_iter().filter(|(_, is_so)| *is_so);
    let wait = |port| {
        format!("until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.05; done\n")
    };
    started.map(|(port, _)| wait(ports.of(port))).collect()
}

fn bash(script: &str, folder: &Path, ports: &Ports) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [program.to_owned()].into_iter().chain(std::env::split_paths(&path));
    let mut command = Command::new("timeout");
    command.args([PATIENCE, "bash", "-c", script]).current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    let http = format!("127.0.0.1:{}", ports.of(HTTP));
    command.env("PATH", std::env::join_paths(path).unwrap());
    command.env("TOLLGATE_HTTP", &http).env("TOLLGATE_SERVER", format!("http://{http}"));
    command.env("TOLLGATE_GRPC", "off").env("TOLLGATE_RESP", "off");
    if script.contains(" --to ") {
        command.env("TOLLGATE_LISTEN", format!("127.0.0.1:{}", ports.of(GATEWAY)));
    }
    command.env("LC_ALL", "C.UTF-8").env("no_proxy", "*").env_remove("STATE_DIRECTORY");
    command.output().unwrap()
}

#[test]
fn a_port_is_a_number_of_its_own() {
    let ports = Ports::free();
    let (service, http) = (ports.of(SERVICE), ports.of(HTTP));
    let text = "localhost:3000, 8080 and 30000, 13000 or 8080";
    let expected = format!("localhost:{service}, {http} and 30000, 13000 or {http}");
    assert_eq!(ports.put_into(text), expected);
}

#[test]
#[should_panic(expected = "the page says\ntwo")]
fn a_page_that_says_something_else_is_found_out() {
    follow(&Page::read("a page", "```console\n$ echo one\none\n$ echo one\ntwo\n```\n"));
}
