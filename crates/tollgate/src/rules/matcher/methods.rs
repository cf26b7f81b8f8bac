//! Methods as bits, so that a set of them is tested at once.

/// The last bit stands for every method no rule names.
const OTHERS: u32 = 63;

/// The methods rules name.
#[derive(Clone, Debug, Default)]
pub(super) struct Methods {
    known: Vec<Box<str>>,
}

impl Methods {
    /// The bits of a route's methods; all if it names none.
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

    /// The bit of a request's method.
    pub(super) fn bit(&self, method: Option<&str>) -> u64 {
        let known =
            method.and_then(|method| self.known.iter().position(|known| **known == *method));
        // Of more methods than bits the last share one.
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
    fn a_mask_has_its_methods_and_no_others() {
        let mut methods = Methods::default();
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
    fn the_last_of_many_share_a_bit() {
        let mut methods = Methods::default();
        for number in 0..70 {
            let name = format!("M{number}");
            let mask = methods.mask(&[name.as_str().into()]);
            assert_eq!(mask, methods.bit(Some(&name)));
            assert_eq!(mask & methods.bit(None), 0);
        }
        assert!(!methods.is_exact());
    }
}
