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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<NetworkTest, String> {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let (hosts, switches) = (names(["h1", "h-2"]), names(["s1", "packet"]));
        NetworkTest::parse(text, &hosts, &switches).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_continue_until_the_next_command() {
        let test = "
            packet h1 00 01   # a comment
                02
            expect \"h-2\" 0* 01 02 $
            EXPECT h1
            on packet check_counter c(0) packets == 1
            on s1 add t k:1
                a()
            wait
            no_packet";
        let test = parse(test).unwrap();
        assert_eq!(test.steps.len(), 7);
        assert_eq!(test.expectations(), 4);
    }

    #[test]
    fn errors_name_what_is_known() {
        for (text, says) in [
            ("packet h3 00", "1:8: there is no host `h3` (known: h1, h-2)"),
            ("expect 1 00", "1:8: there is no host `1`"),
            ("packet", "1:7: expected the name of a host after this"),
            ("packet h1 0*", "1:11: `0*` has a `*`"),
            ("on s2 wait", "1:4: there is no switch `s2` (known: s1, packet)"),
            ("on s1", "1:6: expected a command for the switch after this"),
            ("on s1 put t", "1:7: `put` is not a command: the commands are packet"),
            ("packet h1 00\nadd t k:1 a()", "2:1: `add` is not a command in a test of a network"),
            (
                "hello",
                "1:1: `hello` is not a command in a test of a network: the commands are packet",
            ),
            ("wait 1", "1:6: `1` is too much here"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }
}
