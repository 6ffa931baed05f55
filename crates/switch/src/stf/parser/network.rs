//! Tests of networks: packets from and to hosts, and commands on switches.

use super::{Operands, Result, commands, names, starts_statement, statement_of};
use crate::stf::error::ParseError;
use crate::stf::lexer::{Kind, Token, lex};
use crate::stf::network::{NetworkTest, Step};
use crate::stf::script::Statement;

/// The commands of a test of a network.
const NAMES: [&str; 5] = ["packet", "expect", "no_packet", "wait", "on"];

impl NetworkTest {
    /// Parses a test. `hosts` and `switches` are the names that it may use.
    ///
    /// # Errors
    ///
    /// The first error, with line and column.
    pub fn parse(
        text: &str,
        hosts: &[String],
        switches: &[String],
    ) -> std::result::Result<Self, ParseError> {
        let tokens = lex(text)?;
        let mut steps = Vec::new();
        let mut rest = &tokens[..];
        while let Some(first) = rest.first() {
            let next =
                rest[1..].iter().position(|token| is(token, "on") || starts_statement(token));
            let (tokens, after) = rest.split_at(next.map_or(rest.len(), |next| next + 1));
            steps.push((first.place, step(tokens, hosts, switches)?));
            rest = after;
        }
        Ok(Self { steps })
    }
}

/// Whether a line starts with this word.
fn is(token: &Token<'_>, command: &str) -> bool {
    let same = matches!(token.kind, Kind::Word(word) if word.eq_ignore_ascii_case(command));
    token.starts_line && same
}

fn step(tokens: &[Token<'_>], hosts: &[String], switches: &[String]) -> Result<Step> {
    let mut operands = Operands::new(tokens);
    let host = |operands: &mut Operands<'_>| {
        let at = one_of("host", operands, hosts)?;
        Ok(u16::try_from(at).expect("a network has fewer hosts"))
    };
    let command = tokens[0].text().to_ascii_lowercase();
    let statement = match command.as_str() {
        "packet" => {
            let port = host(&mut operands)?;
            Statement::Packet { port, data: commands::bytes(&mut operands, "the packet")? }
        }
        "expect" => {
            let port = host(&mut operands)?;
            Statement::Expect { port, pattern: commands::pattern(&mut operands)? }
        }
        "no_packet" => Statement::NoPacket,
        "wait" => Statement::Wait,
        "on" => {
            let switch = one_of("switch", &mut operands, switches)?;
            let Some(first) = operands.peek() else {
                return Err(operands.error("a command for the switch"));
            };
            if !names().any(|name| name.eq_ignore_ascii_case(first.text())) {
                return Err(super::no_command(first));
            }
            return Ok(Step::On(switch, statement_of(operands.rest)?));
        }
        _ => return Err(unknown(&tokens[0])),
    };
    operands.end()?;
    Ok(Step::Traffic(statement))
}

fn unknown(token: &Token<'_>) -> ParseError {
    let known = NAMES.join(", ");
    let text = token.text();
    let advice = match names().any(|name| name.eq_ignore_ascii_case(text)) {
        true => format!("; write `on SWITCH {text} …`, or put it into the switch's entries"),
        false => String::new(),
    };
    token.place.error(format!(
        "`{text}` is not a command in a test of a network: the commands are {known}{advice}"
    ))
}

/// A name in a list of names. A name with other signs than letters, digits and `_` is in quotes.
fn one_of(what: &str, operands: &mut Operands<'_>, known: &[String]) -> Result<usize> {
    let place = operands.place();
    let name = match operands.peek().map(|token| token.kind) {
        Some(Kind::Word(name) | Kind::Quoted(name)) => name,
        _ => return Err(operands.error(&format!("the name of a {what}"))),
    };
    operands.next();
    known.iter().position(|one| one == name).ok_or_else(|| {
        let known = known.join(", ");
        place.error(format!("there is no {what} `{name}` (known: {known})"))
    })
}
