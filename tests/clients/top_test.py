#!/usr/bin/env python3
"""`lyre top` on a pseudo-terminal, with a daemon: what a person sees on it.

usage: top_test.py BUILD
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from two_hosts import TwoHosts

BOUND_S = 60
NO_DAEMON = 3
LINES, COLUMNS = 24, 80


class Vt52:
    """The screen of a VT52, a terminal with a dozen commands."""

    def __init__(self):
        self._cells = [[" "] * COLUMNS for _ in range(LINES)]
        self._line = self._column = 0
        self._waiting = b""

    def feed(self, data):
        data = self._waiting + data
        at = 0
        while at < len(data):
            length = self._take(data[at:])
            if length == 0:
                break
            at += length
        self._waiting = data[at:]

    def text(self):
        return "\n".join("".join(cells).rstrip() for cells in self._cells)

    def _take(self, data):
        """Carries out what the data begin with. Returns its length; 0: the rest is missing."""
        code = data[:1]
        if code == b"\x1b":
            return self._command(data)
        if code == b"\r":
            self._column = 0
        elif code == b"\n":
            self._line = min(self._line + 1, LINES - 1)
        elif code == b"\b":
            self._column = max(self._column - 1, 0)
        elif code == b"\t":
            self._column = min((self._column // 8 + 1) * 8, COLUMNS - 1)
        elif code >= b" ":
            self._cells[self._line][self._column] = code.decode()
            self._column = min(self._column + 1, COLUMNS - 1)
        return 1

    def _command(self, data):
        name = data[1:2]
        if not name or (name == b"Y" and len(data) < 4):
            return 0
        if name == b"Y":
            self._line, self._column = data[2] - 32, data[3] - 32
            return 4
        moves = {b"A": (-1, 0), b"B": (1, 0), b"C": (0, 1), b"D": (0, -1)}
        if name in moves:
            line, column = moves[name]
            self._line = min(max(self._line + line, 0), LINES - 1)
            self._column = min(max(self._column + column, 0), COLUMNS - 1)
        elif name == b"H":
            self._line = self._column = 0
        elif name in (b"J", b"K"):
            self._cells[self._line][self._column:] = [" "] * (COLUMNS - self._column)
            if name == b"J":
                for line in range(self._line + 1, LINES):
                    self._cells[line] = [" "] * COLUMNS
        return 2


class Screen:
    """A running `lyre top`, and what it shows."""

    def __init__(self, case, host, *arguments, terminal="vt52"):
        command, environment = host.lyre("top", *arguments)
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command, env={**environment, "TERM": terminal}, stdin=slave, stdout=slave,
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        os.close(slave)
        self._master = master
        self._case = case
        self._terminal = Vt52()
        case.addCleanup(os.close, master)
        case.addCleanup(self.process.stderr.close)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def press(self, key):
        os.write(self._master, key)

    def wait_until(self, is_seen):
        """The text of the screen once it is as wanted."""
        deadline = time.monotonic() + BOUND_S  # it writes again and again
        while not is_seen(self._terminal.text()):
            is_over = not self._read() or time.monotonic() > deadline
            self._case.assertFalse(is_over, f"not seen in\n{self._terminal.text()}")
        return self._terminal.text()

    def end(self):
        """The exit status and what was written to standard error."""
        deadline = time.monotonic() + BOUND_S
        while self._read():
            self._case.assertLess(time.monotonic(), deadline, f"{self.process.args} does not end")
        return self.process.wait(BOUND_S), self.process.stderr.read()

    def _read(self):
        """False: nothing comes any more."""
        if not select.select([self._master], [], [], BOUND_S)[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the last one that had the other end is gone
            return False
        self._terminal.feed(data)
        return data != b""


class Top(unittest.TestCase):
    def setUp(self):
        self.hosts = self.enterContext(TwoHosts(Programs(BUILD)))

    def start(self, host, *arguments):
        command, environment = host.lyre(*arguments)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_it_shows_workers_ports_clients_and_sessions_with_rates(self):
        processes.read_line(self.start(self.hosts.b, "perf", "server"), BOUND_S)  # it listens
        self.start(self.hosts.a, "perf", "client", "10.9.0.2:5201", "--seconds", "600")
        top = Screen(self, self.hosts.a, "--interval", "0.2")
        text = top.wait_until(lambda shown: "10.9.0.2:5201" in shown and "b/s" in shown)
        for title in ("host-a", "dropped", "worker", "busy", "port", "client", "peer", "limited by",
                      "now by sent"):
            self.assertIn(title, text)
        self.assertLessEqual(max(map(len, text.splitlines())), COLUMNS)
        self.assertRegex(text, r"(?m)^wire +up +")
        top.press(b"s")
        top.wait_until(lambda shown: "now by received" in shown)
        top.press(b"q")
        self.assertEqual(top.end(), (0, ""))

    def test_it_ends_with_the_daemon(self):
        top = Screen(self, self.hosts.a, "--interval", "0.1")
        top.wait_until(lambda shown: "worker" in shown)
        self.hosts.a.stop()
        status, said = top.end()
        self.assertEqual(status, NO_DAEMON)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("no daemon", said)

    def test_a_terminal_that_cannot_place_text_is_told_in_a_line(self):
        for terminal in ("dumb", "no-such-terminal"):
            status, said = Screen(self, self.hosts.a, terminal=terminal).end()
            self.assertEqual((status, len(said.splitlines())), (1, 1), said)
            self.assertIn(terminal, said)
            self.assertIn("lyre status --watch", said)

    def test_no_terminal_is_told_in_a_line(self):
        command, environment = self.hosts.a.lyre("top")
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (1, "", 1))
        self.assertIn("needs a terminal", done.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
