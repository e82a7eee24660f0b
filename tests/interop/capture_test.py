#!/usr/bin/env python3
"""Which packets count as faults in a capture."""

import os
import socket
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from capture import LYRE, LYRE6, Recording
from internet_checksum import checksum

LINUX = "10.9.5.2"
LINUX6 = "fd00:9:2::2"
PCAP_HEADER = struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
LYRES_PORT, LINUX_PORT = 7200, 5201
IPV4_ETHERNET = bytes(12) + struct.pack("!H", 0x0800)
IPV6_ETHERNET = bytes(12) + struct.pack("!H", 0x86dd)
UDP, ICMPV6 = 17, 58
# tshark knows protocols by these ports, to which a host may bind a socket that asks for no port.
TZSP_PORT, ENIP_PORT = 37008, 44818
WINDOW, CHECKSUM, URGENT = 14, 16, 18
WINDOW_BYTES = 100


def segment(source, to, field=None, window=0):
    """An ACK whose checksum comes to 0; `field` replaces it, `window` makes another one right."""
    addresses = bytes(map(int, f"{source}.{to}".split(".")))
    pseudo = addresses + struct.pack("!HH", 6, 20)
    tcp = bytearray(struct.pack("!HHIIBBHHH", 7200, 59213, 1, 2, 0x50, 0x10, WINDOW_BYTES, 0, 0))
    struct.pack_into("!H", tcp, URGENT, checksum(pseudo + tcp))
    assert checksum(pseudo + tcp) == 0
    struct.pack_into("!H", tcp, WINDOW, WINDOW_BYTES + window)
    struct.pack_into("!H", tcp, CHECKSUM, field or 0)
    ip = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 40, 1, 0, 64, 6, 0) + addresses)
    struct.pack_into("!H", ip, 10, checksum(ip))
    return IPV4_ETHERNET + ip + tcp


def timed(is_by_lyre, sequence, acknowledgement, size, time, echo):
    """A segment with timestamps."""
    hosts, ports = (LYRE, LINUX), (LYRES_PORT, LINUX_PORT)
    if not is_by_lyre:
        hosts, ports = hosts[::-1], ports[::-1]
    addresses = bytes(map(int, ".".join(hosts).split(".")))
    tcp = struct.pack("!HHIIBBHHH", *ports, sequence, acknowledgement, 0x80, 0x10, 1000, 0, 0)
    tcp += struct.pack("!BBBBII", 1, 1, 8, 10, time, echo) + bytes(size)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + addresses
    return IPV4_ETHERNET + ip + tcp


def packet6(source, to, protocol, payload, checksum_at):
    """An IPv6 packet. The checksum of its payload, which has 0 there, is written."""
    addresses = b"".join(socket.inet_pton(socket.AF_INET6, one) for one in (source, to))
    payload = bytearray(payload)
    pseudo = addresses + struct.pack("!II", len(payload), protocol)
    struct.pack_into("!H", payload, checksum_at, checksum(pseudo + payload))
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + addresses + payload


def question(source_port):
    text = b"anybody?"
    return packet6(LINUX6, LYRE6, UDP, struct.pack("!HHHH", source_port, 7100, 8 + len(text), 0) +
                   text, 6)


def error6(kind, quoted):
    return packet6(LYRE6, LINUX6, ICMPV6, struct.pack("!BBHI", kind, 0, 0, 40) + quoted, 2)


def record(folder, *frames):
    path = os.path.join(folder, "some.pcap")
    with open(path, "wb") as file:
        file.write(PCAP_HEADER)
        for frame in frames:
            file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame)
    return Recording(path)


class CaptureTest(unittest.TestCase):
    def faults(self, frame):
        with tempfile.TemporaryDirectory() as folder:
            return len(record(folder, frame).faults(["bad TCP checksums"]))

    def test_a_right_checksum_is_none(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX)), 0)

    def test_the_other_zero_is_none(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX, 0xffff)), 0)
        self.assertEqual(self.faults(segment(LINUX, LYRE, 0xffff)), 0)

    def test_the_other_zero_is_one_where_another_checksum_is_right(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX, 0xffff, window=1)), 1)

    def test_a_wrong_checksum_is_one_of_anybody(self):
        self.assertEqual(self.faults(segment(LYRE, LINUX, 0x1234)), 1)
        self.assertEqual(self.faults(segment(LINUX, LYRE, 0x1234)), 1)


class PayloadTest(unittest.TestCase):
    """What a datagram carries is no protocol, whatever its port."""

    def expect_no_fault(self, packets):
        with tempfile.TemporaryDirectory() as folder:
            recording = record(folder, *(IPV6_ETHERNET + packet for packet in packets))
            self.assertEqual(recording.faults(), [])

    def test_of_a_datagram(self):
        self.expect_no_fault(question(port) for port in (TZSP_PORT, ENIP_PORT))

    def test_of_one_that_an_error_quotes(self):
        self.expect_no_fault(error6(kind, question(port)[:length])
                             for port in (TZSP_PORT, ENIP_PORT) for kind in (1, 2, 3, 4)
                             for length in (None, 20))


class RetransmissionTest(unittest.TestCase):
    """Lyre sends 50 bytes twice; Linux acknowledges them before the second time."""

    BEFORE = [timed(True, 101, 501, 0, 10, 20), timed(False, 501, 101, 0, 20, 10),
              timed(True, 101, 501, 50, 11, 20)]

    def needless(self, *frames):
        with tempfile.TemporaryDirectory() as folder:
            recording = record(folder, *self.BEFORE, *frames)
            self.assertEqual(len(recording.faults(["spurious retransmissions"])), 1)
            return len(recording.needless_retransmissions())

    def test_one_that_the_acknowledgement_met_on_the_way_is_not_needless(self):
        again = timed(True, 101, 501, 50, 300, 20)
        self.assertEqual(self.needless(timed(False, 501, 151, 0, 22, 11), again), 0)

    def test_one_whose_sender_had_the_acknowledgement_is(self):
        again = timed(True, 101, 501, 50, 300, 22)
        self.assertEqual(self.needless(timed(False, 501, 151, 0, 22, 11), again), 1)

    def test_of_packets_of_one_time_its_sender_had_the_first_one(self):
        again = timed(True, 101, 501, 50, 300, 22)
        self.assertEqual(self.needless(timed(False, 501, 121, 0, 22, 11),
                                       timed(False, 501, 151, 0, 22, 11), again), 0)


if __name__ == "__main__":
    unittest.main()
