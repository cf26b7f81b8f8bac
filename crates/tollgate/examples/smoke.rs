//! scratch
use tollgate::*;
fn main() {
    let what = std::env::args().nth(1).unwrap();
    let n: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let l = Limiter::keyed(["1000M/s burst 1000M".parse::<Limit>().unwrap()]);
    let t = Limiter::keyed(["1/h".parse::<Limit>().unwrap()]);
    let d = Limiter::new("1000M/s burst 1000M".parse::<Limit>().unwrap());
    let c = Clock::system();
    match &*what {
        "hot" => for _ in 0..n { std::hint::black_box(l.check(std::hint::black_box("user:0000123456")).is_ok()); },
        "int" => for _ in 0..n { std::hint::black_box(l.check(std::hint::black_box(77u64)).is_ok()); },
        "denied" => for _ in 0..n { std::hint::black_box(t.check(std::hint::black_box("user:0000123456")).is_ok()); },
        "direct" => for _ in 0..n { std::hint::black_box(d.check().is_ok()); },
        "clock" => for _ in 0..n { std::hint::black_box(c.now()); },
        _ => {}
    }
}
