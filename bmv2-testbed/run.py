#!/usr/bin/python3
"""Runs a job file on BMv2 switches under Mininet: one command from nothing to a result.

    sudo bmv2-testbed/run.py --topology two-racks --job examples/two-racks.toml

Starts a simple_switch_grpc a switch, without a program; `tributary controller` compiles and pushes
it; hosts run `tributary worker`, `ps` and `reminder`. docs/operate/bmv2.md tells more.
"""

import argparse
import importlib.util
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import isolation  # noqa: E402
import topology as topologies  # noqa: E402
from topology import Wrong  # noqa: E402

SYSTEM_PYTHON = "/usr/bin/python3"
# How long a switch and the controller may take to start.
START_SECONDS = 300
# How long processes have to end after they were asked to.
GRACE_SECONDS = 15


def arguments():
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Runs a job file on BMv2 switches under Mininet.",
        epilog="Example: run.py --topology two-racks --job examples/two-racks.toml",
    )
    parser.add_argument("--job", metavar="JOB.toml", help="the job file (docs/start/job-files.md)")
    parser.add_argument(
        "--topology", metavar="NAME",
        help="what takes the place of the job file's [topology]: a name (--list) or a .toml file; "
        "without it, the job file's own network is built",
    )
    parser.add_argument("--k", type=int, default=4, help="of fat-tree: ports of a switch (4)")
    parser.add_argument("--hosts-per-rack", type=int, metavar="N", help="of fat-tree: k/2 if not said")
    parser.add_argument(
        "--tributary", metavar="PROGRAM",
        help="the tributary command; else target/release, target/debug or the PATH is searched",
    )
    parser.add_argument("--list", action="store_true", help="list the topologies and end")
    parser.add_argument(
        "--dry-run", action="store_true",
        help="check everything, show the network and the job file that would run, start nothing",
    )
    parser.add_argument("--json-out", metavar="FILE", help="also write what the workers report")
    parser.add_argument(
        "--cli", action="store_true", help="open Mininet's command line before the jobs start"
    )
    parser.add_argument(
        "--restart", metavar="SWITCH@SECONDS",
        help="kill a switch so long after the workers' start, and start it again without a program",
    )
    return parser.parse_args()


def find(program, mend):
    path = shutil.which(program)
    if path is None:
        raise Wrong(f"{program} is not on the PATH; {mend}")
    return path


def tools(given):
    """Programs that a run needs; each that is missing is one clear line."""
    here = os.path.dirname(HERE)
    built = [os.path.join(here, "target", kind, "tributary") for kind in ("release", "debug")]
    tributary = given or next((path for path in built if os.access(path, os.X_OK)), None)
    tributary = tributary or shutil.which("tributary")
    if tributary is None or not os.access(tributary, os.X_OK):
        what = f"{given} is no program" if given else "there is no tributary command"
        raise Wrong(f"{what}; build it with `cargo build --release`, or name it with --tributary")
    return {"tributary": os.path.abspath(tributary)}


def needed_to_run():
    found = {
        "simple_switch_grpc": find("simple_switch_grpc", "install BMv2 (docs/operate/bmv2.md)"),
        "p4c-bm2-ss": find(
            "p4c-bm2-ss", "install p4c, whose back end for BMv2 it is (docs/operate/bmv2.md)"
        ),
    }
    if importlib.util.find_spec("mininet") is None:
        raise Wrong("Mininet is not installed for this Python; on Debian: apt install mininet")
    find("mnexec", "it belongs to Mininet; on Debian: apt install mininet")
    for program in ("ip", "tc"):
        find(program, "on Debian: apt install iproute2")
    find("mount", "on Debian: apt install mount")
    if os.geteuid() != 0:
        raise Wrong("Mininet needs root; run with sudo, or use `tributary run --fabric netns "
                    "--target bmv2`, which does not")
    return found


def plan(tributary, job_file):
    """The network of a job file, as tributary works it out; its message if something is wrong."""
    command = [tributary, "network", job_file, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Wrong((lines[-1] if lines else "tributary network failed").removeprefix("error: "))
    return json.loads(done.stdout)


def has_netem():
    """Whether this kernel can delay and lose packets. Asked of a network of one's own."""
    add = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1us"]
    if subprocess.run(add, capture_output=True, check=False).returncode != 0:
        return False
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True, check=False)
    return True


