#!/usr/bin/env python3
"""Checks schedules of `tributary-lab optical schedule FILE --json` against their file of jobs.

    tributary-lab optical schedule examples/optical/jobs.toml --json > schedule.json
    python3 examples/optical/check.py examples/optical/jobs.toml schedule.json

The rules are equations 2 to 11 of P4INC-AOI, as docs/evaluation/optical.md reads them. They are written here anew, and
nothing is taken from Tributary. Needs Python 3.11. The exit status is 1 if a schedule breaks a rule.
"""

import json
import sys
import tomllib

TOLERANCE = 1e-6  # relative, of sums of rates and data


class Refused(Exception):
    """A broken rule."""


def require(holds, text):
    if not holds:
        raise Refused(text)


def near(a, b):
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b))


def training(job, units, local_only, switch):
    """Flows in MB by pair, load on switches by unit in workers, and the update in seconds."""
    workers = job["workers"] + [0] * (units - len(job["workers"]))
    server, size = job["server"], job["megabytes"]
    with_workers = [unit for unit in range(units) if workers[unit]]
    require(switch is None or switch in with_workers, f"switch {switch} has none of its workers")
    whole = with_workers == [switch]
    require(switch is None or whole or not local_only, f"switch {switch} has only some workers")
    if whole:
        return {(switch, switch): workers[switch] * size}, workers, 0.0, size
    weights = {unit: 1 if unit == switch else workers[unit] for unit in with_workers}
    load = list(workers)
    load[server] += sum(weight for unit, weight in weights.items() if unit != server)
    load[server] += workers[server] if switch != server else 0
    flows = {(unit, server): weight * size for unit, weight in weights.items()}
    return flows, load, job.get("update_ms", 0) / 1e3, size


def coflow(job, units, switch):
    """The same of a coflow, whose rate is that of its largest demand."""
    require(switch is None, "no switch aggregates a coflow")
    flows = {}
    for a, b, size in job["demands"]:
        if size:
            flows[a, b] = flows.get((a, b), 0) + size
    if all(a == b for a, b in flows):
        return {}, [0] * units, 0.0, 0
    largest, load = max(flows.values()), [0.0] * units
    for pair, size in flows.items():
        for unit in pair:
            load[unit] += size / largest
    return flows, load, 0.0, largest


def circuits(listed, network, where):
    """Circuits by pair, each within the network and its ports."""
    counts = {(a, b): count for a, b, count in listed}
    require(len(counts) == len(listed), f"{where}: a pair is listed twice")
    for (a, b), count in counts.items():
        valid = isinstance(count, int) and count > 0 and 0 <= a < b < network["units"]
        require(valid, f"{where}: {count} circuits between units {a} and {b}")
    for unit in range(network["units"]):
        used = sum(count for pair, count in counts.items() if unit in pair)
        require(used <= network["ports"], f"{where}, unit {unit}: {used} ports are used")
    return counts


