//! Whole numbers in as few bytes as they need: seven bits a byte, least significant first, the top bit
//! set on every byte but the last.

/// Appends `value`.
pub(super) fn write(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push((value as u8) | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

/// Takes a number off the front of `input`; `None` when it is cut short or has more than 64 bits.
pub(super) fn read(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Folds the sign into the lowest bit, so that small differences either way stay short.
pub(super) fn from_signed(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`from_signed`].
pub(super) fn to_signed(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back(values in prop::collection::vec(any::<u64>().prop_flat_map(|v| (0..64_u32).prop_map(move |s| v >> s)), 0..20)) {
            let mut bytes = Vec::new();
            for &value in &values {
                write(&mut bytes, value);
            }
            let mut input = bytes.as_slice();
            for &value in &values {
                prop_assert_eq!(read(&mut input), Some(value));
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn signs_come_back(value in any::<i64>()) {
            prop_assert_eq!(to_signed(from_signed(value)), value);
        }
    }

    #[test]
    fn cut_short_and_too_long_are_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, u64::MAX);
        assert_eq!(bytes.len(), 10);
        for length in 0..bytes.len() {
            assert_eq!(read(&mut &bytes[..length]), None);
        }
        bytes[9] = 2;
        assert_eq!(read(&mut bytes.as_slice()), None);
        assert_eq!(read(&mut [0x80_u8; 11].as_slice()), None);
    }
}
