#!/usr/bin/env python3
"""tests/bench/measures.py: the cores of clients, who runs beside the kernel, what a rate is."""

import contextlib
import io
import os
import sys
import unittest
from types import SimpleNamespace
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("bench", "support", "adapter")]

import measures
from record import Table
from two_hosts import cores

MANY_CORES = 64
REPORT = {"p50_ns": 1000, "p99_ns": 2000, "p999_ns": 3000, "mean_ns": 1500, "requests_per_s": 42}


def with_cores(count):
    """What this process may use; the machine has more."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.multiple(os, sched_getaffinity=lambda pid: set(range(count)),
                                            cpu_count=lambda: MANY_CORES))
    stack.enter_context(mock.patch.object(measures, "siblings", lambda core: {core}))
    return stack


class FakeHosts:
    """Two daemons that note whether they run, and how."""

    running = None

    def __init__(self, programs, sections=None):
        self.a = self.b = SimpleNamespace(lyre=lambda: (["lyre"], {}))
        self._idle = (sections or {}).get("workers", {}).get("idle", "adaptive")

    def __enter__(self):
        FakeHosts.running = self._idle
        return self

    def __exit__(self, *_exception):
        FakeHosts.running = None


class FakeWire:
    left, right = "left", "right"

    @staticmethod
    def inside(name, *command):
        return ["inside", name, *command]


def core_of(command):
    return int(command[command.index("-c") + 1])


class MeasuresTest(unittest.TestCase):
    def measure(self, count, group):
        """Runs the group on as many cores. Returns the rows, and by `kernel` for each run its
        cores, its options, and which daemons ran."""
        runs = {True: [], False: []}

        def run(side, arguments, server_options=()):
            if arguments != measures.WARM_UP:
                runs["--kernel" in side.options].append(SimpleNamespace(
                    cores=(core_of(side.server[0]), core_of(side.client[0])),
                    spins="--spin" in arguments and "--spin" in server_options,
                    beside=FakeHosts.running))
            return {"ping_pong": REPORT}
        bench = SimpleNamespace(programs=SimpleNamespace(lyre="lyre"), rounds=2, seconds=1,
                                program=lambda name: name, table=Table([]))
        with with_cores(count), mock.patch.object(measures, "TwoHosts", FakeHosts), \
                mock.patch.object(measures, "kernel_wire",
                                  lambda *_: contextlib.nullcontext(FakeWire)), \
                mock.patch.object(measures.Side, "run", run), \
                mock.patch.object(measures, "line_ns_now", lambda _: 30), \
                contextlib.redirect_stdout(io.StringIO()):
            group(bench)
        return bench.table.rows, runs


class CoresTest(unittest.TestCase):
    def test_clients_have_cores_of_their_own_where_there_are_four(self):
        for count, of_daemons, of_clients in ((2, (0, 1), (0, 1)), (3, (0, 2), (0, 2)),
                                              (4, (0, 3), (1, 2)), (16, (0, 15), (1, 14))):
            with self.subTest(count), with_cores(count):
                self.assertEqual((cores(), measures.client_cores()), (of_daemons, of_clients))

    def test_threads_of_one_core_are_not_two(self):
        for count, of_clients in ((4, (0, 3)), (8, (2, 4))):
            with self.subTest(count), with_cores(count), mock.patch.object(
                    measures, "siblings", lambda core: {core // 2 * 2, core // 2 * 2 + 1}):
                self.assertEqual(measures.client_cores(), of_clients)


class RoundTripsTest(MeasuresTest):
    def test_both_sides_have_the_same_cores(self):
        for count, of_clients in ((2, (0, 1)), (3, (0, 2)), (4, (1, 2)), (16, (1, 14))):
            with self.subTest(count):
                _, runs = self.measure(count, measures.latency)
                for side in runs.values():
                    self.assertEqual({run.cores for run in side}, {of_clients})

    def test_no_daemon_runs_beside_the_kernel(self):
        for count in (2, 4):
            _, runs = self.measure(count, measures.latency)
            self.assertEqual({run.beside for run in runs[True]}, {None})
            self.assertNotIn(None, {run.beside for run in runs[False]})

    def test_lyre_spins_where_all_have_a_core(self):
        for count, modes in ((3, {("adaptive", False)}),
                             (4, {("adaptive", False), ("busy", True)})):
            with self.subTest(count):
                _, runs = self.measure(count, measures.latency)
                self.assertEqual({(run.beside, run.spins) for run in runs[False]}, modes)
                self.assertEqual({run.spins for run in runs[True]}, {False, True})

    def test_a_row_of_lyre_stands_beside_that_of_the_kernel(self):
        rows, _ = self.measure(4, measures.latency)
        row = next(row for row in rows if row.name == "64 B, p999" and "busy" in row.group)
        self.assertEqual((row.values, row.beside.name), ([3, 3], "kernel, 64 B, p999"))
        self.assertIn("--kernel", row.beside.command)
        self.assertNotIn("--kernel", row.command)


class RequestsTest(MeasuresTest):
    def test_a_rate_is_what_was_carried_in_a_second(self):
        rows, _ = self.measure(2, measures.requests)
        self.assertEqual({(row.name, row.median) for row in rows},
                         {(f"{side}{count}, by elapsed time", 42)
                          for count in ("1 session", "1000 sessions")
                          for side in ("", "kernel, ")})


if __name__ == "__main__":
    unittest.main()
