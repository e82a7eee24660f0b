#!/usr/bin/env python3
"""Bytes over a wire that loses, reorders and doubles: kernel to kernel, Lyre with a kernel."""

import json
import unittest

import bed
import processes
from bridge import Bridge
from capture import KERNEL
from network import BridgedPair

PORT = 5201
BYTES = 2 << 20
TIMEOUT_S = 60
KERNEL_LEFT = bed.LYRE
ROUGH = {"delay_us": 200, "loss_ppm": 10_000, "reorder_ppm": 20_000, "reorder_us": 500,
         "duplicate_ppm": 10_000}


def transfer(test, server, client, address):
    """BYTES each way at once; `server` and `client` are (command, environment)."""
    command, environment = server
    serving = processes.start(command, env=environment, text=True, stdout=-1, stderr=-1)
    try:
        test.assertIn("listening", serving.stderr.readline())
        command, environment = client
        asked = processes.run(command, TIMEOUT_S, env=environment, capture_output=True)
        test.assertEqual((asked.returncode, asked.stderr), (0, ""))
        out, said = serving.communicate(timeout=TIMEOUT_S)
        test.assertEqual((serving.returncode, said), (0, ""))
    finally:
        processes.end(serving)
        serving.stdout.close()
        serving.stderr.close()
    here, there = json.loads(asked.stdout), json.loads(out)
    test.assertEqual(here["sent"]["sha256"], there["received"]["sha256"])
    test.assertEqual(here["received"]["sha256"], there["sent"]["sha256"])
    test.assertEqual(there["received"]["bytes"], BYTES)


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
            transfer(self,
                     (wire.inside(wire.right, lyre, *server_arguments(), "--kernel"), None),
                     (wire.inside(wire.left, lyre, *client_arguments(KERNEL), "--kernel"), None),
                     KERNEL)
        self.check_counters(bridge.counters)

    def test_lyre_with_a_kernel(self):
        wire = BridgedPair(bed.OFFLOADS)
        with bed.Bed(wire) as host:
            with Bridge(bed.options.build, wire, ROUGH, ROUGH, seed=2) as bridge:
                transfer(self, host.by_kernel(*server_arguments()),
                         host.by_lyre(*client_arguments(KERNEL)), KERNEL)
                transfer(self, host.by_lyre(*server_arguments()),
                         host.by_kernel(*client_arguments(bed.LYRE)), bed.LYRE)
        self.check_counters(bridge.counters)


if __name__ == "__main__":
    bed.main()
