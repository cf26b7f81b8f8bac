//! `ShouldRateLimit` called by a raw client: responses and errors.

use bytes::Bytes;
use prost_types::value::Kind;
use tonic::Code;

use super::client::{GrpcClient, PATH, descriptors_request, finish, framed, read};
use super::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::{start, start_configured};

const OK: i32 = 1;
const OVER: i32 = 2;

#[test]
fn every_descriptor_has_its_status() {
    let server = start();
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let request = descriptors_request(&[
            ("user", "ann"),
            ("never", "x"),
            ("watched", "x"),
            ("other", "x"),
        ]);
        client.call(&request).await.response();
        let response = client.call(&request).await.response();
        assert_eq!(response.overall_code, OVER);
        let codes: Vec<_> = response.statuses.iter().map(|status| status.code).collect();
        assert_eq!(codes, [OK, OVER, OK, OK]);
        let users = response.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!(
            (users.name.as_str(), users.requests_per_unit, users.unit()),
            ("users", 3, Unit::Hour)
        );
        assert_eq!(response.statuses[0].limit_remaining, 1);
        // The clock stands at 12:00:07.5.
        assert_eq!(response.statuses[0].duration_until_reset.unwrap().seconds, 3_593);
        assert_eq!(response.statuses[3].current_limit, None);
        assert_eq!(response.response_headers_to_add, [], "unless configured");
    });
}

#[test]
fn the_cost_comes_from_the_descriptor_or_the_request() {
    let server = start();
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let mut request = descriptors_request(&[("heavy", "a"), ("heavy", "b"), ("heavy", "c")]);
        request.hits_addend = 4;
        request.descriptors[1].hits_addend = Some(0);
        request.descriptors[2].hits_addend = Some(9);
        let left = |statuses: Vec<_>| {
            statuses.iter().map(|status: &super::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus| status.limit_remaining).collect::<Vec<_>>()
        };
        assert_eq!(left(client.call(&request).await.response().statuses), [6, 10, 1]);
        request.descriptors[2].is_negative_hits = true;
        assert_eq!(left(client.call(&request).await.response().statuses), [2, 10, 10]);
        request.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 100, unit: 1 });
        assert_eq!(left(client.call(&request).await.response().statuses), [96, 10, 10]);
    });
}

#[test]
fn headers_and_metadata_are_sent_where_configured() {
    let server = start_configured(|config| config.envoy_headers = true);
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let response =
            client.call(&descriptors_request(&[("user", "ann"), ("gold", "x")])).await.response();
        let headers = response.response_headers_to_add.iter();
        let sent: Vec<_> = headers.map(|header| (&*header.key, &*header.value)).collect();
        let wanted =
            [("RateLimit-Limit", "3"), ("RateLimit-Remaining", "2"), ("RateLimit-Reset", "3593")];
        assert_eq!(sent, wanted);
        let fields = response.dynamic_metadata.unwrap().fields;
        let Some(Kind::StructValue(metadata)) = &fields["metadata"].kind else { panic!() };
        assert_eq!(metadata.fields["tier"].kind, Some(Kind::StringValue("gold".into())));
        assert_eq!(fields["domain"].kind, Some(Kind::StringValue("demo".into())));
    });
}

