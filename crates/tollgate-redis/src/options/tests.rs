//! Addresses as users write them, and the messages for wrong ones.

use std::time::Duration;

use super::*;

fn read(text: &str) -> Options {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parse_error(text: &str) -> String {
    let checked = text.parse::<Options>().and_then(|options| options.check());
    checked.expect_err(text).to_string()
}

#[test]
fn every_kind_of_address_is_read_and_written_in_full() {
    for (text, full) in [
        ("redis://cache", "redis://cache:6379"),
        ("redis://Cache.Example:7000/3", "redis://cache.example:7000/3"),
        ("valkeys://cache/", "rediss://cache:6379"),
        ("redis://[::1]", "redis://[::1]:6379"),
        ("redis://[::1]:7000", "redis://[::1]:7000"),
        ("redis://:p%40ss@cache", "redis://:***@cache:6379"),
        ("redis://ann:a:b@cache", "redis://ann:***@cache:6379"),
        ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
        ("redis+unix://:x@/run/r%20s?db=2", "redis+unix://:***@/run/r s?db=2"),
        ("redis+sentinel://a,b:1/main", "redis+sentinel://a:26379,b:1/main"),
        ("rediss+sentinel://u:p@a/main/4", "rediss+sentinel://u:***@a:26379/main/4"),
        ("redis+cluster://a:7001,b", "redis+cluster://a:7001,b:6379"),
        ("rediss+cluster://a/", "rediss+cluster://a:6379"),
        (" redis://a \n redis://b ", "redis://a:6379 redis://b:6379"),
    ] {
        assert_eq!(read(text).to_string(), full, "{text}");
        assert!(!format!("{:?}", read(text)).contains("p@ss"), "{text}");
    }
}

#[test]
fn names_and_passwords_are_decoded() {
    let options = read("redis+sentinel://u%3A:p%40ss@a/my%2Fmain?sentinel_password=s%26p");
    let group = &options.groups[0];
    assert_eq!(group.credentials.user.as_deref(), Some("u:"));
    assert_eq!(group.credentials.password.as_deref(), Some("p@ss"));
    let Topology::Sentinel { master, credentials, .. } = &group.topology else { panic!("{group}") };
    assert_eq!((master.as_str(), credentials.password.as_deref()), ("my/main", Some("s&p")));
}

#[test]
fn error_messages_say_what_to_write() {
    for (text, hint) in [
        ("", "write redis://host:6379"),
        ("cache:6379", "write redis://cache:6379"),
        ("http://cache", "write redis://, rediss://"),
        ("rediss+unix:///run/r", "write redis://"),
        ("redis://", "a host is missing"),
        ("redis://a:port", "write a number from 1 to 65535"),
        ("redis://a:0", "write a number from 1 to 65535"),
        ("redis://a:70000", "write a number from 1 to 65535"),
        ("redis://::1", "write [::1]"),
        ("redis://[::1", "has no `]`"),
        ("redis://a_b*c", "it has a '*' in it"),
        ("redis://a/one", "write a number such as 0"),
        ("redis://a/1?db=2", "names the database twice"),
        ("redis://a,b", "redis+cluster://"),
        ("redis://ann@a", "write user:password@"),
        ("redis://a?timeout=5", "?timeout is not known: write name"),
        ("redis://a?name", "?name has no value"),
        ("redis://a?sentinel_password=x", "only redis+sentinel://"),
        ("redis://:%ff@a", "is not UTF-8"),
        ("redis+unix://run/r", "three slashes"),
        ("redis+sentinel://a", "which master"),
        ("redis+cluster://a/1", "only one database"),
        ("redis://a redis://A:6379", "two groups are called \"a:6379\""),
        ("redis://a?name=x redis://b?name=x", "two groups are called \"x\""),
    ] {
        assert!(parse_error(text).contains(hint), "{text:?}: {}", parse_error(text));
    }
}

#[test]
fn no_message_shows_a_password() {
    for text in [
        "redis://ann:s3cret@a:port",
        "ann:s3cret@cache",
        "redis://s3cret@a",
        "redis+sentinel://a?sentinel_password=s3cret",
        "redis://:s3cret@a redis://:s3cret@a",
    ] {
        assert!(!parse_error(text).contains("s3cret"), "{}", parse_error(text));
    }
}

#[test]
fn a_group_is_named_by_its_address_alone() {
    let name = |text| read(text).groups[0].name.clone();
    assert_eq!(name("redis://a"), name("rediss://u:p@A:6379/0"));
    assert_ne!(name("redis://a"), name("redis://a/1"));
    assert_eq!(name("redis+cluster://b,a"), name("rediss+cluster://a,b:6379,a"));
    assert_eq!(name("redis+sentinel://b,a/m"), "a:26379,b:26379/m");
    assert_eq!(name("redis://10.0.0.1?name=east"), "east");
}

#[test]
fn settings_have_bounds() {
    let options = || read("redis://a");
    assert_eq!(options().prefix, "tollgate");
    assert_eq!(options().timeout, Duration::from_millis(40));
    assert_eq!(options().prefix("shop").unwrap().prefix, "shop");
    for prefix in ["", "a{b", "a}b", "a b", "a\nb", &"a".repeat(65)] {
        assert!(options().prefix(prefix).is_err(), "{prefix:?}");
    }
    assert!(options().timeout(Duration::ZERO).is_err());
    assert!(options().connect_timeout(Duration::from_secs(61)).is_err());
    assert!(options().connections(0).is_err());
    assert!(options().connections(65).is_err());
    assert_eq!(options().connections(64).unwrap().connections, 64);
}
