//! Every operator at every width from 1 to 128 bits against arbitrary-precision integers.

use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tributary_p4::ir::*;

use super::common::{self, Builder, assign, binary, cast};

const BINARY: [BinaryOp; 20] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::AddSat,
    BinaryOp::SubSat,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Concat,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::And,
];

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(op, Eq | Ne | Lt | Le | Gt | Ge)
}

fn modulus(width: u32) -> BigInt {
    BigInt::one() << width
}

/// The number of a pattern.
fn number(pattern: &BigInt, ty: Scalar) -> BigInt {
    if ty.signed && pattern.bit(u64::from(ty.width) - 1) {
        pattern - modulus(ty.width)
    } else {
        pattern.clone()
    }
}

/// The pattern of a number.
fn pattern(number: &BigInt, width: u32) -> BigInt {
    let rest = number % modulus(width);
    if rest.is_negative() { rest + modulus(width) } else { rest }
}

fn clamp(number: BigInt, ty: Scalar) -> BigInt {
    let (low, high) = if ty.signed {
        (-modulus(ty.width - 1), modulus(ty.width - 1) - 1)
    } else {
        (BigInt::zero(), modulus(ty.width) - 1)
    };
    number.clamp(low, high)
}

/// The result of an operator according to the language, as a pattern.
fn expected(op: BinaryOp, ty: Scalar, right_ty: Scalar, a: &BigInt, b: &BigInt) -> BigInt {
    let (x, y) = (number(a, ty), number(b, right_ty));
    let width = ty.width;
    let boolean = |holds: bool| BigInt::from(u8::from(holds));
    match op {
        BinaryOp::Add => pattern(&(x + y), width),
        BinaryOp::Sub => pattern(&(x - y), width),
        BinaryOp::Mul => pattern(&(x * y), width),
        BinaryOp::Div if y.is_zero() => BigInt::zero(),
        BinaryOp::Div => pattern(&(x / y), width),
        BinaryOp::Mod if y.is_zero() => a.clone(),
        BinaryOp::Mod => pattern(&(x % y), width),
        BinaryOp::AddSat => pattern(&clamp(x + y, ty), width),
        BinaryOp::SubSat => pattern(&clamp(x - y, ty), width),
        BinaryOp::BitAnd | BinaryOp::And => a & b,
        BinaryOp::BitOr | BinaryOp::Or => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Concat => (a << right_ty.width) + b,
        BinaryOp::Shl => match b.to_u32() {
            Some(by) if by < width => pattern(&(x << by), width),
            _ => BigInt::zero(),
        },
        // An arithmetic shift by too much leaves only sign bits.
        BinaryOp::Shr => pattern(&(x >> b.to_u32().unwrap_or(1000).min(1000)), width),
        BinaryOp::Eq => boolean(x == y),
        BinaryOp::Ne => boolean(x != y),
        BinaryOp::Lt => boolean(x < y),
        BinaryOp::Le => boolean(x <= y),
        BinaryOp::Gt => boolean(x > y),
        BinaryOp::Ge => boolean(x >= y),
    }
}

/// A program that writes `value` of two extracted fields into a third.
fn evaluator(
    a: Scalar,
    b: Scalar,
    out: Scalar,
    value: impl FnOnce(Expr, Expr) -> Expr,
) -> impl FnMut(&BigInt, &BigInt) -> BigInt {
    let mut builder = Builder::new();
    let bytes = |ty: Scalar| ty.width.div_ceil(8) * 8;
    // Padding makes each field end at a byte.
    let mut types = Vec::new();
    for ty in [a, b, out] {
        let padding = bytes(ty) - ty.width;
        types.extend((padding > 0).then_some(Scalar::bit(padding)));
        types.push(ty);
    }
    let header = builder.header("operands", &types);
    let position = |n: usize| {
        [a, b, out][..=n].iter().map(|&ty| 1 + usize::from(bytes(ty) != ty.width)).sum::<usize>()
            - 1
    };
    let [fa, fb, fo] = [0, 1, 2].map(|n| builder.of(header, position(n)));
    let expr = value(builder.get(fa), builder.get(fb));
    assert_eq!(expr.ty, out);
    builder.ingress.push(assign(fo, expr));
    builder.straight(&[header]);
    let mut pipeline = builder.load();
    let mut packet = pipeline.new_packet();
    move |x, y| {
        let mut frame = Vec::new();
        for (value, ty) in [(x, a), (y, b), (&BigInt::zero(), out)] {
            let digits = value.to_bytes_be().1;
            let length = bytes(ty) as usize / 8;
            frame.resize(frame.len() + length - digits.len().min(length), 0);
            frame.extend(&digits[digits.len() - digits.len().min(length)..]);
        }
        let result = common::pass(&mut pipeline, &mut packet, &frame);
        assert_eq!(result.len(), frame.len());
        let tail = &result[result.len() - bytes(out) as usize / 8..];
        BigInt::from_bytes_be(Sign::Plus, tail)
    }
}

/// Numbers at the boundaries of a width and in between.
fn operands(width: u32) -> impl Strategy<Value = BigInt> {
    let ones: BigInt = modulus(width) - 1;
    let top: BigInt = modulus(width) >> 1;
    prop_oneof![
        1 => Just(BigInt::zero()),
        1 => Just(BigInt::one() & &ones),
        1 => Just(ones.clone()),
        1 => Just(top.clone()),
        1 => Just(top - 1),
        4 => proptest::collection::vec(any::<u8>(), 16..17).prop_map(move |bytes| {
            BigInt::from(BigUint::from_bytes_be(&bytes)) & &ones
        }),
        1 => (0u32..140).prop_map(move |n| BigInt::from(n) & (modulus(width) - 1)),
    ]
}