def size(network, between):
    switches, hosts = len(network["switches"]), len(network["hosts"])
    return (f"{switches} switch{'' if switches == 1 else 'es'}{between}"
            f"{hosts} host{'' if hosts == 1 else 's'}")


def describe(network, topology):
    lines = [size(network, ", ")]
    given = {frozenset(link["between"]): link for link in topology["link"]}
    for link in network["links"]:
        (a, a_port), (b, b_port) = link["ends"]
        extra = given.get(frozenset((a, b)), {})
        words = [f"MTU {link['mtu']}"]
        if "bandwidth" in extra:
            words.append(f"{extra['bandwidth']} Mbit/s")
        words += [f"{key} {extra[key]}" for key in ("delay", "loss") if key in extra]
        if "through" in extra:
            words.append(f"circuit through {extra['through']}")
        end = lambda name, port: f"{name} port {port}" if port else name
        lines.append(f"  {end(a, a_port)} – {end(b, b_port)}: {', '.join(words)}")
    for host in network["hosts"]:
        duties = [
            f"worker {task['index']} of {task['job']}" if task["duty"] == "worker"
            else f"{task['duty']} of {task['job']}"
            for task in host["duties"]
        ]
        lines.append(f"  {host['name']} ({host['ip']}, {host['mac']}): {', '.join(duties) or 'idle'}")
    return "\n".join(lines)


class Run:
    """A job file on a started network."""

    def __init__(self, network, args):
        self.network, self.args, self.plan = network, args, network.plan
        self.notes = queue.Queue()
        self.servers, self.workers, self.controller = [], [], None
        self.deadline = None

    def everything(self):
        """What must not end before the workers do."""
        return [*self.network.processes(), *([self.controller] if self.controller else []),
                *self.servers]

    def watch(self):
        isolation.check()
        for process in self.everything():
            if ended := process.ended():
                raise Wrong(ended)

    def until(self, seconds, what, condition):
        deadline = time.monotonic() + seconds
        while not condition():
            self.watch()
            if time.monotonic() > deadline:
                said = self.controller.lines[-1] if self.controller and self.controller.lines else ""
                raise Wrong(f"{what} took longer than {seconds} s" + (f" ({said})" if said else ""))
            time.sleep(0.02)

    def start_controller(self):
        from network import Process

        switches = self.network.net.switches
        self.until(START_SECONDS, "the start of BMv2",
                   lambda: all(os.path.exists(switch.socket) for switch in switches))
        command = [self.network.tools["tributary"], "controller", self.network.job_file]
        command += ["--target", "bmv2", "--listen", self.runs()]
        for switch in switches:
            command += ["--switch", f"{switch.name}=unix:{switch.socket}"]
        ready = []
        hear = lambda line: ready.append(line) if line.startswith("end with") else None
        self.controller = Process("the controller", command, hear=hear)
        self.until(START_SECONDS, "compiling, pushing and admitting", lambda: ready)

    def runs(self):
        """Where endpoints take part in the controller's jobs."""
        return "unix:" + os.path.join(os.path.dirname(self.network.job_file), "runs.sock")

    def endpoint(self, host, command, *more):
        from network import Process

        node = self.network.net[host["name"]]
        line = [self.network.tools["tributary"], command, "--interface", "eth0", "--json-events",
                "--controller", self.runs(), *more]

        def hear(text, host=host["name"], command=command, more=more):
            if text.startswith("{"):
                self.notes.put((host, command, more, json.loads(text)))

        return Process(f"{command} on {host['name']}", line, node, hear)

    def start_servers(self):
        for duty in ("reminder", "ps"):
            for host in self.plan["hosts"]:
                if any(task["duty"] == duty for task in host["duties"]):
                    self.servers.append(self.endpoint(host, duty, "--host", host["name"]))
        ready = set()

        def all_ready():
            while not self.notes.empty():
                host, command, _, event = self.notes.get()
                if event.get("event") == "ready":
                    ready.add((host, command))
            return len(ready) == len(self.servers)

        self.until(START_SECONDS, "the start of parameter servers", all_ready)

    def work(self):
        """Runs the workers to their end; their reports by job and index."""
        wanted, self.workers = {}, []
        for host in self.plan["hosts"]:
            for task in host["duties"]:
                if task["duty"] == "worker":
                    more = ["--job", task["job"], "--worker", str(task["index"])]
                    process = self.endpoint(host, "worker", *more)
                    wanted[task["job"], task["index"]] = process
                    self.workers.append(process)
        start = time.monotonic()
        deadline = start + self.plan["timeout_seconds"]
        restart = self.restart()
        reports = {}
        while len(reports) < len(wanted):
            if restart and time.monotonic() > start + restart[1]:
                switch, restart = self.network.net[restart[0]], None
                switch.kill()
                os.unlink(switch.socket)
                switch.start()
                print(f"switch {switch.name} was killed and started again, without a program", flush=True)
            self.watch()
            for (job, index), process in wanted.items():
                ended = process.ended()
                if ended and process.process.returncode != 0:
                    raise Wrong(f"job {job}: worker {index} failed: {ended}")
            if time.monotonic() > deadline:
                raise Wrong(f"the jobs took longer than their timeout of {self.plan['timeout_seconds']:g} s")
            try:
                _, command, more, event = self.notes.get(timeout=0.05)
            except queue.Empty:
                continue
            if event.get("event") == "done" and command == "worker":
                reports[more[1], int(more[3])] = event
            elif event.get("event") == "failed":
                raise Wrong(f"job {more[1]}: worker {more[3]} failed: {event['reason']}")
            elif event.get("event") == "stalled":
                raise Wrong(f"job {event['job']}: workers {event['missing']} were not heard of for "
                            f"{event['seconds']:.1f} s while others wait")
        return reports, time.monotonic() - start

    def restart(self):
        if not self.args.restart:
            return None
        name, _, seconds = self.args.restart.partition("@")
        return name, float(seconds)

    def stop(self):
        """Ends the endpoints, then the controller, which leaves the switches clean."""
        for processes in (self.workers, self.servers, [self.controller] if self.controller else []):
            for process in processes:
                process.ask()
            for process in processes:
                process.end(GRACE_SECONDS)
        return [line for line in (self.controller.lines if self.controller else []) if "removed" in line]


