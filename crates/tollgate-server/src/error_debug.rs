//! `Debug` of the public errors: their message, because `main` prints a returned error with `Debug`.

use std::fmt;

macro_rules! debug_as_display {
    ($($error:ty),+ $(,)?) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

debug_as_display!(
    crate::access::TokensError,
    crate::bundle::BundleError,
    crate::client::ClientError,
    crate::config::KeySecretError,
    crate::config::UpstreamUrlError,
    crate::net::AddressError,
    crate::net::BindError,
    crate::net::TlsError,
    crate::rules_service::ServiceError,
    crate::secret::WeakSecret,
    crate::server::StartError,
    crate::sources::SourceError,
);

#[cfg(test)]
mod tests {
    #[test]
    fn a_returned_error_prints_its_message() {
        let error = "nowhere".parse::<crate::net::Address>().unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(error.to_string().contains("is no address"));
    }
}
