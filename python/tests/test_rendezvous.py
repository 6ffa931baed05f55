"""How ranks find each other, and the settings, without processes."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from torch.distributed import HashStore

import tributary
from tributary import process, rendezvous, settings


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TRIBUTARY_SETTINGS", "TRIBUTARY_ADDRESS", "TRIBUTARY_CONTROLLER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(settings, "_configured", None)


def _connect_all(size: int, timeout: float = 10.0) -> list[rendezvous.Fabric | BaseException]:
    store = HashStore()
    results: list[rendezvous.Fabric | BaseException] = [RuntimeError("no result")] * size

    def connect(rank: int) -> None:
        try:
            results[rank] = rendezvous.connect(store, rank, size, timeout)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=connect, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def test_only_the_first_rank_has_a_switch() -> None:
    tributary.configure("group.switch = true")
    fabrics = _connect_all(3)
    assert [fabric.switch is not None for fabric in fabrics] == [True, False, False]
    for fabric in reversed(fabrics):
        fabric.close()


def test_ranks_of_one_host_need_no_switch() -> None:
    fabrics = _connect_all(3)
    assert not any(fabric.switch for fabric in fabrics)
    for fabric in fabrics:
        fabric.close()


def test_a_problem_at_one_rank_is_raised_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endpoint:
        opened = 0

        def __init__(self, address: str, sockets: int) -> None:
            Endpoint.opened += 1
            if Endpoint.opened == 2:
                raise OSError("no free port")
            self.addresses = [f"{address}:{port + 1}" for port in range(sockets)]

    monkeypatch.setattr(rendezvous, "Endpoint", Endpoint)
    tributary.configure("group.switch = true")
    results = _connect_all(3)
    assert all("no free port" in str(error) for error in results), results
    assert all(str(error).count("rank") <= 1 for error in results), results


def test_ranks_that_are_missing_are_named() -> None:
    with pytest.raises(tributary.Error, match=r"rank 1: .*: 0, 2$"):
        rendezvous.connect(HashStore(), 1, 3, 0.2)


def test_the_same_store_serves_a_group_again() -> None:
    store = HashStore()
    first, second = rendezvous.unused_part(store, 0), rendezvous.unused_part(store, 0)
    first.set("key", "1")
    assert not second.check(["key"])
    rendezvous.unused_part(store, 1).set("key", "2")
    assert first.get("key") == b"2"


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUTARY_ADDRESS", "192.0.2.7")
    assert rendezvous._own_address() == "192.0.2.7"
    monkeypatch.delenv("TRIBUTARY_ADDRESS")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(tributary.Error, match="TRIBUTARY_ADDRESS"):
        rendezvous._own_address()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    for master in ("127.0.0.1", "::1"):
        monkeypatch.setenv("MASTER_ADDR", master)
        with pytest.raises(tributary.Error, match="loopback"):
            rendezvous._own_address()
    monkeypatch.setenv("MASTER_ADDR", "no-such-host.invalid")
    with pytest.raises(tributary.Error, match=r"no-such-host\.invalid"):
        rendezvous._own_address()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connections_of_a_group_are_those_at_its_addresses(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        address = (host, server.getsockname()[1])
        with socket.create_connection(address) as client, socket.socket(family) as other:
            both = (server.fileno(), client.fileno())
            assert not any(map(process._is_connection, both))
            process.add_peers([address])
            try:
                assert all(map(process._is_connection, both))
                assert not process._is_connection(other.fileno())
            finally:
                process.remove_peers([address])


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settings.current() == ""
    monkeypatch.setenv("TRIBUTARY_SETTINGS", "a = 1")
    assert settings.current() == "a = 1"
    file = tmp_path / "settings.toml"
    file.write_text("b = 2")
    monkeypatch.setenv("TRIBUTARY_SETTINGS", str(file))
    assert settings.current() == "b = 2"
    tributary.configure("c = 3")
    assert settings.current() == "c = 3"
    tributary.configure(file)
    assert settings.current() == "b = 2"
    tributary.configure(None)
    monkeypatch.setenv("TRIBUTARY_SETTINGS", "/no/such/file")
    with pytest.raises(ValueError, match="/no/such/file"):
        settings.current()
