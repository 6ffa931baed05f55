//! TNA's externs for parsers, as statements of the IR.

use super::{Lowerer, Value, build};
use crate::hir::CallArg;
use crate::ir::{BinaryOp, Expr, ExprKind, ExternId, FieldId, Place, Scalar, Stmt};
use crate::source::Span;

/// A parser counter.
const COUNT: Scalar = Scalar::bit(8);

/// The error of a value that is too large for a counter.
const RANGE_ERROR: &str = "CounterRange";

impl Lowerer<'_, '_> {
    /// A method of `ParserCounter` or `ParserPriority`. `None` for other externs.
    pub(super) fn parser_extern(
        &mut self,
        id: ExternId,
        type_name: &str,
        method: &str,
        args: &[CallArg],
        span: Span,
    ) -> Option<Value> {
        match type_name {
            "ParserCounter" => Some(self.parser_counter(id, method, args, span)),
            // It tells a parser that falls behind which packets to drop. This one never does.
            "ParserPriority" => {
                args.iter().filter_map(|arg| arg.value.as_ref()).for_each(|priority| {
                    self.scalar(priority);
                });
                Some(Value::Void)
            }
            _ => None,
        }
    }

    fn parser_counter(
        &mut self,
        id: ExternId,
        method: &str,
        args: &[CallArg],
        span: Span,
    ) -> Value {
        let field = self.counter_field(id);
        let count = Expr { ty: COUNT, kind: ExprKind::Field(field) };
        let mut given = args.iter().filter_map(|arg| arg.value.as_ref());
        let first = given.next().map(|value| self.scalar(value));
        match (method, first) {
            ("is_zero", _) => {
                Value::Scalar(build::binary(BinaryOp::Eq, count, build::constant(&0.into(), COUNT)))
            }
            ("is_negative", _) => {
                let sign = build::slice(count, 7, 7);
                let one = build::constant(&1.into(), Scalar::bit(1));
                Value::Scalar(build::binary(BinaryOp::Eq, sign, one))
            }
            ("increment" | "decrement", Some(by)) => {
                let op = if method == "increment" { BinaryOp::Add } else { BinaryOp::Sub };
                let changed = build::binary(op, count, build::cast(by, COUNT));
                self.set_counter(field, changed)
            }
            ("set", Some(value)) => {
                let limits: Vec<_> = given.map(|value| self.constant(value)).collect();
                if limits.iter().any(Option::is_none) {
                    let message = "the limits of a parser counter must be known at compile time";
                    self.error(span, message);
                    return Value::Void;
                }
                let limits: Vec<_> = limits.into_iter().flatten().collect();
                let [max, rotate, mask, add] = limits.as_slice() else {
                    return self.set_counter(field, build::cast(value, COUNT));
                };
                let (value, max) = (build::cast(value, COUNT), build::constant(max, COUNT));
                let condition = build::binary(BinaryOp::Le, value.clone(), max);
                self.counter_range(condition);
                let eight = Scalar::bit(8);
                let by = build::constant(&(rotate % 8), eight);
                let rest = build::constant(&((8 - rotate % 8) % 8), eight);
                let low = build::binary(BinaryOp::Shr, value.clone(), by);
                let high = build::binary(BinaryOp::Shl, value, rest);
                let rotated = build::binary(BinaryOp::BitOr, low, high);
                let mask: u32 = mask.try_into().unwrap_or(7);
                let ones = build::constant(&((1_u32 << (mask.min(7) + 1)) - 1).into(), COUNT);
                let masked = build::binary(BinaryOp::BitAnd, rotated, ones);
                let sum = build::binary(BinaryOp::Add, masked, build::constant(add, COUNT));
                self.set_counter(field, sum)
            }
            _ => {
                self.error(span, format!("`ParserCounter.{method}` cannot be called so"));
                Value::Void
            }
        }
    }

    fn set_counter(&mut self, field: FieldId, value: Expr) -> Value {
        self.emit(Stmt::Assign(Place::Field(field), value));
        Value::Void
    }

    /// Stops the parser unless the condition holds.
    fn counter_range(&mut self, condition: Expr) {
        if let Some(code) = self.program.error_code(RANGE_ERROR) {
            let error = build::constant(&code.into(), Scalar::bit(32));
            self.emit(Stmt::Verify { condition, error });
        }
    }

    /// The storage of a counter, which is zero when a packet arrives.
    fn counter_field(&mut self, id: ExternId) -> FieldId {
        if let Some(&field) = self.parser_counters.get(&id) {
            return field;
        }
        let field = self.temp("counter", COUNT);
        self.parser_counters.insert(id, field);
        field
    }
}
