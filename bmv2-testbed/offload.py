"""Makes the kernel put finished frames of wire size on the interfaces named: checksums filled in,
nothing merged or left to be cut up. A switch passes frames on as it finds them."""

import ctypes
import errno
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
# GRO, GSO, TSO, scatter-gather, transmit and receive checksums, from linux/ethtool.h; in an order in
# which the kernel refuses none because of another.
SET = (0x2C, 0x24, 0x1F, 0x19, 0x17, 0x15)


def disable(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in SET:
            value = bytearray(struct.pack("II", command, 0))
            address = (ctypes.c_char * len(value)).from_buffer(value)
            pointer = ctypes.addressof(address)
            request = struct.pack("16sP", interface.encode(), pointer)
            try:
                fcntl.ioctl(handle, SIOCETHTOOL, request.ljust(40, b"\0"))
            except OSError as error:
                # What a device does not have need not be turned off.
                if error.errno != errno.EOPNOTSUPP:
                    raise


if __name__ == "__main__":
    for name in sys.argv[1:]:
        disable(name)