#[test]
fn every_operator_at_every_width() {
    let mut runner = TestRunner::deterministic();
    for width in 1..=128 {
        for signed in [false, true] {
            for op in BINARY {
                let ty = Scalar { width, signed };
                let right = match op {
                    BinaryOp::Shl | BinaryOp::Shr => Scalar::bit(width.min(70)),
                    BinaryOp::Concat => Scalar::bit(width % 37 + 1),
                    _ => ty,
                };
                let out = match op {
                    _ if is_comparison(op) => Scalar::BOOL,
                    BinaryOp::Concat => Scalar { width: width + right.width, signed },
                    _ => ty,
                };
                let mut run = evaluator(ty, right, out, |a, b| binary(op, out, a, b));
                for _ in 0..12 {
                    let (a, b) = (operands(width), operands(right.width))
                        .new_tree(&mut runner)
                        .unwrap()
                        .current();
                    assert_eq!(
                        run(&a, &b),
                        expected(op, ty, right, &a, &b),
                        "{a:#x} {op:?} {b:#x} as {ty}"
                    );
                }
            }
        }
    }
}

#[test]
fn casts_truncate_and_extend_by_the_sign_of_their_operand() {
    let mut runner = TestRunner::deterministic();
    for from in (1..=128).step_by(3) {
        for to in [1, 7, 8, 31, 32, 33, 63, 64, 65, 100, 128] {
            for (signed, signed_to) in [(false, false), (true, true), (true, false)] {
                let ty = Scalar { width: from, signed };
                let out = Scalar { width: to, signed: signed_to };
                let mut run = evaluator(ty, ty, out, |a, _| cast(out, a));
                for _ in 0..6 {
                    let a = operands(from).new_tree(&mut runner).unwrap().current();
                    let extended = pattern(&number(&a, ty), to);
                    assert_eq!(run(&a, &a), extended, "{a:#x} from {ty} to {out}");
                }
            }
        }
    }
}

#[test]
fn unary_operators_slices_and_choices() {
    let mut runner = TestRunner::deterministic();
    for width in 1..=128 {
        let ty = Scalar::bit(width);
        let unary =
            |op| move |a: Expr, _: Expr| Expr { ty, kind: ExprKind::Unary(op, Box::new(a)) };
        let mut complement = evaluator(ty, ty, ty, unary(UnaryOp::BitNot));
        let mut negation = evaluator(ty, ty, ty, unary(UnaryOp::Neg));
        let (lo, hi) = (width / 3, width - 1 - width / 5);
        let part = Scalar::bit(hi - lo + 1);
        let mut slice = evaluator(ty, ty, part, |a, _| Expr {
            ty: part,
            kind: ExprKind::Slice { value: Box::new(a), hi, lo },
        });
        let mut larger = evaluator(ty, ty, ty, |a, b| Expr {
            ty,
            kind: ExprKind::Mux(
                Box::new(binary(BinaryOp::Lt, Scalar::BOOL, a.clone(), b.clone())),
                Box::new(b),
                Box::new(a),
            ),
        });
        for _ in 0..8 {
            let (a, b) =
                (operands(width), operands(width)).new_tree(&mut runner).unwrap().current();
            assert_eq!(complement(&a, &b), modulus(width) - 1 - &a);
            assert_eq!(negation(&a, &b), pattern(&-&a, width));
            assert_eq!(slice(&a, &b), (&a >> lo) & (modulus(part.width) - 1));
            assert_eq!(larger(&a, &b), a.clone().max(b));
        }
    }
}

#[test]
fn a_store_to_a_slice_keeps_the_other_bits() {
    let mut runner = TestRunner::deterministic();
    for width in [8u32, 24, 64, 72, 128] {
        let (lo, hi) = (width / 4, width / 2);
        let part = hi - lo + 1;
        let mut b = Builder::new();
        let header = b.bits_header("h", &[width, width]);
        let (target, source) = (b.of(header, 0), b.of(header, 1));
        let value = cast(Scalar::bit(part), b.get(source));
        b.ingress.push(Stmt::Assign(Place::Slice(target, hi, lo), value));
        b.straight(&[header]);
        let mut pipeline = b.load();
        let mut packet = pipeline.new_packet();
        for _ in 0..30 {
            let (x, y) =
                (operands(width), operands(width)).new_tree(&mut runner).unwrap().current();
            let whole: BigInt = (&x << width) + &y;
            let digits = whole.to_bytes_be().1;
            let mut frame = vec![0; (width / 4) as usize - digits.len().min((width / 4) as usize)];
            if frame.len() + digits.len() > (width / 4) as usize {
                frame.clear();
            }
            frame.extend(&digits);
            let out = common::pass(&mut pipeline, &mut packet, &frame);
            let got = BigInt::from_bytes_be(Sign::Plus, &out[..(width / 8) as usize]);
            let ones: BigInt = modulus(part) - 1;
            let hole: BigInt = &ones << lo;
            let kept: BigInt = &x - (&x & &hole);
            assert_eq!(got, kept + ((&y & &ones) << lo), "width {width}");
        }
    }
}
