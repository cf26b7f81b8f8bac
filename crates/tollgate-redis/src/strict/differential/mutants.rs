//! Deliberate mistakes in the Lua. The comparison must find each of them.

use tollgate_rig::Redis;

use super::{SUBJECTS, compare};
use crate::function::sources;

/// The algorithm, the text that is replaced, and the replacement.
pub(super) const MUTANTS: &[(&str, &str, &str)] = &[
    (
        "meter",
        "if part >= scale then\n    us, part = us + 1, part - scale",
        "if part > scale then\n    us, part = us + 1, part - scale",
    ),
    (
        "meter",
        "us < bound_us or (us == bound_us and part <= bound_part)",
        "us < bound_us or (us == bound_us and part < bound_part)",
    ),
    ("meter", "if us < since then\n    us, part = since, 0\n  end\n  if action", "if action"),
    ("meter", "and (wait == 0 or smooth_us < 0 or conforms(smooth_us, smooth_part))", ""),
    ("meter", "begun = owed_us + owed_part > 0 and write(us, part) or nil", "begun = nil"),
    ("fixed_window", "if now < ends and used > 0 then", "if now <= ends and used > 0 then"),
    (
        "fixed_window",
        "if ended < math.ceil(used / limit) then",
        "if ended <= math.ceil(used / limit) then",
    ),
    ("fixed_window", "ends = ends - (now - phase) % length", "ends = ends - now % length + 1"),
    ("fixed_window", "paid_off(most) - now", "paid_off(limit) - now"),
    ("fixed_window", "used > most", "most < 0"),
    ("fixed_window", "ends, used = to, 0", "ends, used = to, used"),
    ("sliding_window", "return start + length, current, 0", "return start + length, previous, 0"),
    ("sliding_window", "elseif since < 2 * length then", "elseif since <= 2 * length then"),
    (
        "sliding_window",
        "return muldiv(previous, left, length) + current",
        "return math.ceil(previous * left / length) + current",
    ),
    (
        "sliding_window",
        "return quotient + math.floor(left / c)",
        "return quotient + 1 + math.floor(left / c)",
    ),
    ("sliding_log", "oldest_at + window <= now do", "oldest_at + window < now do"),
    (
        "sliding_log",
        "if total - oldest_cost - newest_cost <= limit then",
        "if total - oldest_cost <= limit then",
    ),
    ("sliding_log", "total + cost - most, 0, first", "total + cost - limit, 0, first"),
    ("sliding_log", "moment = moment - moment % slot", "moment = moment + 0"),
    (
        "warm_up",
        "return narrow(shift_62(multiply(shift_62(multiply(share, share)), wide(coldest))))",
        "return math.floor((narrow(share) / 2 ^ 62) ^ 2 * coldest * 0.9999)",
    ),
    (
        "warm_up",
        "return not is_later(free_us, free_part, latest > MAX and MAX or latest, 0)",
        "return not is_later(free_us, 0, latest > MAX and MAX or latest, 0)",
    ),
    ("warm_up", "digit, rest = digit + 1, less", "rest = less"),
    ("concurrency", "gone + 20)) <= now do", "gone + 20)) < now do"),
    ("concurrency", "local allowed = total + cost <= most", "local allowed = total + cost < most"),
    (
        "concurrency",
        "elseif replaced then\n      insert(replaced)",
        "elseif replaced then\n      changed = true",
    ),
];

#[test]
fn every_mutant_is_caught() {
    let redis = Redis::start();
    let mut client = redis.client().unwrap();
    for (family, from, to) in MUTANTS {
        let lua = sources(u8::MAX);
        assert_eq!(lua.matches(from).count(), 1, "{family}: {from}");
        let mutant = lua.replace(from, to);
        let subjects = SUBJECTS.iter().filter(|subject| subject.family == *family);
        let caught = subjects.into_iter().any(|subject| {
            client.command(&["FLUSHALL"]).unwrap();
            (1..4).any(|seed| compare(&mut client, &mutant, subject, seed, 20_000).is_err())
        });
        assert!(caught, "{family}: {to}");
    }
}
