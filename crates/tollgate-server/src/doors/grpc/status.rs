//! What a call comes to when it is not answered: a code of gRPC and a sentence.

use std::borrow::Cow;

use tollgate_tower::headers::grpc_message;

/// A code of gRPC and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: tonic::Code,
    pub(super) message: Cow<'static, str>,
}

impl Status {
    pub(super) fn new(code: tonic::Code, message: impl Into<Cow<'static, str>>) -> Status {
        Status { code, message: message.into() }
    }

    /// The message as a header can carry it.
    pub(super) fn encoded_message(&self) -> String {
        grpc_message(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_sentence_fits_into_a_header() {
        let status = Status::new(tonic::Code::Unknown, "100 % über\r\nGrenze");
        assert_eq!(status.encoded_message(), "100 %25 %C3%BCber%0D%0AGrenze");
    }
}
