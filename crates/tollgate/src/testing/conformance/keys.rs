//! Cases of keys: distinct keys never share a counter, and a key always has one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Harness;
use super::algorithms::RATES;
use super::concurrency::CONCURRENCY_LIMITS;
use super::store_under_test::StoreUnderTest;
use crate::{Action, Key};

pub(super) async fn two_keys_are_independent<H: Harness>(store: &StoreUnderTest<'_, H>) {
    for (text, at_once) in RATES.iter().chain(CONCURRENCY_LIMITS) {
        let counter = store.counter(text);
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
        assert_eq!(counter.exhaust("b").await.0, *at_once, "{text}");
        counter.run(Action::Reset, "a", 0).await;
        assert!(!counter.take("b", 1).await.allowed, "{text}");
        assert_eq!(counter.exhaust("a").await.0, *at_once, "{text}");
    }
}

pub(super) async fn one_key_under_two_counter_ids_is_two_counters<H: Harness>(
    store: &StoreUnderTest<'_, H>,
) {
    for (text, at_once) in RATES.iter().chain(CONCURRENCY_LIMITS) {
        let [one, other] = [store.counter(text), store.counter(text)];
        assert_eq!(one.exhaust("a").await.0, *at_once, "{text}");
        let before = other.peek("a").await;
        store.assert_same_verdict(text, before, other.peek("new").await);
        let verdicts = store.take(&[one.check("a", 1), other.check("a", 1)]).await;
        assert!(!verdicts[0].allowed, "{text}");
        if !other.text_contains("count_denied") {
            store.assert_same_verdict(text, other.peek("a").await, before);
        }
        assert_eq!(other.exhaust("a").await.0, *at_once, "{text}");
    }
}

pub(super) async fn keys_of_all_kinds_are_distinct<H: Harness>(store: &StoreUnderTest<'_, H>) {
    let long = vec![b'x'; 64 << 10];
    let mut other_long = long.clone();
    other_long[40_000] = b'y';
    let repeated = "a".repeat(300);
    let seven = 7_u64.to_le_bytes();
    let seven_backwards = 7_u64.to_be_bytes();
    let v6 = |text: &str| IpAddr::V6(text.parse::<Ipv6Addr>().expect("an address"));
    let v4 = IpAddr::V4(Ipv4Addr::new(0, 0, 0, 7));
    let keys: Vec<Key<'_>> = vec![
        // Texts that could be confused with each other or with separators.
        "".into(),
        "\0".into(),
        "\0\0".into(),
        "a".into(),
        "a\0".into(),
        "A".into(),
        " a".into(),
        "a:b".into(),
        "a:b:".into(),
        (&repeated).into(),
        "{a}".into(),
        "{}a".into(),
        "{a}b".into(),
        "a\r\nb".into(),
        "*".into(),
        "é".into(),
        "e\u{301}".into(),
        // Raw bytes, short and long.
        b"\xff\xfe".into(),
        b"\xff".into(),
        b"\x80".into(),
        (&long[..]).into(),
        (&long[1..]).into(),
        (&other_long[..]).into(),
        // Numbers and addresses, with texts and bytes that look like them.
        7_u64.into(),
        "7".into(),
        (&seven).into(),
        (&seven_backwards).into(),
        0_u64.into(),
        "0".into(),
        u64::MAX.into(),
        v4.into(),
        "0.0.0.7".into(),
        v6("::7").into(),
        v6("::ffff:0.0.0.7").into(),
        v6("::").into(),
        "::7".into(),
    ];
    for text in ["1/{P}", "1/{P} fixed", "1/{P} log"] {
        let counter = store.counter(text);
        for key in &keys {
            assert!(counter.take(*key, 1).await.allowed, "{text}: {key:?} shares a counter");
        }
        for key in &keys {
            assert!(!counter.take(*key, 1).await.allowed, "{text}: {key:?} is not one counter");
        }
    }
}
