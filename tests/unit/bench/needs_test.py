#!/usr/bin/env python3
"""tests/bench/needs.py: what a machine lacks is named before the first measurement."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BENCH = os.path.join(ROOT, "tests", "bench")
sys.path.insert(0, BENCH)

import needs

ALL = ["engine", "bulk, MTU 1500", "idle"]


def without(*absent):
    return lambda command: None if command in absent else f"/usr/bin/{command}"


class Needs(unittest.TestCase):
    def test_a_complete_machine_lacks_nothing(self):
        self.assertIsNone(needs.missing(ALL, without(), uid=0))

    def test_the_packages_to_install_are_named(self):
        self.assertEqual(needs.missing(ALL, without("ping", "valgrind"), uid=0),
                         "ping, valgrind not found: apt-get install iputils-ping valgrind")

    def test_only_the_chosen_groups_count(self):
        self.assertIsNone(needs.missing(["engine"], without("ping", "ip"), uid=1000))
        self.assertIsNone(needs.missing(["bulk, MTU 1500"], without("ping", "valgrind"), uid=0))

    def test_root_is_asked_for(self):
        self.assertIn("root", needs.missing(["idle"], without(), uid=1000))

    def test_services_need_groups_of_the_scheduler(self):
        self.assertIn("sysctl kernel.sched_autogroup_enabled=1",
                      needs.missing(["as services"], without(), 0, grouped=lambda: False))
        self.assertIsNone(needs.missing(["as services"], without(), 0, grouped=lambda: True))
        self.assertIsNone(needs.missing(["beside"], without(), 0, grouped=lambda: False))

    def test_a_kernel_without_such_groups_measures_the_rest(self):
        self.assertIsNone(needs.session_groups("/proc/no-such-setting"))
        self.assertIsNone(needs.missing(["as services"], without(), 0, grouped=lambda: None))

    def test_the_benchmark_ends_before_it_measures(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("daemon/lyred", "tools/lyre/lyre"):
                path = os.path.join(folder, program)
                os.makedirs(os.path.dirname(path))
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\nexit 1\n")
                os.chmod(path, 0o755)
            out = os.path.join(folder, "bench.json")
            done = subprocess.run([sys.executable, os.path.join(BENCH, "bench.py"), "--build",
                                   folder, "--out", out], env={"PATH": "/nonexistent"},
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("bench: ethtool, ip, nsenter, ping, taskset, valgrind not found",
                          done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main()
