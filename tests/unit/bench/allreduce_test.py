#!/usr/bin/env python3
"""tests/bench/allreduce.py: jobs as services, and the names of the rows."""

import contextlib
import io
import os
import sys
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("bench", "support")]

import allreduce
import measures
import processes
from record import with_current_names

SAYS_ITS_SESSION = [sys.executable, "-c", "import os; print(os.getsid(0))"]
HOST = types.SimpleNamespace(socket="/run/lyred.sock")
HOSTS = types.SimpleNamespace(a=HOST, b=HOST)
WIRE = types.SimpleNamespace(left="left", right="right")


class Started(allreduce.Job):
    """A Job without hosts: what it runs, and the session that this has."""

    def __enter__(self):
        done = processes.run(SAYS_ITS_SESSION, 20, capture_output=True)
        return self._command(HOSTS, WIRE), int(done.stdout)


class ServicesTest(unittest.TestCase):
    def test_launcher_and_ranks_have_sessions_of_their_own(self):
        bench = types.SimpleNamespace(programs=types.SimpleNamespace(lyre="lyre"))
        with mock.patch.object(allreduce, "Job", Started), \
                allreduce.service_job(bench, [8], iterations=1) as (command, session):
            pass
        self.assertIn("--setsid", command)
        self.assertNotEqual(session, os.getsid(0))


class UncutTest(unittest.TestCase):
    def test_no_row_where_memif_has_no_super_packets(self):
        said = io.StringIO()
        with mock.patch.object(measures, "super_packets_refusal", lambda _: "refused by DPDK"), \
                mock.patch.object(allreduce, "Job") as job, contextlib.redirect_stdout(said):
            allreduce.large_uncut(types.SimpleNamespace(programs=None))
        job.assert_not_called()
        self.assertIn("refused by DPDK", said.getvalue())


class NamesTest(unittest.TestCase):
    def test_a_row_of_an_older_report_has_the_new_name(self):
        entry = {"group": "processor seconds a GiB", "name": "alone, without memif's driver",
                 "beside": "kernel's best, alone"}
        new = with_current_names(entry)
        self.assertEqual(new["name"], "alone, without memif's whole driver")
        self.assertEqual(with_current_names(new), new)


if __name__ == "__main__":
    unittest.main()
