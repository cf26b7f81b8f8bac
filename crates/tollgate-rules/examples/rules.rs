//! A service that follows rules: read once, replaced while running.

use tollgate_rules::{Request, RuleLimiter, Rules};

const RULES: &str = r#"
plans:
  default: { api: 3/min }
  pro: { api: 100/min }
attributes: [org]
rules:
  - { name: health, route: GET /health, then: allow }
  - { name: api, route: "/api/**", per: org, limit: plan.api }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = RuleLimiter::new(RULES.parse::<Rules>()?); // or Rules::from_file(path)
    let ask = |org: &str, plan: &str| {
        let request =
            Request::new("GET", "/api/orders").attribute("org", org).attribute("plan", plan);
        let decision = limiter.decide_now(&request);
        println!("{org:7} {} {decision}", decision.code);
        decision.allowed
    };
    assert_eq!((0..5).filter(|_| ask("acme", "free")).count(), 3);
    assert_eq!((0..5).filter(|_| ask("globex", "pro")).count(), 5);

    // Invalid rules are refused as a whole, and the active rules remain.
    let wrong = RULES.replace("100/min", "100/m").parse::<Rules>();
    println!("\n{}\n", wrong.unwrap_err());

    // What acme has spent stays spent; two more are left of five.
    limiter.replace(RULES.replace("3/min", "5/min").parse()?);
    assert_eq!((0..5).filter(|_| ask("acme", "free")).count(), 2);
    Ok(())
}
