#!/usr/bin/env python3
"""Which packets count as faults in a capture."""

import os
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from capture import LYRE, Recording
from internet_checksum import checksum

LINUX = "10.9.5.2"
PCAP_HEADER = struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
IPV4_ETHERNET = bytes(12) + struct.pack("!H", 0x0800)
CHECKSUM, URGENT = 16, 18


def segment(source, to, field=None):
    """An ACK whose checksum comes to 0; `field` replaces it."""
    addresses = bytes(map(int, f"{source}.{to}".split(".")))
    pseudo = addresses + struct.pack("!HH", 6, 20)
    tcp = bytearray(struct.pack("!HHIIBBHHH", 7200, 59213, 1, 2, 0x50, 0x10, 100, 0, 0))
    struct.pack_into("!H", tcp, URGENT, checksum(pseudo + tcp))
    assert checksum(pseudo + tcp) == 0
    struct.pack_into("!H", tcp, CHECKSUM, field or 0)
    ip = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 40, 1, 0, 64, 6, 0) + addresses)
    struct.pack_into("!H", ip, 10, checksum(ip))
    return IPV4_ETHERNET + ip + tcp


class CaptureTest(unittest.TestCase):
    def faults(self, frame):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "one.pcap")
            with open(path, "wb") as file:
                file.write(PCAP_HEADER + struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame)
            return len(Recording(path).faults(["bad TCP checksums"]))

    def test_a_right_checksum_is_none(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX)), 0)

    def test_the_other_zero_is_one_of_lyre_and_none_of_linux(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX, 0xffff)), 1)
        self.assertEqual(self.faults(segment(LINUX, LYRE, 0xffff)), 0)

    def test_a_wrong_checksum_is_one_of_anybody(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX, 0x1234)), 1)
        self.assertEqual(self.faults(segment(LINUX, LYRE, 0x1234)), 1)


if __name__ == "__main__":
    unittest.main()
