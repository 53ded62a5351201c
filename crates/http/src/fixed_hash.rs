//! FNV-1a of 64 bits, for hashes that are stored: unlike that of the standard library, its result does not
//! depend on the version of the compiler. <http://www.isthe.com/chongo/tech/comp/fnv/>

use std::hash::Hasher;

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A hasher with a fixed algorithm: FNV-1a of 64 bits.
pub struct FixedHasher(u64);

impl Default for FixedHasher {
    fn default() -> Self {
        FixedHasher(OFFSET_BASIS)
    }
}

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use super::FixedHasher;

    /// The test vectors of the authors, `test_fnv.c`.
    #[test]
    fn hashes_are_those_of_the_authors() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let mut hasher = FixedHasher::default();
            hasher.write(text.as_bytes());
            assert_eq!(hasher.finish(), hash, "{text}");
        }
    }
}
