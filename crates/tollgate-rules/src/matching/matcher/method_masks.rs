//! Methods as bits, so that a set of them is tested at once.

/// The bit of every method that no rule names.
const OTHERS: u32 = 63;

/// The methods that rules name, with a bit for each.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodMasks {
    known: Vec<Box<str>>,
}

impl MethodMasks {
    /// Returns the bits of a route's methods; all if it names none.
    pub(super) fn mask(&mut self, methods: &[Box<str>]) -> u64 {
        if methods.is_empty() {
            return u64::MAX;
        }
        methods.iter().fold(0, |mask, method| {
            if !self.known.contains(method) {
                self.known.push(method.clone());
            }
            mask | self.bit(Some(method))
        })
    }

    /// Returns the bit of a request's method.
    pub(super) fn bit(&self, method: Option<&str>) -> u64 {
        let known =
            method.and_then(|method| self.known.iter().position(|known| **known == *method));
        // If there are more methods than bits, the last ones share a bit.
        known.map_or(1 << OTHERS, |index| 1 << index.min(OTHERS as usize - 1))
    }

    /// Whether every method has a bit of its own.
    pub(super) fn is_exact(&self) -> bool {
        self.known.len() < OTHERS as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_contains_exactly_its_methods() {
        let mut methods = MethodMasks::default();
        let read = methods.mask(&["GET".into(), "HEAD".into()]);
        let write = methods.mask(&["POST".into()]);
        assert_eq!(read & write, 0);
        assert_ne!(read & methods.bit(Some("HEAD")), 0);
        for other in [Some("POST"), Some("get"), Some("PUT"), None] {
            assert_eq!(read & methods.bit(other), 0, "{other:?}");
            assert_ne!(methods.mask(&[]) & methods.bit(other), 0, "{other:?}");
        }
        assert!(methods.is_exact());
    }

    #[test]
    fn methods_beyond_the_bits_share_the_last_one() {
        let mut methods = MethodMasks::default();
        for number in 0..70 {
            let name = format!("M{number}");
            let mask = methods.mask(&[name.as_str().into()]);
            assert_eq!(mask, methods.bit(Some(&name)));
            assert_eq!(mask & methods.bit(None), 0);
        }
        assert!(!methods.is_exact());
    }
}
