"""What the process does to its groups: it exits, forks, or is interrupted."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import socket
import threading
from collections import Counter
from typing import Any, Protocol, Union

from ._native import Error

# An IP address with a TCP port, or the name of an abstract Unix socket.
Peer = Union["tuple[str, int]", bytes]


class Group(Protocol):
    """What this module needs to know of a group."""

    def pending(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self, reason: str) -> None: ...


# Counts the forks between the process that imported the package and this one.
_forks = 0
# Groups that have not been left. A thread of theirs that still runs when the interpreter ends would
# abort the process.
_groups: set[Group] = set()
# A child must not drop its copies of the parent's groups: their sockets are the parent's.
_inherited: list[Group] = []
# Addresses of the connections by which the other ranks notice that this process has ended, of all groups.
_peers: Counter[Peer] = Counter()
_watched = False


class Owner:
    """Remembers the process that made it."""

    def __init__(self) -> None:
        self._made_after = _forks

    def check(self) -> None:
        """Raises an error in a process that was forked from the one that made this object."""
        if self._made_after != _forks:
            raise Error(
                "this process was forked from a rank and cannot use its process group. Create the "
                "group after the fork, or start processes with the method 'spawn'"
            )


def register(group: Group) -> None:
    """Has `group` closed when the process exits, and aborted when Ctrl-C finds it waiting."""
    _groups.add(group)
    _watch_interrupts()


def unregister(group: Group) -> None:
    """Forgets a group that this process has left."""
    _groups.discard(group)


def add_peers(addresses: list[Peer]) -> None:
    """Has children that are forked close their copies of the connections to and at these addresses."""
    _peers.update(addresses)


def remove_peers(addresses: list[Peer]) -> None:
    """Forgets the addresses of a group that this process has left."""
    _peers.subtract(addresses)


def keep_until_exit(object_: object) -> None:
    """Has `object_` never destroyed, not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(object_))


def _leave_groups() -> None:
    for group in list(_groups):
        if group.pending():
            group.abort("the process exits")
        else:
            group.close()


def _after_fork() -> None:
    global _forks, _watched
    _forks += 1
    _inherited.extend(_groups)
    _groups.clear()
    _close_connections()
    if _watched:
        # The parent shares the descriptor, and would take the child's signals for its own.
        signal.set_wakeup_fd(-1)
        _watched = False


def _close_connections() -> None:
    """Closes copies of the parent's connections: while one is open, its end is not noticed."""
    if not any(_peers.values()):
        return
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        # The object in memory that owns the descriptor believes that it still has one.
        if _is_connection(int(name)):
            os.dup2(nothing, int(name), inheritable=False)
    os.close(nothing)
    _peers.clear()


def _is_connection(descriptor: int) -> bool:
    """Whether it is a socket of such an address, or connected to one."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        return any(_peers[_peer(end())] > 0 for end in (found.getsockname, found.getpeername))
    except OSError:
        # It is not connected.
        return False
    finally:
        found.detach()


def _peer(address: Any) -> Peer:
    # The address of an IPv6 socket has a flow and a scope, too.
    return address[:2] if isinstance(address, tuple) else address


def _watch_interrupts() -> None:
    """Starts a thread that aborts the groups on Ctrl-C.

    `backward()` waits for gradients in C++, where Python cannot raise `KeyboardInterrupt`. Failing
    the gradients ends the wait.
    """
    global _watched
    if _watched or threading.current_thread() is not threading.main_thread():
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if previous != -1:
        # An event loop already uses the descriptor.
        signal.set_wakeup_fd(previous)
        reader.close()
        writer.close()
        return
    _watched = True
    threading.Thread(
        target=_abort_on_interrupt, args=(reader, writer), name="tributary-interrupt", daemon=True
    ).start()


def _abort_on_interrupt(reader: socket.socket, _writer: socket.socket) -> None:
    while signals := reader.recv(64):
        # A script with a handler of its own decides itself what an interrupt means.
        default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if signal.SIGINT in signals and default:
            for group in list(_groups):
                if group.pending():
                    with contextlib.suppress(Exception):
                        group.abort("Ctrl-C")


atexit.register(_leave_groups)
os.register_at_fork(after_in_child=_after_fork)
