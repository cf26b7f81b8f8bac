//! Tests of the table by itself: growth, overflow chains, expiry, eviction.

use super::super::line::SlotEntry;
use super::*;

type Narrow = Table<8, 1>;

/// Returns the hash of a well-distributed fingerprint.
fn hash(n: u64) -> TableHash {
    let mix = |n: u64| (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    TableHash::new([mix(mix(n + 1)), mix(mix(mix(n + 1)))])
}

/// Returns the hash of a key that shares its line with others, however large the table.
fn neighbour(n: u64) -> TableHash {
    TableHash::new([7, (n + 1) << 40 | 1 << 10])
}

fn insert(table: &Narrow, hash: TableHash, full_at: u64, now: u64) {
    let line = table.lock_line(table.line_of(hash));
    assert!(line.find(hash).is_none());
    table.reserve();
    line.insert(&SlotEntry { tag: hash.tag, nibble: 0, words: [full_at] }, now);
    drop(line);
    table.maintain(now, || true);
}

fn full_at(table: &Narrow, hash: TableHash) -> Option<u64> {
    let line = table.lock_line(table.line_of(hash));
    line.find(hash).map(|slot| slot.entry::<1>().full_at())
}

fn lines(table: &Narrow) -> u64 {
    table.lines.0.load(Ordering::Relaxed)
}

#[test]
fn keys_are_found_after_lines_split() {
    let table = Narrow::new();
    let n = 100_000;
    for key in 0..n {
        insert(&table, hash(key), 1_000 + key, 0);
    }
    assert_eq!(table.len(), n);
    assert!(lines(&table) > 1 << FIRST_BITS && lines(&table) * KEYS_PER_2_LINES >= n * 2);
    for key in 0..n {
        assert_eq!(full_at(&table, hash(key)), Some(1_000 + key));
    }
}

#[test]
fn full_lines_chain_overflow_lines_and_free_them() {
    let table = Narrow::new();
    for round in 1..=3 {
        for key in 0..40 {
            insert(&table, neighbour(key), round * 100 + key, round * 100 - 1);
        }
        for key in 0..40 {
            assert_eq!(full_at(&table, neighbour(key)), Some(round * 100 + key));
        }
        assert_eq!(table.len(), 40);
        // Half of the keys expire, and half of the lines are freed; then the rest.
        assert_eq!(table.sweep(round * 100 + 19), 20);
        assert_eq!(full_at(&table, neighbour(19)), None);
        assert_eq!(full_at(&table, neighbour(20)), Some(round * 100 + 20));
        assert_eq!(table.free.lock().returned.len(), 5);
        assert_eq!(table.sweep(round * 100 + 99), 20);
        let free = table.free.lock();
        assert_eq!((free.returned.len(), free.never_used, table.len()), (9, 9, 0));
    }
}

#[test]
fn expired_keys_are_replaced_before_the_table_grows() {
    let table = Narrow::new();
    let n = 60_000;
    (0..n).for_each(|key| insert(&table, hash(key), 10, 0));
    let grown = lines(&table);
    (n..2 * n).for_each(|key| insert(&table, hash(key), 30, 20));
    // Twice the keys would take twice the lines.
    assert!(lines(&table) < grown * 5 / 4, "{grown} to {}", lines(&table));
    (n..2 * n).for_each(|key| assert_eq!(full_at(&table, hash(key)), Some(30)));
}

#[test]
fn the_key_that_owes_least_is_evicted() {
    let table = Narrow::new();
    (0..1_000).for_each(|key| insert(&table, hash(key), 1_000_000 + key, 0));
    insert(&table, hash(5_000), 9_000_000, 0);
    for left in (1..=1_000).rev() {
        assert!(table.evict(0));
        assert_eq!(table.len(), left);
        assert_eq!(full_at(&table, hash(5_000)), Some(9_000_000));
    }
    assert!(table.evict(0), "the last one");
    assert!(!table.evict(u64::MAX), "there is none");
}

#[test]
fn a_key_that_owes_no_more_than_the_new_one_is_evicted_first() {
    let table = Narrow::new();
    (0..100).for_each(|key| insert(&table, hash(key), 500 + key % 2 * 500, 0));
    (0..50).for_each(|_| assert!(table.evict(500)));
    (0..100).for_each(|key| assert_eq!(full_at(&table, hash(key)).is_some(), key % 2 == 1));
}