#[test]
fn an_invalid_request_is_refused_with_a_reason() {
    let server = start();
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let mut nameless = descriptors_request(&[("user", "ann")]);
        nameless.domain.clear();
        let response = client.call(&nameless).await;
        assert_eq!(
            (response.code, &*response.status_message),
            (2, "rate limit domain must not be empty")
        );
        let response = client.call(&descriptors_request(&[])).await;
        assert_eq!(
            (response.code, &*response.status_message),
            (2, "rate limit descriptor list must not be empty")
        );
        let mut timeless = descriptors_request(&[("user", "ann")]);
        timeless.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 0 });
        assert_eq!(client.call(&timeless).await.code, Code::InvalidArgument as i32);

        for (bytes, code) in [
            (Bytes::new(), Code::InvalidArgument),
            (Bytes::from_static(&[0, 0, 0]), Code::InvalidArgument),
            (Bytes::from_static(&[0, 0, 0, 0, 9, 1]), Code::InvalidArgument),
            (Bytes::from_static(&[0, 0, 0, 0, 1, 1, 1]), Code::InvalidArgument),
            (Bytes::from_static(&[1, 0, 0, 0, 1, 1]), Code::Unimplemented),
            (framed(&[0xff; 40]), Code::InvalidArgument),
        ] {
            let (response, mut body) = client.begin(PATH).await;
            finish(&mut body, bytes.clone());
            assert_eq!(read(response.await.unwrap()).await.code, code as i32, "{bytes:?}");
        }
        let (response, mut body) = client.begin("/a.Service/Method").await;
        finish(&mut body, framed(b""));
        assert_eq!(read(response.await.unwrap()).await.code, Code::Unimplemented as i32);
        assert_eq!(client.hit("user", "ann").await, (OK, 2), "the connection goes on");
    });
}

#[test]
fn a_message_may_come_in_pieces() {
    let server = start();
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let message =
            framed(&prost::Message::encode_to_vec(&descriptors_request(&[("user", "ann")])));
        let (response, mut body) = client.begin(PATH).await;
        let (slow, slow_body) = client.begin(PATH).await;
        for piece in message.chunks(3) {
            body.send_data(Bytes::copy_from_slice(piece), false).unwrap();
            tokio::task::yield_now().await;
        }
        finish(&mut body, Bytes::new());
        assert_eq!(read(response.await.unwrap()).await.response().overall_code, OK);
        drop((slow, slow_body));
        assert_eq!(client.hit("user", "ann").await, (OK, 1));
    });
}

#[test]
fn calls_need_a_token_but_health_checks_do_not() {
    let tokens = "envoy:correct-horse-battery".parse().unwrap();
    let server = start_configured(|config| config.data_tokens = Some(tokens));
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let request = descriptors_request(&[("user", "ann")]);
        let unauthenticated = Code::Unauthenticated as i32;
        assert_eq!(client.call(&request).await.code, unauthenticated);
        let wrong = [("authorization", "Bearer wrong-horse-battery")];
        let refused = client.call_with(&request, &wrong).await;
        assert_eq!(refused.code, unauthenticated);
        assert!(refused.status_message.contains("token is wrong"), "{}", refused.status_message);
        let right = [("authorization", "Bearer correct-horse-battery")];
        let statuses = client.call_with(&request, &right).await.response().statuses;
        assert_eq!(statuses[0].limit_remaining, 2, "a refused request costs nothing");
        for (path, code) in [
            ("/grpc.health.v1.Health/Check", 0),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", unauthenticated),
        ] {
            let (response, mut body) = client.begin(path).await;
            finish(&mut body, framed(b""));
            assert_eq!(read(response.await.unwrap()).await.code, code, "{path}");
        }
    });
}

#[test]
fn the_roles_of_tokens_are_enforced_and_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, "envoy:envoy-0123456789\nboard:board-0123456789:read").unwrap();
    let tokens = tollgate_server::access::Tokens::read(&path).unwrap();
    let server = start_configured(|config| config.data_tokens = Some(tokens));
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let request = descriptors_request(&[("user", "ann")]);
        let [envoy, board] = ["envoy", "board"].map(|name| format!("Bearer {name}-0123456789"));
        let board = [("authorization", board.as_str())];
        let envoy = [("authorization", envoy.as_str())];
        let denied = Code::PermissionDenied as i32;
        assert_eq!(client.call_with(&request, &board).await.code, denied);
        assert_eq!(client.call_with(&request, &envoy).await.code, 0);
        let mut refund = request.clone();
        refund.descriptors[0].is_negative_hits = true;
        assert_eq!(client.call_with(&refund, &envoy).await.code, denied);
        std::fs::write(&path, "envoy:envoy-0123456789:write").unwrap();
        server.reload();
        assert_eq!(client.call_with(&refund, &envoy).await.code, 0);
        assert_eq!(client.call_with(&request, &board).await.code, Code::Unauthenticated as i32);
    });
}
