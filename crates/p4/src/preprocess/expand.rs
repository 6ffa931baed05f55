//! Macro expansion by the rules of C: arguments are expanded first unless they are operands of `#`
//! or `##`, the result is scanned again, and a macro is not expanded within its own expansion.

use std::collections::HashMap;
use std::rc::Rc;

use super::token::{Hidden, Kind, Token, scan, tokenize, write};
use crate::limits::{MACRO_DEPTH, MACRO_TOKENS, NAME_BYTES, shortened};

/// A macro.
#[derive(Debug)]
pub(crate) struct Macro {
    /// Parameter names of a function-like macro.
    pub(crate) params: Option<Vec<Rc<str>>>,
    /// Whether the last parameter is `...`.
    pub(crate) variadic: bool,
    pub(crate) body: Vec<Token>,
}

/// Macros by name.
pub(crate) type Macros = HashMap<Rc<str>, Rc<Macro>>;

/// Expands tokens.
pub(crate) struct Expander<'m> {
    pub(crate) macros: &'m Macros,
    /// Number of tokens that the program's macros have produced so far.
    pub(crate) produced: usize,
    /// Number of calls in whose arguments the current call is.
    depth: usize,
}

/// Why an expansion failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Wrong(String),
    /// A limit in `limits` was exceeded.
    Endless(String),
}

impl<'m> Expander<'m> {
    pub(crate) fn new(macros: &'m Macros, produced: usize) -> Self {
        Self { macros, produced, depth: 0 }
    }

    /// Counts tokens that a macro produced.
    fn note(&mut self, tokens: usize, name: &str) -> Result<(), Failure> {
        self.produced += tokens;
        if self.produced <= MACRO_TOKENS {
            return Ok(());
        }
        let name = shortened(name, 64);
        Err(Failure::Endless(format!(
            "macros produce more than {MACRO_TOKENS} tokens, the last of them in `{name}`"
        )))
    }

    /// Expands tokens. `more` returns the tokens of the next source line if the arguments of a
    /// macro continue there.
    pub(crate) fn expand(
        &mut self,
        tokens: Vec<Token>,
        more: &mut dyn FnMut() -> Option<Vec<Token>>,
    ) -> Result<Vec<Token>, Failure> {
        let mut input = tokens;
        input.reverse();
        let mut output = Vec::new();
        while let Some(token) = input.pop() {
            let expandable = token.kind == Kind::Ident && !token.hidden.contains(&token.text);
            let Some(definition) = self.macros.get(&token.text).filter(|_| expandable).cloned()
            else {
                output.push(token);
                continue;
            };
            let (body, hidden) = match &definition.params {
                None => {
                    let hidden = token.hidden.with(&token.text);
                    (self.substitute(&definition, &token.text, &[])?, hidden)
                }
                Some(params) => {
                    if !input.last().is_some_and(|t| t.is("(")) {
                        output.push(token);
                        continue;
                    }
                    let (args, close) = arguments(&mut input, more, &token.text)?;
                    let args = arrange(args, params.len(), definition.variadic, &token.text)?;
                    let hidden = token.hidden.intersection(&close).with(&token.text);
                    (self.substitute(&definition, &token.text, &args)?, hidden)
                }
            };
            // The hidden names are searched for each token.
            let levels = hidden.len();
            if levels > MACRO_DEPTH {
                let name = shortened(&token.text, 64);
                let message =
                    format!("more than {MACRO_DEPTH} macros inside one another: `{name}`");
                return Err(Failure::Endless(message));
            }
            self.note(1 + body.len() * (1 + levels * levels / 100), &token.text)?;
            let mut first = true;
            let at = input.len();
            for mut t in body {
                t.hidden = t.hidden.union(&hidden);
                if first {
                    t.space = token.space;
                    first = false;
                }
                input.push(t);
            }
            input[at..].reverse();
        }
        Ok(output)
    }

    /// Expands an argument separately.
    fn argument(&mut self, tokens: Vec<Token>, name: &str) -> Result<Vec<Token>, Failure> {
        self.depth += 1;
        if self.depth > MACRO_DEPTH {
            let name = shortened(name, 64);
            let message =
                format!("more than {MACRO_DEPTH} calls of macros inside one another: `{name}`");
            return Err(Failure::Endless(message));
        }
        self.note(tokens.len(), name)?;
        let expanded = self.expand(tokens, &mut || None);
        self.depth -= 1;
        expanded
    }

