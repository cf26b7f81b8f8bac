//! The status of a failed gRPC call.

use std::borrow::Cow;

use tollgate_tower::headers::grpc_message;

/// The status of a failed call: a gRPC code and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrpcStatus {
    pub(super) code: tonic::Code,
    pub(super) message: Cow<'static, str>,
}

impl GrpcStatus {
    pub(super) fn new(code: tonic::Code, message: impl Into<Cow<'static, str>>) -> GrpcStatus {
        GrpcStatus { code, message: message.into() }
    }

    /// Returns the message percent-encoded for a header.
    pub(super) fn encoded_message(&self) -> String {
        grpc_message(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_encoded() {
        let status = GrpcStatus::new(tonic::Code::Unknown, "100 % über\r\nGrenze");
        assert_eq!(status.encoded_message(), "100 %25 %C3%BCber%0D%0AGrenze");
    }
}
