"""Topology files: read, checked, generated, and put into job files.

A topology file says what a job file's explicit form says (docs/start/job-files.md) and, of each link,
bandwidth, delay, loss, and the patch switch that it leads through. Everything else about the
network (addresses, ports, who runs where) is worked out by `tributary network` from the job file
that `merge` makes, so that there is one place which knows it.
"""

import json
import os
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))

# Kinds of tables, and their keys.
KEYS = {
    "switch": {"name"},
    "host": {"name", "role", "mac", "ip"},
    "patch": {"name"},
    "link": {"between", "mtu", "bandwidth", "delay", "loss", "through"},
}
DEFAULTS = {"mtu", "bandwidth", "delay", "loss"}


class Wrong(Exception):
    """What is wrong with what the user gave, in one line."""


def names():
    """The topologies that come with the repository."""
    files = sorted(os.listdir(os.path.join(HERE, "topologies")))
    return [name.removesuffix(".toml") for name in files if name.endswith(".toml")]


def load(path):
    """A TOML file as a dictionary."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Wrong(f"{path}: {error}") from None


def find(name, k, hosts_per_rack):
    """A topology by its name or file, checked; and what to call it."""
    if name == "fat-tree":
        topology, label = fat_tree(k, hosts_per_rack), f"fat-tree, k = {k}"
    else:
        path = name if name.endswith(".toml") else os.path.join(HERE, "topologies", f"{name}.toml")
        if not os.path.exists(path):
            known = ", ".join([*names(), "fat-tree"])
            raise Wrong(f"--topology {name}: there is none; choose {known}, or a .toml file")
        topology, label = load(path), os.path.basename(path).removesuffix(".toml")
    try:
        check(topology)
    except Wrong as wrong:
        raise Wrong(f"topology {label}: {wrong}") from None
    return topology, label


def check(topology):
    """Checks what the job file's reader will not see; fills in the defaults of links."""
    for table in topology:
        if table not in {*KEYS, "links"}:
            raise Wrong(f"unknown table [{table}]; there are links, {', '.join(KEYS)}")
    defaults = topology.pop("links", {})
    if not isinstance(defaults, dict) or set(defaults) - DEFAULTS:
        raise Wrong(f"[links] may have {', '.join(sorted(DEFAULTS))} and nothing else")
    for kind, keys in KEYS.items():
        tables = topology.setdefault(kind, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise Wrong(f"write each {kind} as [[{kind}]]")
        for table in tables:
            if unknown := set(table) - keys:
                raise Wrong(f"[[{kind}]] has no key `{unknown.pop()}`; it has {', '.join(keys)}")
            if kind != "link" and not isinstance(table.get("name"), str):
                raise Wrong(f"a [[{kind}]] has no name")
    switches = {switch["name"] for switch in topology["switch"]}
    nodes = switches | {host["name"] for host in topology["host"]}
    patches = {patch["name"] for patch in topology["patch"]}
    if both := patches & nodes:
        raise Wrong(f"patch switch {both.pop()} has the name of a host or switch")
    for link in topology["link"]:
        between = link.get("between")
        if not isinstance(between, list) or len(between) != 2:
            raise Wrong("a [[link]] needs `between`, with two names")
        label = " – ".join(map(str, between))
        for name in between:
            if name not in nodes:
                raise Wrong(f"link {label}: there is no host or switch {name}")
        link.update({key: value for key, value in defaults.items() if key not in link})
        bandwidth = link.get("bandwidth")
        if bandwidth is not None and not (
            isinstance(bandwidth, (int, float)) and 0 < bandwidth <= 1000
        ):
            raise Wrong(f"link {label}: bandwidth is in Mbit/s, above 0 and up to 1000")
        if (through := link.get("through")) is not None:
            if through not in patches:
                raise Wrong(f"link {label}: there is no patch switch {through}")
            if not set(between) <= switches:
                raise Wrong(f"link {label}: only links between switches lead through a patch")


def fat_tree(k, hosts_per_rack):
    """A k-ary fat tree of racks: k pods of k/2 racks, each with k/2 hosts unless told otherwise."""
    if k < 2 or k % 2:
        raise Wrong(f"--k {k}: a fat tree has an even k of 2 or more")
    half = k // 2
    per_rack = half if hosts_per_rack is None else hosts_per_rack
    if per_rack < 1:
        raise Wrong(f"--hosts-per-rack {per_rack}: a rack has a host at least")
    switches, hosts, links = [], [], []
    cores = [f"core{number}" for number in range(1, half * half + 1)]
    switches += cores
    for pod in range(1, k + 1):
        upper = [f"pod{pod}agg{number}" for number in range(1, half + 1)]
        racks = [f"pod{pod}rack{number}" for number in range(1, half + 1)]
        switches += upper + racks
        for rack in racks:
            for _ in range(per_rack):
                hosts.append({"name": f"w{len(hosts) + 1}"})
                links.append((hosts[-1]["name"], rack))
            links += [(rack, agg) for agg in upper]
        for number, agg in enumerate(upper):
            links += [(agg, core) for core in cores[number * half : (number + 1) * half]]
    hosts.append({"name": "ps", "role": "ps"})
    links.append(("ps", "pod1rack1"))
    return {
        "links": {"bandwidth": 100},
        "switch": [{"name": name} for name in switches],
        "host": hosts,
        "link": [{"between": list(ends)} for ends in links],
    }


def merge(job, topology, directory, inject):
    """A job file with the topology in place of its own.

    `directory` is that of the original, from which names of files in it start. `inject`: delay and
    loss become faults of the job file, as nobody else brings them about.
    """
    job = dict(job)
    faults = dict(job.pop("faults", {}))
    links = [
        link
        for link in faults.pop("link", [])
        if any(set(link["between"]) == set(other["between"]) for other in topology["link"])
    ]
    if inject:
        for link in topology["link"]:
            extra = {key: link[key] for key in ("delay", "loss") if key in link}
            if not extra:
                continue
            own = [f for f in links if set(f["between"]) == set(link["between"])]
            if own:
                own[0].update(extra)
            else:
                links.append({"between": link["between"], **extra})
    if links:
        faults["link"] = links
    if faults:
        job["faults"] = faults
    job["topology"] = {
        "switch": topology["switch"],
        "host": topology["host"],
        "link": [
            {key: link[key] for key in ("between", "mtu") if key in link}
            for link in topology["link"]
        ],
    }
    for entry in job.get("job", []):
        workload = entry.get("workload")
        if isinstance(workload, dict) and workload.get("kind") == "files":
            here = lambda name: os.path.join(directory, name)
            if "inputs" in workload:
                workload["inputs"] = [here(name) for name in workload["inputs"]]
            if "output_dir" in workload:
                workload["output_dir"] = here(workload["output_dir"])
    return to_toml(job)


def to_toml(document):
    """A document as TOML: tables are written in place, except at the top."""
    lines = []
    tables = {key: value for key, value in document.items() if isinstance(value, (dict, list))}
    for key, value in document.items():
        if key not in tables:
            lines.append(f"{key} = {inline(value)}")
    for key, value in tables.items():
        if isinstance(value, list):
            for element in value:
                lines += ["", f"[[{key}]]", *table(key, element)]
        else:
            lines += ["", f"[{key}]", *table(key, value)]
    return "\n".join(lines) + "\n"


def table(path, values):
    """The lines of a table, with the arrays of tables in it behind its own keys."""
    lines, behind = [], []
    for key, value in values.items():
        if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            for element in value:
                behind += ["", f"[[{path}.{key}]]", *table(f"{path}.{key}", element)]
        else:
            lines.append(f"{key} = {inline(value)}")
    return lines + behind


def inline(value):
    """A value in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def differences(own, other):
    """What tells two networks apart, as `tributary network --json` gives them; None if nothing."""
    def shape(network):
        hosts = {host["name"] for host in network["hosts"]}
        links = sorted(tuple(sorted(end[0] for end in link["ends"])) for link in network["links"])
        return hosts, set(network["switches"]), links

    (hosts, switches, links), (hosts2, switches2, links2) = shape(own), shape(other)
    if (hosts, switches, links) == (hosts2, switches2, links2):
        return None
    count = lambda number, what: f"{number} {what}{'' if number == 1 else 's'}"
    side = lambda h, s: f"{count(len(h), 'host')} and {count(len(s), 'switch').replace('switchs', 'switches')}"
    text = f"{side(hosts, switches)} instead of {side(hosts2, switches2)}"
    return text if (len(hosts), len(switches)) != (len(hosts2), len(switches2)) else "other names or links"
