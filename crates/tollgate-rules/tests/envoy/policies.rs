//! Policies from the documentation of the format.

use tollgate_rules::envoy::{Code, Descriptor};

use super::service::serve;

#[test]
fn marketing_messages_and_all_messages_to_one_number() {
    let service = serve(
        "
domain: d
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - { key: to_number, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: to_number, rate_limit: { unit: day, requests_per_unit: 4 } }
",
    );
    let marketing: &[_] = &[("message_type", "marketing"), ("to_number", "555-0100")];
    let number: &[_] = &[("to_number", "555-0100")];
    let both = [Descriptor::new(marketing), Descriptor::new(number)];
    assert_eq!(service.decide_all(&both).overall, Code::Ok);
    assert_eq!(service.decide_all(&both).overall, Code::Ok);
    let third = service.decide_all(&both);
    assert_eq!((third.overall, third.statuses[1].code), (Code::OverLimit, Code::Ok));
    // The refused third message was still charged to the number: one of another type is left.
    let news = [Descriptor::new(&[("message_type", "news"), ("to_number", "555-0100")]), both[1]];
    assert_eq!(service.decide_all(&news).overall, Code::Ok);
    assert_eq!(service.decide_all(&news).overall, Code::OverLimit);
    assert_eq!(
        service.hit(&[("message_type", "marketing"), ("to_number", "555-0101")]).code,
        Code::Ok
    );
}

#[test]
fn a_default_and_a_blocked_address() {
    let service = serve(
        "
domain: d
descriptors:
  - { key: remote_address, rate_limit: { unit: second, requests_per_unit: 3 } }
  - { key: remote_address, value: 192.0.2.5, rate_limit: { unit: second, requests_per_unit: 0 } }
",
    );
    assert_eq!(service.passes(&[("remote_address", "192.0.2.1")]), 3);
    assert_eq!(service.passes(&[("remote_address", "192.0.2.2")]), 3);
    assert_eq!(service.passes(&[("remote_address", "192.0.2.5")]), 0);
}

#[test]
fn one_user_is_in_shadow_mode_and_another_is_limited() {
    let service = serve("
domain: d
descriptors:
  - key: service
    descriptors:
      - { key: user, value: ann, rate_limit: { unit: second, requests_per_unit: 2 }, shadow_mode: true }
      - { key: user, value: bob, rate_limit: { unit: second, requests_per_unit: 4 } }
");
    assert_eq!(service.passes(&[("service", "auth"), ("user", "ann")]), 10);
    assert_eq!(service.passes(&[("service", "auth"), ("user", "bob")]), 4);
    assert_eq!(service.passes(&[("service", "mail"), ("user", "bob")]), 4);
    assert_eq!(service.limit(&[("service", "auth"), ("user", "carol")]), None);
}

#[test]
fn an_endpoint_may_have_more_than_its_category() {
    let service = serve("
domain: d
descriptors:
  - key: category
    value: read
    descriptors:
      - { key: user, rate_limit: { name: reads, unit: minute, requests_per_unit: 2 } }
  - key: endpoint
    value: feed
    descriptors:
      - { key: user, rate_limit: { unit: minute, requests_per_unit: 5, replaces: [{ name: reads }] } }
");
    let read = Descriptor::new(&[("category", "read"), ("user", "ann")]);
    let feed = Descriptor::new(&[("endpoint", "feed"), ("user", "ann")]);
    let passed =
        (0..10).take_while(|_| service.decide_all(&[read, feed]).overall == Code::Ok).count();
    assert_eq!(passed, 5);
    assert_eq!(service.passes(read.entries), 2); // the replaced limit was not charged
}

#[test]
fn metric_names_contain_only_the_configured_values() {
    let service = serve("
domain: d
descriptors:
  - key: route
    value_to_metric: true
    descriptors:
      - key: user
        rate_limit: { unit: minute, requests_per_unit: 60 }
  - key: all
    descriptors:
      - { key: user, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - key: exact
    value: v
    rate_limit: { unit: minute, requests_per_unit: 60 }
  - { key: wild, value: a/*, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: wilder, value: a/*, value_to_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: one, value: a/*, share_threshold: true, value_to_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: many, value: a/*, share_threshold: true, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: api_key, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: ip, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: nothing }
");
    let tree = service.domains.get("d").unwrap();
    let cases: [(&[_], _); 13] = [
        (&[("route", "api"), ("user", "ann")], Some("d.route_api.user")),
        (&[("all", "api"), ("user", "ann")], Some("d.all_api.user_ann")),
        (&[("exact", "v")], Some("d.exact_v")),
        (&[("wild", "a/b")], Some("d.wild_a/*")),
        (&[("wilder", "a/b")], Some("d.wilder_a/b")),
        (&[("one", "a/b")], Some("d.one_a/*")),
        (&[("many", "a/b")], Some("d.many_a/*")),
        (&[("api_key", "s3cret")], Some("d.api_key")),
        (&[("ip", "203.0.113.7")], Some("d.ip_203_0_113_7")),
        (&[("ip", "2001:db8::1|c\nx")], Some("d.ip_2001_db8__1_c_x")),
        (&[("ip", "")], Some("d.ip_")),
        (&[("nothing", "v")], None),
        (&[("unmatched", "v")], None),
    ];
    for (entries, name) in cases {
        let found = tree.metric_name(&Descriptor::new(entries)).map(|name| name.to_string());
        assert_eq!(found.as_deref(), name, "{entries:?}");
    }
}
