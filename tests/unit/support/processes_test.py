#!/usr/bin/env python3
"""tests/support/processes.py: sessions and lines of child processes."""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import processes

SAYS_ITS_SESSION = [sys.executable, "-c", "import os; print(os.getsid(0))"]
PATIENCE_S = 20


def session_of_run():
    return int(processes.run(SAYS_ITS_SESSION, PATIENCE_S, capture_output=True).stdout)


def session_of_start():
    with processes.start(SAYS_ITS_SESSION, stdout=subprocess.PIPE, text=True) as process:
        return int(process.communicate(timeout=PATIENCE_S)[0])


class Sessions(unittest.TestCase):
    def test_a_service_has_one_of_its_own(self):
        with processes.as_services():
            sessions = [session_of_run(), session_of_start(), session_of_run()]
        self.assertEqual(len({os.getsid(0), *sessions}), 4)

    def test_others_are_in_that_of_the_caller(self):
        with processes.as_services():
            pass
        self.assertEqual([session_of_run(), session_of_start()], [os.getsid(0)] * 2)

    def test_a_caller_may_decide(self):
        with processes.as_services():
            done = processes.run(SAYS_ITS_SESSION, PATIENCE_S, capture_output=True, text=False,
                                 start_new_session=False)
        self.assertEqual(int(done.stdout), os.getsid(0))
        self.assertIsInstance(done.stdout, bytes)


class Lines(unittest.TestCase):
    @staticmethod
    def shell(script, **pipes):
        return processes.start(["sh", "-c", script], **pipes)

    def test_each_is_read_once_and_the_rest_is_left(self):
        with self.shell("printf 'one\\ntwo\\nrest'", stdout=subprocess.PIPE, text=True) as process:
            lines = [processes.read_line(process, PATIENCE_S, process.stdout) for _ in range(2)]
            self.assertEqual(lines, ["one\n", "two\n"])
            self.assertEqual(process.communicate(timeout=PATIENCE_S)[0], "rest")

    def test_stderr_is_the_default_and_its_end_is_told(self):
        with self.shell("printf half >&2", stderr=subprocess.PIPE) as process:
            lines = [processes.read_line(process, PATIENCE_S) for _ in range(2)]
            self.assertEqual(lines, ["half", ""])

    def test_one_that_does_not_come_names_the_command(self):
        with self.shell("printf half >&2; read it", stdin=subprocess.PIPE,
                        stderr=subprocess.PIPE) as process:
            with self.assertRaisesRegex(processes.NoLine, "read it.* no line within 0.2 s"):
                processes.read_line(process, 0.2)
            self.assertIsNotNone(process.poll(), "it is ended")
            process.stdin.close()

    def test_those_that_nobody_wants_are_forgotten(self):
        with self.shell("printf 'old\\nold\\n'; read it; echo new; read it", text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertEqual(processes.read_line(process, PATIENCE_S, process.stdout), "old\n")
            processes.forget_lines(process.stdout)
            self.assertIsNone(process.poll())
            process.stdin.write("go\n")
            process.stdin.flush()
            self.assertEqual(processes.read_line(process, PATIENCE_S, process.stdout), "new\n")


if __name__ == "__main__":
    unittest.main()
