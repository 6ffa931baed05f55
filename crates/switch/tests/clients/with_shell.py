"""Drives a switch with p4runtime-shell: ADDRESS DEVICE P4INFO PROGRAM. Fails with a traceback."""

import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeException, P4RuntimeWriteException


def refused(call, *codes):
    """Whether a call is refused, with these codes."""
    try:
        call()
    except P4RuntimeWriteException as error:
        got = [p4_error.canonical_code for _, p4_error in error.errors]
        assert got == list(codes), f"{got}, not {codes}: {error}"
    else:
        raise AssertionError("was not refused")


def tables():
    entry = sh.TableEntry("TestIngress.exact_table")(action="TestIngress.answer")
    entry.match["hdr.key.a"] = "1"
    entry.match["hdr.key.b"] = "0x0102"
    entry.action["value"] = "7"
    entry.counter_data.packet_count = 5
    entry.insert()
    refused(entry.insert, 6)  # ALREADY_EXISTS
    entry.action["value"] = "8"
    entry.modify()

    found = []
    wanted = sh.TableEntry("TestIngress.exact_table")
    wanted.counter_data  # asks for it
    wanted.read(lambda e: found.append((e.action["value"].value, e.counter_data.packet_count)))
    assert found == [(b"\x08", 5)], found
    entry.delete()
    refused(entry.delete, 5)  # NOT_FOUND

    entry = sh.TableEntry("TestIngress.ternary_table")(action="TestIngress.answer", priority=10)
    entry.match["hdr.key.b"] = "5"
    entry.match["hdr.key.a"] = "0x0a000000&&&0xff000000"
    entry.action["value"] = "9"
    entry.insert()
    entry = sh.TableEntry("TestIngress.lpm_table")(action="TestIngress.answer")
    entry.match["hdr.key.a"] = "10.0.0.0/8"
    entry.action["value"] = "10"
    entry.insert()
    entry = sh.TableEntry("TestIngress.range_table")(action="TestIngress.answer", priority=1)
    entry.match["hdr.key.b"] = "1..9"
    entry.action["value"] = "11"
    entry.insert()
    entry = sh.TableEntry("TestIngress.optional_table")(action="TestIngress.answer", priority=1)
    entry.match["hdr.key.b"] = "3"
    entry.action["value"] = "12"
    entry.insert()
    for table in ["ternary", "lpm", "range", "optional", "const"]:
        count = sum(1 for _ in sh.TableEntry(f"TestIngress.{table}_table").read())
        assert count == 1, (table, count)

    default = sh.TableEntry("TestIngress.lpm_table")(
        action="TestIngress.answer", is_default=True
    )
    default.action["value"] = "13"
    default.modify()
    refused(default.insert, 3)  # INVALID_ARGUMENT


def arrays():
    counter = sh.CounterEntry("TestIngress.seen")(index=3)
    counter.packet_count, counter.byte_count = 100, 2000
    counter.modify()
    counts = [(e.index, e.packet_count) for e in sh.CounterEntry("TestIngress.seen").read()]
    assert counts[3] == (3, 100) and len(counts) == 8, counts

    entry = sh.TableEntry("TestIngress.exact_table")(action="NoAction")
    entry.match["hdr.key.a"] = "1"
    entry.match["hdr.key.b"] = "1"
    entry.insert()
    direct = sh.DirectCounterEntry("TestIngress.exact_hits")
    direct.table_entry = entry
    direct.packet_count = 42
    direct.modify()
    counts = [e.packet_count for e in direct.read()]
    assert counts == [42], counts
    entry.delete()


def replication():
    group = sh.MulticastGroupEntry(1)
    group.add(1, 1).add(2, 2)
    group.insert()
    refused(group.insert, 6)
    groups = [g.group_id for g in sh.MulticastGroupEntry().read()]
    assert groups == [1], groups
    group.delete()


def main():
    address, device, p4info, program = sys.argv[1:]
    sh.setup(
        device_id=int(device),
        grpc_addr=address,
        election_id=(0, 1),
        config=sh.FwdPipeConfig(p4info, program),
    )
    try:
        version = sh.APIVersion()
        assert str(version).startswith("1."), version
        tables()
        arrays()
        replication()
        try:
            list(sh.client.read_one(sh.p4runtime_pb2.Entity()))
        except Exception as error:  # whatever the library makes of a refused query
            assert "INVALID_ARGUMENT" in str(error), error
    finally:
        sh.teardown()
    print("p4runtime-shell: all done")


main()
