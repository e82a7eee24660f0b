#!/usr/bin/env python3
"""Bulk transfers between Lyre and Linux TCP, opened by either side: hashes and packets."""

import unittest

import bed
import transfer

PORT = 5201
# Far below the throughput of the slowest machine: the limit only ends a transfer that hangs.
BYTES_PER_SECOND_MIN = 4 << 20
# Of one packet at MTU 1500.
PAYLOAD_BYTES_MAX = 1460  # of IPv4, the larger of the two
SPURIOUS = "[TCP Spurious Retransmission]"


class BulkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = bed.Bed()
        cls.enterClassContext(cls.bed)

    def exchange(self, name, server, client, server_address, direction):
        """`server` and `client` make command lines."""
        # One direction at a time is not enough: the other side would only acknowledge.
        count = bed.options.mib << (20 if direction == "both" else 17)
        capture = self.bed.capture(name, 2 * count >> 20)
        asking = ("perf", "client", bed.endpoint(server_address, PORT), "--bytes", str(count),
                  "--direction", direction, "--verify", "--json")
        with capture:
            asked, served = transfer.run(
                server("perf", "server", "--listen", f":{PORT}", "--once", "--json"),
                client(*asking), 30 + count // BYTES_PER_SECOND_MIN)
        transfer.check_sides(asked, served, count)
        self.assertGreater(capture.packets(), count // PAYLOAD_BYTES_MAX)
        self.check(name, capture)
        for flow in ("sent", "received"):
            if flow in asked:
                rate = asked[flow]["bits_per_s"] / 1e9
                print(f"{name}: client {flow} {count} bytes at {rate:.2f} Gb/s", flush=True)

    def check(self, name, capture):
        """On a busy machine either side's timers may end before an acknowledgement is seen. What a
        sender knew to be acknowledged it does not send again, on any machine."""
        faults = capture.faults()
        self.assertEqual([fault for fault in faults if SPURIOUS not in fault], [])
        if faults:
            print(f"{name}: {len(faults)} spurious retransmissions:", *faults[:5], sep="\n")
            self.assertEqual(capture.needless_retransmissions(), [])

    def test_lyre_connects_and_sends(self):
        self.exchange("lyre-tx", self.bed.by_kernel, self.bed.by_lyre, bed.kernel(), "tx")

    def test_lyre_connects_and_receives(self):
        self.exchange("lyre-rx", self.bed.by_kernel, self.bed.by_lyre, bed.kernel(), "rx")

    def test_kernel_connects_and_sends(self):
        self.exchange("kernel-tx", self.bed.by_lyre, self.bed.by_kernel, bed.lyre(), "tx")

    def test_kernel_connects_and_receives(self):
        self.exchange("kernel-rx", self.bed.by_lyre, self.bed.by_kernel, bed.lyre(), "rx")

    def test_lyre_connects_and_both_send(self):
        self.exchange("lyre-both", self.bed.by_kernel, self.bed.by_lyre, bed.kernel(), "both")

    def test_kernel_connects_and_both_send(self):
        self.exchange("kernel-both", self.bed.by_lyre, self.bed.by_kernel, bed.lyre(), "both")


if __name__ == "__main__":
    bed.main()
