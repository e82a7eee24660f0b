"""Attaches to a daemon without liblyre."""

import os
import re
import socket
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
DESCRIPTORS_MAX = 200
# Of AttachReply's descriptors.
MEMORY, FIRST_BELL = 0, 3


def versions(header, name):
    """A VersionRange of the channel, as the source has it, packed."""
    path = os.path.join(HERE, "..", "..", "stack", "channel", header)
    with open(path, encoding="utf-8") as file:
        found = re.search(name + r"{(\d+), (\d+)};", file.read())
    return struct.pack("<HH", int(found[1]), int(found[2]))


def attach(path, label=b"stranger"):
    """Attaches without the library. Every descriptor that the daemon gives."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    body = versions("abi.h", "kAbiVersions") + struct.pack("<IQ64s", 0, 1 << 20, label)
    header = (struct.pack("<I", 0x4C595243) + versions("control.h", "kControlVersions")
              + struct.pack("<II", 1, 16 + len(body)))
    connection.send(header + body)
    _, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, DESCRIPTORS_MAX)
    return connection, descriptors
