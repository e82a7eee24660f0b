#!/usr/bin/env python3
"""Runs `lyre allreduce` over the kernel-socket plugin: results, ABI versions, failures."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

ARGS = None
BOUND_S = 180


def is_rank(pid):
    """Whether the process is one of a launcher's ranks, and no longer a copy of the launcher."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return "--rank-process" in file.read().split("\0")
    except OSError:
        return False


def ranks_left(marker):
    """Processes with `marker` in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marker.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


class AllReduce(unittest.TestCase):
    def setUp(self):
        self.marker = f"LYRE_TEST_MARKER={self.id()}.{os.getpid()}"
        self.env = dict(os.environ, LYRE_DATA_DIR=ARGS.data)
        name, value = self.marker.split("=")
        self.env[name] = value

    def tearDown(self):
        # The kernel ends the ranks of a launcher that was killed.
        deadline = time.monotonic() + BOUND_S
        while (left := ranks_left(self.marker)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left, [], "rank processes are left")

    def command(self, *options, plugin=None):
        timeout = [] if "--timeout" in options else ["--timeout", str(BOUND_S)]
        return [ARGS.lyre, "allreduce", "--plugin", plugin or ARGS.kernel_plugin,
                "--kernel-plugin", ARGS.kernel_plugin, *timeout, *options]

    def run_tool(self, *options, plugin=None, env=None):
        return subprocess.run(self.command(*options, plugin=plugin),
                              env=dict(self.env, **(env or {})), capture_output=True, text=True,
                              timeout=BOUND_S + 20, check=False)

    def expect_success(self, *options, plugin=None, env=None):
        result = self.run_tool("--json", *options, plugin=plugin, env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def expect_failure(self, *options, plugin=None, env=None, code=1):
        result = self.run_tool(*options, plugin=plugin, env=env)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, f"one line is wanted, not:\n{result.stderr}")
        return lines[0]

    def fault(self, kind, after):
        return {"LYRE_TEST_FAULTY_BASE": ARGS.kernel_plugin, "LYRE_TEST_FAULT": kind,
                "LYRE_TEST_FAULT_FROM": "0", "LYRE_TEST_FAULT_AFTER": str(after)}


SMALL = ["--no-kernel", "--iterations", "1", "--bytes", "4", "--bytes", "98304",
         "--bytes", "1000004"]


class Results(AllReduce):
    def test_every_abi_version(self):
        for abi in range(8, 13):
            with self.subTest(abi=abi):
                report = self.expect_success("--abi", str(abi), *SMALL)
                self.assertEqual(report["plugin"]["abi"], abi)
                elements = (4 + 98304 + 1000004) // 4
                # two ranks; a warm-up and a measured pass
                self.assertEqual(report["plugin"]["elements_verified"], elements * 2 * 2)

    def test_the_newest_version_is_the_default(self):
        self.assertEqual(self.expect_success(*SMALL)["plugin"]["abi"], 12)

    def test_more_ranks(self):
        for ranks in (3, 4, 8):
            with self.subTest(ranks=ranks):
                report = self.expect_success("--ranks", str(ranks), *SMALL)
                self.assertEqual(len(report["hosts"]), ranks)

    def test_every_shape_of_a_job(self):
        for options in (["--channels", "1"], ["--channels", "5"], ["--slice-steps", "1"],
                        ["--protocol", "ll"], ["--protocol", "simple"], ["--device-thread"],
                        ["--placement", "block", "--ranks", "4"], ["--seed", "99"],
                        ["--collective", "sendrecv", "--ranks", "3", "--protocol", "ll"]):
            with self.subTest(options=options):
                self.expect_success(*options, *SMALL)

    def test_kernel_comparison_is_in_the_same_run(self):
        report = self.expect_success("--iterations", "1", "--bytes", "3MiB")
        self.assertEqual([row["transport"] for row in report["kernel"]],
                         ["kernel, 1 socket", "kernel, 2x8 sockets"])
        self.assertGreater(report["ratio"], 0)

    def test_striped_sockets(self):
        self.expect_success(*SMALL, "--bytes", "4MiB", env={"LYRE_KERNEL_SOCKS": "16"})

    def test_the_table_starts_with_the_ratio(self):
        result = self.run_tool("--iterations", "1", "--bytes", "256KiB")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"\Aratio [0-9.]+: Kernel ")
        self.assertRegex(result.stdout, r"(?m)^total +262144 ")

    def test_send_and_receive(self):
        report = self.expect_success("--collective", "sendrecv", "--ranks", "3", *SMALL, "--bytes",
                                     "9MiB")
        self.assertEqual(report["collective"], "sendrecv")
        total = report["plugin"]["total"]
        self.assertEqual(total["bus_bits_per_s"], total["algorithm_bits_per_s"])

    def test_a_model(self):
        report = self.expect_success("--no-kernel", "--quick")
        self.assertEqual(report["plugin"]["total"]["bytes"], 25557032 * 4)


class Failures(AllReduce):
    def test_corruption_names_rank_bucket_and_element(self):
        # 6 receives line the ranks up before each of the two passes; the seventh on is the bucket.
        line = self.expect_failure("--no-kernel", "--bytes", "4MiB", plugin=ARGS.faulty_plugin,
                                   env=self.fault("corrupt", 10))
        self.assertRegex(line, r"rank \d on host [AB]: wrong result in bucket 0 of sizes, "
                               r"element \d+: got .*, expected ")

    def test_a_peer_error_ends_all_ranks_with_the_plugins_line(self):
        line = self.expect_failure("--no-kernel", "--ranks", "4", "--bytes", "4MiB",
                                   plugin=ARGS.faulty_plugin, env=self.fault("error", 10))
        self.assertIn("rank 1 on host B: test: ncclRemoteError: "
                      "NET/Faulty : peer 192.0.2.7 is gone", line)

    def test_a_killed_rank_ends_the_run(self):
        line = self.expect_failure("--no-kernel", "--ranks", "3", "--bytes", "4MiB",
                                   plugin=ARGS.faulty_plugin, env=self.fault("kill", 10))
        self.assertRegex(line, r"rank 1 on host B ended early: killed by signal 9|"
                               r"rank \d on host [AB]: (test|isend|irecv): ncclRemoteError: ")

    def test_a_hang_ends_at_the_stall_timeout(self):
        line = self.expect_failure("--no-kernel", "--bytes", "4MiB", "--stall-timeout", "2",
                                   plugin=ARGS.faulty_plugin, env=self.fault("hang", 10))
        self.assertIn("no progress for 2 s", line)

    def test_the_overall_timeout(self):
        line = self.expect_failure("--no-kernel", "--bytes", "4MiB", "--timeout", "2",
                                   plugin=ARGS.faulty_plugin, env=self.fault("hang", 10))
        self.assertIn("not finished after 2 s", line)

    def test_an_interrupt_leaves_nothing(self):
        command = self.command("--no-kernel", "--bytes", "4MiB", plugin=ARGS.faulty_plugin)
        with subprocess.Popen(command, env=dict(self.env, **self.fault("hang", 10)),
                              stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + BOUND_S
            while len(ranks_left(self.marker)) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)
            process.terminate()
            _, error = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn("interrupted", error)

    def test_a_missing_library(self):
        self.assertIn("cannot load the plugin",
                      self.expect_failure("--no-kernel", plugin="/nonexistent/libnccl-net-x.so"))

    def test_an_abi_version_that_the_plugin_lacks(self):
        self.assertIn("exports no ncclNetPlugin_v12",
                      self.expect_failure("--no-kernel", "--abi", "12", plugin=ARGS.faulty_plugin,
                                          env=self.fault("none", 0)))

    def test_an_address_that_is_not_here(self):
        line = self.expect_failure("--no-kernel", "--host", "A", "--host", "B",
                                   "--bytes", "4", env={"LYRE_KERNEL_SOCKS": "0"})
        self.assertIn("LYRE_KERNEL_SOCKS=0: a number from 1 to 64 is wanted", line)

    def test_wrong_options(self):
        for options, wanted in ((["--host", "A="], "NAME=VALUE"),
                                (["--host", "A=/a", "--host", "A=/b"], "given twice"),
                                (["--kernel-addr", "C=127.0.0.1"], "no --host named C"),
                                (["--local-ranks", "1"], "needs --listen or --join"),
                                (["--listen", "nowhere"], "ADDR:PORT is wanted"),
                                (["--bytes", "5"], "multiple of 4"),
                                (["--bytes", "-8"], "'-8' is not a size from 4 to 1TiB"),
                                (["--iterations", "x"], "not a whole number from 1 to 100000"),
                                (["--model", "gpt5"], "no model named")):
            with self.subTest(options=options):
                self.assertIn(wanted, self.expect_failure("--no-kernel", *options, code=2))


    def test_the_default_plugin_needs_daemons(self):
        done = subprocess.run([ARGS.lyre, "allreduce", "--no-kernel"], env=self.env,
                              capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--host NAME=SOCKET", done.stderr)


class Sessions(AllReduce):
    """Linux's scheduler takes the threads of a session for a group (autogroup)."""

    def sessions_of(self, *options):
        """Those of the launcher and of its two ranks, which Ctrl-C then ends."""
        command = self.command("--no-kernel", "--bytes", "4MiB", *options,
                               plugin=ARGS.faulty_plugin)
        with subprocess.Popen(command, env=dict(self.env, **self.fault("hang", 10)),
                              stderr=subprocess.PIPE, text=True) as launcher:
            deadline = time.monotonic() + BOUND_S
            ranks = []
            while len(ranks) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
                ranks = [pid for pid in ranks_left(self.marker) if is_rank(pid)]
            sessions = [os.getsid(pid) for pid in (launcher.pid, *ranks)]
            launcher.send_signal(signal.SIGINT)
            try:
                _, error = launcher.communicate(timeout=BOUND_S)
            except subprocess.TimeoutExpired:
                launcher.kill()
                raise
        self.assertEqual(launcher.returncode, 1)
        self.assertIn("interrupted", error)
        return sessions

    def test_a_rank_is_in_that_of_its_launcher(self):
        self.assertEqual(self.sessions_of(), [os.getsid(0)] * 3)

    def test_a_rank_may_have_its_own(self):
        launchers, *ranks = self.sessions_of("--setsid")
        self.assertEqual(launchers, os.getsid(0))
        self.assertEqual(len({launchers, *ranks}), 3)


