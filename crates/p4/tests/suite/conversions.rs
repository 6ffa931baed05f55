//! Implicit conversions: for each place in which a value has an expected type, which types it may
//! have. `conversions.txt` has the table, which follows the specification section by section.
//!
//! Where `p4test` of p4c is on the `PATH`, it must give the same answers, except for those that the
//! table marks as p4c's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use tributary_p4::compile_text;

static TABLE: LazyLock<String> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/conversions.txt");
    std::fs::read_to_string(path).unwrap()
});

/// Programs of a compilation. The front end reports at most 100 errors.
const PIECE: usize = 30;

/// A type by a short name.
struct Kind {
    name: &'static str,
    /// How P4 writes it; `-` for expressions whose type cannot be written.
    ty: &'static str,
    /// A constant of the type; `-` if there is none.
    constant: &'static str,
}

/// A place in which values have an expected type.
struct Place {
    /// The line of the table.
    line: &'static str,
    /// A declaration on one line: `@T` is the expected type, `@v` the value, `@c` a constant, `@p`
    /// the parameter that has the value, `@i` the same with the direction `inout`, and `#` a number.
    text: &'static str,
    /// The pairs (expected type, type) that fit.
    fits: BTreeSet<(&'static str, &'static str)>,
    /// Other pairs that fit in p4c, or do not.
    p4c: BTreeSet<(&'static str, &'static str)>,
}

struct Table {
    declarations: String,
    kinds: Vec<Kind>,
    places: Vec<Place>,
}

/// A program of one declaration.
struct Cell {
    pair: (&'static str, &'static str),
    text: String,
}

fn table() -> Table {
    let mut table = Table { declarations: String::new(), kinds: Vec::new(), places: Vec::new() };
    let mut group = 0;
    let mut rows_follow = false;
    for line in TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (mark, rest) = line.split_once(' ').unwrap();
        match mark {
            "declare" => writeln!(table.declarations, "{rest}").unwrap(),
            "type" => {
                let parts: Vec<&str> = rest.split_whitespace().collect();
                table.kinds.push(Kind { name: parts[0], ty: parts[1], constant: parts[2] });
            }
            "in" => {
                // Several places may share the rows below them.
                if std::mem::take(&mut rows_follow) {
                    group = table.places.len();
                }
                let place = Place { line, text: rest, fits: BTreeSet::new(), p4c: BTreeSet::new() };
                table.places.push(place);
            }
            _ => {
                rows_follow = true;
                let (targets, sources) = rest.split_once(':').unwrap();
                for place in &mut table.places[group..] {
                    let of = if mark == "p4c" { &mut place.p4c } else { &mut place.fits };
                    for target in targets.split_whitespace() {
                        let own =
                            sources.split_whitespace().map(|s| if s == "=" { target } else { s });
                        of.extend(own.map(|source| (target, source)));
                    }
                }
            }
        }
    }
    table
}

impl Table {
    fn cells(&self, place: &Place) -> Vec<Cell> {
        let mut cells = Vec::new();
        let targets: Vec<&Kind> = match place.text.contains("@T") {
            true => self.kinds.iter().filter(|kind| kind.ty != "-").collect(),
            false => self.kinds.iter().take(1).collect(),
        };
        let named = place.text.contains("@S");
        for target in targets {
            for source in &self.kinds {
                let fixed = source.ty == "-" || matches!(source.ty, "int" | "string");
                let (value, parameter) = match fixed {
                    true => (source.constant, String::new()),
                    false => ("v", format!("{} v", source.ty)),
                };
                if place.text.contains("@c") && source.constant == "-" || named && source.ty == "-"
                {
                    continue;
                }
                let direction = |d: &str| match parameter.is_empty() {
                    true => String::new(),
                    false => format!(", {d} {parameter}"),
                };
                let text = place.text.replace('#', &cells.len().to_string());
                let text = text.replace("@T", target.ty).replace("@S", source.ty);
                let text = text.replace("@v", value).replace("@c", source.constant);
                let text = text.replace("@p", &direction("in")).replace("@i", &direction("inout"));
                let target = if place.text.contains("@T") { target.name } else { "any" };
                cells.push(Cell { pair: (target, source.name), text });
            }
        }
        cells
    }

    /// A program with these cells, one on each line, and the number of lines before them.
    fn program(&self, cells: &[&Cell]) -> (String, usize) {
        let mut text = self.declarations.clone();
        let before = text.lines().count();
        for cell in cells {
            writeln!(text, "{}", cell.text).unwrap();
        }
        (text, before)
    }
}

