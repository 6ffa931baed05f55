"""Compares a FileDescriptorSet (first argument) with the descriptors of the Python package
p4runtime, definition by definition, in both directions.

Exit status 0: the same; 3: they differ, one line a difference on stdout. Without an argument only
imports the package.
"""

import os
import sys

# Some releases of p4runtime carry code from an old protoc, which the compiled implementation of
# newer protobuf packages refuses to import; the one in Python takes it.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

from google.protobuf import descriptor_pb2
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2, p4types_pb2
from p4.v1 import p4data_pb2, p4runtime_pb2

THEIRS = [code_pb2, status_pb2, p4info_pb2, p4types_pb2, p4data_pb2, p4runtime_pb2]

# Not 1, which is what an exception ends with.
DIFFERENT = 3

Field = descriptor_pb2.FieldDescriptorProto


def flatten(files):
    """What is visible on the wire or in generated code, by full name."""
    out = {}

    def enum(scope, e):
        name = f"{scope}.{e.name}"
        out[f"enum {name}"] = ()
        for value in e.value:
            out[f"value {name}.{value.name}"] = (value.number,)

    def message(scope, m):
        name = f"{scope}.{m.name}"
        out[f"message {name}"] = ("map entry" if m.options.map_entry else "message",)
        for oneof in m.oneof_decl:
            out[f"oneof {name}.{oneof.name}"] = ()
        for f in m.field:
            out[f"field {name}.{f.name}"] = (
                f"number {f.number}",
                Field.Type.Name(f.type),
                f.type_name,
                Field.Label.Name(f.label),
                f"in {m.oneof_decl[f.oneof_index].name}" if f.HasField("oneof_index") else "in no oneof",
                "optional" if f.proto3_optional else "implicit",
                "packed" if not f.options.HasField("packed") or f.options.packed else "unpacked",
            )
        for nested in m.nested_type:
            message(name, nested)
        for nested in m.enum_type:
            enum(name, nested)

    for file in files:
        scope = "." + file.package
        for m in file.message_type:
            message(scope, m)
        for e in file.enum_type:
            enum(scope, e)
        for s in file.service:
            out[f"service {scope}.{s.name}"] = ()
            for method in s.method:
                out[f"method {scope}.{s.name}.{method.name}"] = (
                    method.input_type,
                    method.output_type,
                    f"client streaming {method.client_streaming}",
                    f"server streaming {method.server_streaming}",
                )
    return out


def main():
    if len(sys.argv) < 2:
        return 0
    theirs = []
    for module in THEIRS:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        theirs.append(file)
    ours = descriptor_pb2.FileDescriptorSet()
    with open(sys.argv[1], "rb") as f:
        ours.ParseFromString(f.read())

    packages = {file.package for file in theirs}
    ours = flatten(file for file in ours.file if file.package in packages)
    theirs = flatten(theirs)
    differences = 0
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs:
            print(f"{name}: only in ours")
        elif name not in ours:
            print(f"{name}: missing in ours")
        elif ours[name] != theirs[name]:
            print(f"{name}: ours {ours[name]}, theirs {theirs[name]}")
        else:
            continue
        differences += 1
    print(f"{len(theirs)} definitions compared, {differences} differ")
    return DIFFERENT if differences else 0


if __name__ == "__main__":
    sys.exit(main())
