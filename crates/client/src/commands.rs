//! The commands: their names and their help.

use serde_json::json;
use tributary_base::document::suggest;

use crate::Error;
use crate::output::{Report, Rows};

/// A command and its help.
#[derive(Debug)]
pub struct Command {
    /// The first word.
    pub name: &'static str,
    /// What follows, one line for each form.
    pub usage: &'static [&'static str],
    /// What it does, in one line.
    pub about: &'static str,
    /// More about it.
    pub notes: &'static str,
}

const VALUES: &str = "Values: decimal, 0x, 0b, addresses of Ethernet, IPv4 and IPv6, and names of translated types.\n\
    Keys: VALUE (exact, optional), VALUE/LENGTH (lpm, ternary), VALUE&&&MASK or VALUE/MASK (ternary),\n\
    LOW..HIGH (range).\n\
    A key that is left out, or is `*`, matches all values. Parameters can be given in their order without names, and\n\
    actions as calls: forward(port=1, mac=2).\n\
    In tables with an action profile, the action can be member=ID, group=ID, or several actions with `and` between\n\
    them, each with weight=N and watch=PORT.\n\
    Options: priority=N (the highest wins), timeout=30s (idle time-out), metadata=HEX.";

/// All commands, in the order of their help.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "list",
        usage: &["[tables|actions|counters|meters|registers|profiles|valuesets|digests|packets]"],
        about: "list the objects of the program",
        notes: "",
    },
    Command { name: "tables", usage: &[""], about: "list the tables", notes: "" },
    Command {
        name: "describe",
        usage: &["NAME"],
        about: "describe a table, an action or another object",
        notes: "",
    },
    Command {
        name: "dump",
        usage: &["TABLE [KEY=VALUE...]", "all"],
        about: "print the entries of a table, with their counters and meters",
        notes: "With keys, only the entries that have these keys.",
    },
    Command {
        name: "save",
        usage: &["[TABLE...]"],
        about: "print entries, members, groups and rates as commands",
        notes: "To restore them, feed the lines to `tributary p4runtime`. Without names, it saves the entries and default\n\
            actions of all tables, action profiles, rates of meters, value sets, multicast groups and clone sessions.\n\
            With names, it saves only the entries, default actions and rates of these tables.\n\
            Not saved: values of counters and registers, constant entries, settings of digests, and the program.",
    },
    Command {
        name: "add",
        usage: &["TABLE KEY=VALUE... [priority=N] ACTION [PARAMETER=VALUE...]"],
        about: "add an entry to a table",
        notes: VALUES,
    },
    Command {
        name: "change",
        usage: &["TABLE KEY=VALUE... [priority=N] ACTION [PARAMETER=VALUE...]"],
        about: "change the action of an entry",
        notes: VALUES,
    },
    Command {
        name: "delete",
        usage: &["TABLE KEY=VALUE... [priority=N]"],
        about: "delete an entry of a table",
        notes: VALUES,
    },
    Command {
        name: "default",
        usage: &["TABLE", "TABLE ACTION [PARAMETER=VALUE...]", "TABLE reset"],
        about: "show, set or reset the default action of a table",
        notes: "",
    },
    Command {
        name: "clear",
        usage: &["TABLE...", "all"],
        about: "delete all entries of tables",
        notes: "Constant entries and default actions stay.",
    },
    Command {
        name: "counter",
        usage: &[
            "NAME [INDEX]",
            "NAME INDEX [packets=N] [bytes=N]",
            "NAME [INDEX] reset",
            "TABLE [KEY=VALUE...] [packets=N] [bytes=N]",
            "TABLE [KEY=VALUE...] reset",
        ],
        about: "read, write or reset counters",
        notes: "Counters of entries are named by their table. Rows of zeros are left out, unless an index is given.",
    },
    Command {
        name: "meter",
        usage: &[
            "NAME [INDEX]",
            "NAME INDEX cir=N cburst=N [pir=N pburst=N]",
            "NAME [INDEX] reset",
            "TABLE [KEY=VALUE...] [cir=N cburst=N [pir=N pburst=N]]",
            "TABLE [KEY=VALUE...] reset",
        ],
        about: "read, set or reset the rates of meters",
        notes: "Rates are bytes or packets per second, as the program says; bursts are bytes or packets. Without peak\n\
            values, they are the committed ones. Meters without rates are left out, unless an index is given.",
    },
    Command {
        name: "register",
        usage: &["NAME [INDEX]", "NAME INDEX VALUE", "NAME [INDEX] reset"],
        about: "read, write or reset registers",
        notes: "Structures are written as {a=1, b=2}. Rows of zeros are left out, unless an index is given.",
    },
    Command {
        name: "multicast",
        usage: &["[ID]", "add ID PORT[:INSTANCE]...", "change ID PORT[:INSTANCE]...", "delete ID"],
        about: "list or change multicast groups",
        notes: "",
    },
    Command {
        name: "clone",
        usage: &[
            "[ID]",
            "add ID PORT[:INSTANCE]... [bytes=N] [class=N]",
            "change ID PORT[:INSTANCE]... [bytes=N] [class=N]",
            "delete ID",
        ],
        about: "list or change clone sessions (mirroring)",
        notes: "bytes=N truncates the copies.",
    },
    Command {
        name: "member",
        usage: &[
            "[PROFILE]",
            "add PROFILE ID ACTION [PARAMETER=VALUE...]",
            "change PROFILE ID ACTION [PARAMETER=VALUE...]",
            "delete PROFILE ID",
        ],
        about: "list or change members of action profiles",
        notes: "",
    },
    Command {
        name: "group",
        usage: &[
            "[PROFILE]",
            "add PROFILE ID MEMBER[:WEIGHT][@PORT]... [size=N]",
            "change PROFILE ID MEMBER[:WEIGHT][@PORT]... [size=N]",
            "delete PROFILE ID",
        ],
        about: "list or change groups of action selectors",
        notes: "A member with @PORT is not chosen while that port has no link.",
    },
    Command {
        name: "valueset",
        usage: &["[NAME]", "add NAME KEY=VALUE...", "delete NAME KEY=VALUE...", "clear NAME"],
        about: "list or change the members of parser value sets",
        notes: "",
    },
    Command {
        name: "packet-out",
        usage: &["HEX [FIELD=VALUE...]"],
        about: "send a packet from the controller",
        notes: "The fields are those of the header packet_out; those left out are 0.",
    },
    Command {
        name: "packets",
        usage: &["[COUNT] [seconds=N]"],
        about: "print the packets that the switch sends to the controller",
        notes: "Until Ctrl-C, or so many packets or seconds. Only the primary controller gets packets.",
    },
    Command {
        name: "digests",
        usage: &["[NAME] [COUNT] [seconds=N]"],
        about: "print the digests that the switch sends",
        notes: "Until Ctrl-C, or so many digests or seconds. Turns on digests meanwhile, where they were off.",
    },
    Command {
        name: "pipeline",
        usage: &["", "get [FILE]", "set PROGRAM.p4 [NAME=VALUE...]", "set DEVICE_CONFIG P4INFO"],
        about: "show, read or set the program of the switch",
        notes: "Setting it deletes all entries. The embedded switch takes P4 source, with NAME=VALUE for the preprocessor;\n\
            other switches take the files of their compilers. With FILE, `get` writes all bytes as they are.",
    },
    Command { name: "info", usage: &[""], about: "print the P4Info", notes: "" },
    Command {
        name: "help",
        usage: &["[COMMAND]"],
        about: "explain the commands, or one",
        notes: "",
    },
    Command {
        name: "exit",
        usage: &[""],
        about: "leave the shell, as Ctrl-D does, or end a script",
        notes: "",
    },
    Command { name: "quit", usage: &[""], about: "the same as `exit`", notes: "" },
];

