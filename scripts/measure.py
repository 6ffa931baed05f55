"""Runs the commands behind docs/evaluation, and writes their tables into its pages.

docs/evaluation/measurements.toml lists each command with the code that it measures and the tables that it
fills. In a page, a table is between the markers `<!-- measured: ID -->` and `<!-- end -->`. The last paragraph
there names command, commit, date, machine and load. Raw results go to docs/evaluation/results.

The standard library of Python 3.11 is enough.
"""

import argparse
import csv
import datetime
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

PAGES = Path("docs/evaluation")
LIST = PAGES / "measurements.toml"
RESULTS = PAGES / "results"
IMAGES = Path("docs/images")
END = "<!-- end -->"
MARKER = re.compile(r"^<!-- measured: (\S+) -->$", re.MULTILINE)
COMMIT = re.compile(r"commit `([0-9a-f]{7,40})`")
PROGRAMS = {"lab": "tributary-lab", "tributary": "tributary"}
# Larger raw results are not kept.
RAW_LIMIT = 64 * 1024
# Seconds over which the load is measured.
LOAD_TIME = 2.0


class Refused(Exception):
    """One line for the user: what is wrong, where, and what to do."""


@dataclass
class Table:
    """A table of a page: how the output becomes it, or why no command prints it."""

    id: str
    page: str
    depends: list[str]
    spec: dict = field(default_factory=dict)
    by_hand: str | None = None


@dataclass
class Measurement:
    """A command and the tables that it fills."""

    id: str
    run: str
    minutes: float
    depends: list[str]
    tables: list[Table]
    virtual: bool = False
    environment: dict = field(default_factory=dict)
    images: dict = field(default_factory=dict)
    accept: list[int] = field(default_factory=lambda: [0])


@dataclass
class Plan:
    """The list of measurements."""

    measurements: list[Measurement]
    by_hand: list[Table]
    variables: dict

    def tables(self) -> list[Table]:
        """All tables of all pages."""
        return [table for one in self.measurements for table in one.tables] + self.by_hand

    def named(self, ids: list[str]) -> list[Measurement]:
        """The measurements with these IDs or with tables of these IDs; all without an ID."""
        if not ids:
            return self.measurements
        chosen = []
        for wanted in ids:
            for table in self.by_hand:
                if table.id == wanted:
                    raise Refused(f"{wanted}: no command prints this table: {table.by_hand}")
            found = [
                one
                for one in self.measurements
                if one.id == wanted or any(table.id == wanted for table in one.tables)
            ]
            if not found:
                raise Refused(f"no measurement is called `{wanted}`; --list lists them")
            chosen += [one for one in found if one not in chosen]
        return chosen


def read_plan(text: str) -> Plan:
    """Parses the list."""
    data = tomllib.loads(text)
    groups = data.get("code", {})

    def depends(entry: dict) -> list[str]:
        paths = []
        for name in entry["depends"]:
            paths += groups.get(name, [name])
        return list(dict.fromkeys(paths))

    measurements = []
    for entry in data.get("measurement", []):
        tables = []
        for spec in entry.get("table", []):
            name = f"{entry['id']}/{spec['name']}" if "name" in spec else entry["id"]
            tables.append(Table(name, spec["page"], depends(entry), spec))
        measurements.append(
            Measurement(
                entry["id"],
                entry["run"],
                entry["minutes"],
                depends(entry),
                tables,
                entry.get("virtual", False),
                entry.get("environment", {}),
                entry.get("images", {}),
                entry.get("accept", [0]),
            )
        )
    by_hand = [
        Table(entry["id"], entry["page"], depends(entry), by_hand=entry["why"])
        for entry in data.get("by_hand", [])
    ]
    plan = Plan(measurements, by_hand, data.get("variables", {}))
    ids = [table.id for table in plan.tables()]
    for twice in {name for name in ids if ids.count(name) > 1}:
        raise Refused(f"{LIST}: two tables are called `{twice}`")
    return plan


# Pages.


def region(text: str, table: str, page: str) -> tuple[int, int]:
    """The place of what is between a table's markers."""
    begins = [match.end() for match in MARKER.finditer(text) if match[1] == table]
    if len(begins) != 1:
        problem = "no" if not begins else "more than one"
        raise Refused(f"{page}: {problem} marker `<!-- measured: {table} -->`; put one above the table")
    end = text.find(END, begins[0])
    following = MARKER.search(text, begins[0])
    if end < 0 or (following and following.start() < end):
        raise Refused(f"{page}: no `{END}` after `<!-- measured: {table} -->`; put one below the table")
    return begins[0], end


