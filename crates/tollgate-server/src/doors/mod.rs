//! The doors of the server. A door only parses and renders: its requests go to the
//! [`DecisionService`](crate::decisions::DecisionService), which makes the decisions that it renders.

pub(crate) mod auth;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod resp;
