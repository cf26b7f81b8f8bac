//! Reservations as data, so that they can be settled after a restart.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate::{Action, Span, Time};
use tollgate_rules::{SavedAdmission, Value};

use super::{BASE_WEIGHT, ChargeTarget, Reservation, ReservationId, Reservations};
use crate::decisions::{DecisionService, InlineLimit, RequestAttributes};

/// An open reservation as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedReservation {
    id: String,
    amount: u64,
    since_ns: u64,
    expires_ns: u64,
    charged: SavedTarget,
}

/// The counters that a reservation charged, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedTarget {
    Rules { request: SavedRequest, admission: Option<SavedAdmission> },
    EnvoyRules { request: SavedRequest },
    InlineLimit { key: Vec<u8>, limit: String },
}

/// The domain and the attributes of a request, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedRequest {
    domain: Option<String>,
    attributes: Vec<(String, SavedValue)>,
}

/// The value of an attribute, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedValue {
    Text(String),
    Number(i64),
    Flag(bool),
    Ip(IpAddr),
}

impl Reservations {
    /// Returns all open reservations as data, in the order of their expiry.
    fn save(&self) -> Vec<SavedReservation> {
        let open = self.open.lock();
        let of = |&(expires, id): &(Time, ReservationId)| Some((id, expires, open.by_id.get(&id)?));
        open.by_expiry
            .iter()
            .filter_map(of)
            .map(|(id, expires, it)| SavedReservation {
                id: id.to_string(),
                amount: it.amount,
                since_ns: it.since.as_nanos(),
                expires_ns: expires.as_nanos(),
                charged: SavedTarget::new(&it.charged),
            })
            .collect()
    }
}

impl DecisionService {
    /// Returns all open reservations as data.
    pub(crate) fn save_reservations(&self) -> Vec<SavedReservation> {
        self.0.reservations.save()
    }

    /// Opens reservations of a former process, and takes their permits again.
    ///
    /// Returns how many there are. Expired ones, and those this version cannot read, are left out.
    pub(crate) async fn restore_reservations(&self, saved: Vec<SavedReservation>) -> usize {
        let mut restored = 0;
        for one in saved {
            let expires = Time::from_nanos(one.expires_ns);
            let Some(id) = ReservationId::parse(&one.id).filter(|_| expires > self.clock().now())
            else {
                continue;
            };
            let Some(charged) = self.restore_target(one.charged, id, one.amount).await else {
                continue;
            };
            let (amount, since) = (one.amount, Time::from_nanos(one.since_ns));
            let weight = BASE_WEIGHT + charged.weight();
            let reservation = Reservation { charged, amount, since, expires, weight };
            self.0.reservations.insert(id, reservation);
            restored += 1;
        }
        restored
    }

    async fn restore_target(
        &self,
        saved: SavedTarget,
        id: ReservationId,
        amount: u64,
    ) -> Option<ChargeTarget> {
        Some(match saved {
            SavedTarget::Rules { request, admission } => {
                let admission = match admission {
                    Some(admission) => self.limiter().restore_admission(admission).await,
                    None => None,
                };
                ChargeTarget::Rules(request.restore(), admission)
            }
            SavedTarget::EnvoyRules { request } => ChargeTarget::EnvoyRules(request.restore()),
            SavedTarget::InlineLimit { key, limit } => {
                let inline = Arc::new(InlineLimit::new(limit.parse().ok()?));
                if inline.has_permits() {
                    let take = Action::Take { max_wait: Span::ZERO };
                    // A permit that does not fit any more is lost; the rest can still be settled.
                    let _ = self.adjust_inline_as(take, &key, &inline, amount, id.lease()).await;
                }
                ChargeTarget::InlineLimit(key.into(), inline)
            }
        })
    }
}

impl ChargeTarget {
    /// Returns the memory of its texts, in bytes.
    fn weight(&self) -> usize {
        match self {
            ChargeTarget::Rules(request, _) | ChargeTarget::EnvoyRules(request) => request.weight(),
            ChargeTarget::InlineLimit(key, _) => key.len(),
        }
    }
}

impl SavedTarget {
    fn new(charged: &ChargeTarget) -> SavedTarget {
        match charged {
            ChargeTarget::Rules(request, admission) => SavedTarget::Rules {
                request: SavedRequest::new(request),
                admission: admission.as_ref().and_then(|admission| admission.save()),
            },
            ChargeTarget::EnvoyRules(request) => {
                SavedTarget::EnvoyRules { request: SavedRequest::new(request) }
            }
            ChargeTarget::InlineLimit(key, inline) => {
                SavedTarget::InlineLimit { key: key.to_vec(), limit: inline.limit.to_string() }
            }
        }
    }
}

impl SavedRequest {
    fn new(request: &RequestAttributes<'_>) -> SavedRequest {
        let save = |value: &Value<'_>| match value {
            Value::Number(number) => SavedValue::Number(*number),
            Value::Flag(flag) => SavedValue::Flag(*flag),
            Value::Ip(address) => SavedValue::Ip(*address),
            other => SavedValue::Text(other.text().into_owned()),
        };
        let attributes = request.attributes.iter();
        SavedRequest {
            domain: request.domain.as_deref().map(str::to_owned),
            attributes: attributes.map(|(name, value)| (name.to_string(), save(value))).collect(),
        }
    }

    fn restore(self) -> Box<RequestAttributes<'static>> {
        let restore = |value| match value {
            SavedValue::Text(text) => Value::Text(Cow::Owned(text)),
            SavedValue::Number(number) => Value::Number(number),
            SavedValue::Flag(flag) => Value::Flag(flag),
            SavedValue::Ip(address) => Value::Ip(address),
        };
        let attributes = self.attributes.into_iter();
        Box::new(RequestAttributes {
            domain: self.domain.map(Cow::Owned),
            attributes: attributes
                .map(|(name, value)| (Cow::Owned(name), restore(value)))
                .collect(),
        })
    }
}
