#!/usr/bin/env python3
"""tests/support/check.py and network.py: a run that is cut short does not pass, and a busy machine
is no reason to skip a test."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import check
import network

BUILD = check.Build("normal")
# No process has it: the kernel's largest is 4194304 (pid_max).
DEAD = 99999999


GTEST_ALL_SKIPPED = """\
[ RUN      ] Io/IoContract.BothDirectionsWork/pci
io_contract.h:41: Skipped
no two NICs
[  SKIPPED ] Io/IoContract.BothDirectionsWork/pci (0 ms)
[==========] 1 test from 1 test suite ran. (0 ms total)
[  PASSED  ] 0 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Io/IoContract.BothDirectionsWork/pci
"""


def line(name, result="OK", **said):
    return json.dumps({"name": f"lyre:unit / {name}", "result": result, "duration": 0.1,
                       **said}) + "\n"


def output_of(cases, verbosity):
    """What unittest writes of these classes to stderr."""
    said = io.StringIO()
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    unittest.TextTestRunner(said, verbosity=verbosity).run(unittest.TestSuite(map(load, cases)))
    return said.getvalue()


class Counts(unittest.TestCase):
    def count(self, text, wanted, status=0):
        """What is counted, and what is printed, of a log with that text."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "meson-logs"))
            with open(os.path.join(folder, "meson-logs", "testlog.json"), "w",
                      encoding="utf-8") as log:
                log.write(text)
            count, said = check.Count(), io.StringIO()
            with contextlib.redirect_stdout(said):
                check.count_results(BUILD, folder, count, wanted, status)
        return count, said.getvalue()

    def test_all_tests_passed(self):
        count, _ = self.count(line("a") + line("b", "SKIP"), ["a", "b"])
        self.assertEqual(count.line(), "1 passed, 0 failed, 1 skipped")

    def test_a_test_without_a_result_has_failed(self):
        count, said = self.count(line("a"), ["a", "b", "c"])
        self.assertEqual(count.line(), "1 passed, 2 failed")
        self.assertIn("FAILED: normal: c has no result", said)

    def test_half_a_line_is_no_result(self):
        count, _ = self.count(line("a") + line("b")[:20], ["a", "b"])
        self.assertEqual(count.line(), "1 passed, 1 failed")

    def test_two_tests_of_a_name_need_two_results(self):
        self.assertEqual(self.count(line("a"), ["a", "a"])[0].line(), "1 passed, 1 failed")

    def test_a_status_that_no_test_explains_is_a_failure(self):
        count, said = self.count(line("a"), ["a"], status=-9)
        self.assertEqual(count.line(), "1 passed, 1 failed")
        self.assertIn("status -9", said)

    def test_a_status_that_a_test_explains_is_counted_once(self):
        self.assertEqual(self.count(line("a") + line("b", "TIMEOUT"), ["a", "b"], 1)[0].line(),
                         "1 passed, 1 failed")

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.count("", [])[0].line(), "0 passed, 1 failed")


    def test_a_program_that_skipped_all_of_its_tests_is_skipped(self):
        count, _ = self.count(line("a") + line("b", stdout=GTEST_ALL_SKIPPED), ["a", "b"])
        self.assertEqual(count.line(), "1 passed, 0 failed, 1 skipped")
        self.assertEqual(count.reasons,
                         ["skipped: normal: lyre:unit / b: all tests (1): no two NICs"])

    def test_a_program_that_skipped_some_of_its_tests_has_passed_and_is_listed(self):
        said = output_of([Skips.Passes, Skips.SkippedTests], verbosity=2)
        count, _ = self.count(line("a") + line("b", stderr=said), ["a", "b"])
        self.assertEqual(count.line(), "2 passed, 0 failed, 1 skipped")
        self.assertEqual(count.reasons, ["skipped: normal: lyre:unit / b: 2 tests: needs 'root'; "
                                         "needs a GPU"])

    def test_a_failure_stays_one_whatever_was_skipped(self):
        count, _ = self.count(line("a", "FAIL", stdout=GTEST_ALL_SKIPPED), ["a"], status=1)
        self.assertEqual(count.line(), "0 passed, 1 failed")


