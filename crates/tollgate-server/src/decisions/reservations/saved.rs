//! Reservations as data, so that they can be settled after a restart.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tollgate::{Action, Limit, Span, Time};
use tollgate_rules::{SavedAdmission, Value};

use super::{BASE_BYTES, ChargeTarget, Reservation, ReservationId, ReservationOwner};
use crate::decisions::{DecisionService, InlineLimit, InlineLimitList, RequestAttributes};

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
    InlineLimits { key: Vec<u8>, limits: Vec<String> },
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
                self.restore_limits(key, &[limit], id, amount).await?
            }
            SavedTarget::InlineLimits { key, limits } => {
                self.restore_limits(key, &limits, id, amount).await?
            }
        })
    }

    async fn restore_limits(
        &self,
        key: Vec<u8>,
        texts: &[String],
        id: ReservationId,
        amount: u64,
    ) -> Option<ChargeTarget> {
        let parsed: Result<Vec<Limit>, _> = texts.iter().map(|text| text.parse()).collect();
        let limits = parsed.ok()?.into_iter().map(InlineLimit::new);
        // The counters were restored with their charges, but permits end with their process. One that
        // does not fit any more is lost; the rest can still be settled.
        let with_permits = limits.clone().filter(InlineLimit::has_permits);
        if let Some(with_permits) = InlineLimitList::from_saved(with_permits) {
            let take = Action::Take { max_wait: Span::ZERO };
            let lease = id.lease();
            let _ = self.adjust_inline_limits_as(take, &key, &with_permits, amount, lease).await;
        }
        Some(ChargeTarget::InlineLimits(key.into(), InlineLimitList::from_saved(limits)?))
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
            SavedTarget::InlineLimit { key, .. } | SavedTarget::InlineLimits { key, .. } => {
                key.len()
            }
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
            ChargeTarget::InlineLimits(key, limits) => {
                let mut limits: Vec<String> =
                    limits.iter().map(|inline| inline.limit.to_string()).collect();
                let key = key.to_vec();
                match limits.len() {
                    // The form that earlier versions read.
                    1 => SavedTarget::InlineLimit { key, limit: limits.swap_remove(0) },
                    _ => SavedTarget::InlineLimits { key, limits },
                }
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
