//! Compares the Lua with the Rust, for every algorithm. The same random requests run on a real
//! server and in this process, and their states must be equal. Mutants of the Lua prove that the
//! comparison finds
//! mistakes.

mod mutants;
mod sequence;

use tollgate_rig::{Client, Redis, Reply};

use self::sequence::{Course, Sequence, Step};
use crate::function::{FAMILIES, sources};

/// The number of requests in one call, so that the network does not dominate.
const BATCH: usize = 50;

/// A script that runs many requests in one call.
const RUN_ALL: &str = "
local answers, at = {}, 1
while at <= #ARGV do
  local lists, sizes = { {}, {} }, { tonumber(ARGV[at]), tonumber(ARGV[at + 1]) }
  at = at + 2
  for list = 1, 2 do
    for i = 1, sizes[list] do
      lists[list][i] = ARGV[at]
      at = at + 1
    end
  end
  answers[#answers + 1] = run(lists[1], lists[2])
end
return answers
";

/// The limits an algorithm is tested with, and the approximate time between two requests.
struct Subject {
    family: &'static str,
    limits: &'static [&'static str],
    pace_us: u64,
}

const SUBJECTS: &[Subject] = &[
    Subject {
        family: "meter",
        limits: &["5/min", "5/min burst 8", "7/min burst 3", "997/min burst 6", "10/min gcra"],
        pace_us: 9_000_000,
    },
    Subject {
        family: "meter",
        limits: &[
            "2/7us burst 5",
            "3/11us",
            "333/ms burst 10",
            "1/us burst 9",
            "9999991/s burst 7",
        ],
        pace_us: 4,
    },
    Subject {
        family: "meter",
        limits: &[
            "6/min leaky burst 6",
            "6/min leaky free 2 burst 5",
            "5/min interval",
            "5/min burst 9 initial 4",
            "5/min burst 9 initial 0",
            "5/min burst 3 pay_later",
            "3/min leaky free 2 burst 4 pay_later",
        ],
        pace_us: 9_000_000,
    },
    Subject {
        family: "fixed_window",
        limits: &[
            "5/min fixed",
            "5/min fixed first_hit",
            "5/min fixed count_denied",
            "40/7s fixed",
        ],
        pace_us: 9_000_000,
    },
    Subject {
        family: "fixed_window",
        limits: &[
            "3/day calendar",
            "3/week calendar zone Asia/Kathmandu anchor 7",
            "9/month calendar zone Europe/Berlin anchor 15",
            "3/day calendar count_denied",
        ],
        pace_us: 9_000_000_000,
    },
    Subject {
        family: "sliding_window",
        limits: &["5/min sliding", "30/min sliding", "5/min sliding count_denied", "7/61s sliding"],
        pace_us: 4_000_000,
    },
    Subject {
        family: "sliding_window",
        limits: &["1000003/day sliding", "123456789/day sliding", "99999999999/week sliding"],
        pace_us: 9_000_000_000,
    },
    Subject {
        family: "sliding_log",
        limits: &[
            "5/min log",
            "30/min log",
            "5/min log count_denied",
            "5/min log min_gap 6s",
            "5/min log min_gap 6s count_denied",
            "5/min sliding slots 6",
            "40/min sliding slots 60",
        ],
        pace_us: 4_000_000,
    },
    Subject {
        family: "warm_up",
        limits: &["5/min warmup 1min", "7/min warmup 100s", "100/min warmup 7s", "13/7s warmup 1h"],
        pace_us: 3_000_000,
    },
    Subject {
        family: "concurrency",
        limits: &["3 concurrent lease 1min", "10 concurrent lease 20s", "1 concurrent lease 5s"],
        pace_us: 3_000_000,
    },
];

/// Runs `steps` requests on this Lua, and returns where it first differs from the Rust.
fn compare(
    client: &mut Client,
    lua: &str,
    subject: &Subject,
    course: Course,
    seed: u64,
    steps: usize,
) -> Result<(), String> {
    let script = format!("{lua}{RUN_ALL}");
    let mut sequence = Sequence::new(subject.limits, subject.pace_us, course, seed);
    let mut compared = 0;
    while compared < steps {
        let batch: Vec<Step> = (0..BATCH).map(|_| sequence.next()).collect();
        let mut command: Vec<Vec<u8>> = vec![b"EVAL".into(), script.clone().into(), b"0".into()];
        batch.iter().for_each(|step| step.put(&mut command));
        let reply = client.command(&command).map_err(|error| error.to_string())?;
        if let Reply::Error(error) = &reply {
            return Err(error.clone());
        }
        for (step, answer) in batch.iter().zip(reply.list()) {
            sequence.compare(step, answer)?;
            compared += 1;
        }
    }
    match sequence.passed > steps / 50 && sequence.refused > steps / 50 {
        true => Ok(()),
        false => {
            Err(format!("one-sided: {} passed, {} did not", sequence.passed, sequence.refused))
        }
    }
}

fn differ(family: &str, steps: usize) {
    let redis = Redis::start();
    let mut client = redis.client().unwrap();
    let mine = |subject: &&Subject| subject.family == family;
    let subjects: Vec<&Subject> = SUBJECTS.iter().filter(mine).collect();
    for subject in &subjects {
        let steps = steps.div_ceil(2 * subjects.len());
        for course in [Course::Steady, Course::Stepping] {
            compare(&mut client, &sources(u8::MAX), subject, course, 7, steps).unwrap();
            client.command(&["FLUSHALL"]).unwrap();
        }
    }
}

/// The minimum number of requests for each algorithm.
const STEPS: usize = 100_000;

#[test]
fn meter_is_mirrored() {
    differ("meter", STEPS);
}

#[test]
fn fixed_window_is_mirrored() {
    differ("fixed_window", STEPS);
}

#[test]
fn sliding_window_is_mirrored() {
    differ("sliding_window", STEPS);
}

#[test]
fn sliding_log_is_mirrored() {
    differ("sliding_log", STEPS);
}

#[test]
fn warm_up_is_mirrored() {
    differ("warm_up", STEPS);
}

#[test]
fn concurrency_is_mirrored() {
    differ("concurrency", STEPS);
}

#[test]
fn every_algorithm_has_a_subject_and_a_mutant() {
    for family in &FAMILIES {
        assert!(SUBJECTS.iter().any(|subject| subject.family == family.name), "{}", family.name);
        assert!(mutants::MUTANTS.iter().any(|mutant| mutant.0 == family.name), "{}", family.name);
    }
}
