//! TNA's math unit: a function of one word, computed from its leading bits by a table.
//!
//! The operand is `i / 8 · 2^e`, where `i` has four bits. The result is `table[i] · 2^(scale ± f)`, where `f` is `e`,
//! twice `e` or half of it. For half of it `e` must be even, so that `i` has three or four bits. p4c's back end computes
//! table and scale for the functions with a name; so does [`MathUnit::of`]. Bits below the result's lowest are cut off.
//! A result that does not fit becomes the largest value; what a chip does in this case is not published.

use tributary_p4::ir::{CtorArg, Extern};

use crate::bits::mask;

/// A function of one word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MathUnit {
    /// By the operand's leading bits.
    table: [u8; 16],
    /// The operand's exponent is halved (-1), kept (0) or doubled (1) …
    shift: i32,
    /// … and negated.
    invert: bool,
    /// Exponent of the result, in addition.
    scale: i32,
}

impl MathUnit {
    /// The unit of an instance, or what is wrong with its arguments.
    pub(crate) fn of(instance: &Extern) -> Result<Self, &'static str> {
        let integers = |args: &[CtorArg]| -> Option<Vec<u128>> {
            let integer = |arg: &CtorArg| match arg {
                CtorArg::Int(value) => Some(*value),
                _ => None,
            };
            args.iter().map(integer).collect()
        };
        match instance.args.as_slice() {
            [CtorArg::Symbol(_, operation), rest @ ..] => {
                let factor = integers(rest).and_then(|numbers| match numbers.as_slice() {
                    [a] => Some(*a as f64),
                    [a, b] if *b != 0 => Some(*a as f64 / *b as f64),
                    _ => None,
                });
                Self::named(operation, factor.ok_or("its factor is not a number")?)
            }
            args => {
                let numbers = integers(args).ok_or("its arguments are not integers")?;
                let [invert, shift, scale, table @ ..] = numbers.as_slice() else {
                    return Err("it lacks arguments");
                };
                // Fields of 2 and 6 bits with a sign.
                let signed = |value: u128, width: u32| {
                    let low = (value & ((1 << width) - 1)) as i32;
                    if low >> (width - 1) & 1 == 1 { low - (1 << width) } else { low }
                };
                let mut values = [0; 16];
                if table.len() != values.len() {
                    return Err("its table does not have 16 values");
                }
                // The first of the list is the value of the highest bits.
                for (value, given) in values.iter_mut().rev().zip(table) {
                    *value =
                        u8::try_from(*given).map_err(|_| "a value of its table exceeds 255")?;
                }
                let shift = signed(*shift, 2);
                if shift == -2 {
                    return Err("its shift is not -1, 0 or 1");
                }
                Ok(Self { table: values, shift, invert: *invert != 0, scale: signed(*scale, 6) })
            }
        }
    }

    /// The unit for a factor times a function.
    fn named(operation: &str, factor: f64) -> Result<Self, &'static str> {
        let (shift, invert) = match operation {
            "MUL" => (0, false),
            "SQR" => (1, false),
            "SQRT" => (-1, false),
            "DIV" => (0, true),
            "RSQR" => (1, true),
            "RSQRT" => (-1, true),
            _ => return Err("there is no such operation"),
        };
        let function = |x: f64| {
            let power = match shift {
                0 => x,
                1 => x * x,
                _ => x.sqrt(),
            };
            if invert { power.recip() } else { power }
        };
        let first: usize = if shift < 0 { 4 } else { 8 };
        let at = |i: usize| factor * function(i as f64 / 8.0);
        let most = (first..16).map(at).fold(0.0, f64::max);
        if most <= 0.0 {
            return Err("its factor is zero");
        }
        // The largest values that fit eight bits.
        let scale = (most.log2().floor() as i32 - 7).clamp(-32, 31);
        let mut table = [0; 16];
        for (i, value) in table.iter_mut().enumerate().skip(first) {
            *value = (at(i) * f64::from(-scale).exp2()).round_ties_even().clamp(0.0, 255.0) as u8;
        }
        Ok(Self { table, shift, invert, scale })
    }

    /// The function's value for a word, in so many bits.
    pub(crate) fn value(&self, word: u64, width: u32) -> u64 {
        let Some(exponent) = word.checked_ilog2() else {
            return shifted(self.table[0], self.scale, width);
        };
        // The operand's four leading bits.
        let bits = match exponent.checked_sub(3) {
            Some(below) => word >> below,
            None => word << (3 - exponent),
        } as usize;
        let mut exponent = exponent as i32;
        let (bits, exponent) = match self.shift {
            0 => (bits, exponent),
            1 => (bits, 2 * exponent),
            _ => {
                let odd = exponent & 1;
                exponent += odd;
                (bits >> odd, exponent / 2)
            }
        };
        let exponent = if self.invert { -exponent } else { exponent };
        shifted(self.table[bits], self.scale + exponent, width)
    }
}

