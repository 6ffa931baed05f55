"""Drives a switch with finsy: ADDRESS DEVICE P4INFO PROGRAM. Fails with a traceback."""

import asyncio
import sys
from pathlib import Path

import finsy as fy


async def refused(call, code):
    """Whether a call is refused, with this code for each update."""
    try:
        await call
    except fy.P4ClientError as error:
        got = [detail.canonical_code for detail in error.details.values()] or [error.code]
        assert all(one == code for one in got), f"{got}, not {code}: {error}"
    else:
        raise AssertionError("was not refused")


def entry(table, priority=0, value=1, **match):
    return fy.P4TableEntry(
        table,
        match=fy.Match({f"hdr.key.{key}": wanted for key, wanted in match.items()}),
        action=fy.Action("TestIngress.answer", value=value),
        priority=priority,
    )


async def tables(switch):
    exact = entry("TestIngress.exact_table", a=1, b=2)
    await switch.insert([exact])
    await refused(switch.insert([exact]), fy.GRPCStatusCode.ALREADY_EXISTS)
    entries = [
        entry("TestIngress.lpm_table", a="10.0.0.0/8"),
        entry("TestIngress.ternary_table", 5, a="0x0a/&0xff", b=3),
        entry("TestIngress.range_table", 5, b="1...9"),
        entry("TestIngress.optional_table", 5, b=4),
    ]
    await switch.insert(entries)
    for one in [exact, *entries]:
        wanted = one.encode(switch.p4info)
        found = [e async for e in switch.read(fy.P4TableEntry(one.table_id))]
        assert [e.encode(switch.p4info) for e in found] == [wanted], (found, one)

    await switch.modify([entry("TestIngress.exact_table", value=9, a=1, b=2)])
    await switch.delete([exact])
    await refused(switch.delete([exact]), fy.GRPCStatusCode.NOT_FOUND)


async def arrays(switch):
    await switch.modify(
        [
            fy.P4CounterEntry(
                "TestIngress.seen",
                index=2,
                data=fy.P4CounterData(byte_count=7, packet_count=5),
            ),
            fy.P4RegisterEntry("TestIngress.last", index=9, data=0xABCDE),
        ]
    )
    counters = [e async for e in switch.read(fy.P4CounterEntry("TestIngress.seen"))]
    assert len(counters) == 8 and counters[2].packet_count == 5, counters
    # What BMv2 cannot do.
    registers = [e async for e in switch.read(fy.P4RegisterEntry("TestIngress.last"))]
    assert len(registers) == 16 and registers[9].data == 0xABCDE, registers


async def replication(switch):
    group = fy.P4MulticastGroupEntry(3, replicas=[1, (2, 7)])
    await switch.insert([group])
    groups = [e async for e in switch.read(fy.P4MulticastGroupEntry())]
    assert [g.multicast_group_id for g in groups] == [3], groups
    await switch.delete([group])


async def ready(switch):
    await tables(switch)
    await arrays(switch)
    await replication(switch)
    await switch.delete_all()
    left = [e async for e in switch.read(fy.P4TableEntry()) if not e.is_const]
    assert left == [], left
    print("finsy: all done")


async def main():
    address, device, p4info, program = sys.argv[1:]
    options = fy.SwitchOptions(
        p4info=Path(p4info),
        p4blob=Path(program),
        device_id=int(device),
    )
    async with fy.Switch("s1", address, options) as switch:
        await ready(switch)


asyncio.run(asyncio.wait_for(main(), 60))
