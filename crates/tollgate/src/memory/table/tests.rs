//! The table by itself: growing, chaining, forgetting, giving way.

use super::*;

type Narrow = Table<8, 1>;

/// Fingerprints as a hash would make them.
fn place(n: u64) -> Place {
    let mix = |n: u64| (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Place::of([mix(mix(n + 1)), mix(mix(mix(n + 1)))])
}

/// Fingerprints of keys that share a line, however large the table.
fn neighbour(n: u64) -> Place {
    Place::of([7, (n + 1) << 40 | 1 << 10])
}

fn insert(table: &Narrow, place: Place, full_at: u64, now: u64) {
    let line = table.lock_line(table.line_of(place));
    assert!(line.find(place).is_none());
    line.insert(place, 0, [full_at], now);
    drop(line);
    table.tend(now);
}

fn full_at(table: &Narrow, place: Place) -> Option<u64> {
    let line = table.lock_line(table.line_of(place));
    line.find(place).map(|slot| slot.entry::<1>().full_at())
}

fn lines(table: &Narrow) -> u64 {
    table.lines.0.load(Ordering::Relaxed)
}

#[test]
fn keys_are_found_wherever_lines_split() {
    let table = Narrow::new();
    let n = 100_000;
    for key in 0..n {
        insert(&table, place(key), 1_000 + key, 0);
    }
    assert_eq!(table.len(), n);
    assert!(lines(&table) > 1 << FIRST_BITS && lines(&table) * KEYS_PER_2_LINES >= n * 2);
    for key in 0..n {
        assert_eq!(full_at(&table, place(key)), Some(1_000 + key));
    }
}

#[test]
fn full_lines_chain_and_give_back() {
    let table = Narrow::new();
    for round in 1..=3 {
        for key in 0..40 {
            insert(&table, neighbour(key), round * 100 + key, round * 100 - 1);
        }
        for key in 0..40 {
            assert_eq!(full_at(&table, neighbour(key)), Some(round * 100 + key));
        }
        assert_eq!(table.len(), 40);
        // Half of them are forgotten, and half of the lines go back; then the rest.
        assert_eq!(table.sweep(round * 100 + 19), 20);
        assert_eq!(full_at(&table, neighbour(19)), None);
        assert_eq!(full_at(&table, neighbour(20)), Some(round * 100 + 20));
        assert_eq!(table.spare.lock().returned.len(), 5);
        assert_eq!(table.sweep(round * 100 + 99), 20);
        let spare = table.spare.lock();
        assert_eq!((spare.returned.len(), spare.never_used, table.len()), (9, 9, 0));
    }
}

#[test]
fn idle_keys_make_room_rather_than_lines() {
    let table = Narrow::new();
    let n = 60_000;
    (0..n).for_each(|key| insert(&table, place(key), 10, 0));
    let grown = lines(&table);
    (n..2 * n).for_each(|key| insert(&table, place(key), 30, 20));
    // Twice the keys would take twice the lines.
    assert!(lines(&table) < grown * 5 / 4, "{grown} to {}", lines(&table));
    (n..2 * n).for_each(|key| assert_eq!(full_at(&table, place(key)), Some(30)));
}

#[test]
fn whoever_owes_least_gives_way() {
    let table = Narrow::new();
    (0..1_000).for_each(|key| insert(&table, place(key), 1_000_000 + key, 0));
    insert(&table, place(5_000), 9_000_000, 0);
    for left in (1..=1_000).rev() {
        assert!(table.evict(0));
        assert_eq!(table.len(), left);
        assert_eq!(full_at(&table, place(5_000)), Some(9_000_000));
    }
    assert!(table.evict(0), "the last one");
    assert!(!table.evict(u64::MAX), "there is none");
}

#[test]
fn whoever_owes_no_more_than_the_newcomer_gives_way_first() {
    let table = Narrow::new();
    (0..100).for_each(|key| insert(&table, place(key), 500 + key % 2 * 500, 0));
    (0..50).for_each(|_| assert!(table.evict(500)));
    (0..100).for_each(|key| assert_eq!(full_at(&table, place(key)).is_some(), key % 2 == 1));
}
