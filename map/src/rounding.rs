//! Rounding of the numbers in a key to significant decimal digits, so that arguments that are nearly
//! equal become equal keys.

use core::fmt::{self, Write};
use core::marker::PhantomData;

use bytemuck::{Pod, bytes_of_mut};
use probeline_pipeline::ConfigError;

/// The most digits of an `f64`. Up to here, different decimals are different numbers.
const MAX_DIGITS_F64: u8 = 15;
/// The most digits of an `f32`.
const MAX_DIGITS_F32: u8 = 6;

/// A field of a key, and how it is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// This number of bytes, which stay as they are: integers, names, or numbers that are not
    /// rounded.
    Exact(usize),
    /// An `f64`, rounded to this number of significant decimal digits, 1 to 15.
    F64(u8),
    /// An `f32`, rounded to this number of significant decimal digits, 1 to 6.
    F32(u8),
}

impl Field {
    const fn bytes(self) -> usize {
        match self {
            Self::Exact(bytes) => bytes,
            Self::F64(_) => size_of::<f64>(),
            Self::F32(_) => size_of::<f32>(),
        }
    }

    /// Returns the digits, and the most that such a field may have.
    const fn digits(self) -> Option<(u8, u8)> {
        match self {
            Self::Exact(_) => None,
            Self::F64(digits) => Some((digits, MAX_DIGITS_F64)),
            Self::F32(digits) => Some((digits, MAX_DIGITS_F32)),
        }
    }
}

/// The rounding of keys `K` of `N` fields, for maps of results of functions whose arguments are
/// measured or computed numbers.
///
/// A number becomes the nearest decimal of its field's digits (of two that are equally near, the one
/// whose last digit is even), and then the nearest number of its type. The rounding uses integer
/// arithmetic and single IEEE 754 operations, so every machine that rounds them according to IEEE
/// 754 gets the same bits. x86 without SSE2 rounds otherwise.
///
/// - Rounding a rounded key changes nothing, and rounding keeps the order of numbers.
/// - The error is at most half a unit of the last digit, and half a unit in the last place of the
///   type, because few decimals are numbers of the type. Numbers smaller than the normal ones have
///   fewer digits than asked for; some stay as they are.
/// - A number that would be rounded to more than the largest finite one becomes that one. Infinities
///   stay as they are.
/// - -0.0 becomes 0.0. Each NaN becomes the same NaN.
/// - With [`with_zero_below`](Self::with_zero_below), numbers whose rounded magnitude is smaller than
///   a threshold become 0.0.
///
/// A field takes a few nanoseconds, or some hundreds if its last digit is worth less than 10^-22 or
/// more than 10^22.
///
/// ```
/// use probeline_map::{Config, Field, Map, Operation, Rounding};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// /// Concentrations in mol/l, rounded, and a time step in s, which is not.
/// type Cell = [f64; 3];
/// let fields = [Field::F64(4), Field::F64(4), Field::Exact(8)];
/// let rounding = Rounding::<Cell, 3>::new(fields)?.with_zero_below(1e-13)?;
/// let (cell, near) = ([1.234_56e-3, 2e-14, 0.3], [1.234_61e-3, -0.0, 0.3]);
/// assert_eq!(rounding.round(&cell), [1.235e-3, 0.0, 0.3]);
///
/// let config = Config::for_entries(1_000, 1);
/// let engine = Builder::new(config.sizes::<Cell, f64>(1)).open(&mut Alone)?;
/// let mut map = Map::open(engine, config, [Operation::EMPTY; 1], &mut Alone)?;
/// let solve = |cell: &Cell| cell.iter().sum::<f64>();
/// let first = map.get_or_compute(&rounding.round(&cell), solve)?;
/// assert_eq!(map.get(&rounding.round(&near))?, Some(first));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rounding<K, const N: usize> {
    fields: [Field; N],
    zero_below: f64,
    key: PhantomData<fn(K) -> K>,
}

