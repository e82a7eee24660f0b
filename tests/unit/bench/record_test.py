#!/usr/bin/env python3
"""tests/bench: which rows --only and --keep leave in a report, and when it is written."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("bench", "support", "adapter")]

import bench
import measures
import record
from record import Row, Table, earlier_rows

ORDER = ["bulk", "requests"]


def table_of(only, *rows):
    """Rows are (group, name, value); "one session" stands beside "kernel" where both are there."""
    table = Table(only)
    known = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for group, name, value in rows:
            beside = known.get((group, "kernel")) if name == "one session" else None
            known[group, name] = table.add(Row(group, name, "Gb/s", [value], "command", beside))
    return table


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "bench.json")
        with mock.patch("record.machine", return_value="the first machine"):
            table_of([], ("bulk", "kernel", 10), ("bulk", "one session", 20),
                     ("bulk", "8 sessions", 30), ("requests", "1 session", 40)).write_json(self.out)

    def values(self, rows):
        return [(row.group, row.name, row.median) for row in rows]

    def content(self):
        with open(self.out, encoding="utf-8") as file:
            return file.read()


class KeepTest(ReportTest):
    def keep(self, only, *rows):
        table = table_of(only, *rows)
        table.keep_others(earlier_rows(self.out), ORDER)
        return table.rows

    def test_other_rows_of_the_group_stay_in_their_places(self):
        rows = self.keep(["bulk/one session"], ("bulk", "one session", 25))
        self.assertEqual(self.values(rows), [
            ("bulk", "kernel", 10), ("bulk", "one session", 25), ("bulk", "8 sessions", 30),
            ("requests", "1 session", 40)])

    def test_a_row_keeps_its_comparison(self):
        rows = self.keep(["bulk/one session"], ("bulk", "one session", 25))
        self.assertEqual(rows[1].ratio(), 2.5)
        rows = self.keep(["bulk/kernel"], ("bulk", "kernel", 40))
        self.assertEqual(rows[1].ratio(), 0.5)

    def test_rows_that_a_measured_group_no_longer_has_go(self):
        rows = self.keep(["bulk"], ("bulk", "kernel", 11), ("bulk", "one session", 22))
        self.assertEqual(self.values(rows), [
            ("bulk", "kernel", 11), ("bulk", "one session", 22), ("requests", "1 session", 40)])

    def test_rows_of_a_group_stand_together(self):
        rows = self.keep(["bulk/new"], ("bulk", "new", 1))
        self.assertEqual([row.group for row in rows], ["bulk"] * 4 + ["requests"])

    def test_groups_that_the_benchmark_no_longer_has_are_last(self):
        table = table_of([], ("requests", "1 session", 50))
        table.keep_others(earlier_rows(self.out), ["requests"])
        self.assertEqual([row.group for row in table.rows], ["requests"] + ["bulk"] * 3)

    def test_a_kept_row_names_its_machine(self):
        with mock.patch("record.machine", return_value="the second machine"):
            table = table_of(["requests"], ("requests", "1 session", 50))
        table.keep_others(earlier_rows(self.out), ORDER)
        self.assertEqual([row.where for row in table.rows],
                         ["the first machine"] * 3 + ["the second machine"])
        self.assertIn("on the first machine; the second machine;", table.when_and_where())
        table.write_json(self.out)
        self.assertEqual(earlier_rows(self.out)["bulk", "kernel"].where, "the first machine")

    def test_a_report_of_before_has_one_machine(self):
        report = json.loads(self.content())
        for row in report["rows"]:
            del row["machine"]
        self.assertEqual({row.where for row in record.rows_of(report).values()},
                         {"the first machine"})

    def test_a_report_that_cannot_be_read_is_named(self):
        for text in ("", "[]", '{"rows": [{"group": "bulk"}]}'):
            with open(self.out, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(SystemExit, f"bench: {self.out} is not a report"):
                earlier_rows(self.out)

    def test_without_a_report_nothing_is_kept(self):
        os.unlink(self.out)
        self.assertEqual(earlier_rows(self.out), {})


class WriteTest(ReportTest):
    def test_a_report_that_cannot_be_written_leaves_the_earlier_one(self):
        before = self.content()
        with mock.patch("json.dump", side_effect=OSError("no space")), self.assertRaises(OSError):
            table_of([], ("bulk", "kernel", 1)).write_json(self.out)
        self.assertEqual(self.content(), before)

    def test_what_is_no_file_is_not_replaced(self):
        reading, writing = os.pipe()
        table_of([], ("bulk", "kernel", 1)).write_json(f"/proc/self/fd/{writing}")
        os.close(writing)
        with open(reading, encoding="utf-8") as pipe:
            self.assertEqual(len(json.load(pipe)["rows"]), 1)


class RunTest(ReportTest):
    """Runs of tools/bench with groups of their own."""

    def run_bench(self, *arguments, bulk=lambda up: None):
        with mock.patch.object(sys, "argv", ["bench", "--build", "/", "--out", self.out,
                                             *arguments]), \
                mock.patch.object(bench, "GROUPS", {"bulk": bulk, "requests": lambda up: None}), \
                mock.patch.object(bench, "Programs"), \
                mock.patch.object(bench.processes, "exit_on_signals"), \
                mock.patch.object(bench.needs, "missing", return_value=None), \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            bench.main()
        return said.getvalue()

    def assert_refused(self, code, *arguments, **groups):
        before = self.content()
        with self.assertRaises(SystemExit) as end:
            self.run_bench(*arguments, **groups)
        self.assertRegex(str(end.exception.code), code)
        self.assertEqual(self.content(), before)

    def test_only_must_match_a_group_or_a_row(self):
        self.assert_refused("^2$", "--only", "bulk", "--only", "no such group")

    def test_a_run_without_a_row_fails(self):
        self.assert_refused("^bench: nothing was measured", "--only", "bulk/no such row")

    def test_a_run_that_failed_leaves_the_earlier_report(self):
        def fail(up):
            up.table.add(Row("bulk", "kernel", "Gb/s", [1], "command"))
            raise measures.Failed("the wire broke")
        self.assert_refused("^bench: the wire broke$", "--only", "bulk", "--keep", bulk=fail)

    def test_a_run_that_succeeded_is_written(self):
        self.run_bench("--only", "bulk/kernel", "--keep", bulk=lambda up: up.table.add(
            Row("bulk", "kernel", "Gb/s", [1], "command")))
        self.assertEqual([row.median for row in earlier_rows(self.out).values()], [1, 20, 30, 40])


class HeadlinesTest(unittest.TestCase):
    def test_who_shows_a_blocking_kernel_client_shows_a_spinning_one(self):
        blocking = [(group, name) for group, name in record.HEADLINES if "blocking" in group]
        self.assertTrue(blocking)
        for group, name in blocking:
            for idle in ("adaptive", "busy"):  # on few cores, and on more
                spinning = group.replace("adaptive", idle).replace("blocking", "spinning")
                self.assertIn((spinning, name), record.HEADLINES)

    def test_a_spinning_kernel_client_is_shown_with_its_slowest_round_trips(self):
        spinning = {group for group, _ in record.HEADLINES if "spinning" in group}
        for group in spinning:
            self.assertIn((group, "64 B, p999"), record.HEADLINES)


class OnlyTest(unittest.TestCase):
    def test_names_that_can_be_a_row_are_known(self):
        groups = ["bulk, MTU 1500", "beside"]
        names = ["bulk", "bulk, MTU 1500/one session", "bulk/x", "beside one computing process"]
        self.assertEqual(Table(names).unknown(groups), [])
        self.assertEqual(Table([*names, "bulky", "MTU 1500"]).unknown(groups),
                         ["bulky", "MTU 1500"])


if __name__ == "__main__":
    unittest.main()
