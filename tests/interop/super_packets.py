#!/usr/bin/env python3
"""Bulk transfers with Linux TCP in packets of up to 64 KiB, over a port that shares a kernel
interface: the kernel cuts and merges them, or a virtual wire carries them uncut."""

import unittest

import bed
import transfer
from network import VethPair

PORT = 5201
# Far below the throughput of the slowest machine: the limit only ends a transfer that hangs.
BYTES_PER_SECOND_MIN = 4 << 20
PAYLOAD_BYTES_MAX = 1460  # of a packet of MTU 1500
CARRIES_ALL = ["tso", "on", "gso", "on", "gro", "on", "tx", "on"]
# A packet that Lyre or the kernel hands over is cut into packets of the MTU with whole checksums,
# and the receiver merges them.
CUTS_AND_MERGES = ["tso", "off", "gso", "on", "gro", "on", "tx", "off"]


class Transfers(unittest.TestCase):
    offloads = None

    @classmethod
    def setUpClass(cls):
        if cls.offloads is None:
            raise unittest.SkipTest("does not apply: the tests of both wires")
        cls.bed = bed.Bed(VethPair(cls.offloads), {"tcp": bed.TIMEOUTS})
        cls.enterClassContext(cls.bed)

    def exchange(self, server, client, address, direction):
        """Returns how many packets of the MTU its bytes would have filled, and how many there
        were."""
        count = bed.options.mib << 20
        capture = self.bed.capture("wire", 2 * count >> 20)
        with capture:
            asked, served = transfer.run(
                server("perf", "server", "--listen", f":{PORT}", "--once", "--json"),
                client("perf", "client", bed.endpoint(address, PORT), "--bytes", str(count),
                       "--direction", direction, "--verify", "--json"),
                30 + count // BYTES_PER_SECOND_MIN)
        transfer.check_sides(asked, served, count)
        return count // PAYLOAD_BYTES_MAX, capture.packets()

    def both_ways(self, server, client, address):
        for direction in ("tx", "rx"):
            full, packets = self.exchange(server, client, address, direction)
            print(f"{direction}: {packets} packets in place of {full}", flush=True)
            self.check(full, packets)

    def check(self, full, packets):
        raise NotImplementedError

    def test_lyre_connects(self):
        self.both_ways(self.bed.by_kernel, self.bed.by_lyre, bed.kernel())

    def test_kernel_connects(self):
        self.both_ways(self.bed.by_lyre, self.bed.by_kernel, bed.lyre())


class UncutTest(Transfers):
    offloads = CARRIES_ALL

    def check(self, full, packets):
        # With acknowledgements.
        self.assertLess(packets, full // 2)


class CutTest(Transfers):
    offloads = CUTS_AND_MERGES

    def check(self, full, packets):
        self.assertGreater(packets, 0)


if __name__ == "__main__":
    bed.main()
