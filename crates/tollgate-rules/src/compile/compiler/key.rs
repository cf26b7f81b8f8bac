//! Compiles the elements of `per`.

use crate::compile::attribute::Attribute;
use crate::compile::domain::KeyPart;
use crate::compile::expr::{Expr, Scope};
use crate::read::fault::Fault;

/// The default prefix length that IPv6 clients are grouped by, since each owns a whole network.
pub(super) const IPV6_PREFIX: u8 = 64;

/// Reads one element: an expression, or an address by its network.
///
/// `ip/24` groups IPv4, `ip/48` IPv6 (a number above 32 can mean nothing else), `ip/24/48` both.
pub(super) fn part(text: &str, scope: &Scope, ipv6_prefix: u8) -> Result<KeyPart, Fault> {
    let (name, prefix) = match text.split_once('/') {
        Some((name, prefix)) if matches!(name.trim(), "ip" | "peer") => (name.trim(), Some(prefix)),
        _ => (text, None),
    };
    let expr = Expr::compile(name, scope)?;
    let attribute = match expr.attribute() {
        Some(Attribute::Endpoint) => return Ok(KeyPart::Endpoint),
        Some(attribute @ (Attribute::Ip | Attribute::Peer)) => attribute.clone(),
        _ => return Ok(KeyPart::Value(expr)),
    };
    let (bits4, bits6) = match prefix {
        None => (32, ipv6_prefix),
        Some(prefix) => prefixes(prefix, ipv6_prefix).ok_or_else(|| {
            let range = text.len() - prefix.len()..text.len();
            Fault::new(range, format!("{prefix:?} is no prefix length"))
                .help("write ip/24 for IPv4 networks, ip/48 for IPv6 networks, ip/24/48 for both")
        })?,
    };
    Ok(KeyPart::Ip { attribute, bits4, bits6 })
}

fn prefixes(text: &str, ipv6_prefix: u8) -> Option<(u8, u8)> {
    let length =
        |text: &str, most: u8| text.trim().parse().ok().filter(|bits| (1..=most).contains(bits));
    match text.split_once('/') {
        Some((four, six)) => Some((length(four, 32)?, length(six, 128)?)),
        None => match length(text, 128)? {
            bits @ 1..=32 => Some((bits, ipv6_prefix)),
            bits => Some((32, bits)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_groups_its_addresses() {
        assert_eq!(prefixes("24", 64), Some((24, 64)));
        assert_eq!(prefixes("48", 64), Some((32, 48)));
        assert_eq!(prefixes("16/56", 64), Some((16, 56)));
        for wrong in ["", "0", "129", "33/48", "24/", "x"] {
            assert_eq!(prefixes(wrong, 64), None, "{wrong}");
        }
    }
}
