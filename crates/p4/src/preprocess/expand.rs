//! Macro expansion, by the rules of C: arguments are expanded first unless `#` or `##` wants them
//! raw, the result is scanned again, and no macro expands inside its own expansion.

use std::collections::HashMap;
use std::rc::Rc;

use super::token::{Hidden, Kind, Token, scan, tokenize, write};

/// A macro.
#[derive(Debug)]
pub(crate) struct Macro {
    /// Parameter names of a function-like macro.
    pub(crate) params: Option<Vec<Rc<str>>>,
    /// The last parameter is `...`.
    pub(crate) variadic: bool,
    pub(crate) body: Vec<Token>,
}

/// Macros by name.
pub(crate) type Macros = HashMap<Rc<str>, Rc<Macro>>;

/// More tokens than any line may expand to.
const LIMIT: usize = 4_000_000;

/// Expands tokens.
pub(crate) struct Expander<'m> {
    pub(crate) macros: &'m Macros,
    produced: usize,
}

/// Why an expansion failed.
pub(crate) type Failure = String;

impl<'m> Expander<'m> {
    pub(crate) fn new(macros: &'m Macros) -> Self {
        Self { macros, produced: 0 }
    }

    /// Expands tokens. `more` gives the tokens of the next source line when the arguments of a
    /// macro go on there.
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
                    (self.substitute(&definition, &[])?, hidden)
                }
                Some(params) => {
                    if !input.last().is_some_and(|t| t.is("(")) {
                        output.push(token);
                        continue;
                    }
                    let (args, close) = arguments(&mut input, more, &token.text)?;
                    let args = arrange(args, params.len(), definition.variadic, &token.text)?;
                    let hidden = token.hidden.intersection(&close).with(&token.text);
                    (self.substitute(&definition, &args)?, hidden)
                }
            };
            self.produced += body.len();
            if self.produced > LIMIT {
                return Err(format!("macro `{}` expands without end", token.text));
            }
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

    /// The body of a macro with its parameters replaced.
    fn substitute(
        &mut self,
        definition: &Macro,
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
                out.push(stringize(&args[arg], token.space));
                i += 2;
                continue;
            }
            if token.is("##") && !out.is_empty() && i + 1 < body.len() {
                let right = match position(&body[i + 1]) {
                    Some(arg) => args[arg].clone(),
                    None => vec![body[i + 1].clone()],
                };
                paste(&mut out, right);
                i += 2;
                continue;
            }
            match position(token) {
                Some(arg) if body.get(i + 1).is_some_and(|t| t.is("##")) => {
                    append(&mut out, &args[arg], token.space);
                }
                Some(arg) => {
                    if expanded[arg].is_none() {
                        expanded[arg] = Some(self.expand(args[arg].clone(), &mut || None)?);
                    }
                    let tokens = expanded[arg].as_deref().unwrap_or(&[]);
                    self.produced += tokens.len();
                    append(&mut out, tokens, token.space);
                }
                None => out.push(token.clone()),
            }
            if out.len() > LIMIT || self.produced > LIMIT {
                return Err("a macro expands without end".to_owned());
            }
            i += 1;
        }
        out.retain(|t| t.kind != Kind::Empty);
        Ok(out)
    }
}

/// Appends an argument; an empty one leaves a mark for `##`.
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

/// `##`: joins the last token with the first of `right`.
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

/// Takes `( a, b, … )` off the input: the arguments and what the closing parenthesis hides.
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
                return Err(format!("the arguments of macro `{name}` have no closing parenthesis"));
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

/// Fits the arguments to the parameters; the variable ones are joined again.
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
            return Err(format!(
                "macro `{name}` takes at least {params} arguments, but {} are given",
                args.len()
            ));
        }
        args.push(joined);
        return Ok(args);
    }
    if params == 0 && args.len() == 1 && args[0].is_empty() {
        return Ok(Vec::new());
    }
    if args.len() != params {
        return Err(format!(
            "macro `{name}` takes {params} arguments, but {} are given",
            args.len()
        ));
    }
    Ok(args)
}
