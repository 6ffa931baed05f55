"""How the ranks of a group find each other and a switch, through the group's store."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from . import devices, settings
from ._native import (
    Communicator,
    Endpoint,
    Error,
    Memory,
    Plan,
    Station,
    Switch,
    TimeoutError,
    admit,
    given_job,
    is_each_alone,
)


class RendezvousError(Error):
    """The ranks could not join. The text names the rank with the problem, and all raise it."""


LOOPBACK = "127.0.0.1"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.05
# Of the time that a rank has waited for others, what it may wait too long.
_TOO_LONG = 0.1
# In seconds. All ranks have joined then, and each answers within milliseconds.
_PATIENCE = 30.0
_MOST_RANKS_OF_A_HOST = 1024
_given_job_is_taken = False


@dataclass
class Fabric:
    """What this rank needs to take part, and what it must close afterwards."""

    communicator: Communicator
    # The first rank of a group runs its switch, unless a controller has admitted the group's job, or all
    # ranks share memory.
    switch: Switch | None
    # The ranks of each member of the group: those that share memory.
    members: list[list[int]]
    # Whether each rank has a device of its own, with NCCL.
    has_devices: bool

    def close(self) -> None:
        """Leaves the group. The rank with the switch then waits until the others have left, too."""
        self.communicator.close()
        self._end()

    def abort(self) -> None:
        """Fails what is pending, and leaves the group."""
        self.communicator.abort()
        self._end()

    def _end(self) -> None:
        if self.switch is not None:
            self.switch.close()


def unused_part(store: Store, rank: int) -> Store:
    """A part of `store` without the keys of earlier groups of the same name.

    Under torchrun, a group that is destroyed and created again gets the same store. All ranks have
    created it equally often.
    """
    generation = store.add(f"tributary/generation/{rank}", 1)
    return PrefixStore(f"{generation}/", store)


@dataclass(frozen=True)
class _Place:
    """Where a rank is, and what the first one tells the others."""

    # Ranks of the same host reach each other over loopback.
    host: str
    # Those of the same user, too, share memory.
    user: str
    # The host, as a controller knows it.
    station: str
    # The device that the rank uses, if NCCL is there for it.
    device: str
    # Whether each rank is to be a worker of its own.
    each_alone: bool = False
    # The first rank's memory, used if all ranks share it.
    memory: str = ""


def connect(store: Store, rank: int, size: int, timeout: float) -> Fabric:
    """Joins the group, which all `size` ranks must do within `timeout` seconds.

    A problem at one rank is raised at all.
    """
    board = _Board(store, rank, size, timeout)
    worker = switch = communicator = None
    try:
        with board.reporting_errors("place", "sockets", "endpoint", "fabric", "memory", "joined"):
            station = Station() if os.environ.get("TRIBUTARY_CONTROLLER") else None
            host = station.host if station is not None else ""
            place = _Place(_host(), _user(), host, devices.identity())
            memory = None
            if rank == 0:
                each_alone = is_each_alone(settings.current())
                memory = None if each_alone else _memory(size, station is not None)
                described = memory.description if memory is not None else ""
                place = replace(place, each_alone=each_alone, memory=described)
            board.post("place", json.dumps(asdict(place)))
            posted = board.read_all("place", "reached Tributary's rendezvous")
            places = [_Place(**json.loads(text)) for text in posted]
            members = _members(places)
            member = next(at for at, ranks in enumerate(members) if rank in ranks)
            ranks, described = members[member], places[0].memory
            if len(members) > 1:
                memory = None
                if rank == ranks[0]:
                    group = _Group(board, places, members, member, timeout)
                    worker, switch = group.join_as_worker(station)
                if len(ranks) > 1 and worker is not None:
                    memory = _memory_of_host(worker, ranks)
                    board.post("memory", memory.description)
                elif len(ranks) > 1:
                    described = board.read("memory", ranks[0], "joined for their host")
            if memory is not None:
                communicator = Communicator.first(memory, timeout)
            else:
                at = ranks.index(rank)
                communicator = worker or Communicator.in_memory(described, at, len(ranks), timeout)
            board.post("joined", "yes")
            board.read_all("joined", "joined the group")
            if len(members) > 1:
                _check_path(communicator, rank, timeout, station)
    except BaseException:
        _abandon(communicator or worker, switch)
        raise
    own = [place.device for place in places]
    return Fabric(communicator, switch, members, all(own) and len(set(own)) == size)


def _members(places: list[_Place]) -> list[list[int]]:
    """The ranks of each member of a group: those that share memory."""
    members: dict[object, list[int]] = {}
    for rank, place in enumerate(places):
        each_alone = places[0].each_alone or (_is_one_host(places) and not places[0].memory)
        key = rank if each_alone else (place.host, place.user, place.station)
        members.setdefault(key, []).append(rank)
    return list(members.values())


def _is_one_host(places: list[_Place]) -> bool:
    return len({place.host for place in places}) == 1


@dataclass
class _Group:
    """A group with a network, of whose members each has a worker: its first rank."""

    board: _Board
    places: list[_Place]
    members: list[list[int]]
    # The one that this rank is the worker of.
    member: int
    timeout: float

    def join_as_worker(self, station: Station | None) -> tuple[Communicator, Switch | None]:
        """Joins, perhaps with a switch in this process."""
        if station is not None:
            return self._join_at_controller(station), None
        workers = [ranks[0] for ranks in self.members]
        hosts = [self.places[rank].host for rank in workers]
        address = LOOPBACK if _is_one_host(self.places) else _own_address()
        board, switch = self.board, None
        if self.member == 0:
            ranks_here = sum(place.host == hosts[0] for place in self.places)
            members_here = hosts.count(hosts[0])
            plan = Plan(
                settings.current(), len(hosts), members_here, ranks_here, self.timeout
            )
            board.post("sockets", str(plan.sockets))
            # This rank's packets stay in memory.
            endpoint = Endpoint(address, 0)
            board.post("endpoint", "")
            posted = board.read_all("endpoint", "opened their sockets", workers)
            switch = Switch(plan, address, self.members, [text.split() for text in posted])
            board.post("fabric", switch.description)
        else:
            sockets = int(board.read("sockets", 0, "planned the group"))
            endpoint = Endpoint(address, sockets)
            board.post("endpoint", " ".join(endpoint.addresses))
        description = board.read("fabric", 0, "started the embedded switch")
        try:
            return Communicator(endpoint, description, self.member, switch), switch
        except BaseException:
            _abandon(None, switch)
            raise

    def _join_at_controller(self, station: Station) -> Communicator:
        if self.member == 0:
            hosts = [self.places[ranks[0]].station for ranks in self.members]
            given = _take_given_job(self.members)
            self.board.post("fabric", given or _admit(station, self.members, hosts))
        description = self.board.read("fabric", 0, "had the group's job admitted")
        return Communicator.at(station, description, self.member, self.timeout)


def _memory_of_host(worker: Communicator, ranks: list[int]) -> Memory:
    """Memory for the ranks of a host in a group of several hosts."""
    try:
        return Memory.of_member(worker, len(ranks))
    except OSError as error:
        # A sandbox may forbid it.
        raise Error(
            f"ranks {_ranges(ranks)} of a host cannot share memory: {error}. Without a controller, the "
            "setting `group.switch = true` does without it"
        ) from error


def _memory(size: int, at_controller: bool) -> Memory | None:
    """Memory for all ranks, which are perhaps on one host, unless the settings ask for a switch."""
    if size > _MOST_RANKS_OF_A_HOST:
        return None
    try:
        return Memory.open(settings.current(), size, at_controller)
    except OSError as error:
        # A sandbox may forbid it.
        warnings.warn(f"no memory can be shared: {error}", RuntimeWarning, stacklevel=2)
        return None


def _take_given_job(members: list[list[int]]) -> str | None:
    """The job that was admitted for this process, for its first group of all ranks."""
    global _given_job_is_taken
    # Only then is the first rank that of all other groups of all ranks, too.
    has_all = sum(map(len, members)) == dist.get_world_size()
    taken = _given_job_is_taken or not has_all
    given = None if taken else given_job(settings.current(), members)
    _given_job_is_taken = _given_job_is_taken or given is not None
    return given


def _admit(station: Station, members: list[list[int]], hosts: list[str]) -> str:
    return admit(station, settings.current(), _job_name(), members, hosts)


def _check_path(
    communicator: Communicator, rank: int, timeout: float, station: Station | None
) -> None:
    """Makes a call without values: a network that drops packets is noticed before the first sum."""
    try:
        communicator.announce("join", 0, "").wait(min(timeout, _PATIENCE))
    except TimeoutError as error:
        hint = "does a firewall drop UDP between the hosts?"
        if station is not None:
            hint = "`tributary doctor` checks hosts and switch"
        raise RendezvousError(
            f"rank {rank}: packets do not pass between the ranks and the switch: {error} ({hint})"
        ) from error


def _abandon(communicator: Communicator | None, switch: Switch | None) -> None:
    """Leaves a group that some ranks could not join."""
    if communicator is not None:
        communicator.abort()
    if switch is not None:
        switch.close()


def _job_name() -> str:
    """By which people recognise the job among those of the controller."""
    name = os.environ.get("TRIBUTARY_NAME") or Path(sys.argv[0]).name or "python"
    return "".join(filter(str.isprintable, name))[:64]


class _Board:
    """Texts that ranks post for each other in a store."""

    def __init__(self, store: Store, rank: int, size: int, timeout: float) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def post(self, key: str, text: str) -> None:
        self._store.set(f"{key}/{self._rank}", json.dumps({"text": text}))

    @contextlib.contextmanager
    def reporting_errors(self, *keys: str) -> Iterator[None]:
        """Posts an exception of the `with` block under `keys`, for the ranks that wait for them."""
        try:
            yield
        except BaseException as error:
            text = str(error) or type(error).__name__
            if not isinstance(error, RendezvousError):
                text = f"rank {self._rank}: {text}"
            for key in keys:
                self._store.set(f"{key}/{self._rank}", json.dumps({"error": text}))
            raise

    def read(self, key: str, rank: int, done: str) -> str:
        self._wait(key, [rank], done)
        return self._parse(self._store.get(f"{key}/{rank}"))

    def read_all(self, key: str, done: str, ranks: Iterable[int] | None = None) -> list[str]:
        ranks = range(self._size) if ranks is None else list(ranks)
        self._wait(key, ranks, done)
        return [self._parse(self._store.get(f"{key}/{rank}")) for rank in ranks]

    @staticmethod
    def _parse(posted: bytes) -> str:
        entry: dict[str, Any] = json.loads(posted)
        if "error" in entry:
            raise RendezvousError(entry["error"])
        return str(entry["text"])

    def _has(self, key: str) -> bool:
        if hasattr(self._store, "check"):
            return bool(self._store.check([key]))
        # PyTorch 2.1
        try:
            self._store.wait([key], timedelta(milliseconds=1))
        except RuntimeError:
            return False
        return True

    def _wait(self, key: str, ranks: Iterable[int], done: str) -> None:
        # Polling leaves room for signals, which a wait inside the store does not.
        began = time.monotonic()
        missing = list(ranks)
        while True:
            missing = [rank for rank in missing if not self._has(f"{key}/{rank}")]
            if not missing:
                return
            now = time.monotonic()
            if now > self._deadline:
                raise RendezvousError(
                    f"rank {self._rank}: timeout after {self._timeout:g} s: these ranks have not "
                    f"{done}: {_ranges(missing)}"
                )
            time.sleep(min(max(_TOO_LONG * (now - began), _FIRST_PAUSE), _LONGEST_PAUSE))


def _ranges(ranks: list[int]) -> str:
    """Ascending ranks as text: ``0–3, 7``."""
    ranges: list[list[int]] = []
    for rank in ranks:
        if ranges and ranges[-1][-1] + 1 == rank:
            ranges[-1].append(rank)
        else:
            ranges.append([rank])
    texts = [f"{a[0]}–{a[-1]}" if len(a) > 2 else ", ".join(map(str, a)) for a in ranges]
    return ", ".join(texts)


def _host() -> str:
    """A text that two processes share if they reach each other over loopback."""
    # A network namespace has a loopback interface of its own.
    parts = [socket.gethostname()]
    for path in (Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/net")):
        try:
            parts.append(os.readlink(path) if path.is_symlink() else path.read_text().strip())
        except OSError:
            continue
    return " ".join(parts)


def _user() -> str:
    """A text that two processes of a host have in common if they can share memory."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/user")
    return f"{os.geteuid()} {namespace}"


