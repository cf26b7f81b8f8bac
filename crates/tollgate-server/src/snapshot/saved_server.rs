//! What a server has besides its counters, as data. It is attached to a snapshot.

use serde::{Deserialize, Serialize};
use tollgate_rules::SavedLimiter;

use crate::decisions::{DecisionService, SavedReservation};

/// Limits, ladder bans and open reservations. Fields that are missing are empty, and unknown ones are
/// ignored, so that versions can read the files of each other.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedServer {
    #[serde(default)]
    limiter: SavedLimiter,
    #[serde(default)]
    reservations: Vec<SavedReservation>,
}

impl SavedServer {
    /// Reads an attachment. Counters are more important, so an error is only logged.
    pub(super) fn parse(attachment: &[u8]) -> SavedServer {
        serde_json::from_slice(attachment).unwrap_or_else(|error| {
            tracing::error!(
                %error,
                "cannot read the reservations and the list of bans in the snapshot; its counters \
                 are restored without them"
            );
            SavedServer::default()
        })
    }

    /// Saves the state of a server as an attachment.
    pub(super) fn attachment(decisions: &DecisionService) -> Vec<u8> {
        let (limiter, reservations) = (decisions.limiter().save(), decisions.save_reservations());
        serde_json::to_vec(&SavedServer { limiter, reservations }).unwrap_or_default()
    }

    /// Gives a server what the former process had.
    pub(crate) async fn restore(self, decisions: &DecisionService) {
        decisions.limiter().restore(self.limiter);
        let reservations = decisions.restore_reservations(self.reservations).await;
        if reservations > 0 {
            tracing::info!(reservations, "restored reservations from the snapshot");
        }
    }
}

/// Reads any bytes as an attachment, and gives it to a server.
///
/// An attachment that is read is written and read again without a change.
#[cfg(any(test, fuzzing))]
pub fn fuzz_attachment(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<SavedServer>(bytes) else { return };
    let written = serde_json::to_vec(&read).expect("an attachment that was read can be written");
    let again: SavedServer = serde_json::from_slice(&written).expect("it can be read again");
    let rewritten = serde_json::to_vec(&again).expect("it can be written again");
    assert_eq!(rewritten, written);
    let rules = tollgate_rules::Rules::read([tollgate_rules::Source::new(
        "rules.yaml",
        "domain: shop\nrules: [{ name: all, per: ip, limit: 5/h }]",
    )]);
    let limiter = tollgate_rules::RuleLimiter::new(rules.expect("the rules are valid"));
    limiter.restore(read.limiter);
    let saved = limiter.save();
    assert!(serde_json::to_vec(&saved).is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Later versions must read this attachment.
    #[test]
    fn the_first_attachment_is_read() {
        let bytes = include_bytes!("attachment-1.json");
        let written: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let read: SavedServer = serde_json::from_slice(bytes).unwrap();
        assert_eq!(read.reservations.len(), 3);
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn an_attachment_of_another_version_is_read_as_far_as_known() {
        let read = SavedServer::parse(br#"{"reservations": [], "invented_later": 1}"#);
        assert!(read.reservations.is_empty());
        assert!(SavedServer::parse(b"no JSON").reservations.is_empty());
    }
}
