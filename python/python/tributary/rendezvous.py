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
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import PrefixStore, Store

from . import settings
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
)


class RendezvousError(Error):
    """The ranks could not join. The text names the rank with the problem, and all raise it."""


LOOPBACK = "127.0.0.1"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
# In seconds. All ranks have joined then, and each answers within milliseconds.
_PATIENCE = 30.0
_given_job_is_taken = False


@dataclass
class Fabric:
    """What this rank needs to take part, and what it must close afterwards."""

    communicator: Communicator
    # The first rank of a group runs its switch, unless a controller has admitted the group's job, or all
    # ranks share memory.
    switch: Switch | None

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


def connect(store: Store, rank: int, size: int, timeout: float) -> Fabric:
    """Joins the group, which all `size` ranks must do within `timeout` seconds.

    A problem at one rank is raised at all.
    """
    board = _Board(store, rank, size, timeout)
    if os.environ.get("TRIBUTARY_CONTROLLER"):
        fabric = _connect_to_controller(board, rank, timeout)
        if fabric is not None:
            return fabric

    switch = communicator = None
    try:
        with board.reporting_errors("host", "sockets", "endpoint", "fabric", "joined"):
            memory = _memory(size) if rank == 0 else None
            description = memory.description if memory is not None else ""
            board.post("host", "\n".join((_host(), _user(), description)))
            posted = board.read_all("host", "reached Tributary's rendezvous")
            hosts, users, descriptions = zip(*(text.split("\n") for text in posted))
            described = descriptions[0]
            if described and len(set(hosts)) == len(set(users)) == 1:
                if memory is not None:
                    communicator = Communicator.first(memory, timeout)
                else:
                    communicator = Communicator.in_memory(described, rank, size, timeout)
                board.post("joined", "yes")
                board.read_all("joined", "come by the memory of the first rank")
                return Fabric(communicator, None)
            address = LOOPBACK if len(set(hosts)) == 1 else _own_address()
            if rank == 0:
                plan = Plan(settings.current(), size, hosts.count(hosts[0]), timeout)
                board.post("sockets", str(plan.sockets))
                # This rank's packets stay in memory.
                endpoint = Endpoint(address, 0)
                board.post("endpoint", "")
                posted = board.read_all("endpoint", "opened their sockets")
                switch = Switch(plan, address, [text.split() for text in posted])
                board.post("fabric", switch.description)
            else:
                sockets = int(board.read("sockets", 0, "planned the group"))
                endpoint = Endpoint(address, sockets)
                board.post("endpoint", " ".join(endpoint.addresses))
            description = board.read("fabric", 0, "started the embedded switch")
            communicator = Communicator(endpoint, description, rank, switch)
            board.post("joined", "yes")
            board.read_all("joined", "reached the first rank")
            _check_path(communicator, rank, timeout, "does a firewall drop UDP between the hosts?")
    except BaseException:
        _abandon(communicator, switch)
        raise
    return Fabric(communicator, switch)


def _memory(size: int) -> Memory | None:
    """Memory that the ranks may share, unless the settings ask for a switch."""
    try:
        return Memory.open(settings.current(), size)
    except OSError as error:
        # A sandbox may forbid it.
        warnings.warn(f"no memory can be shared: {error}", RuntimeWarning, stacklevel=2)
        return None


def _connect_to_controller(board: _Board, rank: int, timeout: float) -> Fabric | None:
    """Joins the group through the switches of a network; `None` if they cannot sum it."""
    communicator = None
    try:
        with board.reporting_errors("station", "fabric", "port"):
            station = Station()
            board.post("station", station.host)
            hosts = board.read_all("station", "found their host")
            if len(set(hosts)) < len(hosts) and os.environ.get("TRIBUTARY_JOB"):
                if rank == 0:
                    warnings.warn(
                        f"{len(hosts)} ranks are on {len(set(hosts))} hosts, and a switch counts one for each "
                        "host: the switches of their job do not sum them",
                        RuntimeWarning,
                        stacklevel=2,
                    )
                return None
            if rank == 0:
                board.post("fabric", _take_given_job(len(hosts)) or _admit(station, hosts))
            description = board.read("fabric", 0, "had the group's job admitted")
            communicator = Communicator.at(station, description, rank, timeout)
            board.post("port", "open")
            board.read_all("port", "opened their port")
            _check_path(communicator, rank, timeout, "`tributary doctor` checks hosts and switch")
    except BaseException:
        _abandon(communicator, None)
        raise
    return Fabric(communicator, None)


def _take_given_job(ranks: int) -> str | None:
    """The job that was admitted for this process, for its first group of all ranks."""
    global _given_job_is_taken
    given = None if _given_job_is_taken else given_job(settings.current(), ranks)
    _given_job_is_taken = _given_job_is_taken or given is not None
    return given


def _admit(station: Station, hosts: list[str]) -> str:
    return admit(station, settings.current(), _job_name(), hosts)


def _check_path(communicator: Communicator, rank: int, timeout: float, hint: str) -> None:
    """Makes a call without values: a network that drops packets is noticed before the first sum."""
    try:
        communicator.announce("join", 0, "").wait(min(timeout, _PATIENCE))
    except TimeoutError as error:
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

    def read_all(self, key: str, done: str) -> list[str]:
        ranks = range(self._size)
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
        pause = _FIRST_PAUSE
        missing = list(ranks)
        while True:
            missing = [rank for rank in missing if not self._has(f"{key}/{rank}")]
            if not missing:
                return
            if time.monotonic() > self._deadline:
                raise RendezvousError(
                    f"rank {self._rank}: timeout after {self._timeout:g} s: these ranks have not "
                    f"{done}: {_ranges(missing)}"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


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
