//! A dissector in an interpreter of Lua, with a stand-in for Wireshark.

use mlua::{Function, Lua, Table};

/// A loaded dissector.
pub(crate) struct Screen {
    lua: Lua,
}

/// One line of the packet's details.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) filter: String,
    pub(crate) text: Option<String>,
    /// Offset in the frame, in bytes.
    pub(crate) start: usize,
    /// Length in bytes.
    pub(crate) length: usize,
    /// The shown value in binary digits, possibly with more digits in front than the field has.
    pub(crate) bits: String,
}

impl Line {
    /// The last `width` digits.
    pub(crate) fn last(&self, width: usize) -> &str {
        &self.bits[self.bits.len() - width..]
    }
}

/// What a packet looks like.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) lines: Vec<Line>,
    /// Bytes that the dissector took.
    pub(crate) used: usize,
    /// The column of information.
    pub(crate) info: String,
    /// Bytes behind the headers.
    pub(crate) rest: usize,
}

impl Shown {
    /// Why the dissector stopped early.
    pub(crate) fn stopped(&self) -> Option<&str> {
        let root = self.lines.first()?;
        root.text.as_deref()?.strip_prefix(" [")?.strip_suffix(']')
    }
}

impl Screen {
    pub(crate) fn new(script: &str) -> Self {
        let lua = Lua::new();
        lua.load(include_str!("wireshark.lua")).set_name("wireshark.lua").exec().unwrap();
        if let Err(error) = lua.load(script).set_name("dissector.lua").exec() {
            panic!("{error}\n{script}");
        }
        Self { lua }
    }

    /// Where the dissector was registered.
    pub(crate) fn registered(&self) -> Vec<String> {
        self.lua.globals().get("registered").unwrap()
    }

    /// Shows the part of a frame from byte `start` on.
    pub(crate) fn show(&self, frame: &[u8], start: usize) -> Shown {
        let run: Function = self.lua.globals().get("run").unwrap();
        let frame = self.lua.create_string(frame).unwrap();
        let (lines, used, info, rest): (Vec<Table>, f64, Option<String>, Option<usize>) =
            run.call((frame, start)).unwrap();
        let line = |table: Table| Line {
            filter: table.get("filter").unwrap(),
            text: table.get("text").unwrap(),
            start: table.get::<f64>("start").unwrap() as usize,
            length: table.get::<f64>("length").unwrap() as usize,
            bits: table.get("bits").unwrap(),
        };
        Shown {
            lines: lines.into_iter().map(line).collect(),
            used: used as usize,
            info: info.unwrap_or_default(),
            rest: rest.unwrap_or_default(),
        }
    }
}
