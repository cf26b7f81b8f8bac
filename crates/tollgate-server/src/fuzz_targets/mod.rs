//! The functions of the fuzz targets of this crate: `cargo xtask fuzz` calls them with arbitrary bytes,
//! and a test with the stored corpus. Each is beside the parser that it checks.

pub use crate::bundle::fuzz_target::fuzz_bundle as bundle;
pub use crate::doors::grpc::request::fuzz_target::fuzz_protobuf as protobuf;
pub use crate::doors::http::body_fields::fuzz_target::fuzz_json_body as json_body;
pub use crate::doors::resp::fuzz_target::fuzz_resp as resp;
pub use crate::net::http::frame_scanner::fuzz_target::fuzz_frames as frames;
pub use crate::net::http::request_guard::fuzz_target::fuzz_chunks as chunks;
pub use crate::net::http::request_guard::fuzz_target::fuzz_request_guard as request_guard;
pub use crate::snapshot::fuzz_attachment as attachment;

#[cfg(test)]
mod tests {
    use tollgate_corpus::Corpus;

    #[test]
    fn the_corpus_of_http_requests_passes() {
        Corpus::of("request_guard").linear().replay(super::request_guard);
    }

    #[test]
    fn the_corpus_of_chunked_bodies_passes() {
        Corpus::of("chunks").linear().replay(super::chunks);
    }

    #[test]
    fn the_corpus_of_http2_frames_passes() {
        Corpus::of("frames").linear().replay(super::frames);
    }

    #[test]
    fn the_corpus_of_json_bodies_passes() {
        Corpus::of("json_body").linear().replay(super::json_body);
    }

    #[test]
    fn the_corpus_of_protobuf_messages_passes() {
        Corpus::of("protobuf").linear().replay(super::protobuf);
    }

    #[test]
    fn the_corpus_of_redis_commands_passes() {
        Corpus::of("resp").linear().replay(super::resp);
    }

    #[test]
    fn the_corpus_of_rule_bundles_passes() {
        Corpus::of("bundle").setup_mib(256).replay(super::bundle);
    }

    #[test]
    fn the_corpus_of_snapshot_attachments_passes() {
        Corpus::of("attachment").setup_mib(256).replay(super::attachment);
    }
}
