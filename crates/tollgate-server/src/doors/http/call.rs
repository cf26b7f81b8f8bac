//! Which call a request is.

use hyper::Method;

use crate::engine::HoldId;

/// A call this door answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Check,
    Limit,
    Auth,
    Reserve,
    /// None if no hold can have that name.
    Settle(Option<HoldId>),
    Cancel(Option<HoldId>),
    Peek,
    Refund,
    Reset,
    Batch,
    /// Envoy's question in JSON.
    Json,
    OpenApi,
}

/// What a path and a method come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Call(Call),
    /// The path is known, and takes another method.
    Takes(&'static str),
    /// Somebody else's.
    Nothing,
}

const RESERVATIONS: &str = "/v1/reservations/";

/// The path of every call with the one method it takes, as the description writes them.
#[cfg(test)]
pub(super) const ALL: [(&str, &str); 12] = [
    ("post", "/v1/check"),
    ("post", "/v1/limit"),
    ("get", "/v1/auth"),
    ("post", "/v1/reserve"),
    ("post", "/v1/reservations/{id}/settle"),
    ("delete", "/v1/reservations/{id}"),
    ("post", "/v1/peek"),
    ("post", "/v1/refund"),
    ("post", "/v1/reset"),
    ("post", "/v1/batch"),
    ("post", "/json"),
    ("get", "/openapi.json"),
];

/// Finds the call; those asked for most come first.
pub(super) fn find(method: &Method, path: &str) -> Found {
    let call = match path {
        "/v1/check" => Call::Check,
        "/v1/limit" => Call::Limit,
        // Proxies ask with the method of the request they ask about.
        "/v1/auth" => return Found::Call(Call::Auth),
        "/v1/reserve" => Call::Reserve,
        "/v1/peek" => Call::Peek,
        "/v1/refund" => Call::Refund,
        "/v1/reset" => Call::Reset,
        "/v1/batch" => Call::Batch,
        "/json" => Call::Json,
        "/openapi.json" => {
            let reads = matches!(*method, Method::GET | Method::HEAD);
            return if reads { Found::Call(Call::OpenApi) } else { Found::Takes("GET, HEAD") };
        }
        _ => return reservation(method, path),
    };
    if *method == Method::POST { Found::Call(call) } else { Found::Takes("POST") }
}

fn reservation(method: &Method, path: &str) -> Found {
    let Some(rest) = path.strip_prefix(RESERVATIONS) else { return Found::Nothing };
    let (call, takes, expected): (fn(_) -> _, _, _) = match rest.split_once('/') {
        None if !rest.is_empty() => (Call::Cancel, "DELETE", Method::DELETE),
        Some((_, "settle")) => (Call::Settle, "POST", Method::POST),
        _ => return Found::Nothing,
    };
    let id = rest.split('/').next().and_then(HoldId::parse);
    if *method == expected { Found::Call(call(id)) } else { Found::Takes(takes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_described() {
        let described = crate::openapi::whole();
        for (method, path) in ALL {
            assert!(described["paths"][path][method].is_object(), "{method} {path}");
        }
    }

    #[test]
    fn every_call_is_found_and_no_other_method_is() {
        for (method, path) in ALL {
            let path = path.replace("{id}", &"0".repeat(32));
            let method: Method = method.to_uppercase().parse().unwrap();
            assert!(matches!(find(&method, &path), Found::Call(_)), "{path}");
            if path != "/v1/auth" {
                assert!(matches!(find(&Method::PATCH, &path), Found::Takes(_)), "{path}");
            }
        }
        for path in ["/", "/v1/check/", "/v1/reservations/", "/v1/reservations/x/y", "/livez"] {
            assert_eq!(find(&Method::POST, path), Found::Nothing, "{path}");
        }
        let unknown = find(&Method::DELETE, "/v1/reservations/nonsense");
        assert_eq!(unknown, Found::Call(Call::Cancel(None)));
    }
}
