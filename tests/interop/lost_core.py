#!/usr/bin/env python3
"""A worker whose core leaves the cpuset of its daemon's cgroup, and comes back."""

import os
import time
import unittest

import bed
from several_workers import worker_threads

TIMEOUT_S = 60
LOOK_S = 0.05
# Where the cpuset controller is: by itself (cgroup v1), or with all others.
ROOTS = "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"


class Cpuset:
    """A cgroup with cores of its own, inside a `with` block, at whose end its processes are gone.

    Skips the test where none can be made.
    """

    def __enter__(self):
        for root in ROOTS:
            self._folder = f"{root}/lyre-test-{os.getpid()}"
            try:
                os.mkdir(self._folder)
            except OSError:
                continue
            if self._has_cores(root):
                return self
            os.rmdir(self._folder)
        raise unittest.SkipTest(f"no cgroup with a cpuset can be made in {' or '.join(ROOTS)} "
                                "(cgroup v2: cpuset has to be in cgroup.subtree_control there)")

    def __exit__(self, *_exception):
        os.rmdir(self._folder)

    def _has_cores(self, root):
        try:
            self._take_memory_of(root)
        except OSError:
            return False
        return os.path.exists(f"{self._folder}/cpuset.cpus")

    def _take_memory_of(self, root):
        """A new group has no memory nodes in cgroup v1, and those of its parent in v2."""
        if os.path.exists(f"{root}/cpuset.mems"):
            with open(f"{root}/cpuset.mems", encoding="ascii") as file:
                self._write("cpuset.mems", file.read())

    def _write(self, name, value):
        with open(f"{self._folder}/{name}", "w", encoding="ascii") as file:
            file.write(value)

    def allow(self, cores):
        self._write("cpuset.cpus", ",".join(map(str, sorted(cores))))

    def add(self, process):
        self._write("cgroup.procs", str(process))


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one core only")
class LostCore(unittest.TestCase):
    def setUp(self):
        self.cores = os.sched_getaffinity(0)
        self.cpuset = self.enterContext(Cpuset())
        sections = {"workers": {"leave_busy_cores": False}, "tcp": bed.TIMEOUTS}
        self.daemon = self.enterContext(bed.Bed(sections=sections)).daemon
        # Before the move, after which kernels before 6.2 let threads run on the whole cpuset.
        self.own = self.affinity()
        self.cpuset.allow(self.cores)
        self.cpuset.add(self.daemon.pid)

    def affinity(self):
        (worker,) = worker_threads(self.daemon.pid)
        return os.sched_getaffinity(worker)

    def await_loss(self, is_lost):
        deadline = time.monotonic() + TIMEOUT_S
        while self.daemon.look("status")["workers"][0]["is_core_lost"] != is_lost:
            self.assertLess(time.monotonic(), deadline, f"no change\n{self.daemon.log_tail()}")
            time.sleep(LOOK_S)

    def test_the_loss_is_told_and_the_worker_returns(self):
        self.assertEqual(len(self.own), 1)
        self.cpuset.allow(self.cores - self.own)
        self.await_loss(True)
        self.assertEqual(self.affinity(), self.cores - self.own)
        (core,) = self.own
        self.assertIn(f"worker 0: core {core} was taken from the daemon", self.daemon.log_tail())
        self.cpuset.allow(self.cores)
        self.await_loss(False)
        self.assertEqual(self.affinity(), self.own)
        self.assertIn(f"worker 0: pinned to core {core} again", self.daemon.log_tail())


if __name__ == "__main__":
    bed.main()
