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
