#!/usr/bin/env python3
"""tests/support/two_hosts.py: tests of super-packets on a DPDK whose memif has none."""

import os
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from two_hosts import need_super_packets, super_packets_refusal

REFUSAL = "no super-packets: the memif driver of DPDK 23.11.0 merges packets of several segments"
LINE = f"lyred.toml:9: port.device: net_memif0: {REFUSAL}"
RIGHT = "lyred.toml: right"


class SuperPackets(unittest.TestCase):
    def programs(self, said):
        """A lyred that says this where it is asked to check super-packets."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        lyred = os.path.join(folder, "lyred")
        with open(lyred, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n[ "$1" = --check ] && grep -q "super_packets = true" "$3" &&\n'
                       f'  echo "{said}" >&2\n')
        os.chmod(lyred, 0o700)
        return types.SimpleNamespace(lyred=lyred, lyre="lyre")

    def test_a_test_is_skipped_where_they_are_refused(self):
        programs = self.programs(LINE)
        self.assertEqual(super_packets_refusal(programs), REFUSAL)
        with self.assertRaisesRegex(unittest.SkipTest, f"^{REFUSAL}$"):
            need_super_packets(self, programs)

    def test_a_test_runs_where_they_are_not(self):
        programs = self.programs(RIGHT)
        self.assertIsNone(super_packets_refusal(programs))
        need_super_packets(self, programs)


if __name__ == "__main__":
    unittest.main()
