use tollgate::*;
fn main() {
    let l = Limiter::keyed(["10/s burst 20".parse::<Limit>().unwrap()]);
    let mut ok=0; for _ in 0..100 { if l.check("a").is_ok() {ok+=1} }
    println!("{ok} {:?} {:?}", l.check("a"), l.peek("a"));
    let n = 3_000_000u64;
    let t=std::time::Instant::now();
    for i in 0..n { assert!(l.check(i).is_ok()); }
    println!("insert {:?}/key len {}", t.elapsed()/n as u32, l.len());
    let t=std::time::Instant::now();
    let mut x=12345u64; let m=5_000_000;
    for _ in 0..m { x=x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); let k=(x>>33)%n; std::hint::black_box(l.check(k).is_ok()); }
    println!("uniform {:?}", t.elapsed()/m);
    let t=std::time::Instant::now();
    let l2 = Limiter::keyed(["1000M/s burst 1000M".parse::<Limit>().unwrap()]);
    for _ in 0..m { std::hint::black_box(l2.check("user:000012345").is_ok()); }
    println!("hot {:?}", t.elapsed()/m);
    let d = Limiter::new("1000M/s burst 1000M".parse::<Limit>().unwrap());
    let t=std::time::Instant::now();
    for _ in 0..m { std::hint::black_box(d.check().is_ok()); }
    println!("direct {:?}", t.elapsed()/m);
    let t=std::time::Instant::now();
    for _ in 0..m { std::hint::black_box(d.peek()); }
    println!("peek {:?}", t.elapsed()/m);
    let c = Clock::system();
    let t=std::time::Instant::now();
    for _ in 0..m { std::hint::black_box(c.now()); }
    println!("clock {:?}", t.elapsed()/m);
    let q = quanta_now(); let _=q;
}
fn quanta_now()->u64{0}
