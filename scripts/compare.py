#!/usr/bin/env python3
"""Runs a job file with several builds of `tributary` in turns, and prints what each of them reaches.

usage: compare.py [--rounds N] JOB.toml PROGRAM PROGRAM... [-- OPTION OF tributary run]...

Use it to see what a change gains, on a machine that does nothing else: single runs differ by more than most
changes do. Each round begins with another program. The file should have one job of random tensors that
repeats for some seconds after a warm-up, with `verify = "share"`.

Printed are medians and ranges: the goodput; its ratio to that of the first program in the same round; and the seconds
of processor time for each GB of a worker's tensors, of all workers, of the switches and of the parameter servers (only
processes of their own are counted, as with `--fabric netns`)."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HEADINGS = ["program", "goodput, Gb/s", "of the first's", "workers, s per GB", "switches", "servers"]


def main():
    own, options = split(sys.argv[1:])
    _, usage, description = __doc__.split("\n\n", 2)
    parser = argparse.ArgumentParser(
        usage=usage.removeprefix("usage: "),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("job", metavar="JOB.toml", type=pathlib.Path)
    parser.add_argument("programs", metavar="PROGRAM", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args(own)
    if arguments.rounds < 1:
        return "compare: --rounds must be at least 1"
    programs = arguments.programs
    # By place: the same program may be there twice, to see what chance does.
    figures = [[] for _ in programs]
    for turn in range(arguments.rounds):
        for step in range(len(programs)):
            at = (turn + step) % len(programs)
            print(f"\rround {turn + 1} of {arguments.rounds}", end="", file=sys.stderr, flush=True)
            try:
                figures[at].append(measure(programs[at], arguments.job, options))
            except Failed as failed:
                return f"\ncompare: {failed}"
    print(file=sys.stderr)
    rows = [
        [str(program)] + row([(own[0], own[0] / first[0], *own[1:]) for own, first in zip(of, figures[0])])
        for program, of in zip(programs, figures)
    ]
    show([HEADINGS] + rows)
    return 0


class Failed(Exception):
    pass


def split(words):
    """What is before `--`, and what is after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def measure(program, job, options):
    """Goodput, and the processor time of workers, switches and servers for each GB; None if it is not known."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "report.json"
        command = [program.absolute(), "run", job, "--json-out", out, *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise Failed(f"cannot run {program}: {error.strerror}") from error
        if done.returncode != 0:
            why = done.stderr.strip().splitlines() or ["it gave no reason"]
            raise Failed(f"{program} failed with status {done.returncode}: {why[-1]}")
        try:
            return of_report(json.loads(out.read_text()))
        except LookupError as error:
            raise Failed(f"the report of {program} lacks {error}") from error
        except (OSError, ValueError) as error:
            raise Failed(f"{program} wrote no report that can be compared: {error}") from error


def of_report(report):
    if len(report["jobs"]) != 1:
        raise ValueError(f"it has {len(report['jobs'])} jobs, and one is compared")
    job = report["jobs"][0]
    gigabytes = 4 * job["workers"][0]["measured"] / 1e9
    if gigabytes == 0 or job["goodput_gbps"] == 0:
        raise ValueError("nothing was measured: the warm-up was all")

    def each(seconds):
        return None if not seconds or None in seconds else sum(seconds) / gigabytes

    # Older builds may not have all of them.
    workers = [worker.get("processor_seconds") for worker in job["workers"]]
    switches = [switch.get("cpu_seconds") for switch in report["switches"]]
    servers = [report.get("servers_cpu_seconds")]
    return job["goodput_gbps"], each(workers), each(switches), each(servers)


def row(figures):
    """Median and range of each figure."""
    columns = []
    for values in zip(*figures):
        if None in values:
            columns.append("–")
        else:
            median = statistics.median(values)
            columns.append(f"{median:.2f} ({min(values):.2f}–{max(values):.2f})")
    return columns


def show(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    for place, cells in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |")
        if place == 0:
            print("| " + " | ".join("-" * width for width in widths) + " |")


if __name__ == "__main__":
    sys.exit(main())
