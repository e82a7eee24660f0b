#!/usr/bin/env python3
"""Lyre and Linux TCP exchange many bytes, whoever connects: equal hashes, a clean wire."""

import json
import unittest

import bed
import processes

PORT = 5201
START_TIMEOUT_S = 20
# A floor far below what the slowest machine does: it ends what hangs.
BYTES_PER_SECOND_MIN = 4 << 20
# Of one packet at MTU 1500.
PAYLOAD_BYTES_MAX = 1460  # of IPv4, the larger of the two
# A busy machine may hold a process up for longer than the round trip by which either side times its
# tail loss probes. What is wrong with the protocol shows every time.
ATTEMPTS_MAX = 3
SPURIOUS = "[TCP Spurious Retransmission]"


class BulkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = bed.Bed()
        cls.enterClassContext(cls.bed)

    def transfer(self, server, client, server_address, direction, count):
        """Both sides' reports of one transfer. `server` and `client` make command lines."""
        timeout_s = 30 + count // BYTES_PER_SECOND_MIN
        command, environment = server("perf", "server", "--listen", f":{PORT}", "--once", "--json")
        serving = processes.start(command, env=environment, text=True, stdout=-1, stderr=-1)
        try:
            self.assertIn("listening", serving.stderr.readline())
            command, environment = client(
                "perf", "client", bed.endpoint(server_address, PORT), "--bytes", str(count),
                "--direction", direction, "--verify", "--json")
            asked = processes.run(command, timeout_s, env=environment, capture_output=True)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""))
            out, errors = serving.communicate(timeout=timeout_s)
            self.assertEqual((serving.returncode, errors), (0, ""))
        finally:
            processes.end(serving)
            serving.stdout.close()
            serving.stderr.close()
        return json.loads(out), json.loads(asked.stdout)

    def check_sides(self, here, there, count):
        """What one side sent is what the other received, byte for byte and hash for hash."""
        for flow in ("sent", "received"):
            mirror = {"sent": "received", "received": "sent"}[flow]
            self.assertEqual(flow in here, mirror in there)
            if flow not in here:
                continue
            self.assertEqual(here[flow]["bytes"], count)
            self.assertTrue(here[flow]["intact"] and here[flow]["sha256_equal"])
            self.assertEqual(here[flow]["sha256"], there[mirror]["sha256"])

    def exchange(self, name, server, client, server_address, direction):
        # One way alone is the lesser half of the matter: the other side only acknowledges.
        count = bed.options.mib << (20 if direction == "both" else 17)
        for _ in range(ATTEMPTS_MAX):
            capture = self.bed.capture(name, 2 * count >> 20)
            with capture:
                served, asked = self.transfer(server, client, server_address, direction, count)
            self.check_sides(asked, served, count)
            self.assertGreater(capture.packets(), count // PAYLOAD_BYTES_MAX)
            faults = capture.faults()
            self.assertEqual([fault for fault in faults if SPURIOUS not in fault], [])
            for flow in ("sent", "received"):
                if flow in asked:
                    print(f"{name}: client {flow} {count} bytes at {asked[flow]['gbps']:.2f} Gb/s",
                          flush=True)
            if not faults:
                return
            print(f"{name}: {len(faults)} spurious retransmissions:", *faults[:5], sep="\n")
        self.fail(f"spurious retransmissions in each of {ATTEMPTS_MAX} transfers")

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
