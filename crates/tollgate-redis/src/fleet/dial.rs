//! Connecting: reach the server, say who we are, and see whether it is well.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, Value};
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate::{Clock, Time};

use super::link::Link;
use super::reply::{Reply, words};
use crate::options::{Address, Login};
use crate::server_clock::ServerClock;
use crate::trouble::Trouble;

/// How to connect to the servers of a group.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) login: Login,
    pub(super) db: i64,
    pub(super) tls: Option<TlsConnector>,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) clock: Clock,
}

/// What to look at before a server counts as well.
#[derive(Clone, Debug, Default)]
pub(super) struct Examination {
    /// It must be a master.
    pub(super) master: bool,
    /// It must let us write this key.
    pub(super) write: Option<String>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("login", &self.login).finish_non_exhaustive()
    }
}

impl Dialer {
    /// Connects and says who we are.
    pub(super) async fn dial(
        &self,
        address: &Address,
        bell: &Arc<Notify>,
    ) -> Result<Link, Trouble> {
        let server: Arc<str> = address.to_string().into();
        match timeout(self.connect_timeout, self.reach(address, &server, bell)).await {
            Ok(link) => link,
            Err(_) => {
                let why = format!("no connection within {:?}", self.connect_timeout);
                Err(Trouble::unreachable(&server, why))
            }
        }
    }

    async fn reach(
        &self,
        address: &Address,
        server: &Arc<str>,
        bell: &Arc<Notify>,
    ) -> Result<Link, Trouble> {
        let broken = |error: std::io::Error| Trouble::unreachable(server, error);
        let lost = |error: RedisError| Trouble::unreachable(server, error);
        let link = match (address, &self.tls) {
            (Address::Unix(path), _) => {
                Link::new(UnixStream::connect(path).await.map_err(broken)?, bell.clone()).await
            }
            (Address::Tcp { host, port }, tls) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(broken)?;
                stream.set_nodelay(true).map_err(broken)?;
                match tls {
                    None => Link::new(stream, bell.clone()).await,
                    Some(tls) => {
                        let name = ServerName::try_from(host.clone())
                            .map_err(|error| Trouble::unreachable(server, error))?;
                        let stream = tls.connect(name, stream).await.map_err(|error| {
                            Trouble::unreachable(server, format_args!("TLS: {error}"))
                        })?;
                        Link::new(stream, bell.clone()).await
                    }
                }
            }
        };
        let link = link.map_err(lost)?;
        self.introduce(&link, server).await?;
        Ok(link)
    }

    /// Says who we are, in RESP3 if the server speaks it.
    async fn introduce(&self, link: &Link, server: &Arc<str>) -> Result<(), Trouble> {
        let lost = |error: RedisError| Trouble::unreachable(server, error);
        let Login { user, password } = &self.login;
        let mut hello = redis::cmd("HELLO");
        hello.arg(3);
        if let Some(password) = password {
            hello.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(password);
        }
        let mut rest = Pipeline::new();
        match Reply::of(link.send(&hello).await.map_err(lost)?) {
            Reply::Done(_) => {}
            Reply::Failed(why) if why.starts_with("WRONGPASS") || why.starts_with("NOAUTH") => {
                return Err(Trouble::refused(server, why));
            }
            other => {
                tracing::debug!(%server, ?other, "no RESP3, going on with RESP2");
                if let Some(password) = password {
                    rest.cmd("AUTH").arg(user.as_deref()).arg(password);
                }
            }
        }
        if self.db != 0 {
            rest.cmd("SELECT").arg(self.db);
        }
        let needed = rest.len();
        // For those who look at CLIENT LIST; servers before 7.2 do not know it.
        rest.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("tollgate");
        rest.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        let replies = link.send_all(&rest).await.map_err(lost)?;
        for reply in replies.into_iter().take(needed) {
            if let Value::ServerError(error) = reply {
                return Err(Trouble::refused(server, words(&error)));
            }
        }
        Ok(())
    }

    /// Sees whether a server is well, within the time that a command may take.
    pub(super) async fn examine(
        &self,
        link: &Link,
        server: &Arc<str>,
        wanted: &Examination,
        clock: &ServerClock,
    ) -> Result<(), Trouble> {
        let mut questions = Pipeline::new();
        questions.cmd("PING");
        questions.cmd("TIME");
        if wanted.master {
            questions.cmd("ROLE");
        }
        if let Some(key) = &wanted.write {
            questions.cmd("SET").arg(key).arg(1).arg("PX").arg(1);
        }
        let sent = self.clock.now();
        let answers = timeout(self.timeout, link.send_all(&questions))
            .await
            .map_err(|_| Trouble::TimedOut { server: server.clone(), after: self.timeout })?;
        let received = self.clock.now();
        let mut answers = answers.map_err(|error| Trouble::unreachable(server, error))?.into_iter();
        let mut next = || Reply::of(answers.next().unwrap_or(Value::Nil));
        match next() {
            Reply::Done(_) | Reply::UnknownCommand(_) => {}
            other => return Err(Trouble::refused(server, other.words())),
        }
        match next() {
            Reply::Done(value) => match server_time(&value) {
                Some(time) => clock.observe(sent, time, received),
                None => return Err(Trouble::refused(server, format_args!("{value:?} to TIME"))),
            },
            other => return Err(Trouble::refused(server, other.words())),
        }
        if wanted.master {
            // Who may not ask for the role finds out when a write is refused.
            if let Reply::Done(Value::Array(role)) = next()
                && !matches!(role.first().map(text), Some(b"master"))
            {
                return Err(Trouble::refused(server, "READONLY it is not the master yet"));
            }
        }
        if wanted.write.is_some()
            && let reply @ (Reply::NoWrites(_) | Reply::Unwell(_) | Reply::ClusterDown(_)) = next()
        {
            return Err(Trouble::refused(server, reply.words()));
        }
        Ok(())
    }
}

/// One command, one answer, on a connection of its own.
pub(super) async fn ask(
    dialer: &Dialer,
    address: &Address,
    command: &Cmd,
) -> Result<Value, Trouble> {
    let link = dialer.dial(address, &Arc::default()).await?;
    let server: Arc<str> = address.to_string().into();
    match timeout(dialer.connect_timeout, link.send(command)).await {
        Ok(Ok(Value::ServerError(error))) => Err(Trouble::refused(&server, words(&error))),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Trouble::unreachable(&server, error)),
        Err(_) => Err(Trouble::TimedOut { server, after: dialer.connect_timeout }),
    }
}

fn text(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.as_bytes(),
        _ => b"",
    }
}

/// What TIME answers: seconds and microseconds.
fn server_time(value: &Value) -> Option<Time> {
    let Value::Array(parts) = value else { return None };
    let number = |part: &Value| std::str::from_utf8(text(part)).ok()?.parse::<u64>().ok();
    let (seconds, micros) = (number(parts.first()?)?, number(parts.get(1)?)?);
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(micros.checked_mul(1_000)?)?;
    Some(Time::from_nanos(nanos))
}