def replaced(text: str, table: str, page: str, body: str) -> str:
    """The page with another body between a table's markers."""
    begin, end = region(text, table, page)
    return f"{text[:begin]}\n\n{body.strip()}\n\n{text[end:]}"


def recorded(text: str, table: str, page: str) -> str | None:
    """The commit that a table's record names."""
    begin, end = region(text, table, page)
    found = COMMIT.findall(" ".join(text[begin:end].split()))
    return found[-1] if found else None


# From output to tables.


def unique(names: list[str]) -> list[str]:
    """Column names, the second `most` as `most#2`."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def printed(output: str, after: str | None, skip: int = 0) -> list[dict]:
    """The rows of a table on the terminal: the first after a line that contains `after`, or a later one."""
    lines = output.splitlines()
    if after is not None:
        starts = [at for at, line in enumerate(lines) if after in line]
        if not starts:
            raise Refused(f"the output has no line with `{after}`")
        lines = lines[starts[0] :]
    starts = [at for at, line in enumerate(lines) if line.startswith("┌")]
    if len(starts) <= skip:
        raise Refused(f"the output has no table {skip + 1} after `{after or 'its start'}`")
    header: list[str] | None = None
    rows = []
    for line in lines[starts[skip] + 1 :]:
        if line.startswith("└"):
            break
        if not line.startswith("│"):
            continue
        cells = [cell.strip() for cell in line.strip("│").split("┆")]
        if header is None:
            header = unique(cells)
        else:
            rows.append(dict(zip(header, cells, strict=True)))
    if not rows:
        raise Refused(f"the table after `{after or 'the start'}` has no rows")
    return rows


def matched(output: str, pattern: str) -> list[dict]:
    """A row for each line that matches, with a column for each named group."""
    found = [re.search(pattern, line) for line in output.splitlines()]
    rows = [match.groupdict(default="") for match in found if match]
    if not rows:
        raise Refused(f"no line of the output matches `{pattern}`")
    return rows


def from_csv(texts: list[str]) -> list[dict]:
    """The rows of CSV files, one after the other."""
    rows = []
    for text in texts:
        header, *lines = csv.reader(io.StringIO(text))
        rows += [dict(zip(unique(header), line, strict=True)) for line in lines]
    return rows


def pivoted(rows: list[dict], by: list[str], across: str) -> list[dict]:
    """One row for all with the same values of `by`; other columns are called `VALUE: COLUMN`, by `across`."""
    result: dict[tuple, dict] = {}
    for row in rows:
        key = tuple(row[name] for name in by)
        into = result.setdefault(key, dict(zip(by, key, strict=True)))
        for name, cell in row.items():
            if name != across and name not in by:
                into[f"{row[across]}: {name}"] = cell
    return list(result.values())


def shown(row: dict, name: str, digits: int | None) -> str:
    """A cell: as it is, or rounded, with its deviation, or half of its interval, if that does not round to zero."""
    cell = row.get(name, "")
    if cell == "":
        return "–"
    if digits is None:
        return cell
    text = f"{float(cell):.{digits}f}"
    if text == "nan":
        return "–"
    deviation = row.get(f"{name}, deviation") or row.get(f"{name}, ± 95 %")
    spread = f"{float(deviation or 'nan'):.{digits}f}"
    if spread == "nan" or float(spread) == 0.0:
        return text
    return f"{text} ± {spread}"


def selected(rows: list[dict], spec: dict) -> list[dict]:
    """The rows and columns of a page's table. A column is its head, and then what a cell is: a column of
    `rows` with a number of digits, or a list of cells, such as the numbers of a paper."""
    rows = [row for row in rows if all(row[name] == is_ for name, is_ in spec.get("where", {}).items())]
    if "pivot" in spec:
        rows = pivoted(rows, spec["pivot"]["by"], spec["pivot"]["across"])
    if "columns" not in spec:
        return rows
    if not rows:
        raise Refused(f"no row has {spec['where']}")
    result = []
    for at, row in enumerate(rows):
        cells = {}
        for head, source, *digits in spec["columns"]:
            if isinstance(source, list):
                cells[head] = source[at] if at < len(source) else ""
                continue
            if not any(source in other for other in rows):
                raise Refused(f"no column `{source}`; there are {', '.join(f'`{name}`' for name in row)}")
            cells[head] = shown(row, source, digits[0] if digits else None)
        result.append(cells)
    return result


def markdown(rows: list[dict]) -> str:
    """A table of a page."""

    def line(cells: list[str]) -> str:
        return "".join(f"| {cell}".rstrip() + " " for cell in (c.replace("|", "\\|") for c in cells)) + "|"

    head = list(rows[0])
    return "\n".join([line(head), line(["---"] * len(head)), *(line(list(row.values())) for row in rows)])


def as_csv(rows: list[dict]) -> str:
    """All columns of all rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def body_of(table: Table, output: str, out: Path) -> tuple[str, dict[str, str]]:
    """What stands in the page for a table, and its raw rows: CSV by the name of the file."""
    spec = table.spec
    if spec.get("text"):
        return f"```text\n{output.strip()}\n```", {}
    if "csv" in spec:
        names = spec["csv"] if isinstance(spec["csv"], list) else [spec["csv"]]
        missing = [name for name in names if not (out / name).is_file()]
        if missing:
            raise Refused(f"the command wrote no {missing[0]}")
        texts = [(out / name).read_text(encoding="utf-8") for name in names]
        command = table.id.split("/")[0]
        raw = {f"{command}-{name}": text for name, text in zip(names, texts, strict=True)}
        return markdown(selected(from_csv(texts), spec)), raw
    if "lines" in spec:
        rows = matched(output, spec["lines"])
    else:
        rows = printed(output, spec.get("after"), spec.get("skip", 0))
    return markdown(selected(rows, spec)), {f"{table.id.replace('/', '-')}.csv": as_csv(rows)}