class SeveralMachines(AllReduce):
    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def start(self, *options, plugin=None, env=None):
        return subprocess.Popen(self.command(*options, plugin=plugin),
                                env=dict(self.env, **(env or {})), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def test_ranks_of_two_launchers_meet(self):
        address = f"127.0.0.1:{self.free_port()}"
        hub = self.start("--ranks", "4", "--local-ranks", "2", "--listen", address, "--json",
                         "--iterations", "1", "--bytes", "1MiB")
        joined = self.start("--ranks", "4", "--local-ranks", "2", "--join", address)
        out, error = hub.communicate(timeout=BOUND_S)
        joined_out, joined_error = joined.communicate(timeout=BOUND_S)
        self.assertEqual(hub.returncode, 0, error)
        self.assertEqual(joined.returncode, 0, joined_out + joined_error)
        report = json.loads(out)
        self.assertEqual(report["hosts"][0::2], [report["hosts"][0]] * 2)
        self.assertEqual(report["hosts"][1::2], [report["hosts"][1]] * 2)
        self.assertNotEqual(report["hosts"][0], report["hosts"][1])

    def test_a_launcher_that_joined_prints_why_its_rank_failed(self):
        address = f"127.0.0.1:{self.free_port()}"
        hub = self.start("--ranks", "2", "--local-ranks", "1", "--listen", address, *SMALL)
        joined = self.start("--ranks", "2", "--local-ranks", "1", "--join", address,
                            plugin="/nonexistent/libnccl-net-x.so")
        _, error = hub.communicate(timeout=BOUND_S)
        _, joined_error = joined.communicate(timeout=BOUND_S)
        self.assertEqual((hub.returncode, joined.returncode), (1, 1), error + joined_error)
        self.assertRegex(joined_error, r"\Alyre allreduce: rank 1: .*/nonexistent/libnccl-net-x.so")

    def test_a_launcher_that_joined_says_where_the_failure_is_printed(self):
        address = f"127.0.0.1:{self.free_port()}"
        hub = self.start("--ranks", "2", "--local-ranks", "1", "--listen", address, *SMALL,
                         plugin="/nonexistent/libnccl-net-x.so")
        joined = self.start("--ranks", "2", "--local-ranks", "1", "--join", address)
        _, error = hub.communicate(timeout=BOUND_S)
        _, joined_error = joined.communicate(timeout=BOUND_S)
        self.assertEqual((hub.returncode, joined.returncode), (1, 1), error + joined_error)
        self.assertIn("lyre allreduce: ", joined_error)

    def test_ranks_that_do_not_join_are_counted(self):
        address = f"127.0.0.1:{self.free_port()}"
        done = self.run_tool("--no-kernel", "--ranks", "4", "--local-ranks", "1", "--listen",
                             address, "--timeout", "2")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.splitlines(),
                         [f"waiting at {address} for 3 more ranks",
                          f"lyre allreduce: 3 of 4 ranks did not join at {address} within 2 s "
                          "(--timeout)"])

    def test_a_launcher_that_does_not_listen_is_given_up_after_the_timeout(self):
        address = f"127.0.0.1:{self.free_port()}"
        line = self.expect_failure("--no-kernel", "--ranks", "2", "--local-ranks", "1", "--join",
                                   address, "--timeout", "1")
        self.assertIn(f"cannot connect to {address} within 1 s: ", line)

    def test_an_interrupt_ends_a_launcher_that_tries_to_join(self):
        joined = self.start("--no-kernel", "--ranks", "2", "--local-ranks", "1", "--join",
                            f"127.0.0.1:{self.free_port()}", "--connect-timeout", "3600")
        deadline = time.monotonic() + BOUND_S
        # It handles the signal once it no longer has the default action.
        while not self.catches(joined.pid, signal.SIGINT) and time.monotonic() < deadline:
            time.sleep(0.05)
        joined.send_signal(signal.SIGINT)
        _, error = joined.communicate(timeout=BOUND_S)
        self.assertEqual((joined.returncode, error), (1, "lyre allreduce: interrupted\n"))

    @staticmethod
    def catches(pid, number):
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            caught = next(line for line in file if line.startswith("SigCgt:"))
        return int(caught.split()[1], 16) >> (number - 1) & 1

    def test_other_connections_are_ignored(self):
        port = self.free_port()
        address = f"127.0.0.1:{port}"
        hub = self.start("--ranks", "2", "--local-ranks", "1", "--listen", address, *SMALL)
        deadline = time.monotonic() + BOUND_S
        others = []
        while not others and time.monotonic() < deadline:
            try:
                others.append(socket.create_connection(("127.0.0.1", port)))
            except ConnectionRefusedError:
                time.sleep(0.05)
        others[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        others.append(socket.create_connection(("127.0.0.1", port)))
        joined = self.start("--ranks", "2", "--local-ranks", "1", "--join", address)
        _, error = hub.communicate(timeout=BOUND_S)
        joined.communicate(timeout=BOUND_S)
        for other in others:
            other.close()
        self.assertEqual(hub.returncode, 0, error)
        self.assertEqual(joined.returncode, 0)

    def test_a_killed_launcher_ends_the_other(self):
        address = f"127.0.0.1:{self.free_port()}"
        env = dict(self.fault("hang", 10))
        hub = self.start("--ranks", "2", "--local-ranks", "1", "--listen", address, "--no-kernel",
                         "--bytes", "4MiB", plugin=ARGS.faulty_plugin, env=env)
        joined = self.start("--ranks", "2", "--local-ranks", "1", "--join", address, "--no-kernel",
                            plugin=ARGS.faulty_plugin, env=env)
        deadline = time.monotonic() + BOUND_S
        while len(ranks_left(self.marker)) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        joined.kill()
        joined.communicate()
        _, error = hub.communicate(timeout=BOUND_S)
        self.assertEqual(hub.returncode, 1)
        self.assertRegex(error, r"has closed its connection|is gone|ncclRemoteError|ended early")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lyre", required=True)
    parser.add_argument("--kernel-plugin", required=True)
    parser.add_argument("--faulty-plugin", required=True)
    parser.add_argument("--data", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
