//! Deliberate mistakes in the Lua. The comparison must find each of them.

use tollgate_rig::Redis;

use super::sequence::Course;
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
    ("meter", "begun = owed_us + owed_part > 0 and write(", "begun = false and write("),
    ("meter", "us = us - (written - now)", "us = empty_us"),
    ("meter", "us, part = empty_us, empty_part\n  end", "us = us - 0\n  end"),
    ("meter", "return pack_doubles('<ddd', us, part, now)", "return pack_doubles('<dd', us, part)"),
    ("fixed_window", "used > 0 and ends > now and ends > end_after()", "false"),
    ("fixed_window", "used > 0 and ends > to and", "false and"),
    ("sliding_window", "start = now - now % length\n    return STEPPED", "return STEPPED"),
    ("sliding_log", "local by = (written or newest_at) - now", "local by = newest_at - now"),
    ("sliding_log", ".. (newest_at > now and string.format('%020d', now) or '')", ""),
    ("warm_up", "minus(free_us, free_part, written - now, 0, scale)", "now, 0"),
    ("concurrency", "if #leases > 0 and last_expiry() > now + length and", "if false and"),
    // Without this write a key that is refused would never recover.
    ("meter", "after = state\n    end", "after = nil\n    end"),
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
        // Short runs first, so that a mutant of one subject does not wait for long runs of the others.
        let stepping = (1..6).map(|seed| (Course::Stepping, seed, 5_000));
        let steady = (1..4).map(|seed| (Course::Steady, seed, 20_000));
        let runs = stepping.chain(steady);
        let runs = runs.flat_map(|run| SUBJECTS.iter().map(move |subject| (run, subject)));
        let mut runs = runs.filter(|(_, subject)| subject.family == *family);
        let caught = runs.any(|((course, seed, steps), subject)| {
            client.command(&["FLUSHALL"]).unwrap();
            compare(&mut client, &mutant, subject, course, seed, steps).is_err()
        });
        assert!(caught, "{family}: {to}");
    }
}

/// Prints `muldiv` of three arguments at a time.
const MULDIV: &str = "
local results = {}
for i = 1, #ARGV, 3 do
  local a, b, c = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  results[#results + 1] = string.format('%.0f', muldiv(a, b, c))
end
return results
";

/// Prints `share_of(a * b, 2^14 * a * c)` of three arguments at a time, as limbs of 24 bits.
const SHARES: &str = "
local results = {}
for i = 1, #ARGV, 3 do
  local a, b, c = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local share = algorithms.share(a, b, c)
  results[#results + 1] = string.format('%d:%d:%d', share[1], share[2], share[3])
end
return results
";

/// Runs a script on triples of numbers.
fn results(redis: &Redis, script: String, triples: &[[u64; 3]]) -> Vec<String> {
    let numbers = triples.iter().flatten().map(u64::to_string);
    let script = [String::from("EVAL"), script, String::from("0")];
    let command: Vec<String> = script.into_iter().chain(numbers).collect();
    let reply = redis.client().unwrap().command(&command).unwrap();
    reply.list().iter().map(tollgate_rig::Reply::text).collect()
}

/// Returns random numbers of up to `bits` bits, small ones as often as large ones.
fn random_numbers(dice: &mut fastrand::Rng, bits: u8) -> u64 {
    let bits = dice.u8(2..=bits);
    dice.u64(1..1 << bits)
}

fn multiplies_exactly(redis: &Redis, lua: &str) -> bool {
    let mut dice = fastrand::Rng::with_seed(7);
    let triple = |_| {
        let c = random_numbers(&mut dice, 50) + 1;
        [random_numbers(&mut dice, 51), random_numbers(&mut dice, 51) % c, c]
    };
    let triples: Vec<[u64; 3]> = (0..1_000).map(triple).collect();
    let exact = triples.iter().map(|[a, b, c]| u128::from(*a) * u128::from(*b) / u128::from(*c));
    exact.map(|exact| exact.to_string()).eq(results(redis, format!("{lua}{MULDIV}"), &triples))
}

fn divides_exactly(redis: &Redis, lua: &str) -> bool {
    let kind = "algorithms.u = function";
    assert_eq!(lua.matches(kind).count(), 1);
    let share = "algorithms.share = function(a, b, c)
      return share_of(multiply(wide(a), wide(b)), multiply(wide(a), wide(16384 * c)))
    end\n";
    let lua = lua.replace(kind, &format!("{share}{kind}"));
    let mut dice = fastrand::Rng::with_seed(7);
    let triple = |_| {
        // Whole numbers of digits are the hard case: the estimate of a digit may be one too low.
        let (a, c) = (random_numbers(&mut dice, 46), random_numbers(&mut dice, 16));
        let b = if dice.bool() { c * dice.u64(..16_384) } else { dice.u64(..16_384 * c) };
        [a, b, c]
    };
    let triples: Vec<[u64; 3]> = (0..3_000).map(triple).collect();
    let exact = triples.iter().map(|[_, b, c]| {
        let share = (u128::from(*b) << 62) / (u128::from(*c) << 14);
        let limb = |n: u32| (share >> (24 * n)) & 0xff_ffff;
        format!("{}:{}:{}", limb(0), limb(1), limb(2))
    });
    exact.eq(results(redis, format!("{lua}{SHARES}"), &triples))
}

#[test]
fn large_numbers_are_multiplied_and_divided_exactly() {
    let (redis, lua) = (Redis::start(), sources(u8::MAX));
    assert!(multiplies_exactly(&redis, &lua) && divides_exactly(&redis, &lua));
    let mutant = |from: &str, to: &str| {
        assert_eq!(lua.matches(from).count(), 1, "{from}");
        lua.replace(from, to)
    };
    let product = mutant("return quotient + math", "return quotient + 1 + math");
    assert!(!multiplies_exactly(&redis, &product), "the mutant is caught");
    let quotient = mutant("digit, rest = digit + 1, less", "rest = less");
    assert!(!divides_exactly(&redis, &quotient), "the mutant is caught");
}
