//! A gateway that keeps requests for later, and what is asked about them.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tollgate_rig::{Message, WebClient};
use tollgate_server::Config;

use crate::support::{Gateway, start_with};

/// One request at a time, and one more every second.
pub(super) const ONE_A_SECOND: &str = "rules: [{ name: report, route: POST /report, per: 'header[\"x-org\"]', limit: 1/s, then: defer }]";
/// One request, and another one only after the test.
pub(super) const ONE_AN_HOUR: &str = "rules: [{ name: report, route: POST /report, per: 'header[\"x-org\"]', limit: 1/h, then: defer }]";
/// Twenty requests a second.
pub(super) const QUICK: &str =
    "rules: [{ name: report, route: POST /report, limit: 20/s burst 1, then: defer }]";

/// A gateway whose data is in a folder, and who tries again soon.
pub(super) fn start(rules: &str, upstream: &str, data: &Path) -> Gateway {
    start_as(rules, upstream, data, |_| {})
}

pub(super) fn start_as(
    rules: &str,
    upstream: &str,
    data: &Path,
    set_up: impl FnOnce(&mut Config),
) -> Gateway {
    start_with(rules, &[upstream], |config| {
        config.data = Some(data.to_owned());
        let gateway = config.gateway.as_mut().unwrap();
        gateway.defer.backoff = Duration::from_millis(50);
        set_up(config);
    })
}

/// A report of an organisation.
pub(super) fn report(client: &mut WebClient, org: &str, body: &str) -> Message {
    client.send("POST", "/report", &[("x-org", org)], body)
}

/// A report that is kept; where to ask about it.
pub(super) fn deferred(client: &mut WebClient, org: &str, body: &str) -> String {
    let answer = report(client, org, body);
    assert_eq!(answer.status(), 202, "{}", answer.text());
    answer.header("location").unwrap().to_owned()
}

/// Asks until a request is kept; where to ask about it.
pub(super) fn until_kept(mut ask: impl FnMut() -> Message) -> String {
    loop {
        if let Some(place) = ask().header("location") {
            return place.to_owned();
        }
    }
}

/// What is said of a deferred request.
pub(super) fn told(gateway: &Gateway, place: &str) -> Value {
    let answer = gateway.connect().get(place);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// The id in the place where to ask.
pub(super) fn id(place: &str) -> &str {
    place.rsplit('/').next().unwrap()
}

/// Waits until it is so.
pub(super) fn until(what: &str, is_so: impl FnMut() -> bool) {
    tollgate_rig::until(what, is_so);
}

/// Waits until a request is in a state; what is said of it then.
pub(super) fn until_state(gateway: &Gateway, place: &str, state: &str) -> Value {
    until(state, || told(gateway, place)["state"] == state);
    told(gateway, place)
}