impl<K: Pod, const N: usize> Rounding<K, N> {
    /// Returns the rounding of keys that consist of these fields, in the order of their bytes.
    ///
    /// # Errors
    /// [`ConfigError`] if a field has no digits or too many, or if the fields are not as long as a
    /// key.
    pub const fn new(fields: [Field; N]) -> Result<Self, ConfigError> {
        let (mut rest, mut bytes): (&[Field], usize) = (&fields, 0);
        while let Some((field, after)) = rest.split_first() {
            if let Some((found, max)) = field.digits()
                && (found == 0 || found > max)
            {
                let (place, found, max) = (N - rest.len(), found as u64, max as u64);
                let what = "the number of digits, if it is not Field::Exact, of field";
                return Err(ConfigError::RangeAt { what, place, found, min: 1, max });
            }
            bytes = bytes.saturating_add(field.bytes());
            rest = after;
        }
        if bytes != size_of::<K>() {
            let (found, expected) = (bytes as u64, size_of::<K>() as u64);
            let what = "the number of bytes of all fields, in the order of those of a key,";
            return Err(ConfigError::Range { what, found, min: expected, max: expected });
        }
        Ok(Self { fields, zero_below: 0.0, key: PhantomData })
    }

    /// Turns numbers into 0.0 whose magnitude, after rounding, is smaller than `threshold`. It applies
    /// to all fields that are rounded; 0 turns it off, which is the default. The reactive-transport
    /// code POET uses 1e-13 mol/l.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if the threshold is negative, infinite, or not a number.
    pub const fn with_zero_below(self, threshold: f64) -> Result<Self, ConfigError> {
        if threshold >= 0.0 && threshold < f64::INFINITY {
            Ok(Self { zero_below: threshold, ..self })
        } else {
            Err(ConfigError::Invalid(
                "the threshold below which numbers are 0 must be 0 or a positive finite number",
            ))
        }
    }

    /// Returns the key with all its fields rounded.
    #[must_use]
    pub fn round(&self, key: &K) -> K {
        let mut key = *key;
        let mut rest = bytes_of_mut(&mut key);
        for field in self.fields {
            let Some((bytes, after)) = rest.split_at_mut_checked(field.bytes()) else { break };
            self.round_field(field, bytes);
            rest = after;
        }
        key
    }

    fn round_field(&self, field: Field, bytes: &mut [u8]) {
        match field {
            Field::Exact(_) => {}
            Field::F64(digits) => {
                if let Some(bytes) = bytes.as_mut_array::<8>() {
                    let rounded = round_f64(f64::from_ne_bytes(*bytes), digits);
                    *bytes = self.cut(rounded, rounded).to_ne_bytes();
                }
            }
            Field::F32(digits) => {
                if let Some(bytes) = bytes.as_mut_array::<4>() {
                    let rounded = round_f32(f32::from_ne_bytes(*bytes), digits);
                    *bytes = self.cut(rounded, rounded.into()).to_ne_bytes();
                }
            }
        }
    }

    /// Returns 0 instead of a rounded number below the threshold.
    fn cut<F: Default>(&self, rounded: F, wide: f64) -> F {
        if wide.abs() < self.zero_below { F::default() } else { rounded }
    }
}

