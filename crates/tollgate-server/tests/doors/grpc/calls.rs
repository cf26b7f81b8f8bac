//! Calls by hand: what is answered, and what is refused with a reason.

use bytes::Bytes;
use prost_types::value::Kind;
use tonic::Code;

use super::client::{Client, PATH, finish, framed, question, read};
use super::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::{start, start_also};

const OK: i32 = 1;
const OVER: i32 = 2;

#[test]
fn every_descriptor_has_its_status() {
    let server = start();
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let asked = question(&[("user", "ann"), ("never", "x"), ("watched", "x"), ("other", "x")]);
        client.ask(&asked).await.response();
        let answer = client.ask(&asked).await.response();
        assert_eq!(answer.overall_code, OVER);
        let codes: Vec<_> = answer.statuses.iter().map(|status| status.code).collect();
        assert_eq!(codes, [OK, OVER, OK, OK]);
        let users = answer.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!(
            (users.name.as_str(), users.requests_per_unit, users.unit()),
            ("users", 3, Unit::Hour)
        );
        assert_eq!(answer.statuses[0].limit_remaining, 1);
        // The clock stands at 12:00:07.5.
        assert_eq!(answer.statuses[0].duration_until_reset.unwrap().seconds, 3_593);
        assert_eq!(answer.statuses[3].current_limit, None);
        assert_eq!(answer.response_headers_to_add, [], "unless asked for");
    });
}

#[test]
fn what_it_costs_is_said_by_the_descriptor_or_the_request() {
    let server = start();
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let mut asked = question(&[("heavy", "a"), ("heavy", "b"), ("heavy", "c")]);
        asked.hits_addend = 4;
        asked.descriptors[1].hits_addend = Some(0);
        asked.descriptors[2].hits_addend = Some(9);
        let left = |statuses: Vec<_>| {
            statuses.iter().map(|status: &super::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus| status.limit_remaining).collect::<Vec<_>>()
        };
        assert_eq!(left(client.ask(&asked).await.response().statuses), [6, 10, 1]);
        asked.descriptors[2].is_negative_hits = true;
        assert_eq!(left(client.ask(&asked).await.response().statuses), [2, 10, 10]);
        asked.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 100, unit: 1 });
        assert_eq!(left(client.ask(&asked).await.response().statuses), [96, 10, 10]);
    });
}

#[test]
fn headers_and_metadata_are_told_where_they_are_wanted() {
    let server = start_also(|config| config.envoy_headers = true);
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let answer = client.ask(&question(&[("user", "ann"), ("gold", "x")])).await.response();
        let headers = answer.response_headers_to_add.iter();
        let told: Vec<_> = headers.map(|header| (&*header.key, &*header.value)).collect();
        let wanted =
            [("RateLimit-Limit", "3"), ("RateLimit-Remaining", "2"), ("RateLimit-Reset", "3593")];
        assert_eq!(told, wanted);
        let fields = answer.dynamic_metadata.unwrap().fields;
        let Some(Kind::StructValue(metadata)) = &fields["metadata"].kind else { panic!() };
        assert_eq!(metadata.fields["tier"].kind, Some(Kind::StringValue("gold".into())));
        assert_eq!(fields["domain"].kind, Some(Kind::StringValue("demo".into())));
    });
}

#[test]
fn a_question_that_is_none_is_refused_with_a_reason() {
    let server = start();
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let mut nameless = question(&[("user", "ann")]);
        nameless.domain.clear();
        let answer = client.ask(&nameless).await;
        assert_eq!((answer.code, &*answer.says), (2, "rate limit domain must not be empty"));
        let answer = client.ask(&question(&[])).await;
        assert_eq!(
            (answer.code, &*answer.says),
            (2, "rate limit descriptor list must not be empty")
        );
        let mut timeless = question(&[("user", "ann")]);
        timeless.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 0 });
        assert_eq!(client.ask(&timeless).await.code, Code::InvalidArgument as i32);

        for (bytes, code) in [
            (Bytes::new(), Code::InvalidArgument),
            (Bytes::from_static(&[0, 0, 0]), Code::InvalidArgument),
            (Bytes::from_static(&[0, 0, 0, 0, 9, 1]), Code::InvalidArgument),
            (Bytes::from_static(&[0, 0, 0, 0, 1, 1, 1]), Code::InvalidArgument),
            (Bytes::from_static(&[1, 0, 0, 0, 1, 1]), Code::Unimplemented),
            (framed(&[0xff; 40]), Code::InvalidArgument),
        ] {
            let (answer, mut body) = client.begin(PATH).await;
            finish(&mut body, bytes.clone());
            assert_eq!(read(answer.await.unwrap()).await.code, code as i32, "{bytes:?}");
        }
        let (answer, mut body) = client.begin("/a.Service/Method").await;
        finish(&mut body, framed(b""));
        assert_eq!(read(answer.await.unwrap()).await.code, Code::Unimplemented as i32);
        assert_eq!(client.hit("user", "ann").await, (OK, 2), "the connection goes on");
    });
}

#[test]
fn a_message_may_come_in_pieces() {
    let server = start();
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let message = framed(&prost::Message::encode_to_vec(&question(&[("user", "ann")])));
        let (answer, mut body) = client.begin(PATH).await;
        let (slow, slow_body) = client.begin(PATH).await;
        for piece in message.chunks(3) {
            body.send_data(Bytes::copy_from_slice(piece), false).unwrap();
            tokio::task::yield_now().await;
        }
        finish(&mut body, Bytes::new());
        assert_eq!(read(answer.await.unwrap()).await.response().overall_code, OK);
        drop((slow, slow_body));
        assert_eq!(client.hit("user", "ann").await, (OK, 1));
    });
}

#[test]
fn tokens_keep_strangers_out_but_not_load_balancers() {
    let tokens = "envoy:correct-horse-battery".parse().unwrap();
    let server = start_also(|config| config.data_tokens = Some(tokens));
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let asked = question(&[("user", "ann")]);
        let unauthenticated = Code::Unauthenticated as i32;
        assert_eq!(client.ask(&asked).await.code, unauthenticated);
        let wrong = [("authorization", "Bearer wrong-horse-battery")];
        assert_eq!(client.ask_with(&asked, &wrong).await.code, unauthenticated);
        let right = [("authorization", "Bearer correct-horse-battery")];
        let statuses = client.ask_with(&asked, &right).await.response().statuses;
        assert_eq!(statuses[0].limit_remaining, 2, "who was refused spent nothing");
        for (path, code) in [
            ("/grpc.health.v1.Health/Check", 0),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", unauthenticated),
        ] {
            let (answer, mut body) = client.begin(path).await;
            finish(&mut body, framed(b""));
            assert_eq!(read(answer.await.unwrap()).await.code, code, "{path}");
        }
    });
}
