#!/usr/bin/env python3
"""tests/bench: the part of a driver in the processor time of daemons."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("bench", "support")]

import driver_share
from driver_share import DriverShare, share_in

REPORT = """
    43.70%  librte_net_memif.so.23.0
    30.02%  lyred
    20.00%  [kernel.kallsyms]
     6.28%  librte_mempool_ring.so.23.0
"""


class ShareTest(unittest.TestCase):
    def test_is_that_of_the_driver(self):
        self.assertAlmostEqual(0.437, share_in(REPORT))

    def test_is_nothing_where_only_others_worked(self):
        self.assertEqual(0, share_in("   100.00%  lyred\n"))

    def test_is_unknown_without_samples(self):
        self.assertIsNone(share_in("\n"))
        self.assertIsNone(share_in("Error: no samples\n"))

    def test_is_unknown_without_perf(self):
        path = os.environ["PATH"]
        os.environ["PATH"] = "/nonexistent"
        try:
            with DriverShare([os.getpid()]) as driver:
                pass
        finally:
            os.environ["PATH"] = path
        self.assertIsNone(driver.share)

    def test_a_process_without_the_driver_has_no_share(self):
        if driver_share.shutil.which("perf") is None:
            self.skipTest("no perf")
        with DriverShare([os.getpid()]) as driver:
            sum(range(3_000_000))
        self.assertIn(driver.share, (0, None))  # None: perf may not sample here


if __name__ == "__main__":
    unittest.main()
