//! Forward-auth: proxies ask here before they let a request through.
