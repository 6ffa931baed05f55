//! Annotations, as the IR has them.

use num_bigint::BigInt;

use super::Checker;
use crate::ast::{self, AnnotationBody, Annotations};
use crate::hir::ExprKind;
use crate::ir::{Annotation, AnnotationForm, AnnotationValue};

impl Checker<'_, '_> {
    pub(super) fn annotations(&mut self, list: &Annotations) -> Vec<Annotation> {
        list.iter().map(|annotation| self.annotation(annotation)).collect()
    }

    fn annotation(&mut self, annotation: &ast::Annotation) -> Annotation {
        let (body, form) = match &annotation.body {
            AnnotationBody::None => (String::new(), AnnotationForm::Words),
            AnnotationBody::Raw { string: Some(text), .. } => {
                (text.to_string(), AnnotationForm::Text)
            }
            AnnotationBody::Raw { text, string: None } => (text.to_string(), AnnotationForm::Words),
            AnnotationBody::Structured { text, values } => {
                (text.to_string(), self.structured(values))
            }
        };
        Annotation { name: annotation.name.name.to_string(), body, form }
    }

    fn structured(&mut self, values: &[ast::AnnotationValue]) -> AnnotationForm {
        let (mut list, mut pairs) = (Vec::new(), Vec::new());
        for value in values {
            let Some(constant) = self.annotation_value(&value.value) else { continue };
            match &value.key {
                Some(key) => pairs.push((key.name.to_string(), constant)),
                None => list.push(constant),
            }
        }
        if pairs.is_empty() { AnnotationForm::List(list) } else { AnnotationForm::Pairs(pairs) }
    }

    fn annotation_value(&mut self, value: &ast::Expr) -> Option<AnnotationValue> {
        let value = self.expr(value);
        match value.kind {
            ExprKind::Bool(value) => Some(AnnotationValue::Bool(value)),
            ExprKind::Text(text) => Some(AnnotationValue::Text(text.to_string())),
            ExprKind::Int(number) => match i64::try_from(&number as &BigInt) {
                Ok(number) => Some(AnnotationValue::Int(number)),
                Err(_) => {
                    self.error(value.span, "P4Info has 64 bits for a number in an annotation");
                    None
                }
            },
            ExprKind::Error => None,
            _ => {
                let message = "a structured annotation has integers, Booleans and strings that are \
                               known at compile time";
                self.error(value.span, message);
                None
            }
        }
    }
}