    /// The body of a macro with its parameters replaced.
    fn substitute(
        &mut self,
        definition: &Macro,
        name: &str,
        args: &[Vec<Token>],
    ) -> Result<Vec<Token>, Failure> {
        let params = definition.params.as_deref().unwrap_or(&[]);
        let position = |t: &Token| {
            let by_name = params.iter().position(|p| t.kind == Kind::Ident && *p == t.text);
            by_name.or_else(|| {
                (definition.variadic && &*t.text == "__VA_ARGS__").then_some(params.len())
            })
        };
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; args.len()];
        let body = &definition.body;
        let mut out: Vec<Token> = Vec::with_capacity(body.len());
        let mut i = 0;
        while i < body.len() {
            let token = &body[i];
            let function_like = definition.params.is_some();
            if function_like
                && token.is("#")
                && let Some(arg) = body.get(i + 1).and_then(position)
            {
                let text = stringize(&args[arg], token.space);
                self.note(args[arg].len() + text.text.len() / 8, name)?;
                out.push(text);
                i += 2;
                continue;
            }
            if token.is("##") && !out.is_empty() && i + 1 < body.len() {
                let right = match position(&body[i + 1]) {
                    Some(arg) => args[arg].clone(),
                    None => vec![body[i + 1].clone()],
                };
                self.note(right.len(), name)?;
                paste(&mut out, right);
                if out.last().is_some_and(|pasted| pasted.text.len() > NAME_BYTES) {
                    let message = format!("`##` makes a name of more than {NAME_BYTES} bytes");
                    return Err(Failure::Endless(message));
                }
                i += 2;
                continue;
            }
            match position(token) {
                Some(arg) if body.get(i + 1).is_some_and(|t| t.is("##")) => {
                    self.note(args[arg].len(), name)?;
                    append(&mut out, &args[arg], token.space);
                }
                Some(arg) => {
                    if expanded[arg].is_none() {
                        expanded[arg] = Some(self.argument(args[arg].clone(), name)?);
                    }
                    let tokens = expanded[arg].as_deref().unwrap_or(&[]);
                    self.note(tokens.len(), name)?;
                    append(&mut out, tokens, token.space);
                }
                None => out.push(token.clone()),
            }
            i += 1;
        }
        out.retain(|t| t.kind != Kind::Empty);
        Ok(out)
    }
}

/// Appends an argument; an empty one leaves a placeholder for `##`.
fn append(out: &mut Vec<Token>, tokens: &[Token], space: bool) {
    if tokens.is_empty() {
        out.push(Token { kind: Kind::Empty, text: Rc::from(""), space, hidden: Hidden::default() });
    }
    for (i, token) in tokens.iter().enumerate() {
        let mut token = token.clone();
        if i == 0 {
            token.space = space;
        }
        out.push(token);
    }
}

/// `##`: joins the last token and the first of `right`.
fn paste(out: &mut Vec<Token>, mut right: Vec<Token>) {
    if right.is_empty() {
        return;
    }
    let Some(left) = out.pop() else {
        out.append(&mut right);
        return;
    };
    let text = format!("{}{}", left.text, right[0].text);
    let (length, kind) = scan(&text);
    if length == text.len() {
        out.push(Token { kind, text: text.into(), space: left.space, hidden: left.hidden });
        out.extend(right.drain(1..));
    } else {
        let space = left.space;
        out.extend(tokenize(&text).into_iter().enumerate().map(|(i, mut t)| {
            t.space = i == 0 && space;
            t
        }));
        out.extend(right.drain(1..));
    }
}

/// `#`: the argument as a string.
fn stringize(tokens: &[Token], space: bool) -> Token {
    let mut inner = String::new();
    write(tokens, &mut inner);
    let escaped = inner.trim().replace('\\', "\\\\").replace('"', "\\\"");
    Token {
        kind: Kind::Text,
        text: format!("\"{escaped}\"").into(),
        space,
        hidden: Hidden::default(),
    }
}

/// Consumes `( a, b, … )` from the input. Returns the arguments and the names hidden by the closing
/// parenthesis.
fn arguments(
    input: &mut Vec<Token>,
    more: &mut dyn FnMut() -> Option<Vec<Token>>,
    name: &str,
) -> Result<(Vec<Vec<Token>>, Hidden), Failure> {
    input.pop();
    let mut args = vec![Vec::new()];
    let mut depth = 0usize;
    loop {
        let Some(token) = input.pop() else {
            let Some(mut line) = more() else {
                let message =
                    format!("the arguments of macro `{name}` have no closing parenthesis");
                return Err(Failure::Wrong(message));
            };
            if let Some(first) = line.first_mut() {
                first.space = true;
            }
            line.reverse();
            *input = line;
            continue;
        };
        match &*token.text {
            ")" if depth == 0 => return Ok((args, token.hidden)),
            "," if depth == 0 => {
                args.push(Vec::new());
                continue;
            }
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if let Some(last) = args.last_mut() {
            last.push(token);
        }
    }
}

/// Assigns the arguments to the parameters. Variable arguments are joined again.
fn arrange(
    mut args: Vec<Vec<Token>>,
    params: usize,
    variadic: bool,
    name: &str,
) -> Result<Vec<Vec<Token>>, Failure> {
    if variadic {
        let rest = if args.len() > params { args.split_off(params) } else { Vec::new() };
        let mut joined: Vec<Token> = Vec::new();
        for (i, arg) in rest.into_iter().enumerate() {
            if i > 0 {
                joined.push(Token {
                    kind: Kind::Punct,
                    text: Rc::from(","),
                    space: false,
                    hidden: Hidden::default(),
                });
            }
            joined.extend(arg);
        }
        if args.len() < params {
            return Err(Failure::Wrong(format!(
                "macro `{name}` takes at least {params} arguments, but {} are given",
                args.len()
            )));
        }
        args.push(joined);
        return Ok(args);
    }
    if params == 0 && args.len() == 1 && args[0].is_empty() {
        return Ok(Vec::new());
    }
    if args.len() != params {
        return Err(Failure::Wrong(format!(
            "macro `{name}` takes {params} arguments, but {} are given",
            args.len()
        )));
    }
    Ok(args)
}
