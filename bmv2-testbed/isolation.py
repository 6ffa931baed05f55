"""A world of its own for a run, which ends with it.

The run is process 1 of new process, network and mount namespaces. When it ends, however it ends, the
kernel kills every process in there, and with them go namespaces, interfaces and files. The outer
process passes signals on; if it is killed, the kernel kills the inner one.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import traceback

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

PREFIX = "tributary-bmv2-"

libc = ctypes.CDLL(None, use_errno=True)


# The signal that asked the run to end, if one did.
asked = None


class Interrupted(Exception):
    """The run was asked to end."""


def check():
    """Ends a run that was asked to. The exception of the handler may have come up where it is dropped,
    for example while a process was being started."""
    if asked:
        raise Interrupted(asked)


def enter(work):
    """Runs `work(directory)` in there and exits with what it returns. `directory` is in memory."""
    tidy()
    directory = os.path.join(tempfile.gettempdir(), f"{PREFIX}{os.getpid()}")
    os.mkdir(directory, 0o700)
    try:
        status = outer(directory, work)
    finally:
        os.rmdir(directory)
    sys.exit(status)


def tidy():
    """Removes what runs left that were killed: an empty directory each."""
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdigit() and not os.path.exists(f"/proc/{number}"):
            try:
                os.rmdir(os.path.join(parent, name))
            except OSError:
                pass


def outer(directory, work):
    # The next child is process 1 of the new namespace; this process stays where it is.
    if not unshare(CLONE_NEWPID):
        return 1
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        # So that the inner process is told of the outer one's death, even one that came before.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        status = 1
        try:
            if os.read(ready, 1) == b"." and unshare(CLONE_NEWNS | CLONE_NEWNET):
                status = inner(directory, work)
        except BaseException:  # pylint: disable=broad-except
            # Nothing may return into the outer process's code.
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(ready)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    os.write(told, b".")
    os.close(told)
    while True:
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        if os.WIFSIGNALED(status):
            return 128 + os.WTERMSIG(status)


def unshare(flags):
    if libc.unshare(flags) == 0:
        return True
    reason = os.strerror(ctypes.get_errno())
    print(f"error: cannot make namespaces ({reason}); run as root", file=sys.stderr)
    return False


def inner(directory, work):
    def interrupt(number, _):
        # Once: cleaning up is not to be interrupted by the terminal and the outer process both.
        for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        global asked  # pylint: disable=global-statement
        asked = signal.Signals(number).name
        raise Interrupted(asked)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        for command in (
            ["mount", "--make-rprivate", "/"],
            ["mount", "-t", "proc", "proc", "/proc"],
            ["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", directory],
            ["ip", "link", "set", "lo", "up"],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)
        # What the run's programs write for a while goes with it, too: the controller's sources for p4c.
        os.environ["TMPDIR"] = directory
        return work(directory)
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)}: {error.stderr.strip()}", file=sys.stderr)
    except Exception:  # pylint: disable=broad-except
        # Mininet's commands that were interrupted halfway can make cleaning up fail. The kernel does it.
        if not asked:
            raise
    if asked:
        print(f"error: interrupted by {asked}", file=sys.stderr)
    return 1
