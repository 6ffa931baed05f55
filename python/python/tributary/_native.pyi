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

    def __init__(
        self, settings: str, members: int, members_here: int, ranks_here: int, timeout: float
    ) -> None:
        """Plans a group of `members` members.

        `members_here` of them are on this host. `ranks_here` ranks share its processors.

        `settings` is TOML; an empty text stands for the defaults. A rank may take `timeout` seconds
        to make a call.
        """

    @property
    def sockets(self) -> int:
        """Sockets of each member whose worker is not in the process of the switch."""

@final
class Memory:
    """Memory for the ranks of a host."""

    @staticmethod
    def open(settings: str, ranks: int, at_controller: bool) -> Memory | None:
        """Makes it for a group of `ranks` ranks.

        None if `settings`, which are TOML, ask for a switch. Those for a job at a controller do not.
        """

    @staticmethod
    def of_member(above: Communicator, ranks: int) -> Memory:
        """Makes it for the ranks of a member, whose worker in the group of all members is `above`."""

    @property
    def description(self) -> str:
        """How other ranks come by it: opaque text for `Communicator.in_memory`."""

@final
class Switch:
    """A switch and its controller, embedded in this process. The first rank has one."""

    def __init__(
        self, plan: Plan, address: str, members: list[list[int]], endpoints: list[list[str]]
    ) -> None:
        """Starts both at `address`, an IP address of this host.

        `members` are the ranks of each member. `endpoints` are the addresses of the sockets of each
        member's worker. The first one, which is in this process, needs none.
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
    from this machine's IP addresses, and `TRIBUTARY_IO` is how packets are sent: `packet` if this process
    may, unless it is set.
    """

    def __init__(self) -> None: ...
    @property
    def host(self) -> str:
        """The name of the host, or the IP addresses of this machine."""

def is_each_alone(settings: str) -> bool:
    """Whether each rank is to be a member by the settings, although some could share memory."""

def given_job(settings: str, members: list[list[int]]) -> str | None:
    """The description of the job that a placement manager or Slurm has admitted for this process.

    `TRIBUTARY_JOB` names it, and `TRIBUTARY_WORKERS` its workers. `None` if there is none, or if it has
    not as many workers as the group has members.
    """

def admit(
    station: Station, settings: str, name: str, members: list[list[int]], hosts: list[str]
) -> str:
    """Has a job admitted for members with these ranks, each on one of these hosts.

    `name` is shown to people. The job ends when no rank takes part any more. Returns its description:
    opaque text for `Communicator.at`, the same for all ranks. It is secret: who knows it can take part.
    """

@final
class Communicator:
    """One rank's part in a group of ranks that sum tensors together.

    All ranks make the same calls of `all_reduce` and `announce` in the same order.
    """

    def __init__(
        self, endpoint: Endpoint, description: str, member: int, switch: Switch | None = None
    ) -> None:
        """Joins the group behind a `Switch` as a member's worker.

        The one that has the switch in its process passes it.
        """

    @staticmethod
    def at(station: Station, description: str, member: int, timeout: float) -> Communicator:
        """Joins the group of a job that was admitted, through the interface of this host.

        A rank may take `timeout` seconds to make a call.
        """

    @staticmethod
    def first(shared: Memory, timeout: float) -> Communicator:
        """Joins the ranks that share memory, which is in this process: that of the first of them.

        A rank may take `timeout` seconds to make a call.
        """

    @staticmethod
    def in_memory(description: str, rank: int, ranks: int, timeout: float) -> Communicator:
        """Joins the ranks that share the first one's memory, as one of them."""

    @property
    def peers(self) -> list[tuple[str, int] | bytes]:
        """Addresses of the connections by which the others notice that this rank ends.

        They are IP addresses with TCP ports, or names of abstract Unix sockets.
        """

    @property
    def has_all_ranks(self) -> bool:
        """Whether all ranks of the group share memory."""

    @property
    def exchanges_parts(self) -> bool:
        """Whether the group carries out `all_gather` and `reduce_scatter`."""

    @property
    def checks(self) -> bool:
        """Whether the ranks are to announce what another backend carries out."""

    @property
    def refuses(self) -> bool:
        """Whether sums of values that are not finite are errors."""

    def all_reduce(
        self,
        address: int,
        elements: int,
        dtype: str,
        *,
        average: bool,
        layer: tuple[int, int] | None,
        owner: object,
        by_devices: bool = False,
    ) -> Handle:
        """Starts to sum `elements` numbers at `address` over all ranks, in place.

        `dtype` is `float32`, `float16` or `bfloat16`. `average` divides the sum by the number of
        ranks. `layer` is `(index, count)`: the next forward pass needs index 0 first. `owner` is
        kept alive until the sum is done.

        With `by_devices`, the first rank of each host has the sum of its host's ranks already, and
        the numbers of the others are only written.
        """

    # The following are for groups that `has_all_ranks`; `all_gather` and `reduce_scatter` also for others
    # that `exchanges_parts`. `claim` is what the ranks compare: the operation,
    # the number of its elements, and their type. `owner` is kept alive until the end.

    def all_gather(
        self,
        own: int,
        all: tuple[int, int],
        size: int,
        claim: tuple[str, int, str],
        *,
        owner: object,
    ) -> Handle:
        """Collects the `size` bytes at address `own` of each rank, in their order.

        `all` is where they go: an address and a number of bytes. `own` may be in its place there.
        """

    def broadcast(
        self, address: int, size: int, root: int, claim: tuple[str, int, str], *, owner: object
    ) -> Handle:
        """Copies `size` bytes from rank `root` to the others."""

    def reduce_scatter(
        self,
        values: tuple[int, int],
        own: tuple[int, int],
        dtype: str,
        claim: tuple[str, int, str],
        *,
        average: bool,
        owner: object,
    ) -> Handle:
        """Sums values over all ranks, and writes this rank's part of the sums to `own`.

        Both are an address and a number of elements. `dtype` and `average` are as for `all_reduce`.
        """

    def sum(
        self, address: int, elements: int, dtype: str, claim: tuple[str, int, str], *, owner: object
    ) -> Handle:
        """Sums numbers in place, in their own type: `float64`, `int64` or `int32`.

        Floats are added in the order of the ranks. Sums of integers wrap around.
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
