//! Connects to a server, authenticates, and checks its health.

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

use super::command_reply::{CommandReply, error_text};
use super::connection::Connection;
use crate::error::CallError;
use crate::options::{Address, Credentials};
use crate::server_clock::ServerClock;

/// The settings to connect to the servers of a group.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) credentials: Credentials,
    pub(super) db: i64,
    pub(super) tls: Option<TlsConnector>,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) clock: Clock,
}

/// The conditions under which a server counts as healthy.
#[derive(Clone, Debug, Default)]
pub(super) struct HealthCheck {
    /// The server must be a master.
    pub(super) master: bool,
    /// The server must accept a write to this key.
    pub(super) write: Option<String>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("login", &self.credentials).finish_non_exhaustive()
    }
}

impl Connector {
    /// Connects and authenticates.
    pub(super) async fn connect(
        &self,
        address: &Address,
        wakeup: &Arc<Notify>,
    ) -> Result<Connection, CallError> {
        let server: Arc<str> = address.to_string().into();
        match timeout(self.connect_timeout, self.open(address, &server, wakeup)).await {
            Ok(connection) => connection,
            Err(_) => {
                let reason = format!("no connection within {:?}", self.connect_timeout);
                Err(CallError::unreachable(&server, reason))
            }
        }
    }

    async fn open(
        &self,
        address: &Address,
        server: &Arc<str>,
        wakeup: &Arc<Notify>,
    ) -> Result<Connection, CallError> {
        let broken = |error: std::io::Error| CallError::unreachable(server, error);
        let closed = |error: RedisError| CallError::unreachable(server, error);
        let connection = match (address, &self.tls) {
            (Address::Unix(path), _) => {
                Connection::new(UnixStream::connect(path).await.map_err(broken)?, wakeup.clone())
                    .await
            }
            (Address::Tcp { host, port }, tls) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(broken)?;
                stream.set_nodelay(true).map_err(broken)?;
                match tls {
                    None => Connection::new(stream, wakeup.clone()).await,
                    Some(tls) => {
                        let name = ServerName::try_from(host.clone())
                            .map_err(|error| CallError::unreachable(server, error))?;
                        let stream = tls.connect(name, stream).await.map_err(|error| {
                            CallError::unreachable(server, format_args!("TLS: {error}"))
                        })?;
                        Connection::new(stream, wakeup.clone()).await
                    }
                }
            }
        };
        let connection = connection.map_err(closed)?;
        self.handshake(&connection, server).await?;
        Ok(connection)
    }

    /// Authenticates, and switches to RESP3 if the server knows it.
    async fn handshake(&self, connection: &Connection, server: &Arc<str>) -> Result<(), CallError> {
        let closed = |error: RedisError| CallError::unreachable(server, error);
        let Credentials { user, password } = &self.credentials;
        let mut hello = redis::cmd("HELLO");
        hello.arg(3);
        if let Some(password) = password {
            hello.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(password);
        }
        let mut setup = Pipeline::new();
        match CommandReply::from_value(connection.send(&hello).await.map_err(closed)?) {
            CommandReply::Done(_) => {}
            CommandReply::Failed(reason)
                if reason.starts_with("WRONGPASS") || reason.starts_with("NOAUTH") =>
            {
                return Err(CallError::refused(server, reason));
            }
            other => {
                tracing::debug!(%server, ?other, "no RESP3; using RESP2");
                if let Some(password) = password {
                    setup.cmd("AUTH").arg(user.as_deref()).arg(password);
                }
            }
        }
        if self.db != 0 {
            setup.cmd("SELECT").arg(self.db);
        }
        let needed = setup.len();
        // Shown by CLIENT LIST. Servers before 7.2 do not know it.
        setup.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("tollgate");
        setup.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        let replies = connection.send_all(&setup).await.map_err(closed)?;
        for reply in replies.into_iter().take(needed) {
            if let Value::ServerError(error) = reply {
                return Err(CallError::refused(server, error_text(&error)));
            }
        }
        Ok(())
    }

    /// Checks the health of a server within the time-out of a command.
    pub(super) async fn check_health(
        &self,
        connection: &Connection,
        server: &Arc<str>,
        wanted: &HealthCheck,
        clock: &ServerClock,
    ) -> Result<(), CallError> {
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
        let answers = timeout(self.timeout, connection.send_all(&questions))
            .await
            .map_err(|_| CallError::TimedOut { server: server.clone(), after: self.timeout })?;
        let received = self.clock.now();
        let mut answers =
            answers.map_err(|error| CallError::unreachable(server, error))?.into_iter();
        let mut next = || CommandReply::from_value(answers.next().unwrap_or(Value::Nil));
        match next() {
            CommandReply::Done(_) | CommandReply::UnknownCommand(_) => {}
            other => return Err(CallError::refused(server, other.text())),
        }
        match next() {
            CommandReply::Done(value) => match server_time(&value) {
                Some(time) => clock.observe(sent, time, received),
                None => return Err(CallError::refused(server, format_args!("{value:?} to TIME"))),
            },
            other => return Err(CallError::refused(server, other.text())),
        }
        if wanted.master {
            // A user that may not call ROLE learns it when a write is refused.
            if let CommandReply::Done(Value::Array(role)) = next()
                && !matches!(role.first().map(text), Some(b"master"))
            {
                return Err(CallError::refused(server, "READONLY it is not the master yet"));
            }
        }
        if wanted.write.is_some()
            && let reply @ (CommandReply::NoWrites(_)
            | CommandReply::Unavailable(_)
            | CommandReply::ClusterDown(_)) = next()
        {
            return Err(CallError::refused(server, reply.text()));
        }
        Ok(())
    }
}

/// Sends one command on a connection of its own, and returns the reply.
pub(super) async fn query_once(
    connector: &Connector,
    address: &Address,
    command: &Cmd,
) -> Result<Value, CallError> {
    let connection = connector.connect(address, &Arc::default()).await?;
    let server: Arc<str> = address.to_string().into();
    match timeout(connector.connect_timeout, connection.send(command)).await {
        Ok(Ok(Value::ServerError(error))) => Err(CallError::refused(&server, error_text(&error))),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(CallError::unreachable(&server, error)),
        Err(_) => Err(CallError::TimedOut { server, after: connector.connect_timeout }),
    }
}

fn text(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.as_bytes(),
        _ => b"",
    }
}

/// Reads the reply to TIME: seconds and microseconds.
pub(super) fn server_time(value: &Value) -> Option<Time> {
    let Value::Array(parts) = value else { return None };
    let number = |part: &Value| std::str::from_utf8(text(part)).ok()?.parse::<u64>().ok();
    let (seconds, micros) = (number(parts.first()?)?, number(parts.get(1)?)?);
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(micros.checked_mul(1_000)?)?;
    Some(Time::from_nanos(nanos))
}
