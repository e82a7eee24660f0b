#!/usr/bin/env python3
"""The lyre command without a daemon: values that are refused, warnings, output, and progress."""

import argparse
import errno
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import processes

ARGS = None
BOUND_S = 60
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_NO_DAEMON = 3
LINE_BYTES_MAX = 160


def run(*arguments, **environment):
    return subprocess.run([ARGS.lyre, *arguments], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=BOUND_S, check=False)


class Values(unittest.TestCase):
    def test_a_wrong_value_is_refused_in_one_short_line(self):
        client = ["perf", "client", "--kernel", "127.0.0.1:1"]
        for arguments in ([*client, "--bytes", "-5"], [*client, "--bytes", "0"],
                          [*client, "--bytes", "many"], [*client, "--unacked", "0"],
                          [*client, "--unacked", "-1"], [*client, "--block", "17"],
                          [*client, "--count", "-1"], [*client, "--seed", "-5"],
                          [*client, "--sessions", "0"], [*client, "--seconds", "nan"],
                          ["sessions", "--watch", "abc"], ["sessions", "--watch", "0"],
                          ["comms", "--watch", "1e300"], ["comms", "--watch", "inf"],
                          ["allreduce", "--bytes", "-8"], ["allreduce", "--seed", "-1"],
                          ["allreduce", "--ranks", "99"], ["pcap", "wire", "-s", "0"],
                          ["pcap", "wire", "-c", "0"], ["pcap", "wire", "--duration", "0"],
                          ["doctor", "--pid", "-1"], ["doctor", "--pid", "0"],
                          ["sessions", "--pid", "-3"], ["sessions", "--port", "99999"]):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertLess(len(done.stderr), LINE_BYTES_MAX)
                self.assertIn(arguments[-1], done.stderr)
                self.assertIn(" to ", done.stderr)

    def test_a_word_that_is_none_of_the_allowed_is_refused_with_these(self):
        for arguments, allowed in ((["sessions", "--state", "OPEN"], "ESTABLISHED"),
                                   (["nic", "bind", "eth1", "--driver", "vfio_pci"], "vfio-pci"),
                                   (["sessions", "--peer", "host-b"], "10.9.0.2:5201"),
                                   (["sessions", "--peer", ":5201"], "10.9.0.2:5201")):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(arguments[-1], done.stderr)
                self.assertIn(allowed, done.stderr)

    def test_options_of_another_kind_of_test_are_refused(self):
        client = ["perf", "client", "127.0.0.1:1"]
        for arguments, reason in (([*client, "--kernel", "--copy"], " excludes "),
                                  ([*client, "--kernel", "--unacked", "1MiB"], " excludes "),
                                  (["perf", "server", "--kernel", "--copy"], " excludes "),
                                  ([*client, "--zerocopy"], "--zerocopy requires --kernel"),
                                  ([*client, "--count", "9"], "--count requires --ping-pong"),
                                  ([*client, "--message", "9"], "--message requires --ping-pong"),
                                  ([*client, "--ping-pong", "--bytes", "9"], " excludes "),
                                  ([*client, "--ping-pong", "--seconds", "9"], " excludes "),
                                  ([*client, "--interval", "1"],
                                   "--interval requires --ping-pong")):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(reason, done.stderr)

    def test_a_directory_that_is_not_there_is_wrong_use(self):
        commands = [["comms"]]
        if run("help", "metrics").returncode == 0:  # a build without prometheus-cpp has none
            commands += [["metrics", "--once"], ["metrics", "--listen", "/nonexistent/socket"]]
        for command in commands:
            with self.subTest(command=command):
                done = run(*command, "--directory", "/nonexistent")
                self.assertEqual((done.returncode, done.stdout), (EXIT_USAGE, ""), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("/nonexistent: No such file or directory", done.stderr)

    def test_json_is_refused_where_there_is_none(self):
        commands = [["nic", "port", "eth1"], ["nic", "bind", "eth1", "--dry-run"],
                    ["nic", "unbind", "eth1", "--dry-run"],
                    ["nic", "is-at", "0000:00:06.0", "1d0f:ec20"], ["help"], ["help", "sessions"],
                    ["top"]]
        if run("help", "metrics").returncode == 0:  # a build without prometheus-cpp has none
            commands.append(["metrics", "--once"])
        for command in commands:
            with self.subTest(command=command):
                done = run(*command, "--json")
                self.assertEqual((done.returncode, done.stdout), (EXIT_USAGE, ""), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(" has no --json", done.stderr)

    def test_a_missing_command_is_wrong_use(self):
        for arguments in ([], ["perf"], ["perf", "client"], ["status", "extra"]):
            self.assertEqual(run(*arguments).returncode, EXIT_USAGE, arguments)

    def test_help_and_version_succeed(self):
        for arguments in (["--help"], ["--version"], ["-V"], ["allreduce", "--help"]):
            self.assertEqual(run(*arguments).returncode, 0, arguments)

    def test_help_takes_commands(self):
        self.assertEqual(run("help").stdout, run("--help").stdout)
        for words in (["sessions"], ["perf", "client"]):
            done = run("help", *words)
            self.assertEqual((done.returncode, done.stdout), (0, run(*words, "--help").stdout))
        done = run("help", "session")
        self.assertEqual(done.returncode, EXIT_USAGE)
        self.assertIn("no command 'session'", done.stderr)

    def test_a_missing_daemon_has_a_status_of_its_own(self):
        for arguments in (["status"], ["status", "--watch"], ["sessions"], ["clients"], ["stats"],
                          ["ports"], ["neighbours"], ["routes"], ["trace"],
                          ["pcap"], ["pcap", "wire", "tcp"],
                          ["stats", "--json"], ["perf", "server"],
                          ["perf", "client", "10.9.0.2:1"]):
            self.expect_no_daemon("--socket", "/nonexistent/lyred.sock", *arguments)
        self.expect_no_daemon("allreduce", "--no-kernel", "--plugin", ARGS.plugin, "--bytes", "4",
                              "--host", "a=/nonexistent/a", "--host", "b=/nonexistent/b")
        for meeting in ("--listen", "--join"):
            self.expect_no_daemon("allreduce", "--no-kernel", "--plugin", ARGS.plugin, "--bytes",
                                  "4", "--local-ranks", "1", meeting, "127.0.0.1:1")

    def test_metrics_without_a_daemon_are_those_of_a_scrape(self):
        if run("help", "metrics").returncode != 0:
            self.skipTest("a build without prometheus-cpp has none")
        with tempfile.TemporaryDirectory() as empty:
            done = run("metrics", "--once", "--directory", empty,
                       LYRE_SOCKET="/nonexistent/lyred.sock")
        self.assertEqual(done.returncode, EXIT_NO_DAEMON, done.stderr)
        self.assertIn("\nlyre_up 0\n", done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("no daemon listens there", done.stderr)

    def expect_no_daemon(self, *arguments):
        done = run(*arguments, LYRE_SOCKET="/nonexistent/lyred.sock")
        self.assertEqual(done.returncode, EXIT_NO_DAEMON, (arguments, done.stderr))
        self.assertEqual(done.stdout, "", arguments)

    def test_an_all_reduce_takes_the_daemon_from_one_option(self):
        done = run("--socket", "/nonexistent/lyred.sock", "allreduce", "--no-kernel", "--plugin",
                   ARGS.plugin, "--bytes", "4", "--host", "a=/nonexistent/a", "--host", "b=/n/b")
        self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
        self.assertIn("--socket and --host exclude each other", done.stderr)


class Settings(unittest.TestCase):
    def test_a_misspelt_setting_is_a_warning(self):
        with tempfile.TemporaryDirectory() as empty:
            done = run("comms", LYRE_SOKET="/x", LYRE_TELEMETRY_DIR=empty)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "lyre: LYRE_SOKET is not a setting of Lyre, and is ignored; "
                         "is LYRE_SOCKET meant?\n")

    def test_the_ranks_do_not_repeat_it(self):
        done = run("allreduce", "--plugin", ARGS.kernel_plugin, "--no-kernel", "--host", "A",
                   "--host", "B", "--bytes", "4", LYRE_STREAM="4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("LYRE_STREAM is not a setting"), 1, done.stderr)


class StandardOutput(unittest.TestCase):
    def print_to(self, output, *arguments, **options):
        with tempfile.TemporaryDirectory() as empty:
            return subprocess.run([ARGS.lyre, *arguments], stdout=output, stderr=subprocess.PIPE,
                                  env={**os.environ, "LYRE_TELEMETRY_DIR": empty}, text=True,
                                  timeout=BOUND_S, check=False, **options)

    def test_output_that_is_not_written_is_a_failure(self):
        for arguments in (["--version"], ["help"], ["sessions", "--help"], ["comms"],
                          ["comms", "--json"], ["comms", "--watch", "0.1"]):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                done = self.print_to(full, *arguments)
                self.assertEqual((done.returncode, done.stderr), (
                    EXIT_FAILURE,
                    "lyre: standard output was not written: No space left on device\n"))

    def test_a_command_that_fails_and_prints_nothing_keeps_its_status(self):
        with open("/dev/full", "wb") as full:
            done = self.print_to(full, "--socket", "/nonexistent/lyred.sock", "sessions")
        self.assertEqual(done.returncode, EXIT_NO_DAEMON)
        self.assertNotIn("standard output", done.stderr)

    def test_a_pipe_without_a_reader_ends_the_command_and_nothing_is_said(self):
        for restores_signals, status in ((True, -signal.SIGPIPE), (False, 0)):
            reader, writer = os.pipe()
            os.close(reader)
            # This program ignores SIGPIPE, as all of Python's do, and as services do.
            done = self.print_to(writer, "help", restore_signals=restores_signals)
            os.close(writer)
            self.assertEqual((done.returncode, done.stderr), (status, ""))


def all_of(terminal):
    """What was written to a terminal whose other end is closed. One read may return a part."""
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return shown


def serve_once(test):
    """A perf server on the kernel's loopback that ends after one client, and its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    server = subprocess.Popen([ARGS.lyre, "perf", "server", "--kernel", "--once", "--listen",
                               address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    test.addCleanup(server.stderr.close)
    test.addCleanup(server.wait)
    test.addCleanup(server.kill)
    test.assertIn("listening", processes.read_line(server, BOUND_S))
    return server, address


class PerfServer(unittest.TestCase):
    # It waited for another client for ever.
    def test_a_client_that_is_killed_is_the_one_of_once(self):
        server, address = serve_once(self)
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        client = processes.start([ARGS.lyre, "perf", "client", "--kernel", address, "--seconds",
                                  str(BOUND_S)], stdout=subprocess.DEVNULL, stderr=end)
        os.close(end)
        shown = b""
        while b" sent at " not in shown:  # the transfer is under way
            shown += os.read(terminal, 1 << 16)
        client.kill()
        client.wait()
        self.assertEqual(server.wait(BOUND_S), EXIT_FAILURE)
        self.assertIn(b"lyre: a client's test did not end in order\n", server.stderr.read())

    def test_one_that_is_no_client_is_not(self):
        server, address = serve_once(self)
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.assertIn("does not use the protocol", processes.read_line(server, BOUND_S))
        done = run("perf", "client", "--kernel", address, "--bytes", "1MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(server.wait(BOUND_S), 0)


class Upgrade(unittest.TestCase):
    def test_a_terminal_is_told_what_ctrl_c_does(self):
        command = [ARGS.lyre, "--socket", "/nonexistent/lyred.sock", "upgrade"]
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=end, timeout=BOUND_S,
                              check=False)
        os.close(end)
        self.assertEqual(done.returncode, EXIT_NO_DAEMON)
        self.assertIn(b"Ctrl-C does not stop", all_of(terminal))
        self.assertNotIn("Ctrl-C", run(*command[1:]).stderr)


class Progress(unittest.TestCase):
    def perf(self, stderr):
        """A transfer of two seconds over the kernel's loopback."""
        _, address = serve_once(self)
        done = subprocess.run([ARGS.lyre, "perf", "client", "--kernel", address, "--seconds", "2"],
                              stdout=subprocess.PIPE, stderr=stderr, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0)
        return done

    def test_a_terminal_shows_how_far_a_transfer_is(self):
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        self.perf(end)
        os.close(end)
        shown = all_of(terminal)
        self.assertRegex(shown, rb"\d+ s: [0-9.]+ [KMGT]iB sent at [0-9.]+ [kMGT]b/s")
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)

    def test_a_file_does_not(self):
        self.assertEqual(self.perf(subprocess.PIPE).stderr, b"")


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lyre", required=True)
    parser.add_argument("--kernel-plugin", required=True)
    parser.add_argument("--plugin", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
