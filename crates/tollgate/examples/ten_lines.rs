//! The limiter in ten lines: three invitations an hour, and a fourth that is refused with the time
//! to retry. Prints `3 sent` and `over the limit of 3/h: retry in 20min`.

use tollgate::{Limit, Limiter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let invitations = Limiter::new("3/h".parse::<Limit>()?);
    let sent = (0..3).filter(|_| invitations.check().is_ok()).count();
    println!("{sent} sent");
    assert_eq!(sent, 3);
    let denied = invitations.check().unwrap_err();
    println!("{denied}");
    assert!(denied.retry_after.is_some_and(|wait| wait.as_secs() <= 20 * 60));
    Ok(())
}
