#!/usr/bin/env python3
"""Daemons whose workers never sleep, sleep in every gap, or may stay awake in gaps.

Whether they stay awake there is up to tests/unit/daemon/workers/idle_policy_test.cc: the messages
here are too few for a job's (ShortGaps::kWorthwhile).
"""

import time
import unittest

import bed
import transfer

PORT = 5201
BYTES = 4 << 20
TIMEOUT_S = 120
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
        serving = ("perf", "server", "--listen", f":{PORT}", "--once", "--json")
        asking = ("perf", "client", bed.endpoint(bed.kernel(), PORT), "--json")
        here, there = transfer.run(
            host.by_kernel(*serving),
            host.by_lyre(*asking, "--bytes", str(BYTES), "--direction", "both", "--verify"),
            TIMEOUT_S)
        transfer.check_sides(here, there, BYTES)
        transfer.run(host.by_kernel(*serving),
                     host.by_lyre(*asking, "--ping-pong", "--count", str(GAPS), "--interval",
                                  str(GAP_S)), TIMEOUT_S)

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

    def test_a_worker_that_may_stay_awake_serves_and_sleeps_at_rest(self):
        host = self.start("adaptive", awake_ms=1000)
        self.work(host)
        self.await_growth(host, "sleeps")


if __name__ == "__main__":
    bed.main()
