#!/usr/bin/env python3
"""Compiles the P4 programs below a folder with tributary-p4 and with p4c, and compares the answers.

Prints a table of both answers and the disagreements, the most frequent kind of error first. The exit status is 1 if there
are disagreements. Needs tributary-p4, and p4c-bm2-ss, p4c-bm2-psa or p4test, on the PATH."""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

COMPILERS = {"v1model": ["p4c-bm2-ss", "p4test"], "psa": ["p4c-bm2-psa", "p4test"], "tna": [], "any": ["p4test"]}
KINDS = ["accepted", "refused", "no answer"]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--arch", choices=COMPILERS, default="v1model", help="take programs that include its declarations")
    parser.add_argument("--compiler", help="compiler to compare with, instead of p4c's for the architecture")
    parser.add_argument("--time", type=float, default=60, metavar="SECONDS", help="bound for each program")
    parser.add_argument("-I", dest="include", action="append", default=[], metavar="DIR")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    if not args.folder.is_dir():
        parser.error(f"{args.folder} is not a folder")
    names = [args.compiler] if args.compiler else COMPILERS[args.arch]
    args.other = next(filter(None, map(shutil.which, names)), None)
    if not args.other:
        parser.error(f"no compiler to compare with: {' or '.join(names) or '--compiler'} is not on the PATH")
    return args


def programs(args):
    """Files that include the architecture. Files without `main` that others include are parts of programs."""
    texts = {path: path.read_text(errors="replace") for path in sorted(args.folder.rglob("*.p4"))}

    def includes(path, seen):
        for name in INCLUDE.findall(texts.get(path, "")):
            places = [path.parent, *map(pathlib.Path, args.include)]
            file = next((place / name for place in places if place / name in texts), pathlib.Path(name))
            if file not in seen:
                seen.add(file)
                includes(file, seen)
        return seen

    reached = {path: includes(path, set()) for path in texts}
    parts = set().union(*(files - {path} for path, files in reached.items())) if reached else set()
    for path, files in reached.items():
        whole = any(re.search(r"\bmain\s*;", texts.get(file, "")) for file in {path, *files})
        if (whole or path not in parts) and (args.arch == "any" or f"{args.arch}.p4" in {file.name for file in files}):
            yield path


def ask(command, time):
    """The kind of an answer, and its first error."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=time)
    except subprocess.TimeoutExpired:
        return "no answer", f"not within {time:g} seconds"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    bug = next((line for line in lines if "Compiler Bug" in line or "panicked at" in line), None)
    if done.returncode < 0 or bug:
        return "no answer", bug or f"ended by signal {-done.returncode}"
    error = next((line for line in lines if "error: " in line or "syntax error" in line), *lines[:1] or [""])
    return ("accepted", "") if done.returncode == 0 else ("refused", error[:200])


def main():
    args = options()
    given = [f"-I{place}" for place in args.include] + [f"-D{value}" for value in args.define]
    name = pathlib.Path(args.other).name
    theirs = [args.other, *given, *(["-o", "/dev/null"] if name.startswith("p4c-bm2") else [])]
    ours = ["tributary-p4", "check", "--short", *given]
    found = list(programs(args))
    if not found:
        sys.exit(f"error: {args.folder} has no program for {args.arch}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda path: [ask([*command, path], args.time) for command in (ours, theirs)], found))
    counts = collections.Counter((own, other) for (own, _), (other, _) in answers)
    print(f"{args.folder}: {len(found)} for {args.arch}\n\n{'':>12}" + "".join(f"{kind:>12}" for kind in KINDS) + f"   by {name}")
    for own in KINDS:
        print(f"{own:>12}" + "".join(f"{counts[own, other]:>12}" for other in KINDS))
    disagreements = 0
    for heading, wanted, who in [
        ("no answer from tributary", [("no answer", kind) for kind in KINDS], 0),
        (f"refused here, accepted by {name}", [("refused", "accepted")], 0),
        (f"accepted here, refused by {name}", [("accepted", "refused")], 1),
        (f"no answer from {name}", [(kind, "no answer") for kind in KINDS], 1),
    ]:
        texts = [(path, of[who][1]) for path, of in zip(found, answers) if (of[0][0], of[1][0]) in wanted]
        disagreements += 0 if heading == f"no answer from {name}" else len(texts)
        # Without positions, numbers and quoted names, errors of one kind are equal.
        form = {text: re.sub(r"`[^`]*`|\"[^\"]*\"|\d", "", text.rpartition("error: ")[2]) for _, text in texts}
        often = collections.Counter(form[text] for _, text in texts)
        if texts:
            print(f"\n{heading}: {len(texts)}")
        for path, text in sorted(texts, key=lambda one: (-often[form[one[1]]], form[one[1]])):
            print(f"  {path.relative_to(args.folder)}\n    {text}")
    if disagreements:
        sys.exit(f"error: {args.folder}: {disagreements} disagreements")


if __name__ == "__main__":
    main()
