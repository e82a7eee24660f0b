#!/usr/bin/env python3
"""Bytes over a wire that loses, reorders and doubles: kernel to kernel, Lyre with a kernel."""

import unittest

import bed
import transfer
from bridge import Bridge
from bed import KERNEL
from network import BridgedPair

PORT = 5201
BYTES = 2 << 20
TIMEOUT_S = 180
KERNEL_LEFT = bed.LYRE
ROUGH = {"delay_us": 200, "loss_ppm": 10_000, "reorder_ppm": 20_000, "reorder_us": 500,
         "duplicate_ppm": 10_000}


def exchange(server, client):
    """BYTES each way at once; `server` and `client` are (command, environment)."""
    here, there = transfer.run(server, client, TIMEOUT_S)
    transfer.check_sides(here, there, BYTES)


def server_arguments():
    return ("perf", "server", "--listen", f":{PORT}", "--once", "--json")


def client_arguments(address):
    return ("perf", "client", f"{address}:{PORT}", "--bytes", str(BYTES), "--direction", "both",
            "--verify", "--json")


class BridgedTest(unittest.TestCase):
    def check_counters(self, counters):
        for way in ("there", "back"):
            for count in ("lost", "reordered", "duplicated"):
                self.assertGreater(counters[way][count], 0, (way, count))
            for count in ("missed", "refused", "overflowed", "corrupted", "marked"):
                self.assertEqual(counters[way][count], 0, (way, count))
            self.assertEqual(counters[way]["carried"] + counters[way]["duplicated"],
                             counters[way]["lost"] + counters[way]["sent"])

    def test_kernel_to_kernel(self):
        lyre = bed.Programs(bed.options.build).lyre
        wire = self.enterContext(BridgedPair(bed.OFFLOADS))
        wire.give_address(wire.left, KERNEL_LEFT)
        wire.give_address(wire.right, KERNEL)
        with Bridge(bed.options.build, wire, ROUGH, ROUGH) as bridge:
            exchange((wire.inside(wire.right, lyre, *server_arguments(), "--kernel"), None),
                     (wire.inside(wire.left, lyre, *client_arguments(KERNEL), "--kernel"), None))
        self.check_counters(bridge.counters)

    def test_lyre_with_a_kernel(self):
        wire = BridgedPair(bed.OFFLOADS)
        with bed.Bed(wire) as host:
            with Bridge(bed.options.build, wire, ROUGH, ROUGH, seed=2) as bridge:
                exchange(host.by_kernel(*server_arguments()),
                         host.by_lyre(*client_arguments(KERNEL)))
                exchange(host.by_lyre(*server_arguments()),
                         host.by_kernel(*client_arguments(bed.LYRE)))
        self.check_counters(bridge.counters)


if __name__ == "__main__":
    bed.main()
