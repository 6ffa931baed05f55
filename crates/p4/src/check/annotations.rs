//! Conversion of annotations to those of the IR.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use num_bigint::BigInt;

use super::Checker;
use crate::ast::{self, AnnotationBody, Annotations};
use crate::hir::ExprKind;
use crate::ir::{Annotation, AnnotationForm, AnnotationValue};
use crate::lexer::values_in_parentheses;
use crate::source::Span;

impl Checker<'_, '_> {
    pub(super) fn annotations(&mut self, list: &Annotations) -> Vec<Annotation> {
        self.once(list);
        list.iter().map(|annotation| self.annotation(annotation)).collect()
    }

    /// Reports duplicates of annotations in brackets.
    fn once(&mut self, list: &Annotations) {
        let bracketed = |a: &ast::Annotation| {
            matches!(a.body, AnnotationBody::Structured { .. })
                && !values_in_parentheses(&a.name.name)
        };
        // For each name: the first annotation, and the first one in brackets.
        let mut seen = HashMap::<&str, (&ast::Annotation, Option<&ast::Annotation>)>::new();
        for annotation in list.iter() {
            let brackets = bracketed(annotation).then_some(annotation);
            let first = match seen.entry(&annotation.name.name) {
                Entry::Vacant(entry) => {
                    entry.insert((annotation, brackets));
                    continue;
                }
                Entry::Occupied(mut entry) => {
                    let (any, earlier) = *entry.get();
                    entry.get_mut().1 = earlier.or(brackets);
                    if brackets.is_some() { Some(any) } else { earlier }
                }
            };
            if let Some(first) = first {
                let message = format!("@{} is given twice", annotation.name.name);
                let other = first.name.span;
                self.reporter.error_at(annotation.name.span, message, "given first", other);
            }
        }
    }

    /// The contents of `@name(…)` if it is not a string literal but a concatenation of strings.
    fn text(&mut self, values: &[ast::AnnotationValue], span: Span) -> (String, AnnotationForm) {
        if let [ast::AnnotationValue { key: None, value }] = values {
            let value = self.expr(value);
            match value.kind {
                ExprKind::Text(text) => return (text.to_string(), AnnotationForm::Text),
                ExprKind::Error => return (String::new(), AnnotationForm::Text),
                _ => {}
            }
        }
        self.error(span, "this annotation takes a string");
        (String::new(), AnnotationForm::Text)
    }

    fn annotation(&mut self, annotation: &ast::Annotation) -> Annotation {
        let (body, form) = match &annotation.body {
            AnnotationBody::Structured { values, .. }
                if matches!(&*annotation.name.name, "name" | "deprecated") =>
            {
                self.text(values, annotation.name.span)
            }
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

    /// Annotations of a field. Later readers of `@field_list` cannot resolve names, so its body
    /// becomes plain numbers.
    pub(super) fn field_annotations(&mut self, list: &Annotations) -> Vec<Annotation> {
        self.once(list);
        let spans: Vec<Span> = list.iter().map(|annotation| annotation.name.span).collect();
        let one = |annotation: &ast::Annotation| match &*annotation.name.name {
            "field_list" => self.field_list(annotation),
            _ => self.annotation(annotation),
        };
        let list: Vec<Annotation> = list.iter().map(one).collect();
        for (annotation, span) in list.iter().zip(spans) {
            if annotation.name == "match"
                && !self.match_kinds.iter().any(|kind| **kind == *annotation.body.trim())
            {
                self.error(span, format!("there is no match kind `{}`", annotation.body.trim()));
            }
        }
        list
    }

    /// `@field_list(1, lists.b)`: constants that fit in `bit<8>`, as required by v1model's
    /// functions.
    fn field_list(&mut self, annotation: &ast::Annotation) -> Annotation {
        let mut numbers = Vec::new();
        match &annotation.body {
            AnnotationBody::Structured { values, .. } => {
                for value in values {
                    match &value.key {
                        Some(key) => self.error(key.span, "`@field_list` takes numbers only"),
                        None => numbers.extend(self.field_list_number(&value.value)),
                    }
                }
            }
            AnnotationBody::None | AnnotationBody::Raw { .. } => {
                let help = "write them in parentheses: @field_list(1, 2)";
                self.error_help(annotation.name.span, "`@field_list` names no lists", help);
            }
        }
        let body = numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        Annotation { name: annotation.name.name.to_string(), body, form: AnnotationForm::Words }
    }

    fn field_list_number(&mut self, value: &ast::Expr) -> Option<u8> {
        let checked = self.expr(value);
        match &checked.kind {
            ExprKind::Int(number) => {
                let small = u8::try_from(number).ok();
                if small.is_none() {
                    let message = format!("{number} is not a field list: they are from 0 to 255");
                    self.error(value.span, message);
                }
                return small;
            }
            ExprKind::Error => {}
            _ => self.error(value.span, "a field list is a number that is known at compile time"),
        }
        None
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
