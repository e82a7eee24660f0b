#!/usr/bin/env python3
"""tests/bench: the part of a driver in the processor time of daemons."""

import os
import shutil
import subprocess
import sys
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("bench", "support")]

from driver_share import DriverShare, share_in

REPORT = """
    43.70%  librte_net_memif.so.23.0
    30.02%  lyred
    20.00%  [kernel.kallsyms]
     6.28%  librte_mempool_ring.so.23.0
"""


def may_sample():
    return shutil.which("perf") is not None and subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"], check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20).returncode == 0


class ShareTest(unittest.TestCase):
    def test_is_that_of_the_driver(self):
        self.assertAlmostEqual(0.437, share_in(REPORT))

    def test_is_nothing_where_only_others_worked(self):
        self.assertEqual(0, share_in("   100.00%  lyred\n"))

    def test_is_unknown_without_samples(self):
        self.assertIsNone(share_in("\n"))
        self.assertIsNone(share_in("Error: no samples\n"))

    def test_is_unknown_without_perf(self):
        with mock.patch.dict(os.environ, PATH="/nonexistent"), DriverShare([os.getpid()]) as driver:
            pass
        self.assertIsNone(driver.share)

    def test_a_process_without_the_driver_has_no_share(self):
        if not may_sample():
            self.skipTest("perf is not installed, or may not sample")
        with DriverShare([os.getpid()]) as driver:
            end = time.process_time() + 2  # perf begins within a part of that
            while time.process_time() < end:
                pass
        self.assertEqual(0, driver.share)


if __name__ == "__main__":
    unittest.main()