def show(reports, seconds, removed):
    """What the workers reported, as a table; whether all that they summed was compared."""
    print(f"{'job':16} {'workers':>7} {'summed':>12} {'goodput':>14} {'packets':>9} {'resent':>7}")
    right = True
    for job in sorted({job for job, _ in reports}):
        own = [report for (name, _), report in reports.items() if name == job]
        right &= all(report["verified"] == report["values"] > 0 for report in own)
        summed, slowest = 4 * own[0]["values"], max(r["reduce_seconds"] for r in own)
        again = sum(r["resent"] + r["direct"] for r in own)
        packets = sum(r["sent"] for r in own)
        goodput = 8e-6 * summed / max(slowest, 1e-9)
        print(f"{job:16} {len(own):7} {summed:10} B {goodput:7.2f} Mbit/s {packets:9} {again:7}")
    for line in removed:
        print(line)
    verified = sum(report["verified"] for report in reports.values())
    if right:
        print(f"{verified} results compared with sums computed separately: all equal. {seconds:.2f} s.")
    return right


def inside(args, directory, topology, job, found, network):
    from network import Network

    netem = has_netem()
    wanted = [key for key in ("delay", "loss") if any(key in link for link in topology["link"])]
    if wanted and not netem:
        print(f"this kernel has no netem: {' and '.join(wanted)} of links come from our own processes, "
              "for aggregation packets at hosts, for all packets between switches, and for ESA's "
              "TCP in cables", flush=True)
    job_file = write(directory, args, topology, job, inject=not netem)
    network = plan(found["tributary"], job_file)
    built = Network(network, topology, directory, found, job_file, netem)
    run = Run(built, args)
    print(f"{size(network, ' and ')} are up", flush=True)
    try:
        run.start_controller()
        print("the program is pushed, the jobs are admitted", flush=True)
        run.start_servers()
        if args.cli:
            from mininet.cli import CLI

            CLI(built.net)
        reports, seconds = run.work()
        removed = run.stop()
        if args.json_out:
            workers = [{"job": job, "worker": index, **r} for (job, index), r in sorted(reports.items())]
            with open(args.json_out, "w", encoding="utf-8") as file:
                json.dump({"seconds": seconds, "workers": workers}, file, indent=2)
        return 0 if show(reports, seconds, removed) else 1
    except Wrong as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    finally:
        run.stop()
        built.stop()


