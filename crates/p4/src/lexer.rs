//! Tokens of P4_16.

use logos::Logos;

use crate::limits::NAME_BYTES;
use crate::source::{Reporter, Span};

/// The kind of a token. Words that are keywords only in some places (`apply`, `key`, `actions`,
/// `state`, `entries`, `type`, `priority`, `list`) are identifiers.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Debug)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip(r"#[^\n]*", allow_greedy = true))]
pub(crate) enum Kind {
    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Ident,
    #[regex(r"([0-9][0-9_]*[ws])?[0-9][0-9A-Za-z_]*")]
    Number,
    #[regex(r#""([^"\\]|\\(.|\n))*""#)]
    Text,

    #[token("action")]
    Action,
    #[token("abstract")]
    Abstract,
    #[token("bit")]
    Bit,
    #[token("bool")]
    Bool,
    #[token("break")]
    Break,
    #[token("const")]
    Const,
    #[token("continue")]
    Continue,
    #[token("control")]
    Control,
    #[token("default")]
    Default,
    #[token("else")]
    Else,
    #[token("enum")]
    Enum,
    #[token("error")]
    Error,
    #[token("exit")]
    Exit,
    #[token("extern")]
    Extern,
    #[token("false")]
    False,
    #[token("for")]
    For,
    #[token("header")]
    Header,
    #[token("header_union")]
    HeaderUnion,
    #[token("if")]
    If,
    #[token("in")]
    In,
    #[token("inout")]
    Inout,
    #[token("int")]
    Int,
    #[token("match_kind")]
    MatchKeyword,
    #[token("out")]
    Out,
    #[token("package")]
    Package,
    #[token("parser")]
    Parser,
    #[token("return")]
    Return,
    #[token("select")]
    Select,
    #[token("string")]
    String,
    #[token("struct")]
    Struct,
    #[token("switch")]
    Switch,
    #[token("table")]
    Table,
    #[token("this")]
    This,
    #[token("transition")]
    Transition,
    #[token("true")]
    True,
    #[token("tuple")]
    Tuple,
    #[token("typedef")]
    Typedef,
    #[token("value_set")]
    ValueSet,
    #[token("varbit")]
    Varbit,
    #[token("void")]
    Void,
    #[token("_", priority = 10)]
    Underscore,

    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token("{#}")]
    InvalidHeader,
    #[token("<")]
    Less,
    // `>>` is two tokens, because `register<bit<8>>` closes two lists.
    #[token(">")]
    Greater,
    #[token("<=")]
    LessEq,
    #[token(">=")]
    GreaterEq,
    #[token("<<")]
    Shl,
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("!")]
    Not,
    #[token("~")]
    Tilde,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("&")]
    Amp,
    #[token("|")]
    Pipe,
    #[token("^")]
    Caret,
    #[token("&&")]
    AmpAmp,
    #[token("||")]
    PipePipe,
    #[token("&&&")]
    Mask,
    #[token("++")]
    PlusPlus,
    #[token("|+|")]
    AddSat,
    #[token("|-|")]
    SubSat,
    #[token("+:")]
    PlusColon,
    #[token("+=")]
    PlusEq,
    #[token("-=")]
    MinusEq,
    #[token("*=")]
    StarEq,
    #[token("/=")]
    SlashEq,
    #[token("%=")]
    PercentEq,
    #[token("&=")]
    AmpEq,
    #[token("|=")]
    PipeEq,
    #[token("^=")]
    CaretEq,
    #[token("|+|=")]
    AddSatEq,
    #[token("|-|=")]
    SubSatEq,
    #[token("++=")]
    PlusPlusEq,
    #[token("<<=")]
    ShlEq,
    #[token("=")]
    Assign,
    #[token("?")]
    Question,
    #[token(":")]
    Colon,
    #[token(";")]
    Semicolon,
    #[token(",")]
    Comma,
    #[token(".")]
    Dot,
    #[token("..")]
    DotDot,
    #[token("...")]
    Ellipsis,
    #[token("@")]
    At,

    /// The end of the text. Further tokens are also of this kind.
    End,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// The contents of parentheses of annotations that have no meaning in the language, in order.
/// Nested ones are omitted.
fn free_text(tokens: &[Token], text: &str) -> Vec<Span> {
    let mut free = Vec::new();
    // Open parentheses, and whether each belongs to such an annotation.
    let mut open: Vec<Option<Span>> = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::LParen => {
                let before = i.checked_sub(2).map(|at| (tokens[at].kind, tokens[at + 1].span));
                let annotation = before.is_some_and(|(at, name)| {
                    let name = &text[name.start as usize..name.end as usize];
                    at == Kind::At && !values_in_parentheses(name)
                });
                open.push(annotation.then_some(token.span));
            }
            Kind::RParen => {
                if let Some(start) = open.pop().flatten() {
                    free.truncate(free.partition_point(|f: &Span| f.start < start.start));
                    free.push(start.to(token.span));
                }
            }
            _ => {}
        }
    }
    free
}

/// Annotations with constants in parentheses instead of brackets. The P4Runtime specification
/// defines the first two, v1model the third. Strings may be concatenated: `@name("a" ++ "b")`.
pub(crate) fn values_in_parentheses(name: &str) -> bool {
    matches!(name, "pkginfo" | "platform_property" | "field_list" | "name" | "deprecated")
}

/// Splits preprocessed text into tokens; the last is [`Kind::End`]. Invalid characters are reported
/// and skipped.
pub(crate) fn lex(reporter: &mut Reporter<'_>) -> Vec<Token> {
    let text = &reporter.text.text;
    let mut tokens = Vec::with_capacity(text.len() / 4);
    let mut bad: Option<Span> = None;
    let mut spans = Vec::new();
    for (kind, range) in Kind::lexer(text).spanned() {
        let span = Span::new(range.start, range.end);
        match kind {
            Ok(kind) => tokens.push(Token { kind, span }),
            Err(()) => match &mut bad {
                Some(b) if b.end == span.start => b.end = span.end,
                _ => {
                    spans.extend(bad.replace(span));
                }
            },
        }
    }
    spans.extend(bad);
    if !spans.is_empty() {
        let free = free_text(&tokens, text);
        let string = |bad: &Span| text[bad.start as usize..].starts_with('"');
        let inside = |bad: &Span| {
            let around = free.partition_point(|f| f.start <= bad.start).checked_sub(1);
            around.is_some_and(|i| bad.end <= free[i].end)
        };
        spans.retain(|bad| string(bad) || !inside(bad));
    }
    for span in spans {
        let found = &reporter.text.text[span.start as usize..span.end as usize];
        let message = if found.starts_with('"') {
            "the string has no end".to_owned()
        } else {
            format!("`{}` is not a token of P4", found.chars().take(20).collect::<String>())
        };
        reporter.error(span, message);
    }
    let long = |token: &&Token| {
        token.kind == Kind::Ident && (token.span.end - token.span.start) as usize > NAME_BYTES
    };
    if let Some(name) = tokens.iter().find(long) {
        let message = format!("a name of more than {NAME_BYTES} bytes");
        reporter.stop(name.span, message, "shorten it");
    }
    let end = reporter.text.text.trim_end().len();
    tokens.push(Token { kind: Kind::End, span: Span::new(end, end) });
    tokens
}
