//! What upstreams answer, and what the next client must not get of it.

use std::io::Write;

use tollgate_rig::{AfterResponse, Upstream};

use crate::support::{OPEN, start};

/// An upstream whose first answer on each connection is this, and then the path of the request.
fn odd(first: &'static str) -> Upstream {
    Upstream::answering(move |request, stream| {
        let target = request.target().to_owned();
        let told = match target.as_str() {
            "/odd" => first.to_owned(),
            _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()),
        };
        match stream.write_all(told.as_bytes()) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

#[test]
fn a_surplus_response_reaches_no_client() {
    for first in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
        "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\npoison",
        "HTTP/1.1 304 Not Modified\r\n\r\npoison",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\npoison",
    ] {
        let upstream = odd(first);
        let gateway = start(OPEN, &upstream);
        for _ in 0..20 {
            let answer = gateway.connect().get("/odd");
            assert!(!answer.text().contains("poison"), "{first:?}: {answer:?}");
            let target = format!("/honest/{}", fastrand::u64(..));
            assert_eq!(gateway.connect().get(&target).text(), target, "{first:?}");
        }
        assert_eq!(upstream.count(), gateway.decisions(), "{first:?}: nothing lost or doubled");
    }
}

#[test]
fn ambiguous_answers_are_broken_ones() {
    for first in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX y: b\r\nContent-Length: 0\r\n\r\n",
        "nonsense\r\n\r\n",
        "HTTP/1.1 99999 OK\r\n\r\n",
    ] {
        let upstream = odd(first);
        let gateway = start(OPEN, &upstream);
        let mut client = gateway.connect();
        client.write("GET /odd HTTP/1.1\r\nHost: stub\r\nConnection: close\r\n\r\n");
        let rest = String::from_utf8(client.rest().unwrap()).unwrap();
        let lower = rest.to_ascii_lowercase();
        assert!(rest.starts_with("HTTP/1.1 "), "{first:?}: {rest:?}");
        let both = lower.contains("content-length") && lower.contains("transfer-encoding");
        assert!(!both && lower.matches("content-length:").count() <= 1, "{first:?}: {rest:?}");
        assert!(!rest.contains('\0'));
        assert_eq!(gateway.connect().get("/after").text(), "/after", "{first:?}");
    }
}

#[test]
fn what_is_about_one_connection_stays_there() {
    let upstream = odd(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nTrailer: x\r\nX-End: 2\r\n\r\n",
    );
    let gateway = start(OPEN, &upstream);
    let answer = gateway.connect().get("/odd");
    for name in ["x-hop", "keep-alive", "proxy-authenticate", "upgrade", "connection"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("x-end"), Some("2"));
}

#[test]
fn an_answer_before_the_end_of_a_body_spoils_no_connection() {
    // Answers as soon as it has the head, and reads no body.
    let upstream = Upstream::answering(move |request, stream| {
        let text = request.target().to_owned();
        let early = text == "/early";
        let close = if early { "Connection: close\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {}", text.len());
        let _ = stream.write_all(format!("{head}\r\n\r\n{text}").as_bytes());
        if early { AfterResponse::Close } else { AfterResponse::Keep }
    });
    let gateway = start(OPEN, &upstream);
    for _ in 0..10 {
        // `Expect` has the stub answer before it reads the body.
        let mut early = gateway.connect();
        early.write("POST /early HTTP/1.1\r\nHost: stub\r\nExpect: 100-continue\r\n");
        early.write("Content-Length: 45\r\n\r\nGET /smu");
        let target = format!("/honest/{}", fastrand::u64(..));
        assert_eq!(gateway.connect().get(&target).text(), target);
        early.write("ggled HTTP/1.1\r\nHost: stub\r\n\r\n".to_owned() + "!!!!!!!!");
        early.finish();
        while early.read().is_some() {}
        assert_eq!(gateway.connect().get(&target).text(), target);
    }
    let seen = upstream.requests();
    assert!(seen.iter().all(|seen| seen.target() != "/smuggled"), "{seen:?}");
    assert!(upstream.count() <= gateway.decisions());
}
