//! The names of doors in metrics and events.

/// The name of a door in metrics and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DoorName {
    /// Decisions over HTTP.
    Http,
    /// Forward-auth of other proxies.
    Auth,
    /// Envoy's rate limit service, over gRPC or `POST /json`.
    Grpc,
    /// The Redis protocol.
    Resp,
    /// The gateway.
    Gateway,
}

impl DoorName {
    pub(super) const ALL: [DoorName; 5] =
        [DoorName::Http, DoorName::Auth, DoorName::Grpc, DoorName::Resp, DoorName::Gateway];

    /// Returns the label of the door.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            DoorName::Http => "http",
            DoorName::Auth => "auth",
            DoorName::Grpc => "grpc",
            DoorName::Resp => "resp",
            DoorName::Gateway => "gateway",
        }
    }
}