/// Whether a command ends a shell or a script.
#[must_use]
pub fn is_exit(words: &[String]) -> bool {
    words.first().is_some_and(|word| word == "exit" || word == "quit")
}

/// The command with this name.
///
/// # Errors
/// If there is none.
pub fn named(name: &str) -> Result<&'static Command, Error> {
    let found = COMMANDS.iter().find(|command| command.name == name);
    found.ok_or_else(|| {
        let near = suggest::nearest(name, COMMANDS.iter().map(|command| command.name));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`help` lists all".to_owned(),
        };
        Error::input(format!("there is no command `{name}`; {help}"))
    })
}

/// The help of all commands, or of one.
///
/// # Errors
/// If there is no such command.
pub fn help(words: &[String]) -> Result<Report, Error> {
    let Some(name) = words.first() else {
        let mut rows = Rows::new("", ["command", "what it does"]);
        for command in COMMANDS {
            rows.push([command.name.to_owned(), command.about.to_owned()]);
        }
        let all = COMMANDS.iter().map(json_help).collect::<Vec<_>>();
        return Ok(Report::new(json!(all)).rows(rows).line(
            "`help COMMAND` explains one. Tab completes words, and names may be shortened.",
        ));
    };
    let command = named(name)?;
    let usage = command.usage.iter().map(|usage| format!("  {} {usage}\n", command.name));
    let mut text = format!("{}\n", command.about);
    text.extend(usage);
    text.push_str(command.notes);
    Ok(Report::new(json_help(command)).line(text))
}

fn json_help(command: &Command) -> serde_json::Value {
    json!({ "command": command.name, "usage": command.usage, "about": command.about })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_help_of_fitting_lines() {
        for command in COMMANDS {
            let text = help(&[command.name.to_owned()]).unwrap().text(None);
            assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
            assert!(!command.about.is_empty() && !command.usage.is_empty());
        }
        assert!(help(&[]).unwrap().text(Some(80)).lines().all(|line| line.chars().count() <= 80));
        let line = named("tabels").unwrap_err().to_string();
        assert_eq!(line, "there is no command `tabels`; did you mean `tables`?");
    }
}