/// The cells that the front end refuses, each with the first message, which has a position.
fn refused(table: &Table, cells: &[Cell]) -> BTreeMap<(&'static str, &'static str), String> {
    let mut refused = BTreeMap::new();
    let mut pieces: Vec<Vec<&Cell>> = cells.chunks(PIECE).map(|c| c.iter().collect()).collect();
    while let Some(piece) = pieces.pop() {
        let (text, before) = table.program(&piece);
        let Err(found) = compile_text("cells.p4", &text, &[]) else { continue };
        if found.iter().count() >= 100 && piece.len() > 1 {
            let (first, second) = piece.split_at(piece.len() / 2);
            pieces.extend([first.to_vec(), second.to_vec()]);
            continue;
        }
        for d in found.iter().filter(|d| d.severity == tributary_p4::Severity::Error) {
            assert!(d.line as usize > before && d.column > 0, "no position: {d}");
            refused.entry(piece[d.line as usize - before - 1].pair).or_insert(d.to_string());
        }
    }
    refused
}

#[test]
fn only_what_the_specification_lists_converts() {
    let table = table();
    let mut wrong = String::new();
    let mut count = 0;
    for place in &table.places {
        let cells = table.cells(place);
        let refused = refused(&table, &cells);
        for cell in &cells {
            let message = refused.get(&cell.pair);
            if message.is_none() != place.fits.contains(&cell.pair) {
                let answer = message.map_or("accepted", |m| m);
                writeln!(wrong, "{}\n    {}\n    {answer}", place.line, cell.text).unwrap();
            }
        }
        count += cells.len();
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 20_000, "only {count} programs");
}

/// Notes the cells that p4c refuses. After an error, p4c leaves out some checks. So the lines that it
/// reports are taken out until it accepts the rest.
fn ask_p4c(
    tool: &Path,
    table: &Table,
    mut left: Vec<&Cell>,
    refused: &mut BTreeSet<(&'static str, &'static str)>,
) {
    let file = tempfile::Builder::new().suffix(".p4").tempfile().unwrap();
    let start = format!("{}(", file.path().display());
    while !left.is_empty() {
        let (text, before) = table.program(&left);
        std::fs::write(file.path(), text).unwrap();
        let options = ["--Wdisable", "--maxErrorCount", "100000"];
        let done = Command::new(tool).args(options).arg(file.path()).output().unwrap();
        if done.status.success() {
            return;
        }
        let line = |message: &str| {
            let at = message.strip_prefix(&start)?.split_once(')')?.0.parse::<usize>().ok()?;
            message.contains("error:").then(|| at.checked_sub(before + 1))?
        };
        let messages = String::from_utf8_lossy(&done.stderr);
        let lines: BTreeSet<usize> =
            messages.lines().filter_map(line).filter(|line| *line < left.len()).collect();
        if lines.is_empty() {
            // The message has no line of the program: look for the cell in each half.
            if let [only] = &left[..] {
                refused.insert(only.pair);
                return;
            }
            let rest = left.split_off(left.len() / 2);
            ask_p4c(tool, table, rest, refused);
        }
        refused.extend(lines.iter().map(|line| left[*line].pair));
        let mut at = 0..;
        left.retain(|_| at.next().is_some_and(|at| !lines.contains(&at)));
    }
}

/// Where p4c's answers are not those of the table.
fn differences(tool: &Path, table: &Table, place: &Place) -> String {
    let cells = table.cells(place);
    let mut refused = BTreeSet::new();
    ask_p4c(tool, table, cells.iter().collect(), &mut refused);
    let mut wrong = String::new();
    for cell in &cells {
        let fits = place.fits.contains(&cell.pair) != place.p4c.contains(&cell.pair);
        if fits == refused.contains(&cell.pair) {
            let answer = if fits { "refused" } else { "accepted" };
            writeln!(wrong, "{}\n    {}\n    {answer} by p4c", place.line, cell.text).unwrap();
        }
    }
    wrong
}

#[test]
fn p4c_agrees_about_conversions() {
    let Some(tool) = tributary_base::programs::on_path("p4test") else {
        eprintln!("skipped: conversions beside p4c: p4test not found on the PATH");
        return;
    };
    let table = table();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let wrong: String = std::thread::scope(|scope| {
        let part = |first| {
            let places = table.places.iter().skip(first).step_by(threads);
            let (tool, table) = (&tool, &table);
            scope.spawn(move || places.map(|p| differences(tool, table, p)).collect::<String>())
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{wrong}");
}