def write(directory, args, topology, job, inject):
    """The job file that all processes read."""
    base = os.path.dirname(os.path.abspath(args.job))
    job = {"name": os.path.splitext(os.path.basename(args.job))[0], **job}
    path = os.path.join(directory, os.path.basename(args.job))
    with open(path, "w", encoding="utf-8") as file:
        file.write(topologies.merge(job, topology, base, inject))
    return path


def own_topology(network, job):
    """The job file's own network as a topology."""
    ends = lambda link: [name for name, _ in link["ends"]]
    roles = {
        host["name"]
        for host in network["hosts"]
        if host["duties"] and all(task["duty"] != "worker" for task in host["duties"])
    }
    return {
        "switch": [{"name": name} for name in network["switches"]],
        "host": [
            {key: value for key, value in host.items() if key in ("name", "mac", "ip")}
            | ({"role": "ps"} if host["name"] in roles else {})
            for host in network["hosts"]
        ],
        "patch": [],
        "link": [{"between": ends(link), "mtu": link["mtu"]} for link in network["links"]],
    }


def main():
    args = arguments()
    if args.list:
        for name in topologies.names():
            with open(os.path.join(HERE, "topologies", f"{name}.toml"), encoding="utf-8") as file:
                print(f"{name:12} {file.readline().removeprefix('# ').strip()}")
        print(f"{'fat-tree':12} {topologies.fat_tree.__doc__.splitlines()[0]} --k, --hosts-per-rack")
        return 0
    if not args.job:
        raise Wrong("say which job file to run with --job JOB.toml; --list shows the topologies")
    if importlib.util.find_spec("mininet") is None and sys.executable != SYSTEM_PYTHON:
        # Mininet of a distribution belongs to the system's Python.
        if os.access(SYSTEM_PYTHON, os.X_OK) and not os.environ.get("TRIBUTARY_PYTHON"):
            os.environ["TRIBUTARY_PYTHON"] = "system"
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    found = tools(args.tributary)
    own = plan(found["tributary"], args.job)
    job = topologies.load(args.job)
    if args.topology:
        topology, label = topologies.find(args.topology, args.k, args.hosts_per_rack)
    else:
        topology, label = own_topology(own, job), "the job file's own"
        if any(link["rate"] or link["latency_us"] for link in own["links"]):
            print("warning: `rate` and `latency` of the job file's links are ignored here; use a "
                  "topology file with `bandwidth` and `delay`", file=sys.stderr)
    if args.restart:
        name, _, seconds = args.restart.partition("@")
        if name not in {switch["name"] for switch in topology["switch"]}:
            raise Wrong(f"--restart {args.restart}: there is no switch {name}")
        if not seconds.replace(".", "", 1).isdigit():
            raise Wrong(f"--restart {args.restart}: write SWITCH@SECONDS")
    # Before anything is started: does the job fit the topology?
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        merged = write(directory, args, topology, job, inject=True)
        try:
            network = plan(found["tributary"], merged)
        except Wrong as wrong:
            # Lines and columns are those of a file that the user did not write.
            text = re.sub(f"{re.escape(merged)}(:\\d+)*", f"{args.job} with topology {label}", str(wrong))
            raise Wrong(text) from None
        with open(merged, encoding="utf-8") as file:
            text = file.read()
    if args.topology and (difference := topologies.differences(network, own)):
        print(f"the topology {label} takes the place of that in {args.job}: {difference}", flush=True)
    if args.dry_run:
        print(describe(network, topology))
        print(f"\nThe job file that would run:\n\n{text}")
        return 0
    found |= needed_to_run()
    isolation.enter(lambda directory: inside(args, directory, topology, job, found, network))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(1)
