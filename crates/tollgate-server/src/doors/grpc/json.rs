//! `POST /json`.
