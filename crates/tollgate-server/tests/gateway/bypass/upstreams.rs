//! Real servers with small applications that report how they read a request.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::{Program, components, free_port};

/// A real server on a free port; it stops when dropped.
pub(super) struct RealUpstream {
    pub(super) address: SocketAddr,
    _program: Program,
    _folder: tempfile::TempDir,
}

impl RealUpstream {
    fn start(command: impl FnOnce(u16, &Path) -> Command) -> RealUpstream {
        let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(address.port(), folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        RealUpstream { address, _program: Program::start(&mut command, address), _folder: folder }
    }
}

/// Starts Express.
pub(super) fn express() -> RealUpstream {
    RealUpstream::start(|port, _| {
        let mut command = Command::new("node");
        command.arg(file("express.js")).arg(port.to_string());
        command.env("NODE_PATH", components().join("express/node_modules"));
        command
    })
}

/// Starts Flask on the server of Werkzeug.
pub(super) fn wsgi() -> RealUpstream {
    RealUpstream::start(|port, _| {
        let mut command = Command::new(components().join("wsgi/bin/python"));
        command.arg(file("wsgi.py")).arg(port.to_string());
        command
    })
}

/// Starts the server that is built into PHP.
pub(super) fn php() -> RealUpstream {
    RealUpstream::start(|port, _| {
        let mut command = Command::new("php");
        command.arg("-S").arg(format!("127.0.0.1:{port}")).arg(file("php.php"));
        command
    })
}

/// Starts Tomcat.
pub(super) fn tomcat() -> RealUpstream {
    RealUpstream::start(|port, folder| {
        for name in ["conf", "app/WEB-INF", "apps", "temp"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        for (name, to) in [
            ("server.xml", "conf/server.xml"),
            ("base-web.xml", "conf/web.xml"),
            ("web.xml", "app/WEB-INF/web.xml"),
            ("report.jsp", "app/report.jsp"),
        ] {
            let text = std::fs::read_to_string(file("tomcat").join(name)).unwrap();
            let text = text.replace("{port}", &port.to_string());
            std::fs::write(folder.join(to), text.replace("{folder}", folder.to_str().unwrap()))
                .unwrap();
        }
        let home = Path::new("/usr/share/tomcat10");
        let jars = ["bootstrap.jar", "tomcat-juli.jar"].map(|jar| home.join("bin").join(jar));
        let mut command = Command::new("java");
        command.arg("-XX:TieredStopAtLevel=1");
        command.arg(format!("-Dcatalina.home={}", home.display()));
        command.arg(format!("-Dcatalina.base={}", folder.display()));
        command.arg(format!("-Djava.io.tmpdir={}", folder.join("temp").display()));
        command.arg("-cp").arg(std::env::join_paths(jars).unwrap());
        command.args(["org.apache.catalina.startup.Bootstrap", "start"]);
        command
    })
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/upstreams").join(name)
}
