//! Reads which call a request is, from its method and path.

use hyper::Method;

use crate::access::Permission;
use crate::decisions::ReservationId;

/// A call that the door answers without the admin routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpCall {
    Check,
    Limit,
    Auth,
    Reserve,
    /// Settles a reservation; `None` if the id in the path cannot belong to one.
    Settle(Option<ReservationId>),
    /// Cancels a reservation; `None` if the id in the path cannot belong to one.
    Cancel(Option<ReservationId>),
    Peek,
    Refund,
    Reset,
    Batch,
    /// A decision in the form of throttlecrab.
    Throttle,
    /// Envoy's rate limit request as JSON.
    Json,
    OpenApi,
}

impl HttpCall {
    /// Returns the right that the call needs; `None` if anyone may make it.
    pub(super) fn permission(self) -> Option<Permission> {
        match self {
            HttpCall::OpenApi => None,
            HttpCall::Peek => Some(Permission::Peek),
            HttpCall::Refund | HttpCall::Reset => Some(Permission::Change),
            _ => Some(Permission::Decide),
        }
    }
}

/// The result of routing a method and a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteMatch {
    Call(HttpCall),
    /// The path takes other methods than this one.
    WrongMethod(&'static str),
    /// The admin routes handle the path.
    NotACall,
}

const RESERVATIONS: &str = "/v1/reservations/";

/// All calls: the method and the path, as the OpenAPI description writes them.
#[cfg(test)]
const ALL_CALLS: [(&str, &str); 13] = [
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
    ("post", "/throttle"),
    ("post", "/json"),
    ("get", "/openapi.json"),
];

/// Finds the call of a method and a path; the most frequent calls are compared first.
pub(super) fn route(method: &Method, path: &str) -> RouteMatch {
    let call = match path {
        "/v1/check" => HttpCall::Check,
        "/v1/limit" => HttpCall::Limit,
        // Some proxies send the method of the request they want to have decided.
        "/v1/auth" => return RouteMatch::Call(HttpCall::Auth),
        "/v1/reserve" => HttpCall::Reserve,
        "/v1/peek" => HttpCall::Peek,
        "/v1/refund" => HttpCall::Refund,
        "/v1/reset" => HttpCall::Reset,
        "/v1/batch" => HttpCall::Batch,
        "/throttle" => HttpCall::Throttle,
        // Envoy's own rate limit service does not look at the method.
        "/json" => return RouteMatch::Call(HttpCall::Json),
        "/openapi.json" => {
            let is_read = matches!(*method, Method::GET | Method::HEAD);
            return if is_read {
                RouteMatch::Call(HttpCall::OpenApi)
            } else {
                RouteMatch::WrongMethod("GET, HEAD")
            };
        }
        _ => return reservation(method, path),
    };
    if *method == Method::POST { RouteMatch::Call(call) } else { RouteMatch::WrongMethod("POST") }
}

fn reservation(method: &Method, path: &str) -> RouteMatch {
    let Some(rest) = path.strip_prefix(RESERVATIONS) else { return RouteMatch::NotACall };
    let (call, allowed, expected): (fn(_) -> _, _, _) = match rest.split_once('/') {
        None if !rest.is_empty() => (HttpCall::Cancel, "DELETE", Method::DELETE),
        Some((_, "settle")) => (HttpCall::Settle, "POST", Method::POST),
        _ => return RouteMatch::NotACall,
    };
    let id = rest.split('/').next().and_then(ReservationId::parse);
    if *method == expected { RouteMatch::Call(call(id)) } else { RouteMatch::WrongMethod(allowed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_described() {
        let described = crate::openapi::merged();
        for (method, path) in ALL_CALLS {
            assert!(described["paths"][path][method].is_object(), "{method} {path}");
        }
    }

    #[test]
    fn every_call_is_routed_by_its_method_only() {
        for (method, path) in ALL_CALLS {
            let path = path.replace("{id}", &"0".repeat(32));
            let method: Method = method.to_uppercase().parse().unwrap();
            assert!(matches!(route(&method, &path), RouteMatch::Call(_)), "{path}");
            if !["/v1/auth", "/json"].contains(&&*path) {
                assert!(
                    matches!(route(&Method::PATCH, &path), RouteMatch::WrongMethod(_)),
                    "{path}"
                );
            }
        }
        for path in ["/", "/v1/check/", "/v1/reservations/", "/v1/reservations/x/y", "/livez"] {
            assert_eq!(route(&Method::POST, path), RouteMatch::NotACall, "{path}");
        }
        let unknown = route(&Method::DELETE, "/v1/reservations/nonsense");
        assert_eq!(unknown, RouteMatch::Call(HttpCall::Cancel(None)));
    }
}
