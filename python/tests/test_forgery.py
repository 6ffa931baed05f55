"""Packets that another process sends to the sockets of switch and ranks."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

import pytest
import torch
import torch.distributed as dist

import ranks

# Places in a frame, which the values end.
PORT, ROUND, INDEX, VALUES = slice(36, 38), slice(54, 58), slice(66, 70), 70
# Length of the headers of IP and UDP.
OUTER = 28
# Aggregators of a group on one host. Rounds of the same fragment differ in their lowest three bits.
SLOTS = 32


class _Forger(threading.Thread):
    """Copies all packets between switch and ranks, for rounds to come, with zeros as values."""

    def __init__(self, spoofs: bool) -> None:
        """`spoofs`: The copies have the source address and port of the true packets."""
        super().__init__()
        self._sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self._sniffer.bind(("lo", 0x0800))
        self._sniffer.settimeout(0.1)
        kind = (socket.SOCK_RAW, socket.IPPROTO_RAW) if spoofs else (socket.SOCK_DGRAM, 0)
        self._sender = socket.socket(socket.AF_INET, *kind)
        self._spoofs = spoofs
        self._indices: dict[tuple[bytes, int], bytes] = {}
        self.forged = 0
        self.ends = False

    def run(self) -> None:
        with self._sniffer, self._sender:
            while not self.ends:
                with contextlib.suppress(socket.timeout):
                    self._forge(self._sniffer.recv(1 << 16))

    def _forge(self, packet: bytes) -> None:
        frame, port = packet[OUTER:], packet[22:24]
        is_udp = packet[9] == socket.IPPROTO_UDP
        # A copy is not copied again.
        if not is_udp or frame[PORT] != (29810).to_bytes(2, "big") or not any(frame[VALUES:]):
            return
        number = int.from_bytes(frame[ROUND], "big")
        self._indices[port, number // 8 % SLOTS] = frame[INDEX]
        # Far enough ahead to arrive before the true packets.
        for ahead in range(number + 8 * 12, number + 8 * 16, 8):
            index = self._indices.get((port, ahead // 8 % SLOTS))
            if index is None:
                continue
            copy = bytearray(packet)
            copy[OUTER + ROUND.start : OUTER + ROUND.stop] = ahead.to_bytes(4, "big")
            copy[OUTER + INDEX.start : OUTER + INDEX.stop] = index
            copy[OUTER + VALUES :] = bytes(len(frame) - VALUES)
            # The checksum of a packet on loopback is not filled in. Zero stands for none.
            copy[26:OUTER] = bytes(2)
            to = ("127.0.0.1", int.from_bytes(port, "big"))
            self._sender.sendto(copy if self._spoofs else copy[OUTER:], to)
            self.forged += 1


def _sum_often() -> int:
    size = dist.get_world_size()
    wrong = 0
    for _ in range(200):
        tensor = torch.full((1000,), dist.get_rank() + 1.0)
        dist.all_reduce(tensor)
        wrong += not tensor.eq(size * (size + 1) / 2).all()
    return wrong


@pytest.mark.parametrize("spoofs", [False, True])
def test_only_a_false_source_does_harm(spoofs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "settings", ranks.SWITCH)
    if os.geteuid() != 0:
        pytest.skip("the test reads packets, which needs root")
    forger = _Forger(spoofs)
    forger.start()
    try:
        outcomes = ranks.run(_sum_often, 3, group_timeout=5.0)
    finally:
        forger.ends = True
        forger.join()
    assert forger.forged > 100
    if spoofs:
        assert any(outcome.error or outcome.value for outcome in outcomes), outcomes
    else:
        assert ranks.values(outcomes) == [0, 0, 0]