def slot_of(at, slot, network, jobs, state, before):
    """Checks a slot, and counts what the jobs send in it."""
    require(slot["slot"] == at, f"slot {at}: its number is {slot['slot']}")
    now = circuits(slot["circuits"], network, f"slot {at}")
    changes = {pair: now.get(pair, 0) - before.get(pair, 0) for pair in now | before}
    moves = {(a, b): change for a, b, change in slot["moves"]}
    require(moves == {p: c for p, c in changes.items() if c}, f"slot {at}: moves differ")
    rates = {send["job"]: send["rate_gbps"] for send in slot["sends"]}
    require(len(rates) == len(slot["sends"]), f"slot {at}: a job sends twice")
    require(all(0 < rate < float("inf") for rate in rates.values()), f"slot {at}: a rate")
    load, traffic, sums = [0.0] * network["units"], {}, [0] * network["units"]
    for send in slot["sends"]:
        number, rate = send["job"], send["rate_gbps"]
        (flows, factors, _, size), one = jobs[number][1], state[number]
        require(at >= jobs[number][0].get("arrival", 0), f"slot {at}: job {number} is early")
        require(one["last"] in (None, at - 1), f"slot {at}: job {number} was interrupted")
        one["first"], one["last"] = at if one["last"] is None else one["first"], at
        if jobs[number][2] is not None:
            sums[jobs[number][2]] += 1
        load = [has + factor * rate for has, factor in zip(load, factors)]
        listed = {(flow["from"], flow["to"]): flow for flow in send["flows"]}
        require(listed.keys() == flows.keys(), f"slot {at}: job {number} has other flows")
        for (a, b), total in flows.items():
            weight, pair = total / size if size else 0.0, (min(a, b), max(a, b))
            traffic[pair] = traffic.get(pair, 0.0) + weight * rate
            lost = network["reconfiguration_ms"] / 1e3 if a != b and changes.get(pair, 0) > 0 else 0
            sent = rate * network.get("slot_s", 1) - max(rate - one["rate"], 0.0) * lost
            sent = min(weight * sent * 125, one["left"][a, b])  # MB of a Gb
            one["left"][a, b] -= sent
            told = listed[a, b]["sent_megabytes"], listed[a, b]["left_megabytes"]
            right = abs(told[0] - sent) + abs(told[1] - one["left"][a, b]) <= TOLERANCE * total
            require(right, f"slot {at}: job {number} sends {sent} MB, not {told[0]}")
        one["rate"] = rate
    for unit in range(network["units"]):
        require(sums[unit] <= network["inc"], f"slot {at}, switch {unit}: {sums[unit]} jobs")
        over = load[unit] > network["switch_gbps"] * (1 + TOLERANCE)
        require(not over, f"slot {at}, switch {unit}: {load[unit]} Gb/s")
    for pair, rate in traffic.items():
        carried = now.get(pair, 0) * network["port_gbps"] * (1 + TOLERANCE)
        require(pair[0] == pair[1] or rate <= carried, f"slot {at}, units {pair}: {rate} Gb/s")
    return now, sum(max(change, 0) for change in changes.values())


def check(file, schedule):
    network, jobs, state = file["network"], [], []
    inputs = file.get("training", []) + file.get("coflow", [])
    require([one["job"] for one in schedule["jobs"]] == list(range(len(inputs))), "other jobs")
    for job, told in zip(inputs, schedule["jobs"]):
        units, local, switch = network["units"], network.get("local_inc_only", True), told["switch"]
        is_training = "workers" in job
        way = training(job, units, local, switch) if is_training else coflow(job, units, switch)
        jobs.append((job, way, switch))
        state.append({"left": dict(way[0]), "rate": 0.0, "first": None, "last": None})
    before, new = circuits(schedule["initial"], network, "initially"), 0
    for at, slot in enumerate(schedule["slots"]):
        before, more = slot_of(at, slot, network, jobs, state, before)
        new += more
    ends = []
    for number, ((job, way, _), one, told) in enumerate(zip(jobs, state, schedule["jobs"])):
        for pair, left in one["left"].items():
            require(left <= TOLERANCE * way[0][pair], f"job {number}: {left} MB are left of {pair}")
        slots = one["first"], one["last"]
        require((told["first_slot"], told["last_slot"]) == slots, f"job {number}: slots {slots}")
        end = job.get("arrival", 0) if one["last"] is None else one["last"] + 1
        ends.append(end * network.get("slot_s", 1) + way[2])
        require(near(told["completion_s"], ends[-1]), f"job {number}: it ends at {ends[-1]} s")
    require(near(schedule["completion_s"], max(ends, default=0)), f"all end at {max(ends)} s")
    require(schedule["new_circuits"] == new, f"{new} circuits are new")
    return f"{len(ends)} jobs end in {max(ends, default=0):.3f} s with {new} new circuits"


def main(arguments):
    if len(arguments) < 2:
        sys.exit("usage: check.py FILE.toml SCHEDULE.json…")
    try:
        with open(arguments[0], "rb") as file:
            inputs = tomllib.load(file)
    except (OSError, ValueError) as problem:
        sys.exit(f"{arguments[0]}: cannot read this file of jobs: {problem}")
    for name in arguments[1:]:
        try:
            with open(name, encoding="utf-8") as file:
                schedule = json.load(file)
            print(f"{name}: {schedule['scheduler']}: {check(inputs, schedule)}")
        except (OSError, Refused) as problem:
            sys.exit(f"{name}: refused: {problem}")
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            sys.exit(f"{name}: refused: not in the format of a schedule: {problem!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