class Skips(unittest.TestCase):
    """A program that skips tests ends as one whose tests passed."""

    class SkippedTests(unittest.TestCase):
        def test_one(self):
            """With a description."""
            self.skipTest("needs 'root'")

        @unittest.skip("needs a GPU")
        def test_two(self):
            pass

    class SkippedClass(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            raise unittest.SkipTest("needs strace")

        def test_one(self):
            pass

    class Passes(unittest.TestCase):
        def test_one(self):
            pass

    class SkippedSubtests(unittest.TestCase):
        def test_one(self):
            for number in range(2):
                with self.subTest(number=number):
                    self.skipTest("needs hugepages")

    def skip_of(self, *cases, verbosity=2):
        return check.skip_of_all({"stderr": output_of(cases, verbosity)})

    def test_unittest_names_the_first_reason(self):
        self.assertEqual(self.skip_of(self.SkippedTests), "all tests (2): needs 'root'")

    def test_unittest_that_is_not_verbose_gives_no_reason(self):
        self.assertEqual(self.skip_of(self.SkippedTests, verbosity=1), "all tests (2)")

    @unittest.skipIf(sys.version_info >= (3, 12), "unittest then fails: no tests ran")
    def test_a_class_may_be_skipped_as_a_whole(self):
        self.assertEqual(self.skip_of(self.SkippedClass), "all tests (1): needs strace")

    def test_one_test_that_ran_is_enough(self):
        for verbosity in (1, 2):
            for skipped in (self.SkippedTests, self.SkippedClass, self.SkippedSubtests):
                with self.subTest(skipped=skipped, verbosity=verbosity):
                    self.assertIsNone(self.skip_of(self.Passes, skipped, verbosity=verbosity))

    def some_of(self, *cases, verbosity=2):
        return check.skips_of_some({"stderr": output_of(cases, verbosity)})

    def test_unittest_names_what_some_tests_lack(self):
        self.assertIsNone(self.some_of(self.Passes))
        self.assertRegex(self.some_of(self.Passes, self.SkippedClass), r"SkippedClass\S*: needs ")
        self.assertEqual(self.some_of(self.Passes, self.SkippedSubtests),
                         "2 tests: needs hugepages")

    def test_unittest_that_is_not_verbose_tells_how_many(self):
        self.assertEqual(self.some_of(self.Passes, self.SkippedTests, verbosity=1),
                         "2 tests: no reason given")

    def test_googletest_ran_a_test(self):
        text = GTEST_ALL_SKIPPED.replace("PASSED  ] 0 tests.", "PASSED  ] 1 test.")
        self.assertIsNone(check.skip_of_all({"stdout": text}))
        self.assertEqual(check.skips_of_some({"stdout": text}),
                         "Io/IoContract.BothDirectionsWork/pci: no two NICs")
        self.assertIsNone(check.skips_of_some(
            {"stdout": text.replace("no two NICs", "does not apply: no cable")}))
        text = "[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n" + text.replace("no two NICs\n", "")
        self.assertEqual(check.skips_of_some({"stdout": text}),
                         "Io/IoContract.BothDirectionsWork/pci: no reason given")

    def test_googletest_without_a_reason(self):
        text = GTEST_ALL_SKIPPED.replace("no two NICs\n", "")
        self.assertEqual(check.skip_of_all({"stdout": text}), "all tests (1)")

    def test_other_output_says_nothing(self):
        self.assertIsNone(check.skip_of_all({}))
        self.assertIsNone(check.skip_of_all({"stdout": "skipped\n", "stderr": "OK\n"}))


class Arm64(unittest.TestCase):
    """Its script counts by itself, and ends with the same line."""

    def test_what_it_skipped_is_counted_and_named(self):
        count = check.Count()
        reason = "skipped: arm64, 4 KiB: lyre:unit / a: needs root"
        said = f"cross: building\n{reason}\n5 passed, 0 failed, 1 skipped\n"
        self.assertEqual(check.count_arm64(said, count), "5 passed, 0 failed, 1 skipped")
        self.assertEqual(count.line(), "5 passed, 0 failed, 1 skipped")
        self.assertEqual(count.reasons, [reason])

    def test_it_may_skip_nothing(self):
        count = check.Count()
        self.assertEqual(check.count_arm64("5 passed, 0 failed\n", count), "5 passed, 0 failed")
        self.assertEqual(count.line(), "5 passed, 0 failed")

    def test_a_run_without_its_last_line_counts_nothing(self):
        count = check.Count()
        self.assertIsNone(check.count_arm64("skipped: a: needs root\ncross: building\n", count))
        self.assertEqual((count.line(), count.reasons), ("0 passed, 0 failed", []))


class Limits(unittest.TestCase):
    """Three builds whose limits were their own took longer than CI waits."""

    @staticmethod
    def time_left(limit, used):
        with mock.patch.object(check, "STARTED", 0), \
                mock.patch.object(time, "monotonic", return_value=used):
            return check.time_left(limit)

    def test_all_builds_share_one(self):
        self.assertEqual(self.time_left(1800, 0), 1800)
        self.assertEqual(self.time_left(1800, check.RUN_TIMEOUT_S - 100), 100)
        self.assertEqual(self.time_left(1800, 2 * check.RUN_TIMEOUT_S), check.LATE_TIMEOUT_S)

    def test_tests_end_within_what_a_build_has_left_of_it(self):
        with mock.patch.object(check, "configure_and_compile", return_value=True), \
                mock.patch.object(check, "run_tests") as run_tests, \
                mock.patch.object(check, "time_left", return_value=123), \
                contextlib.redirect_stdout(io.StringIO()):
            check.check(BUILD, {}, check.Count())
        self.assertEqual(run_tests.call_args.args[0].timeout_s, 123)


class Networks(unittest.TestCase):
    def test_namespaces_of_processes_that_are_gone_are_left(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in (f"lyre-{DEAD}-l", f"lyre-{os.getpid()}-r", f"lyre-{DEAD}", "lyre-x-l",
                         f"other-{DEAD}-l"):
                os.mkdir(os.path.join(folder, name))
            self.assertEqual(network.left_namespaces(folder), [f"lyre-{DEAD}-l"])
            self.assertEqual(network.left_namespaces(os.path.join(folder, "absent")), [])

    def test_a_namespace_that_cannot_be_removed_decides_nothing(self):
        for error in (subprocess.TimeoutExpired("ip", 60), FileNotFoundError("ip")):
            with mock.patch.object(network, "left_namespaces", return_value=["a", "b"]), \
                    mock.patch.object(network.subprocess, "run", side_effect=error) as run:
                network.remove_left_namespaces()
            self.assertEqual([call.args[0][-1] for call in run.call_args_list], ["a", "b"])

    def test_a_command_that_takes_long_is_no_reason_to_skip(self):
        with mock.patch.object(network, "COMMAND_TIMEOUT_S", 0.01):
            with self.assertRaises(network.CommandTimeout) as caught:
                network._run("sleep", "60")
        self.assertNotIsInstance(caught.exception, network.NetworkError)

    @staticmethod
    def require(done):
        """Whether namespaces are there, on a machine on which each command ends as `done`."""
        network.require_namespaces.cache_clear()
        try:
            with mock.patch.object(network.os, "geteuid", return_value=0), \
                    mock.patch.object(network.subprocess, "run", side_effect=done):
                network.require_namespaces()
        finally:
            network.require_namespaces.cache_clear()

    def test_a_machine_without_namespaces_is_one(self):
        refused = subprocess.CompletedProcess("ip", 1, "", "Operation not permitted")
        for done in (FileNotFoundError("ip"), lambda *_, **__: refused):
            with self.assertRaises(network.NetworkError):
                self.require(done)

    def test_a_machine_that_is_too_slow_for_them_is_none(self):
        with self.assertRaises(network.CommandTimeout):
            self.require(subprocess.TimeoutExpired("ip", 60))

    def test_a_command_that_fails_later_is_none(self):
        for command in ("/nonexistent/ip", "false"):
            with self.assertRaises(network.CommandFailed) as caught:
                network._run(command)
            self.assertNotIsInstance(caught.exception, network.NetworkError)


if __name__ == "__main__":
    unittest.main()
