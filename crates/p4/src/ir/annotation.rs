//! Annotations.

/// An annotation, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    /// Name without the `@`.
    pub name: String,
    /// Text between its parentheses or brackets, unquoted if it is a single string; empty if there
    /// is none.
    pub body: String,
    /// The form of its contents.
    pub form: AnnotationForm,
}

/// The form of an annotation's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotationForm {
    /// None, or unstructured words in parentheses.
    Words,
    /// One string in parentheses.
    Text,
    /// Constants in brackets.
    List(Vec<AnnotationValue>),
    /// Named constants in brackets.
    Pairs(Vec<(String, AnnotationValue)>),
}

/// A constant in a structured annotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotationValue {
    /// An integer. P4Info has 64 bits for it.
    Int(i64),
    /// A Boolean.
    Bool(bool),
    /// A string.
    Text(String),
}
