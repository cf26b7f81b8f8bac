//! The elements of `per`.

use super::super::attribute::Attribute;
use super::super::compiled::KeyPart;
use super::super::expr::{Expr, Scope};
use super::super::fault::Fault;

/// IPv6 clients own networks of this size.
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
    let of = match expr.attribute() {
        Some(Attribute::Endpoint) => return Ok(KeyPart::Endpoint),
        Some(of @ (Attribute::Ip | Attribute::Peer)) => of.clone(),
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
    Ok(KeyPart::Ip { of, bits4, bits6 })
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
    fn prefixes_say_which_addresses_they_group() {
        assert_eq!(prefixes("24", 64), Some((24, 64)));
        assert_eq!(prefixes("48", 64), Some((32, 48)));
        assert_eq!(prefixes("16/56", 64), Some((16, 56)));
        for wrong in ["", "0", "129", "33/48", "24/", "x"] {
            assert_eq!(prefixes(wrong, 64), None, "{wrong}");
        }
    }
}
