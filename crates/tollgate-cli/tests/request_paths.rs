//! ARCHITECTURE.md lists the files that a request passes through. This test runs the real binary
//! under callgrind, sends one request of each kind, and compares the files that ran with the list.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_tollgate");

/// A file with a larger share of the instructions of our own code must be in the list.
const MUST_LIST_PERCENT: u64 = 5;

/// A server under callgrind, which counts only while counting is switched on.
struct ProfiledServer {
    child: Child,
    addresses: Value,
    folder: TempDir,
}

impl ProfiledServer {
    fn start(upstream: &str) -> ProfiledServer {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--instr-atstart=no", "--dump-instr=yes"]);
        command.args(["--compress-pos=no", "--compress-strings=no"]);
        command.arg(format!("--callgrind-out-file={}", out.display()));
        command.args([BINARY, "serve", "--json", "--to", upstream]);
        for door in ["--http", "--resp", "--listen"] {
            command.args([door, "127.0.0.1:0"]);
        }
        // Snapshots are written by a thread of their own, whatever the requests are.
        command.args(["--grpc", "off", "--snapshot", "off"]).current_dir(folder.path());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("valgrind runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = || fs::read_to_string(folder.path().join("log")).unwrap();
        let addresses = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}{}", log()));
        ProfiledServer { child, addresses, folder }
    }

    fn connect(&self, door: &str) -> TcpStream {
        let address = self.addresses[door].as_str().expect("the door is open");
        TcpStream::connect(address.rsplit("//").next().unwrap()).unwrap()
    }

    fn control(&self, command: &[&str]) {
        let pid = self.child.id().to_string();
        let output = Command::new("callgrind_control").args(command).arg(pid).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// The files of our crates that run between a request and its answer, each with the number of
    /// instructions, inlined code counted where it is written. `number` counts the calls.
    fn files_of(&self, number: usize, door: &str, request: &str) -> BTreeMap<String, u64> {
        exchange(&mut self.connect(door), request); // What is done once is not part of the path.
        let mut connection = self.connect(door);
        self.control(&["-i", "on"]);
        exchange(&mut connection, request);
        self.control(&["-i", "off"]);
        self.control(&["-d"]);
        let dump = self.folder.path().join(format!("out.{number}"));
        by_file(&by_address(&fs::read_to_string(dump).unwrap()))
    }
}

impl Drop for ProfiledServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and reads the first part of the answer.
fn exchange(connection: &mut TcpStream, request: &str) {
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    assert!(connection.read(&mut answer).unwrap() > 0, "an answer");
}

/// Instructions per address of our binary in callgrind's format.
fn by_address(dump: &str) -> BTreeMap<String, u64> {
    let mut costs = BTreeMap::new();
    let mut is_ours = false;
    let mut lines = dump.lines();
    while let Some(line) = lines.next() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_ours = object.ends_with("/tollgate");
        } else if line.starts_with("calls=") {
            lines.next(); // The cost of the callee, which has lines of its own.
        } else if is_ours && line.starts_with("0x") {
            let mut fields = line.split(' ');
            let (address, cost) = (fields.next().unwrap(), fields.next_back().unwrap());
            *costs.entry(address.to_owned()).or_insert(0) += cost.parse::<u64>().unwrap();
        }
    }
    costs
}

/// Instructions per source file of our crates.
fn by_file(costs: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("addresses");
    let addresses: Vec<&str> = costs.keys().map(String::as_str).collect();
    fs::write(&list, addresses.join("\n")).unwrap();
    let mut command = Command::new("addr2line");
    command.args(["-a", "-i", "-e", BINARY]).stdin(fs::File::open(&list).unwrap());
    let output = command.output().expect("addr2line runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = BTreeMap::new();
    let mut pending = 0;
    for line in text.lines() {
        if let Some(digits) = line.strip_prefix("0x") {
            let address = format!("0x{}", digits.trim_start_matches('0'));
            pending = costs.get(&address).copied().unwrap_or(0);
        } else if let Some(file) = our_file(line) {
            // The innermost frame of ours; the frames it is inlined into follow.
            *files.entry(file.to_owned()).or_insert(0) += std::mem::take(&mut pending);
        }
    }
    files
}

/// The path of a source file of our crates in a line of `addr2line`. Code without a line of its own
/// is attributed to the root of its crate, which holds no code.
fn our_file(line: &str) -> Option<&str> {
    let path = line.rsplit_once(':')?.0;
    let path = &path[path.find("crates/tollgate")?..];
    (!path.ends_with("/lib.rs") && !path.ends_with("/main.rs")).then_some(path)
}

/// The files that ARCHITECTURE.md lists under a heading.
fn listed(heading: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once(&format!("### {heading}\n")).expect("the heading is there");
    let section = section.split("\n#").next().unwrap();
    let quoted = section.split('`').skip(1).step_by(2);
    let mut folder = "";
    let mut files = Vec::new();
    for name in quoted {
        match name.ends_with('/') {
            true => folder = name,
            false if name.ends_with(".rs") => files.push(format!("crates/{folder}{name}")),
            false => {}
        }
    }
    files
}

fn compare(heading: &str, ran: &BTreeMap<String, u64>) {
    let listed = listed(heading);
    let total: u64 = ran.values().sum();
    println!("{heading}: {} files ran, {} are listed", ran.len(), listed.len());
    for (file, cost) in ran {
        println!("{:5.1} % {file}", *cost as f64 * 100.0 / total as f64);
    }
    let not_run: Vec<_> = listed.iter().filter(|file| !ran.contains_key(*file)).collect();
    assert!(not_run.is_empty(), "{heading}: listed, but nothing in them ran: {not_run:#?}");
    let heavy = ran.iter().filter(|(_, cost)| *cost * 100 >= total * MUST_LIST_PERCENT);
    let missing: Vec<_> = heavy.filter(|(file, _)| !listed.contains(file)).collect();
    assert!(missing.is_empty(), "{heading}: not listed, of {total} instructions: {missing:#?}");
}

#[test]
fn the_files_of_each_kind_of_request_are_listed() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}", upstream.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in upstream.incoming().flatten() {
            std::thread::spawn(move || answer_ok(stream));
        }
    });
    let server = ProfiledServer::start(&to);
    let body = r#"{"attributes":{"route":"POST /login","ip":"203.0.113.7"}}"#;
    let check = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let ran = server.files_of(1, "http", &check);
    compare("`POST /v1/check`", &ran);
    let arguments = ["CL.THROTTLE", "user:42", "15", "30", "60"];
    let arguments = arguments.map(|text| format!("${}\r\n{text}\r\n", text.len()));
    let throttle = format!("*{}\r\n{}", arguments.len(), arguments.concat());
    compare("`CL.THROTTLE`", &server.files_of(2, "resp", &throttle));
    let page = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";
    compare("A request through the gateway", &server.files_of(3, "gateway", page));
}

fn answer_ok(mut stream: TcpStream) {
    let mut request = [0; 4096];
    while matches!(stream.read(&mut request), Ok(read) if read > 0) {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if stream.write_all(answer).is_err() {
            break;
        }
    }
}
