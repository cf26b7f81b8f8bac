//! Warnings about doors that other machines can reach.

use tollgate_server::Config;

/// Returns a warning for each public door without TLS or without authentication.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let (has_data_tokens, has_admin_tokens) = (config.data_tokens.is_some(), true);
    let doors = [
        ("http", &config.http, has_data_tokens),
        ("grpc", &config.grpc, has_data_tokens),
        ("resp", &config.resp, has_data_tokens),
        ("admin", &config.admin, has_admin_tokens),
    ];
    let mut warnings = Vec::new();
    for (name, bind, has_tokens) in doors {
        let Some(bind) = bind.as_ref().filter(|bind| !bind.address.is_local()) else { continue };
        let address = &bind.address;
        if bind.tls.is_none() {
            warnings.push(format!(
                "the {name} door on {address} is public and unencrypted: \
                 give --tls-cert and --tls-key, or listen on 127.0.0.1"
            ));
        }
        let has_client_ca = bind.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !has_tokens && !has_client_ca {
            warnings.push(format!(
                "the {name} door on {address} is public and needs no authentication: \
                 give --data-tokens or --tls-client-ca, or listen on 127.0.0.1"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use tollgate_server::net::{Bind, TlsOptions};

    use super::*;

    #[test]
    fn only_public_doors_get_warnings() {
        let mut config = Config::default();
        assert_eq!(warnings(&config), Vec::<String>::new());
        config.resp = Some(Bind::plain("0.0.0.0:6380".parse().unwrap()));
        assert_eq!(warnings(&config).len(), 2);
        config.data_tokens = Some("ann:0123456789abcdef".parse().unwrap());
        assert_eq!(warnings(&config).len(), 1);
        let tls = TlsOptions { certificate: "c".into(), key: "k".into(), client_ca: None };
        config.resp = Some(Bind { address: "[::]:6380".parse().unwrap(), tls: Some(tls) });
        assert_eq!(warnings(&config), Vec::<String>::new());
    }
}
