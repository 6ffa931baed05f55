"""The part of the package that is written in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

class Error(RuntimeError):
    """The base of the errors that Tributary raises."""

class PeerLostError(Error):
    """A rank has died or left. The message names it."""

class MismatchError(Error):
    """The ranks did not call the same collective. The message names who called what."""

class NotFiniteError(Error):
    """An input holds NaN or infinity. The message names the rank and the position."""

class UnderflowError(Error):
    """Too many values would become zero in fixed point. The message names the ranks."""

class UnderflowWarning(RuntimeWarning):
    """Many values of a call have become zero beside a greater one. The message says what to do."""

class TimeoutError(Error):
    """Some ranks have not called the collective in time. The message names them."""

@final
class Endpoint:
    """The UDP sockets of this rank."""

    def __init__(self, address: str, sockets: int) -> None:
        """Binds free ports of `address`, an IP address of this host."""

    @property
    def addresses(self) -> list[str]:
        """`ip:port` of each socket, as the other ranks reach it."""

@final
class Plan:
    """The settings of a group, complete.

    How many threads pass packets follows from this host's processors, if not from the settings.
    """

    def __init__(self, settings: str, ranks: int, ranks_here: int, timeout: float) -> None:
        """Plans a group of `ranks` ranks, of which `ranks_here` are on this host.

        `settings` is TOML; an empty text stands for the defaults. A rank may take `timeout` seconds
        to make a call.
        """

    @property
    def sockets(self) -> int:
        """Sockets of each rank that is not in the process of the switch."""

@final
class Memory:
    """Memory for a group whose ranks are all on one host."""

    @staticmethod
    def open(settings: str, ranks: int) -> Memory | None:
        """Makes it for `ranks` ranks; None if `settings`, which are TOML, ask for a switch."""

    @property
    def description(self) -> str:
        """How other ranks come by it: opaque text for `Communicator.in_memory`."""

@final
class Switch:
    """A switch and its controller, embedded in this process. The first rank has one."""

    def __init__(self, plan: Plan, address: str, endpoints: list[list[str]]) -> None:
        """Starts both at `address`, an IP address of this host.

        `endpoints` are the addresses of each rank's sockets, in the order of the ranks. The first
        rank needs none.
        """

    @property
    def description(self) -> str:
        """How to reach the switch: opaque text for `Communicator`, the same for all ranks.

        It is secret: who knows it can take part.
        """

    def close(self) -> int:
        """Waits until all ranks have left, for a limited time, and stops.

        Returns the number of aggregators that were still in use.
        """

@final
class Station:
    """This rank's host in a network with a controller, found by the environment.

    `TRIBUTARY_CONTROLLER` is the controller: `host:port`, perhaps behind `tributary://`, `http://` or
    `https://`, or `unix:path`. `TRIBUTARY_IDENTITY` and `TRIBUTARY_CONTROLLER_NAME` are for
    TLS. `TRIBUTARY_HOST` and `TRIBUTARY_INTERFACE` replace what follows
    from this machine's IP addresses, and `TRIBUTARY_IO` is how packets are sent: `udp` unless it is set.
    """

    def __init__(self) -> None: ...
    @property
    def host(self) -> str:
        """The name of the host, or the IP addresses of this machine."""

def given_job(settings: str, ranks: int) -> str | None:
    """The description of the job that a placement manager or Slurm has admitted for this process.

    `TRIBUTARY_JOB` names it, and `TRIBUTARY_WORKERS` its workers. `None` if there is none, or if it has not as
    many workers as the group has ranks.
    """

def admit(station: Station, settings: str, name: str, hosts: list[str]) -> str:
    """Has a job admitted for ranks on these hosts, in the order of the ranks.

    `name` is shown to people. The job ends when no rank takes part any more. Returns its description:
    opaque text for `Communicator.at`, the same for all ranks. It is secret: who knows it can take part.
    """

@final
class Communicator:
    """One rank's part in a group of ranks that sum tensors together.

    All ranks make the same calls of `all_reduce` and `announce` in the same order.
    """

    def __init__(
        self, endpoint: Endpoint, description: str, rank: int, switch: Switch | None = None
    ) -> None:
        """Joins the group behind a `Switch`. The rank that has it in its process passes it."""

    @staticmethod
    def at(station: Station, description: str, rank: int, timeout: float) -> Communicator:
        """Joins the group of a job that was admitted, through the interface of this rank's host.

        A rank may take `timeout` seconds to make a call.
        """

    @staticmethod
    def first(memory: Memory, timeout: float) -> Communicator:
        """Joins the group that shares `memory`, which is in this process: that of the first rank.

        A rank may take `timeout` seconds to make a call.
        """

    @staticmethod
    def in_memory(description: str, rank: int, ranks: int, timeout: float) -> Communicator:
        """Joins the group that shares the first rank's memory."""

    @property
    def peers(self) -> list[tuple[str, int] | bytes]:
        """Addresses of the connections by which the others notice that this rank ends.

        They are IP addresses with TCP ports, or names of abstract Unix sockets.
        """

    @property
    def checks(self) -> bool:
        """Whether the ranks are to announce what another backend carries out."""

    def all_reduce(
        self,
        address: int,
        elements: int,
        dtype: str,
        *,
        average: bool,
        layer: tuple[int, int] | None,
        owner: object,
    ) -> Handle:
        """Starts to sum `elements` numbers at `address` over all ranks, in place.

        `dtype` is `float32`, `float16` or `bfloat16`. `average` divides the sum by the number of
        ranks. `layer` is `(index, count)`: the next forward pass needs index 0 first. `owner` is
        kept alive until the sum is done.
        """

    def announce(self, operation: str, elements: int, dtype: str) -> Handle:
        """Checks that all ranks call the same collective, which another backend carries out."""

    def failure(self) -> Handle:
        """Ends, with an error, when the group fails or is left."""

    def set_timeout(self, timeout: float) -> None:
        """Sets the time in seconds after which a call without a result breaks the group."""

    def set_progress(self, step: int, of: int) -> None:
        """Says that step `step` of `of` has begun, from which priorities of packets follow."""

    def stats(self) -> dict[str, int | float]:
        """What the network has done for this rank so far."""

    def close(self) -> None:
        """Leaves the group."""

    def abort(self) -> None:
        """Fails everything that is pending, and leaves the group."""

@final
class Handle:
    """A collective that has started."""

    def wait(self, timeout: float | None) -> None:
        """Waits for at most `timeout` seconds. Signals are handled meanwhile."""

    def warning(self) -> str | None:
        """What the caller should know of the result, once the collective has ended."""

    def done(self) -> bool:
        """Whether the collective has ended, also if in an error."""

    def add_done_callback(self, callback: Callable[[BaseException | None], None]) -> None:
        """Has `callback` called with the error, or None, in a thread of the communicator.

        The call is immediate if the collective has ended.
        """
