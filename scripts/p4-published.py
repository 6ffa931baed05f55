#!/usr/bin/env python3
"""Prints what the embedded switch does with published P4 programs: the figures of the table in
docs/reference/embedded-switch-tna.md.

DIR has clones of the repositories that the packet tests in crates/switch/tests/stf/published name in their first lines.
For each test, the program is compiled and loaded (tributary-p4 check), and the packets are sent (tributary-p4 stf). A
clone at another commit than the test's is marked. The exit status is 1 if one fails."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

TESTS = pathlib.Path(__file__).parent.parent / "crates/switch/tests/stf/published"
ARCHITECTURE = re.compile(r"#\s*include\s*[<\"](v1model|tna|psa)\.p4")


def fields(script):
    """The fields of a test's first lines: each has a list of values."""
    found = {"repository": [], "program": [], "include": [], "define": []}
    for name, value in re.findall(r"^# (\w+): (.*)$", script, re.MULTILINE):
        if name in found:
            found[name].append(value)
    return found


def ask(command):
    """The exit status and the last line that a command prints."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    lines = (done.stderr + done.stdout).strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def head(clone):
    """The commit of a clone; empty if it is none."""
    command = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def row(folder, program, test):
    """The cells of a test's line, and whether all is well."""
    script = test.read_text()
    said = fields(script)
    if not said["repository"] or not said["program"]:
        sys.exit(f"error: {test}: the first lines lack `# repository: …` or `# program: …`")
    file = folder / said["program"][0]
    name = " ".join([f"`{file.name}`", *(f"`-D {define}`" for define in said["define"])])
    repository, _, commit = said["repository"][0].partition(", ")
    found = head(folder / pathlib.Path(said["program"][0]).parts[0])
    other = f" (here {found[:len(commit)]})" if found and not found.startswith(commit) else ""
    cells = [f"{repository}, {commit}{other}", name]
    if not file.is_file():
        return [*cells, "–", "not in the folder", "–"], False
    architecture = ARCHITECTURE.search(file.read_text(errors="replace"))
    given = [str(file), *(f"-I{folder / place}" for place in said["include"]), *(f"-D{one}" for one in said["define"])]
    status, last = ask([program, "check", "--short", *given])
    loads = "yes" if status == 0 else last.replace("|", "\\|")
    cells += [architecture.group(1).upper() if architecture else "–", loads]
    if status:
        return [*cells, "–"], False
    status, last = ask([program, "stf", *given, str(test)])
    packets = len(re.findall(r"^packet ", script, re.MULTILINE))
    expected = len(re.findall(r"^(?:expect|no_packet|check_)", script, re.MULTILINE))
    outcome = f"{packets}, {expected} expectations" if status == 0 else last.replace("|", "\\|")
    return [*cells, outcome], status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--program", default="tributary-p4", help="tributary-p4, if it is not on the PATH")
    args = parser.parse_args()
    if not args.folder.is_dir():
        parser.error(f"{args.folder} is not a folder")
    program = shutil.which(args.program)
    if not program:
        parser.error(f"{args.program} is not on the PATH: cargo build --package tributary-p4-tools")
    tests = sorted(TESTS.glob("*.stf"))
    if not tests:
        parser.error(f"{TESTS} has no tests")
    print("| repository, commit | program | architecture | checked and loaded | packets |")
    print("| --- | --- | --- | --- | --- |")
    well = True
    for test in tests:
        cells, good = row(args.folder, program, test)
        print("| " + " | ".join(cells) + " |", flush=True)
        well &= good
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
