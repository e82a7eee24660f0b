#!/usr/bin/env python3
"""tests/bench: rows say how far the cores were apart, and rounds may be chosen by it."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("bench", "support")]

from cores_apart import CoresApart, are_near
from record import Row, Table, earlier_rows

PROBE = sys.argv.pop()


TRIES = 20


def may_be_real_time():
    """Whether a child may have a real-time class, as the threads of the probe do."""
    return subprocess.run(["chrt", "-f", "1", "true"], check=False, timeout=10,
                          stderr=subprocess.DEVNULL).returncode == 0


class CoresApartTest(unittest.TestCase):
    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_the_distance_is_measured_while_something_runs(self):
        if not may_be_real_time():
            self.skipTest("needs a real-time class")
        for _ in range(TRIES):  # a busy host may not run both cores at a time
            with CoresApart(PROBE) as apart:
                time.sleep(1)
            if apart.line_ns is not None:
                break
        self.assertGreater(apart.line_ns or 0, 0)

    def test_a_probe_that_cannot_run_spoils_no_round(self):
        with CoresApart("/bin/false") as apart:
            pass
        self.assertIsNone(apart.line_ns)

    def test_every_look_of_a_round_must_be_near(self):
        self.assertTrue(are_near([31, 33], 75))
        self.assertFalse(are_near([31, 165], 75))

    def test_without_a_limit_or_a_look_the_round_counts(self):
        self.assertTrue(are_near([165], None))
        self.assertTrue(are_near([None], 75))


class RowTest(unittest.TestCase):
    def table(self):
        table = Table([])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            kernel = table.add(Row("group", "kernel", "us", [30, 40], "command", line_ns=[31, 165],
                                   lower_is_better=True))
            table.add(Row("group", "lyre", "us", [20, 20], "command", kernel,
                          lower_is_better=True, line_ns=[31, 165]))
        return table, out.getvalue()

    def test_the_row_to_compare_with_says_the_distance(self):
        _, text = self.table()
        self.assertIn("cache line 31, 165 ns", text.splitlines()[2])
        self.assertIn("1.75 (best 1.50) x kernel", text.splitlines()[3])

    def test_a_report_keeps_it(self):
        table, _ = self.table()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            table.write_json(path)
            later = Table([])
            later.keep_others(earlier_rows(path), ["group"])
        self.assertEqual([row.line_ns for row in later.rows], [[31, 165]] * 2)
        self.assertIn("cache line 31, 165 ns", later.figures())


if __name__ == "__main__":
    unittest.main()
