#!/usr/bin/env python3
"""Daemons whose workers never sleep, sleep in every gap, or may stay awake in gaps.

Whether they stay awake there is up to tests/unit/daemon/workers/idle_policy_test.cc: the messages
here are too few for a job's (ShortGaps::kWorthwhile).
"""

import concurrent.futures
import contextlib
import os
import sys
import time
import unittest

import bed
import processes
import transfer

PORT = 5201
BYTES = 4 << 20
# Takes longer than BusyCore::kLongMin.
LONG_BYTES = 64 << 20
TIMEOUT_S = 120
LOOK_S = 0.01  # a worker is at home for as little as 60 ms
# Short enough for awake_ms below, and more than four.
GAPS, GAP_S = 20, 0.02


class IdleModes(unittest.TestCase):
    def start(self, policy, **workers):
        """A bed with these keys of [workers], and what it calls its policy."""
        made = self.enterContext(bed.Bed(sections={"workers": workers, "tcp": bed.TIMEOUTS}))
        self.assertEqual(made.daemon.look("status")["idle_policy"], policy)
        return made

    def work(self, host):
        """Bytes both ways without a pause, then messages with gaps."""
        self.transfer(host, BYTES)
        asking = (*self.asking(), "--ping-pong", "--count", str(GAPS), "--interval", str(GAP_S))
        transfer.run(host.by_kernel(*self.serving()), host.by_lyre(*asking), TIMEOUT_S)

    @staticmethod
    def serving():
        return "perf", "server", "--listen", f":{PORT}", "--once", "--json"

    @staticmethod
    def asking():
        return "perf", "client", bed.endpoint(bed.kernel(), PORT), "--json"

    def transfer(self, host, size):
        asking = (*self.asking(), "--bytes", str(size), "--direction", "both", "--verify")
        here, there = transfer.run(host.by_kernel(*self.serving()), host.by_lyre(*asking),
                                   TIMEOUT_S)
        transfer.check_sides(here, there, size)

    @staticmethod
    def counters(host):
        return host.daemon.look("stats")["workers"][0]["counters"]

    def await_growth(self, host, name):
        before, deadline = self.counters(host)[name], time.monotonic() + TIMEOUT_S
        while self.counters(host)[name] == before:
            self.assertLess(time.monotonic(), deadline, f"{name} stays {before}")

    def test_a_busy_worker_never_sleeps(self):
        host = self.start("busy", idle="busy")
        self.work(host)
        self.await_growth(host, "polls")
        self.assertEqual(self.counters(host)["sleeps"], 0)

    def test_a_worker_that_does_not_stay_awake_sleeps(self):
        host = self.start("adaptive", awake_ms=0)
        self.work(host)
        self.await_growth(host, "sleeps")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one core only")
    def test_a_worker_leaves_the_core_of_a_computing_process_and_returns(self):
        host = self.start("adaptive")
        own = self.cores_of_worker(host)
        self.assertEqual(len(own), 1)
        with self.computing(min(own)):
            self.work_until(host, lambda: self.counters(host)["core_departures"] > 0)
        self.work_until(host, lambda: self.cores_of_worker(host) == own)

    @contextlib.contextmanager
    def computing(self, core):
        process = processes.start(["taskset", "-c", str(core), sys.executable, "-c",
                                   "while True: pass"])
        try:
            yield
        finally:
            processes.end(process)

    def work_until(self, host, is_done):
        """Transfers, one after the other, and looks meanwhile."""
        deadline = time.monotonic() + TIMEOUT_S
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            working = pool.submit(self.transfer, host, LONG_BYTES)
            while not is_done():
                self.assertLess(time.monotonic(), deadline, "nothing changed")
                if working.done():
                    working.result()
                    working = pool.submit(self.transfer, host, LONG_BYTES)
                time.sleep(LOOK_S)
            working.result()

    @staticmethod
    def cores_of_worker(host):
        """On which the thread may run."""
        threads = f"/proc/{host.daemon.pid}/task"
        for thread in os.listdir(threads):
            with open(f"{threads}/{thread}/comm", encoding="ascii") as name:
                if name.read().startswith("lyre-core"):
                    return os.sched_getaffinity(int(thread))
        raise AssertionError("no worker")

    def test_a_worker_that_may_stay_awake_serves_and_sleeps_at_rest(self):
        host = self.start("adaptive", awake_ms=1000)
        self.work(host)
        self.await_growth(host, "sleeps")


if __name__ == "__main__":
    bed.main()
