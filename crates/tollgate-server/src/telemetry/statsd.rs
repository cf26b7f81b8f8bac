//! Sends the statistics of Envoy's rate limit service to a statsd server.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Weak;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};

use super::Telemetry;
use super::descriptor_stats::StatsdCounter;
use crate::background::{self, BackgroundWorker};

/// The maximum size of a datagram: what fits into a frame of Ethernet.
const MAX_DATAGRAM: usize = 1432;
/// The maximum time to connect and send.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The address of a statsd server: `HOST:PORT` or `tcp://HOST:PORT` over TCP, as Envoy's own rate limit
/// service sends, or `udp://HOST:PORT`.
///
/// ```
/// use tollgate_server::config::StatsdAddress;
/// let address: StatsdAddress = "udp://localhost:8125".parse().unwrap();
/// assert_eq!(address.to_string(), "udp://localhost:8125");
/// assert!("localhost".parse::<StatsdAddress>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdAddress {
    is_udp: bool,
    host_port: String,
}

impl FromStr for StatsdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<StatsdAddress, String> {
        let (is_udp, host_port) = match text.split_once("://") {
            None => (false, text),
            Some(("tcp", rest)) => (false, rest),
            Some(("udp", rest)) => (true, rest),
            // Without a host it is refused below.
            Some(_) => (false, ""),
        };
        let parts = host_port.rsplit_once(':');
        let is_valid = parts.is_some_and(|(host, port)| {
            let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
            is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        match is_valid {
            true => Ok(StatsdAddress { is_udp, host_port: host_port.to_owned() }),
            false => Err(format!(
                "{text:?} is no address of a statsd server; write localhost:8125 or \
                 udp://localhost:8125"
            )),
        }
    }
}

impl fmt::Display for StatsdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_udp { "udp" } else { "tcp" }, self.host_port)
    }
}

/// Sends what counters have gained since the last time.
#[derive(Debug)]
pub(super) struct StatsdExporter {
    address: StatsdAddress,
    /// The values that were sent, by name.
    sent: HashMap<String, u64>,
    connection: Option<TcpStream>,
    /// Whether the last attempt failed, so that a failure is logged once.
    is_failing: bool,
}

impl StatsdExporter {
    pub(super) fn new(address: StatsdAddress) -> StatsdExporter {
        StatsdExporter { address, sent: HashMap::new(), connection: None, is_failing: false }
    }

    /// Sends the gains of all counters. After a failure they are sent again with the next ones.
    async fn export(&mut self, counters: Vec<StatsdCounter>) {
        let gained: Vec<(StatsdCounter, u64)> = counters
            .into_iter()
            .map(|counter| {
                let sent = self.sent.get(&counter.name).copied().unwrap_or_default();
                let gain = counter.value.saturating_sub(sent);
                (counter, gain)
            })
            .filter(|(_, gain)| *gain > 0)
            .collect();
        if gained.is_empty() {
            return;
        }
        let lines: Vec<String> =
            gained.iter().map(|(counter, gain)| format!("{}:{gain}|c\n", counter.name)).collect();
        let result = tokio::time::timeout(SEND_TIMEOUT, self.send(&lines)).await;
        match result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(()) => {
                self.sent.extend(gained.into_iter().map(|(one, _)| (one.name, one.value)));
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(address = %self.address, "the statsd server answers again");
                }
            }
            Err(error) => {
                self.connection = None;
                if !std::mem::replace(&mut self.is_failing, true) {
                    let address = &self.address;
                    tracing::warn!(%address, %error, "cannot send statistics to the statsd server");
                }
            }
        }
    }

    async fn send(&mut self, lines: &[String]) -> io::Result<()> {
        if self.address.is_udp {
            return send_datagrams(&self.address.host_port, lines).await;
        }
        // The server sends nothing: a connection that can be read has been closed.
        let mut byte = [0];
        if self.connection.as_ref().is_some_and(|open| {
            !matches!(open.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        }) {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => closed.insert(TcpStream::connect(&*self.address.host_port).await?),
        };
        connection.write_all(lines.concat().as_bytes()).await
    }
}

