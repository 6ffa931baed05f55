#!/usr/bin/env python3
"""Compiles p4src/tna/*.p4 with p4c-barefoot and prints what each takes of one pipe of a Tofino.

usage: tofino-resources.py [-D NAME=VALUE]... [PROGRAM]...

Without PROGRAM: all four. With --stages a line a stage as well, as in figure 2 of the ESA paper."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = ["atp", "esa", "p4inc", "switchml"]
SOURCES = pathlib.Path(__file__).resolve().parent.parent / "p4src" / "tna"
STAGES = 12  # of one pipe

# What a stage has: heading, place in the report, how many.
KINDS = [
    ("SRAM", ("rams", "srams"), 80),
    ("TCAM", ("tcams", "tcams"), 24),
    ("map RAM", ("map_rams", "maprams"), 48),
    ("stateful ALU", ("meter_alus", "meters"), 4),
    ("tables", ("logical_tables", "ids"), 16),
    ("gateways", ("gateways", "gateways"), 16),
    ("hash bits", ("hash_bits", "bits"), 416),
    ("VLIW", ("vliw", "instructions"), 32),
]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("-D", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.programs if name not in PROGRAMS]
    if unknown:
        return f"tofino-resources: no program {unknown[0]}; there are {', '.join(PROGRAMS)}"
    compiler = shutil.which("p4c-barefoot")
    if compiler is None:
        return "tofino-resources: p4c-barefoot not found on the PATH; it is the Tofino back end of p4c"
    headings = ["program", "stages"] + [f"{kind} of {STAGES * n}" for kind, _, n in KINDS]
    rows = [headings + ["PHV containers of 224", "PHV bits of 4096"]]
    for name in arguments.programs or PROGRAMS:
        with tempfile.TemporaryDirectory() as directory:
            command = [compiler, "--target", "tofino", "--arch", "tna", "-g", "-o", directory]
            command += [f"-D{define}" for define in arguments.D] + [str(SOURCES / f"{name}.p4")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                errors = [line for line in done.stderr.splitlines() if "error:" in line]
                return f"tofino-resources: {name} is refused: {(errors or ['no reason given'])[0]}"
            logs = pathlib.Path(directory) / "pipe" / "logs"
            stages = json.loads((logs / "resources.json").read_text())["resources"]["mau"]
            phv = json.loads((logs / "phv.json").read_text())
        stages = [stage_use(stage) for stage in stages["mau_stages"]]
        if arguments.stages:
            show([["stage"] + [f"{kind} of {n}" for kind, _, n in KINDS]]
                 + [[str(i)] + [str(n) for n in stage] for i, stage in enumerate(stages)], name)
        used = [i for i, stage in enumerate(stages) if any(stage)]
        totals = [sum(column) for column in zip(*stages)]
        rows.append([name, str(used[-1] + 1)] + [str(n) for n in totals]
                    + [str(n) for n in phv_use(phv)])
    show(rows, None)
    fat = [row[0] for row in rows[1:] if int(row[1]) > STAGES]
    if fat:
        return f"tofino-resources: more than {STAGES} stages: {', '.join(fat)}"
    return None


def stage_use(stage):
    """How many of each kind a stage uses."""
    return [len(stage[group][items]) for _, (group, items), _ in KINDS]


def phv_use(phv):
    """Containers that the stages can work on, and bits in them, that hold any field."""
    held = {}
    for container in phv["containers"]:
        if container["container_type"] == "tagalong":
            continue
        bits = held.setdefault(container["phv_number"], set())
        for part in container["slices"]:
            where = part["slice_info"]
            bits.update(range(where["lsb"], where["msb"] + 1))
    return len(held), sum(len(bits) for bits in held.values())


def show(rows, title):
    if title:
        print(f"{title}:")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))
    print()


if __name__ == "__main__":
    sys.exit(main())
