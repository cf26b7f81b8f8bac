//! What is said about texts that are no limits, to the letter.

use crate::limit::Limit;

fn error(text: &str) -> String {
    match text.parse::<Limit>() {
        Ok(limit) => panic!("{text:?} is a limit: {limit}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn dump() {
    for text in [
        "", "   ", "10", "10 burst 20", "10/", "10/ burst 5", "10/5", "10/5 burst 20", "10/m", "5 / M", "10/5m", "10/mn",
        "10/fortnight", "10/s,", "10//s", "10/s/s", "10/s slidng", "10/s sliding fixed", "10/s burst", "10/s burst burst", "10/s burst ten",
        "10/s burst 0", "10/s burst -1", "10/s burst=20", "10/s 20", "10/s burst 5 burst 6", "10/s whatever", "10s", "10 s", "10 rps", "10m", "10 per second",
        "10 requests per minute", "10 requests", "10requests/s", "5m/s", "0/s", "-5/s", "-0/s", "+5/s", "0.5/s", "2.5/10s", "1.5k/h", "0.0/s", "1.5/fort", "1,000/h",
        "99999999999999999999/s", "9223372036854775807/s", "5/s burst 9223372036854775807", "10/0s", "10/-5s", "10/0.5s", "10/99999999999s", "1/100year burst 10", "1/300year",
        "ten/s", "unlimted", "unlimited burst 5", "plan.api", "Plan.api calendar", "100 distinct user/h", "100 concurent", "100 concurrent sliding", "0 concurrent", "100 concurrent lease 0s",
        "adaptive", "adaptive 20", "adaptive 20..", "adaptive 20..500", "adaptive 500..20 concurrent", "adaptive 20..500 concurrnt", "adaptive 0..5 concurrent",
        "10/h calendar", "10/24h calendar", "10/2month calendar", "10/month calendar anchor 32", "10/week anchor 8", "10/day zone Berlin", "10/day zone Europe/Berln", "10/day zone Mars/Olympus", "10/day zone",
        "10/s warmup", "10/s warmup 3", "10/s warmup 0s", "10/s warmup 1.5s", "10/s warmup fast", "10/s log min_gap 2s", "10/h slots 7", "10/h slots 1", "10/h slots 60 count_denied", "10/h count_denied", "10/h calendar first_hit", "10/h sliding burst 5", "10/s initial 11",
        "10 tö/s", "10/日", "日/s", "10/s\tbrust\n20", "10/s lease 5s", "10/s free 0 leaky",
    ] {
        println!("--- {text:?}\n{}", error(text));
    }
    println!("{}", error(&"é".repeat(300)));
}