/// Sends lines in as few datagrams as they fit into.
async fn send_datagrams(host_port: &str, lines: &[String]) -> io::Result<()> {
    let target = tokio::net::lookup_host(host_port).await?.next();
    let target = target.ok_or_else(|| io::Error::other("the host has no address"))?;
    let local = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(target).await?;
    let mut datagram = String::new();
    for line in lines {
        if !datagram.is_empty() && datagram.len() + line.len() > MAX_DATAGRAM {
            socket.send(datagram.as_bytes()).await?;
            datagram.clear();
        }
        datagram.push_str(line);
    }
    socket.send(datagram.as_bytes()).await.map(|_| ())
}

impl Telemetry {
    /// Sends the statistics of Envoy's rate limit service to the statsd server, if there is one.
    pub(crate) async fn export_statsd(&self) {
        if let Some(exporter) = &self.statsd {
            exporter.lock().await.export(self.statsd_counters()).await;
        }
    }
}

/// Sends the statistics at an interval, as long as the telemetry exists and there is a statsd server.
pub(super) async fn export_at_interval(telemetry: Weak<Telemetry>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let telemetry = telemetry.upgrade().filter(|telemetry| telemetry.statsd.is_some());
        let Some(telemetry) = telemetry else { return };
        background::panic_point(BackgroundWorker::Statsd);
        telemetry.export_statsd().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    fn counters(values: [u64; 2]) -> Vec<StatsdCounter> {
        let names = ["a.total_hits", "a.over_limit"].into_iter().zip(values);
        names.map(|(name, value)| StatsdCounter { name: name.to_owned(), value }).collect()
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, expected) in [
            ("localhost:8125", "tcp://localhost:8125"),
            ("tcp://10.0.0.1:1", "tcp://10.0.0.1:1"),
            ("udp://[::1]:8125", "udp://[::1]:8125"),
        ] {
            assert_eq!(text.parse::<StatsdAddress>().unwrap().to_string(), expected);
        }
        for text in
            ["", ":8125", "localhost", "localhost:0", "localhost:99999", "http://a:1", "a/b:1"]
        {
            assert!(text.parse::<StatsdAddress>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn gains_are_sent_over_one_connection_and_again_after_a_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut exporter = StatsdExporter::new(address.to_string().parse().unwrap());
        exporter.export(counters([5, 0])).await;
        let mut lines = BufReader::new(listener.accept().await.unwrap().0).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "a.total_hits:5|c");
        exporter.export(counters([7, 2])).await;
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "a.total_hits:2|c");
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "a.over_limit:2|c");
        drop((lines, listener));
        // What is written before the end of the connection is noticed is lost, as with any log.
        let mut hits = 7;
        while exporter.connection.is_some() {
            hits += 1;
            exporter.export(counters([hits, 2])).await;
            tokio::task::yield_now().await;
        }
        let listener = TcpListener::bind(address).await.unwrap();
        exporter.export(counters([hits + 1, 2])).await;
        let mut lines = BufReader::new(listener.accept().await.unwrap().0).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "a.total_hits:2|c");
    }

    #[tokio::test]
    async fn datagrams_fit_into_a_frame() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let lines: Vec<String> = (0..100).map(|number| format!("name{number:040}:1|c\n")).collect();
        let target = server.local_addr().unwrap().to_string();
        send_datagrams(&target, &lines).await.unwrap();
        let (mut received, mut datagram) = (String::new(), [0; 65_536]);
        while received.lines().count() < lines.len() {
            let length = server.recv(&mut datagram).await.unwrap();
            assert!(length <= MAX_DATAGRAM);
            received.push_str(std::str::from_utf8(&datagram[..length]).unwrap());
        }
        assert_eq!(received, lines.concat());
    }
}
