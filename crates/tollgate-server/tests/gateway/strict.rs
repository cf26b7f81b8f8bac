//! Reads requests at an upstream as strictly as possible: anything that two servers could read
//! differently is an error.

use tollgate_rig::Upstream;

/// The requests on the tapes of an upstream, as method and target, or what is wrong with them. A
/// request that breaks off at the end of a connection is one: it was begun.
pub(crate) fn requests(upstream: &Upstream) -> Result<Vec<(String, String)>, String> {
    let mut requests = Vec::new();
    for tape in upstream.raw() {
        let mut rest = tape.as_str();
        while !rest.is_empty() {
            rest = request(rest, &mut requests).map_err(|why| format!("{why} in {tape:?}"))?;
        }
    }
    Ok(requests)
}

/// Reads one request; what comes after it.
fn request<'t>(text: &'t str, into: &mut Vec<(String, String)>) -> Result<&'t str, String> {
    let (head, rest) = match text.split_once("\r\n\r\n") {
        Some((head, rest)) => (head, Some(rest)),
        None => (text, None),
    };
    let mut lines = head.split("\r\n");
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, "HTTP/1.1"] = first[..] else {
        return Err(format!("no request line {first:?}"));
    };
    into.push((method.to_owned(), target.to_owned()));
    let Some(rest) = rest else { return Ok("") };
    let mut framing = Vec::new();
    let mut hosts = 0;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no field {line:?}"))?;
        let odd = |c: char| c.is_control() && c != '\t';
        if name.is_empty() || !name.chars().all(is_token) || value.contains(odd) {
            return Err(format!("no field {line:?}"));
        }
        let (name, value) = (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']));
        match name.as_str() {
            "content-length" | "transfer-encoding" => framing.push((name, value)),
            "host" => hosts += 1,
            _ => {}
        }
    }
    if hosts != 1 {
        return Err(format!("{hosts} hosts"));
    }
    match &framing[..] {
        [] => Ok(rest),
        [(name, value)]
            if name == "content-length" && value.bytes().all(|b| b.is_ascii_digit()) =>
        {
            let length: usize = value.parse().map_err(|_| format!("no length {value:?}"))?;
            Ok(rest.get(length..).unwrap_or(""))
        }
        [(name, "chunked")] if name == "transfer-encoding" => chunks(rest),
        other => Err(format!("ambiguous {other:?}")),
    }
}

/// Reads chunks and trailers; what comes after them.
fn chunks(mut rest: &str) -> Result<&str, String> {
    loop {
        let Some((size, data)) = rest.split_once("\r\n") else { return Ok("") };
        let is_size = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parsed = usize::from_str_radix(size, 16).ok().filter(|_| is_size);
        match parsed.ok_or_else(|| format!("no chunk {size:?}"))? {
            0 => {
                let mut trailers = data;
                while let Some((line, after)) = trailers.split_once("\r\n") {
                    trailers = after;
                    if line.is_empty() {
                        return Ok(trailers);
                    }
                    let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
                    if ["content-length", "transfer-encoding", "host"].contains(&name.as_str()) {
                        return Err(format!("{name} after the body"));
                    }
                }
                return Ok("");
            }
            size => {
                let Some(after) = data.get(size..) else { return Ok("") };
                if after.is_empty() {
                    return Ok("");
                }
                rest = after.strip_prefix("\r\n").ok_or("a chunk that is longer than it says")?;
            }
        }
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}