# The machine.


def busy_cores() -> float:
    """Cores that are at work, over a short time."""

    def times() -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    before, idle_before = times()
    time.sleep(LOAD_TIME)
    after, idle_after = times()
    passed = max(1, after - before)
    return (os.cpu_count() or 1) * (passed - (idle_after - idle_before)) / passed


def machine() -> str:
    """Processor, cores and kernel."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = model[1] if model else platform.machine()
    kernel = platform.release().split("-")[0]
    return f"{len(os.sched_getaffinity(0))} cores of {name}, {platform.system()} {kernel}"


# The tool.


class Tool:
    """The list, the pages and the repository below a directory."""

    def __init__(self, root: Path, say=print):
        self.root = root
        self.say = say
        self.plan = read_plan((root / LIST).read_text(encoding="utf-8"))
        target = os.environ.get("CARGO_TARGET_DIR", root / "target")
        self.work = root / target / "measure"

    def git(self, *arguments: str) -> str:
        """What git prints."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True)
        if done.returncode:
            raise Refused(f"git {arguments[0]}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout.strip()

    def page(self, table: Table) -> Path:
        """A table's page."""
        path = self.root / PAGES / table.page
        if not path.is_file():
            raise Refused(f"{LIST}: `{table.id}` names {table.page}, which {PAGES} does not have")
        return path

    def text(self, table: Table) -> str:
        """The text of a table's page."""
        return self.page(table).read_text(encoding="utf-8")

    def check(self) -> None:
        """The list and the pages name the same tables, and the code that the list names exists."""
        for table in self.plan.tables():
            region(self.text(table), table.id, table.page)
            for path in table.depends:
                if not (self.root / path).exists():
                    raise Refused(f"{LIST}: `{table.id}` depends on {path}, which does not exist")
        known = {(table.id, table.page) for table in self.plan.tables()}
        for path in sorted((self.root / PAGES).glob("*.md")):
            for match in MARKER.finditer(path.read_text(encoding="utf-8")):
                if (match[1], path.name) not in known:
                    raise Refused(f"{path.name}: {LIST} has no table `{match[1]}` of this page")

    def show(self) -> None:
        """Prints what can be measured."""
        for one in self.plan.measurements:
            self.say(f"{one.id:24} {one.minutes:6g} min  {self.command(one)}")

    def stale(self) -> None:
        """Prints tables whose code has changed since they were measured."""
        for table in self.plan.tables():
            commit = recorded(self.text(table), table.id, table.page)
            kind = "by hand" if table.by_hand else "stale"
            since = self.since(commit, table.depends)
            if since is None and not table.by_hand:
                continue
            why = f" By hand: {table.by_hand}" if table.by_hand else ""
            self.say(f"{kind:8} {table.id:28} {table.page:20} {since or 'nothing has changed.'}{why}")

    def since(self, commit: str | None, paths: list[str]) -> str | None:
        """What has changed since a commit."""
        if commit is None:
            return "never measured."
        try:
            self.git("cat-file", "-e", f"{commit}^{{commit}}")
        except Refused:
            return f"commit {commit} is not in this repository."
        commits = self.git("log", "--format=%h of %cs", f"{commit}..", "--", *paths).splitlines()
        if commits:
            counted = "1 commit" if len(commits) == 1 else f"{len(commits)} commits"
            return f"{counted} since {commit}, the last {commits[0]}."
        return "uncommitted changes." if self.changed(paths) else None

    def changed(self, paths: list[str]) -> list[str]:
        """Files with uncommitted changes."""
        lines = self.git("status", "--porcelain", "--", *paths).splitlines()
        return [line.strip().split(maxsplit=1)[1] for line in lines]

    def values(self, one: Measurement, programs: Path) -> dict[str, str]:
        """The value of each variable of a command."""
        values = {"out": str(self.work / one.id / "out")}
        for name, program in PROGRAMS.items():
            values[name] = str(programs / program)
        for name, variable in self.plan.variables.items():
            if f"{{{name}}}" not in one.run:
                continue
            value = os.environ.get(variable["environment"])
            if not value:
                raise Refused(f"{one.id}: set {variable['environment']} to {variable['what']}")
            values[name] = value
        return values

    def command(self, one: Measurement) -> str:
        """A command as pages show it, without paths of this machine."""
        names = PROGRAMS | {"out": "DIR"}
        names |= {name: variable["shown"] for name, variable in self.plan.variables.items()}
        environment = "".join(f"{name}={value} " for name, value in one.environment.items())
        return environment + re.sub(r"\{(\w+)\}", lambda match: names[match[1]], one.run)

    def refuse(self, one: Measurement, limit: float, force: bool) -> float | None:
        """Refuses a measurement that would not count, or returns the load."""
        changed = self.changed(one.depends)
        if changed:
            raise Refused(f"{one.id}: uncommitted changes in {changed[0]}; commit or stash them")
        for table in one.tables:
            region(self.text(table), table.id, table.page)
        if one.virtual:
            return None
        load = busy_cores()
        if load > limit and not force:
            raise Refused(f"{one.id}: {load:.2f} cores are busy, more than {limit:g}; wait, or use --force")
        return load

    def run(self, one: Measurement, programs: Path, limit: float, force: bool) -> None:
        """Runs a command and writes its tables."""
        values = self.values(one, programs)
        words = [re.sub(r"\{(\w+)\}", lambda match: values[match[1]], word) for word in shlex.split(one.run)]
        if "/" in words[0] and not Path(words[0]).is_file():
            raise Refused(f"{one.id}: no program {words[0]}; build it, or name its directory with --programs")
        load = self.refuse(one, limit, force)
        directory = self.work / one.id
        state = directory / "run.json"
        record = {
            "commit": self.git("rev-parse", "--short=8", "HEAD"),
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "load": "in virtual time" if load is None else f"{load:.2f} cores were busy before",
            "finished": False,
        }
        # An interrupted run of the same commit goes on where it stopped, if the command can do so.
        before = json.loads(state.read_text()) if state.is_file() else record | {"finished": True}
        if before["finished"] or before["commit"] != record["commit"]:
            shutil.rmtree(directory, ignore_errors=True)
        (directory / "out").mkdir(parents=True, exist_ok=True)
        state.write_text(json.dumps(record))
        self.say(f"{one.id}: {self.command(one)}  (about {one.minutes:g} min)")
        done = subprocess.run(
            words, cwd=self.root, stdout=subprocess.PIPE, text=True, env=os.environ | one.environment
        )
        (directory / "stdout").write_text(done.stdout, encoding="utf-8")
        if done.returncode not in one.accept:
            raise Refused(f"{one.id}: the command failed with status {done.returncode}; see {directory}/stdout")
        state.write_text(json.dumps(record | {"finished": True}))
        self.take(one)

    def take(self, one: Measurement) -> None:
        """Writes the tables of the last run."""
        directory = self.work / one.id
        state = directory / "run.json"
        record = json.loads(state.read_text()) if state.is_file() else {"finished": False}
        if not record["finished"]:
            raise Refused(f"{one.id}: no finished run in {directory}; run it first")
        output = (directory / "stdout").read_text(encoding="utf-8")
        paragraph = (
            f"`{self.command(one)}`, commit `{record['commit']}`, {record['date']}, {record['machine']}; "
            f"{record['load']}."
        )
        # Everything is extracted before anything is written.
        texts: dict[Path, str] = {}
        raw: dict[Path, str] = {}
        results = self.root / RESULTS
        for table in one.tables:
            try:
                body, more = body_of(table, output, directory / "out")
            except (Refused, KeyError, ValueError) as error:
                where = f"{directory}; correct {LIST} and use --take"
                raise Refused(f"{table.id}: cannot make the table: {error}. The output is in {where}") from error
            path = self.page(table)
            text = texts.get(path) or path.read_text(encoding="utf-8")
            note = "\n".join(textwrap.wrap(paragraph, 120, break_long_words=False, break_on_hyphens=False))
            texts[path] = replaced(text, table.id, table.page, f"{body}\n\n{note}")
            raw |= {results / name: rows for name, rows in more.items()}
        for path in (directory / "out").glob("*.json"):
            raw[results / f"{one.id}.json"] = path.read_text(encoding="utf-8")
        for path in [path for path, text in raw.items() if len(text.encode()) > RAW_LIMIT]:
            del raw[path]
            self.say(f"{one.id}: {path.name} has more than {RAW_LIMIT} bytes and is not kept")
        missing = [name for name in one.images.values() if not (directory / "out" / name).is_file()]
        if missing:
            raise Refused(f"{one.id}: the command drew no {missing[0]}; correct {LIST} and use --take")
        results.mkdir(exist_ok=True)
        for path, text in (raw | texts).items():
            path.write_text(text, encoding="utf-8")
        for image, name in one.images.items():
            shutil.copyfile(directory / "out" / name, self.root / IMAGES / image)
        self.say(f"{one.id}: wrote {', '.join(sorted(path.name for path in texts | raw))}")


def main(arguments: list[str]) -> int:
    """Parses the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/measure.sh", description=__doc__.split("\n\n")[0])
    parser.add_argument("ids", metavar="ID", nargs="*", help="what to measure; everything by default")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--list", action="store_true", help="list the measurements, how long they take, their commands")
    kinds.add_argument("--stale", action="store_true", help="list tables whose code has changed since, or by hand")
    kinds.add_argument("--check", action="store_true", help="check that the list and the pages agree")
    kinds.add_argument("--take", action="store_true", help="write the tables of the last run again, without a run")
    parser.add_argument("--programs", type=Path, metavar="DIR", help="use the programs in DIR; do not build")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine, too")
    parser.add_argument("--load", type=float, default=0.3, metavar="CORES", help="busy cores to allow (default 0.3)")
    options = parser.parse_args(arguments)
    failed = False
    try:
        tool = Tool(Path(__file__).resolve().parents[1])
        if options.list:
            tool.show()
        elif options.stale:
            tool.stale()
        elif options.check:
            tool.check()
        else:
            chosen = tool.plan.named(options.ids)
            programs = options.programs
            if not options.take and programs is None:
                # Refuses before the build, which keeps the machine busy.
                if options.ids:
                    for one in chosen:
                        tool.values(one, Path())
                        tool.refuse(one, options.load, options.force)
                build = ["cargo", "build", "--release", "--locked", "--workspace", "--bins"]
                if subprocess.run(build, cwd=tool.root).returncode:
                    raise Refused("the programs do not build")
                programs = tool.work.parent / "release"
            for one in chosen:
                try:
                    if options.take:
                        tool.take(one)
                    else:
                        tool.run(one, programs.resolve(), options.load, options.force)
                except Refused as refused:
                    print(f"error: {refused}", file=sys.stderr)
                    failed = True
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