def _own_address() -> str:
    """The IP address by which the ranks of other hosts reach this one."""
    address = os.environ.get("TRIBUTARY_ADDRESS")
    if address:
        return address
    master = os.environ.get("MASTER_ADDR")
    if not master:
        raise Error(
            "the ranks are on several hosts, and neither TRIBUTARY_ADDRESS nor MASTER_ADDR is set. "
            "Set TRIBUTARY_ADDRESS to the IP address of each host"
        )
    try:
        own = _source_towards(master)
    except OSError as error:
        raise Error(
            f"MASTER_ADDR {master!r} cannot be reached: {error}. Set TRIBUTARY_ADDRESS to this "
            "host's IP address"
        ) from error
    if own is None:
        # At the master itself, its name can stand for loopback.
        with contextlib.suppress(OSError):
            own = _source_towards(socket.gethostname())
    if own is None:
        raise Error(
            "the ranks are on several hosts, but this host only knows its loopback address. Set "
            "TRIBUTARY_ADDRESS to the IP address by which the others reach it"
        )
    return own


def _source_towards(host: str) -> str | None:
    """The IP address from which this host sends to `host`; None for a loopback address.

    An IPv4 address if there is a choice: ranks on hosts with both kinds then have the same kind.
    """
    found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    problem, own = None, None
    for family, kind, protocol, _, destination in found:
        # Connecting a UDP socket sends nothing; it only selects the route.
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(destination)
                own = str(probe.getsockname()[0])
        except OSError as error:
            problem = error
            continue
        if not ipaddress.ip_address(own).is_loopback:
            return own
    if own is None and problem is not None:
        raise problem
    return None
