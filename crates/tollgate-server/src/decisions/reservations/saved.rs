//! Reservations as data, so that they can be settled after a restart.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate::{Action, Span, Time};
use tollgate_rules::{SavedAdmission, Value};

use super::{BASE_BYTES, ChargeTarget, Reservation, ReservationId, ReservationOwner};
use crate::decisions::{DecisionService, InlineLimit, RequestAttributes};

/// An open reservation as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedReservation {
    id: String,
    amount: u64,
    since_ns: u64,
    expires_ns: u64,
    #[serde(default)]
    owner: ReservationOwner,
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

impl DecisionService {
    /// Returns all open reservations as data, in the order of their expiry.
    pub(crate) fn save_reservations(&self) -> Vec<SavedReservation> {
        let open = self.0.reservations.open().into_iter();
        // One whose counters are corrected only waits to be removed.
        let open = open.filter(|(.., it)| !it.is_corrected.try_lock().is_ok_and(|is| *is));
        open.map(|(id, expires, owner, it)| SavedReservation {
            id: id.to_string(),
            amount: it.amount,
            since_ns: it.since.as_nanos(),
            expires_ns: expires.as_nanos(),
            owner,
            charged: SavedTarget::new(&it.charged),
        })
        .collect()
    }

    /// Opens reservations of a former process, and takes their permits again.
    ///
    /// Returns how many there are. Expired ones, those that exceed the bounds, and those that this
    /// version cannot read are left out.
    pub(crate) async fn restore_reservations(&self, saved: Vec<SavedReservation>) -> usize {
        let mut restored = 0;
        for one in saved {
            let (now, expires) = (self.clock().now(), Time::from_nanos(one.expires_ns));
            let Some(id) = ReservationId::parse(&one.id).filter(|_| expires > now) else {
                continue;
            };
            let bytes = BASE_BYTES + one.charged.bytes();
            let Ok(slot) = self.0.reservations.admit(one.owner, bytes, now) else { continue };
            let Some(charged) = self.restore_target(one.charged, id, one.amount).await else {
                continue;
            };
            let since = Time::from_nanos(one.since_ns);
            slot.fill(id, Reservation::new(charged, one.amount, since), expires);
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

impl SavedTarget {
    /// Returns the memory of its texts.
    fn bytes(&self) -> usize {
        match self {
            SavedTarget::Rules { request, admission } => {
                request.bytes() + admission.as_ref().map_or(0, SavedAdmission::key_bytes)
            }
            SavedTarget::EnvoyRules { request } => request.bytes(),
            SavedTarget::InlineLimit { key, .. } => key.len(),
        }
    }

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

    /// Returns the memory of the request, as a new reservation counts it.
    fn bytes(&self) -> usize {
        self.clone().restore().weight()
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