/// The largest power of ten that an `f64` has exactly. With at most 15 digits, a power of this size
/// times a significand also fits 128 bits.
const MAX_POWER: i32 = 22;
const POWERS_F64: [f64; MAX_POWER as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;

fn round_f32(number: f32, digits: u8) -> f32 {
    // No decimal of six digits is so near to the middle of two f32 that its nearest f64 is that middle,
    // so the second rounding goes the way that the decimal would.
    #[allow(clippy::cast_possible_truncation)]
    let rounded = round_f64(number.into(), digits) as f32;
    if number.is_nan() {
        f32::NAN
    } else if number.is_finite() {
        rounded.clamp(f32::MIN, f32::MAX)
    } else {
        number
    }
}

/// Rounds to 1 to 15 significant digits.
fn round_f64(number: f64, digits: u8) -> f64 {
    if number.is_nan() {
        return f64::NAN;
    }
    if number == 0.0 {
        return 0.0;
    }
    if number.is_infinite() {
        return number;
    }
    let magnitude = number.abs();
    let rounded = round_by_integers(magnitude, digits)
        .or_else(|| round_by_text(magnitude, digits))
        .unwrap_or(magnitude)
        .min(f64::MAX);
    rounded.copysign(number)
}

/// Rounds a positive number whose last digit is worth 10^-22 to 10^22.
fn round_by_integers(magnitude: f64, digits: u8) -> Option<f64> {
    let bits = magnitude.to_bits();
    // Eleven bits.
    #[allow(clippy::cast_possible_truncation)]
    let biased = (bits >> FRACTION_BITS) as i32;
    // magnitude = significand * 2^exponent, for normal numbers. The others are too small.
    let significand = bits & ((1 << FRACTION_BITS) - 1) | 1 << FRACTION_BITS;
    let exponent = biased - 1_075;
    // The logarithm to base 10, rounded down, or one less: log10(2) is 1262611 / 2^22.
    let decimal = ((biased - 1_023) * 1_262_611) >> 22;
    let places = i32::from(digits) - 1 - decimal;
    let scaled = scale(significand, exponent, places)?;
    let (scaled, places) = if scaled < 10_u64.pow(digits.into()) {
        (scaled, places)
    } else {
        (scale(significand, exponent, places - 1)?, places - 1)
    };
    // At most 10^15, which is exact, as the power is.
    #[allow(clippy::cast_precision_loss)]
    let (scaled, power) = (scaled as f64, *POWERS_F64.get(places.unsigned_abs() as usize)?);
    Some(if places < 0 { scaled * power } else { scaled / power })
}

/// Returns `significand` * 2^`exponent` * 10^`places` as an integer, half to even. `None` for powers
/// that are too large.
fn scale(significand: u64, exponent: i32, places: i32) -> Option<u64> {
    if places.abs() > MAX_POWER {
        return None;
    }
    let power = 10_u128.pow(places.unsigned_abs());
    let (mut dividend, mut divisor) = (u128::from(significand), 1);
    if places < 0 {
        divisor = power
    } else {
        dividend *= power
    }
    let shift = exponent.unsigned_abs();
    if exponent < 0 {
        divisor = shifted(divisor, shift)?;
    } else {
        dividend = shifted(dividend, shift)?;
    }
    // The divisor is a power of two if no power of ten is in it.
    let (quotient, rest) = if places < 0 || exponent >= 0 {
        (dividend / divisor, dividend % divisor)
    } else {
        (dividend >> shift, dividend & (divisor - 1))
    };
    let above = rest.cmp(&(divisor - rest));
    let rounds_up = above.is_gt() || above.is_eq() && quotient % 2 == 1;
    u64::try_from(quotient + u128::from(rounds_up)).ok()
}

/// Returns `word` * 2^`shift` unless it overflows.
fn shifted(word: u128, shift: u32) -> Option<u128> {
    (shift < word.leading_zeros()).then(|| word << shift)
}

/// Rounds any positive number: the digits that `core` prints are exact, and so is the number that it
/// reads. No number that needs this path is halfway between two decimals: it would have to be a
/// multiple of 5^23, or of that many halves, in 53 bits.
fn round_by_text(magnitude: f64, digits: u8) -> Option<f64> {
    let mut text = Text::default();
    let written = write!(text, "{magnitude:.*e}", usize::from(digits) - 1).ok();
    let rounded = written.and_then(|()| text.as_str()?.parse().ok());
    debug_assert!(rounded.is_some(), "the text has room for {magnitude:e} with {digits} digits");
    rounded
}

/// The text of a number: a digit, a point, 14 digits, and an exponent of up to five characters.
#[derive(Default)]
struct Text {
    bytes: [u8; 24],
    used: usize,
}

impl Text {
    fn as_str(&self) -> Option<&str> {
        core::str::from_utf8(self.bytes.get(..self.used)?).ok()
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.used + text.len();
        let place = self.bytes.get_mut(self.used..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.used = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