/// `value · 2^by` in so many bits.
fn shifted(value: u8, by: i32, width: u32) -> u64 {
    let value = u128::from(value);
    let exact = match u32::try_from(by) {
        Ok(up) if up < 100 => value << up,
        Ok(_) => {
            if value == 0 {
                0
            } else {
                u128::MAX
            }
        }
        Err(_) => value >> by.unsigned_abs().min(100),
    };
    exact.min(u128::from(mask(width))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_functions_are_within_their_four_bits() {
        type Function = (&'static str, fn(f64) -> f64);
        let functions: [Function; 6] = [
            ("MUL", |x| 3.0 * x),
            ("SQR", |x| 3.0 * x * x),
            ("SQRT", |x| 3.0 * x.sqrt()),
            ("DIV", |x| 3.0e9 / x),
            ("RSQR", |x| 3.0e9 / (x * x)),
            ("RSQRT", |x| 3.0e9 / x.sqrt()),
        ];
        for (name, function) in functions {
            let inverse = matches!(name, "DIV" | "RSQR" | "RSQRT");
            let unit = MathUnit::named(name, if inverse { 3.0e9 } else { 3.0 }).unwrap();
            for word in (1..5000).chain([65_535, 1 << 20, (1 << 20) + 12_345]) {
                let exact = function(word as f64);
                let got = unit.value(word, 64) as f64;
                // The leading bits cut off up to an eighth of the operand, whose square or inverse differs by more;
                // the result is rounded to eight bits, and then to a whole number.
                let allowed = exact * 0.28 + 1.0;
                assert!((got - exact).abs() <= allowed, "{name}({word}) = {exact}, not {got}");
            }
        }
        // Powers of two are exact.
        let square = MathUnit::named("SQR", 1.0).unwrap();
        assert_eq!([0, 1, 2, 4, 1 << 15].map(|x| square.value(x, 32)), [0, 1, 4, 16, 1 << 30]);
        let root = MathUnit::named("SQRT", 1.0).unwrap();
        assert_eq!([0, 1, 4, 16, 1 << 30].map(|x| root.value(x, 32)), [0, 1, 2, 4, 1 << 15]);
    }

    #[test]
    fn what_does_not_fit_is_the_largest_value() {
        let square = MathUnit::named("SQR", 1.0).unwrap();
        assert_eq!(square.value(1 << 20, 32), 0xffff_ffff);
        assert_eq!(square.value(u64::MAX, 64), u64::MAX);
        assert_eq!(MathUnit::named("DIV", 1.0).unwrap().value(u64::MAX, 8), 0);
    }

    #[test]
    fn wrong_arguments_are_named() {
        let unit = |args: Vec<CtorArg>| {
            MathUnit::of(&Extern {
                type_name: "MathUnit".into(),
                name: "unit".into(),
                args,
                type_args: Vec::new(),
                annotations: Vec::new(),
            })
        };
        let symbol = |name: &str| CtorArg::Symbol("MathOp_t".into(), name.into());
        assert_eq!(unit(vec![symbol("SQR"), CtorArg::Int(0)]), Err("its factor is zero"));
        assert_eq!(
            unit(vec![symbol("DIV"), CtorArg::Int(1), CtorArg::Int(0)]),
            Err("its factor is not a number")
        );
        assert_eq!(unit(vec![CtorArg::Int(0), CtorArg::Int(2)]), Err("it lacks arguments"));
        let table = |shift, values: usize| {
            let mut args = vec![CtorArg::Int(1), CtorArg::Int(shift), CtorArg::Int(0b11_1110)];
            args.extend((0..values).map(|at| CtorArg::Int(at as u128)));
            unit(args)
        };
        assert_eq!(table(2, 16), Err("its shift is not -1, 0 or 1"));
        assert_eq!(table(1, 15), Err("its table does not have 16 values"));
        let unit = table(3, 16).unwrap();
        assert_eq!((unit.table[0], unit.table[15]), (15, 0));
        assert_eq!((unit.shift, unit.scale, unit.invert), (-1, -2, true));
    }
}
