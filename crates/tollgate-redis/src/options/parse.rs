//! Parses the address of a group. The `url` crate cannot, since an address may name several hosts.

use percent_encoding::percent_decode_str;

use super::{Address, Credentials, GroupOptions, Topology};
use crate::ConnectError;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const MAX_HOSTS: usize = 64;

enum Scheme {
    Single,
    Unix,
    Sentinel,
    Cluster,
}

/// Parses one address.
pub(super) fn group(text: &str) -> Result<GroupOptions, ConnectError> {
    // Messages show the address without its credentials.
    let shown = match (text.find("://"), text.rfind('@')) {
        (Some(start), Some(at)) if start + 3 <= at => {
            format!("{}***{}", &text[..start + 3], &text[at..])
        }
        (None, Some(at)) => format!("***{}", &text[at..]),
        _ => text.to_owned(),
    };
    let shown = shown.split('?').next().unwrap_or_default();
    read(text).map_err(|why| ConnectError::new(format!("{shown}: {why}")))
}

fn read(text: &str) -> Result<GroupOptions, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let host = text.rsplit('@').next().unwrap_or_default();
        return Err(format!("it has no scheme: write redis://{host}"));
    };
    let (tls, scheme) = self::scheme(scheme)?;
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match location.find('/') {
        Some(slash) => (&location[..slash], &location[slash..]),
        None => (location, ""),
    };
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (self::credentials(credentials)?, hosts),
        None => (Credentials::default(), authority),
    };
    let query = Query::read(query)?;
    let mut db = query.db;
    let topology = match scheme {
        Scheme::Unix => {
            if !hosts.is_empty() || path.len() < 2 {
                return Err("write redis+unix:///path/of/the.sock, with three slashes".into());
            }
            Topology::Single(Address::Unix(decoded(path)?.into()))
        }
        Scheme::Single => {
            db = one_database(db, database(path)?)?;
            match &addresses(hosts, PORT)?[..] {
                [address] => Topology::Single(address.clone()),
                _ => {
                    return Err("several hosts: write redis+cluster:// or redis+sentinel:// in \
                                front of them, or one address for each, separated by spaces"
                        .into());
                }
            }
        }
        Scheme::Sentinel => {
            let path = path.strip_prefix('/').unwrap_or(path);
            let (master, rest) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return Err("it does not say which master: write \
                            redis+sentinel://host:26379,host:26379/name-of-the-master"
                    .into());
            }
            db = one_database(db, database(rest)?)?;
            Topology::Sentinel {
                sentinels: addresses(hosts, SENTINEL_PORT)?,
                master: decoded(master)?,
                credentials: query.sentinel.clone(),
            }
        }
        Scheme::Cluster => {
            if db.is_some() || !matches!(path, "" | "/" | "/0") {
                return Err("a cluster has only one database: write nothing after the hosts".into());
            }
            Topology::Cluster { seeds: addresses(hosts, PORT)? }
        }
    };
    if query.sentinel != Credentials::default() && !matches!(topology, Topology::Sentinel { .. }) {
        return Err("only redis+sentinel:// has sentinels to log in at".into());
    }
    let db = db.unwrap_or(0);
    let name = query.name.unwrap_or_else(|| GroupOptions::default_name(&topology, db));
    Ok(GroupOptions { name, topology, tls, credentials, db })
}

fn scheme(text: &str) -> Result<(bool, Scheme), String> {
    let known = "write redis://, rediss:// (TLS), redis+unix://, redis+sentinel:// or \
                 redis+cluster://";
    let (base, topology) = text.split_once('+').unwrap_or((text, ""));
    let tls = match base {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(format!("the scheme {text}:// is not known: {known}")),
    };
    match topology {
        "" => Ok((tls, Scheme::Single)),
        "sentinel" => Ok((tls, Scheme::Sentinel)),
        "cluster" => Ok((tls, Scheme::Cluster)),
        "unix" if !tls => Ok((false, Scheme::Unix)),
        _ => Err(format!("the scheme {text}:// is not known: {known}")),
    }
}

fn credentials(text: &str) -> Result<Credentials, String> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None => (text, None),
    };
    let user = Some(decoded(user)?).filter(|user| !user.is_empty());
    let password = password.filter(|password| !password.is_empty());
    Ok(Credentials { user, password })
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>, String> {
    let all = hosts.split(',').map(|host| address(host, port)).collect::<Result<Vec<_>, _>>()?;
    if all.len() > MAX_HOSTS { Err(format!("more than {MAX_HOSTS} hosts")) } else { Ok(all) }
}

fn address(text: &str, default: u16) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => return Err(format!("{text:?} has no `]`: write [::1]:{default}")),
        },
        None if text.matches(':').count() > 1 => {
            return Err(format!("an IPv6 address stands in brackets: write [{text}]"));
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(format!("a host is missing: write host:{default}"));
    }
    if let Some(wrong) = host.chars().find(|c| !(c.is_alphanumeric() || "-._:".contains(*c))) {
        return Err(format!("no host is called {host:?}: it has a {wrong:?} in it"));
    }
    let port = match port {
        None => default,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| format!("{port:?} is not a port: write a number from 1 to 65535"))?,
    };
    Ok(Address::tcp(host.to_ascii_lowercase(), port))
}

fn database(path: &str) -> Result<Option<i64>, String> {
    match path.trim_matches('/') {
        "" => Ok(None),
        text => number(text).map(Some),
    }
}

fn number(text: &str) -> Result<i64, String> {
    let number = text.parse::<u16>().map(i64::from);
    number.map_err(|_| format!("{text:?} is not a database: write a number such as 0"))
}

fn one_database(one: Option<i64>, other: Option<i64>) -> Result<Option<i64>, String> {
    match (one, other) {
        (Some(_), Some(_)) => Err("it names the database twice".into()),
        _ => Ok(one.or(other)),
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "what follows a `%` is not UTF-8".to_owned())
}

/// The query of an address: the options after the `?`.
#[derive(Default)]
struct Query {
    name: Option<String>,
    db: Option<i64>,
    sentinel: Credentials,
}

impl Query {
    fn read(text: &str) -> Result<Query, String> {
        let mut query = Query::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            if value.is_empty() {
                return Err(format!("?{key} has no value"));
            }
            match key {
                "name" => query.name = Some(value),
                "db" => query.db = Some(number(&value)?),
                "sentinel_user" => query.sentinel.user = Some(value),
                "sentinel_password" => query.sentinel.password = Some(value),
                _ => {
                    return Err(format!(
                        "?{key} is not known: write name, db, sentinel_user or sentinel_password"
                    ));
                }
            }
        }
        Ok(query)
    }
}
