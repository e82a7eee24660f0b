#!/usr/bin/env python3
"""Runs the main job, `lyre allreduce` through the NCCL plugin, between two real daemons."""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from network import NetworkError, VethPair
from two_hosts import IPV6_INTERFACES, MTU, SUPER_PACKETS, TwoHosts, need_super_packets
from wired_hosts import NO_OFFLOADS, Switch, TwoRails, WiredHosts

ARGS = None
BOUND_S = 300
SIZES = ["--bytes", "4", "--bytes", "98304", "--bytes", "3000004"]
ELEMENTS = (4 + 98304 + 3000004) // 4
NOBODY = 65534
EXIT_USAGE = 2
EXIT_NO_DAEMON = 3
USER_TIMEOUT_MS = 3000
# Each of these jobs is so many times as long as the one before.
LONGER, LENGTHS = 4, 3


def job(a, b, *options, iterations=1):
    return [Programs(ARGS.build).lyre, "allreduce", "--plugin", ARGS.plugin, "--no-kernel",
            "--host", f"A={a.socket}", "--host", f"B={b.socket}", "--timeout", str(BOUND_S),
            "--iterations", str(iterations), *options]


def run(command, **environment):
    return processes.run(command, BOUND_S + 30, capture_output=True,
                         env=dict(os.environ, LYRE_DATA_DIR=ARGS.data, **environment))


def expect_a_transfer(test, hosts, address, count):
    """Sends so many bytes from a to b. Both sides compare every byte and the hashes."""
    command, environment = hosts.b.lyre("perf", "server", "--once")
    serving = processes.start(command, env=environment, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True)
    test.addCleanup(serving.stderr.close)
    test.addCleanup(processes.end, serving)
    test.assertIn("listening", processes.read_line(serving, BOUND_S))
    command, environment = hosts.a.lyre("perf", "client", f"{address}:5201", "--bytes", str(count),
                                        "--verify")
    asked = processes.run(command, BOUND_S, capture_output=True, env=environment)
    test.assertEqual(asked.returncode, 0, asked.stderr)


class MainJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts(Programs(ARGS.build)))

    @classmethod
    def enterClassContext(cls, context):  # unittest has it from Python 3.11 on
        value = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        return value

    def report(self, *options):
        done = run(job(self.hosts.a, self.hosts.b, "--json", *options, *SIZES))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_abi_version_with_two_and_four_ranks(self):
        for abi in range(8, 13):
            for ranks in (2, 4):
                with self.subTest(abi=abi, ranks=ranks):
                    report = self.report("--abi", str(abi), "--ranks", str(ranks))
                    self.assertEqual(report["plugin"]["abi"], abi)
                    # A warm-up and a measured pass on every rank.
                    self.assertEqual(report["plugin"]["elements_verified"], ELEMENTS * ranks * 2)

    def test_ranks_of_one_host_reach_each_other_through_their_daemon(self):
        report = self.report("--ranks", "4", "--placement", "block")
        self.assertEqual(report["plugin"]["elements_verified"], ELEMENTS * 4 * 2)

    def test_a_user_without_permission_is_told_so(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        command, environment = self.hosts.a.lyre("status")
        folder = os.path.dirname(self.hosts.a.socket)
        os.chmod(folder, 0o755)
        # Copies, because nobody may not be let into the build folder.
        for path in (command[0], ARGS.liblyre):
            shutil.copy(path, folder)
        command[0] = os.path.join(folder, "lyre")
        environment["LD_LIBRARY_PATH"] = folder
        done = processes.run(command, BOUND_S, capture_output=True, env=environment, user=NOBODY,
                             group=NOBODY, extra_groups=[])
        self.assertEqual(done.returncode, EXIT_NO_DAEMON, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("ermission", done.stderr)

    def test_without_a_daemon_every_command_says_so(self):
        absent = self.hosts.a.socket + ".not-there"
        allreduce = ["allreduce", "--plugin", ARGS.plugin, "--no-kernel", "--bytes", "4",
                     "--host", f"A={absent}", "--host", f"B={self.hosts.b.socket}"]
        for arguments in (["status"], ["stats"], ["sessions"], ["sessions", "--watch"],
                          ["perf", "client", "10.9.0.2:5201"], ["perf", "server"], allreduce):
            with self.subTest(command=arguments[0]):
                command, environment = self.hosts.a.lyre(*arguments)
                nowhere = dict(environment, LYRE_SOCKET=absent)
                done = processes.run(command, BOUND_S, capture_output=True, env=nowhere)
                self.assertEqual(done.returncode, EXIT_NO_DAEMON, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertIn(absent, done.stderr)

    def test_a_watch_ends_with_its_daemon(self):
        with TwoHosts(Programs(ARGS.build)) as hosts:
            command, environment = hosts.a.lyre("sessions", "--watch", "0.1")
            watch = processes.start(command, env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            self.addCleanup(processes.end, watch)
            self.assertIn("no sessions", processes.read_line(watch, BOUND_S, watch.stdout))
            hosts.a.kill()
            _shown, said = watch.communicate(timeout=BOUND_S)
            self.assertEqual(watch.returncode, EXIT_NO_DAEMON, said)
            self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_rdma_devices_are_looked_for_where_the_user_asks_for_it(self):
        for setting, said in (("auto", r"this host has no RDMA device|RDMA device \w+"),
                              ("off", "RDMA devices are not looked for: LYRE_VERBS=off")):
            with self.subTest(setting=setting):
                done = run(job(self.hosts.a, self.hosts.b, "--verbose", *SIZES),
                           LYRE_VERBS=setting)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, said)

    def test_a_job_without_libibverbs_is_a_job_over_tcp(self):
        found = [line.split(" => ")[1] for line in processes.run(
            ["/sbin/ldconfig", "-p"], BOUND_S, capture_output=True).stdout.splitlines()
            if line.strip().startswith("libibverbs.so.1 ")]
        hide = "".join(f"mount --bind /dev/null {path} && " for path in found)
        done = run(["unshare", "--mount", "sh", "-c", hide + 'exec "$@"', "sh",
                    *job(self.hosts.a, self.hosts.b, "--verbose", *SIZES)], LYRE_VERBS="auto")
        if "Operation not permitted" in done.stderr:
            self.skipTest("may not hide a file")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"RDMA devices are not looked for: .*libibverbs\.so\.1")

    def test_a_job_that_wants_rdma_only_is_refused(self):
        for setting, said in (("only", "LYRE_VERBS=only, and no data can go over RDMA: "),
                              ("yes", 'LYRE_VERBS is "yes": allowed are auto, only and off')):
            with self.subTest(setting=setting):
                done = run(job(self.hosts.a, self.hosts.b, *SIZES), LYRE_VERBS=setting)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)

    def test_a_command_that_does_not_exist_is_named(self):
        command, environment = self.hosts.a.lyre("sesions")
        done = processes.run(command, BOUND_S, capture_output=True, env=environment)
        self.assertEqual(done.returncode, EXIT_USAGE, done.stderr)
        self.assertEqual(done.stderr.strip(),
                         "lyre: there is no command 'sesions' (see lyre --help)")


class Ipv6(unittest.TestCase):
    """Hosts with IPv6 addresses only, and hosts whose first addresses differ in family."""

    def expect_a_job_done(self, interfaces, remote):
        with TwoHosts(Programs(ARGS.build), interfaces=interfaces) as hosts:
            done = run(job(hosts.a, hosts.b, "--json", "--ranks", "2", *SIZES))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["plugin"]["elements_verified"], ELEMENTS * 4)
            expect_a_transfer(self, hosts, remote, 1_000_000)

    def test_the_job_and_perf_over_ipv6(self):
        self.expect_a_job_done(IPV6_INTERFACES, "[fd00:9::2]")

    def test_hosts_that_tell_different_families(self):
        self.expect_a_job_done({"host-a": ["10.9.0.1/24", "fd00:9::1/64"],
                                "host-b": ["fd00:9::2/64", "10.9.0.2/24"]}, "10.9.0.2")

    def test_a_host_of_both_families_and_one_of_ipv6(self):
        self.expect_a_job_done({"host-a": ["10.9.0.1/24", "fd00:9::1/64"],
                                "host-b": ["fd00:9::2/64"]}, "[fd00:9::2]")


class SuperPackets(unittest.TestCase):
    """TCP packets of up to 64 KiB, which cross the wire uncut."""

    FRAME_BYTES_MAX = MTU + 18  # of a packet that is no super-packet
    COUNT = 64 << 20

    @staticmethod
    def received(host):
        """Packets that the workers received, and their bytes."""
        counters = [worker["counters"] for worker in host.look("stats")["workers"]]
        return [sum(one[name] for one in counters) for name in ("rx_packets", "rx_bytes")]

    def expect_super_packets(self, host, before):
        deadline = time.monotonic() + BOUND_S
        while True:  # workers write these counters some times a second
            packets, count = (after - start for after, start in zip(self.received(host), before))
            if count >= self.COUNT:
                break
            self.assertLess(time.monotonic(), deadline, f"{count} bytes were received")
            time.sleep(0.05)
        self.assertGreater(count, packets * self.FRAME_BYTES_MAX)

    def test_the_job_and_perf(self):
        need_super_packets(self, Programs(ARGS.build))
        with TwoHosts(Programs(ARGS.build), sections=SUPER_PACKETS) as hosts:
            done = run(job(hosts.a, hosts.b, "--json", "--ranks", "2", *SIZES))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["plugin"]["elements_verified"], ELEMENTS * 4)
            before = self.received(hosts.b)
            expect_a_transfer(self, hosts, "10.9.0.2", self.COUNT)
            self.expect_super_packets(hosts.b, before)


class Wires(unittest.TestCase):
    """The two daemons of a memif wire may start and stop in any order."""

    def setUp(self):
        self.hosts = TwoHosts(Programs(ARGS.build))

    def expect_a_job_done(self):
        for host in (self.hosts.a, self.hosts.b):
            host.wait_link()
        done = run(job(self.hosts.a, self.hosts.b, *SIZES))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_client_end_comes_first(self):
        with self.hosts:
            for host in (self.hosts.a, self.hosts.b):
                host.stop()
            for host in (self.hosts.b, self.hosts.a):
                host.start()
            self.expect_a_job_done()

    def test_the_server_end_is_killed_and_started_again(self):
        with self.hosts:
            self.hosts.a.kill()
            self.hosts.a.start()
            self.expect_a_job_done()

    def test_the_client_end_is_killed_and_started_again(self):
        with self.hosts:
            self.hosts.b.kill()
            self.hosts.b.start()
            self.expect_a_job_done()


class RunningJob(unittest.TestCase):
    """A job during which a fault is caused."""

    def wired_hosts(self, wire):
        hosts = WiredHosts(Programs(ARGS.build), wire,
                           {"tcp": {"user_timeout_ms": USER_TIMEOUT_MS}})
        try:
            hosts.__enter__()
        except NetworkError as error:
            self.skipTest(str(error))
        self.addCleanup(hosts.__exit__, None, None, None)
        return hosts

    def start(self, a, b, *options, iterations=10_000, **environment):
        process = processes.start(job(a, b, "--bytes", "4MiB", *options, iterations=iterations),
                                  env=dict(os.environ, LYRE_DATA_DIR=ARGS.data, **environment),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for pipe in (process.stdout, process.stderr):
            self.addCleanup(pipe.close)
        self.addCleanup(processes.end, process)
        deadline = time.monotonic() + BOUND_S
        def received():  # listeners receive nothing
            return sum(s.get("bytes_received", 0) for s in a.look("sessions")["sessions"])
        while received() < 20_000_000:
            self.assertIsNone(process.poll(), "the job ended before anything happened")
            self.assertLess(time.monotonic(), deadline, "the job does not get going")
            time.sleep(0.1)
        return process

    def with_longer_jobs(self, attempt, iterations):
        """`attempt` is called with iterations, and says whether its job lasted as long as what had
        to happen meanwhile. The first job is long enough for most machines."""
        for _ in range(LENGTHS):
            if attempt(iterations):
                return
            iterations *= LONGER
        self.fail(f"even a job of {iterations // LONGER} iterations did not show it")

    def expect_all_verified(self, process, iterations):
        out, said = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, 0, said)
        # A warm-up, too, on both ranks.
        elements = (4 << 20) // 4 * 2 * (iterations + 1)
        self.assertEqual(json.loads(out)["plugin"]["elements_verified"], elements)
        return said


class Comms(RunningJob):
    """What `lyre comms` shows of a running job, for both of its ranks."""

    # Of the ranks of both hosts, each on its channels.
    CHANNELS = {(rank, channel) for rank in (0, 1) for channel in (0, 1)}

    def look(self, hosts, is_complete, *options):
        """What is shown once it is complete: ranks tell of themselves five times a second."""
        with tempfile.TemporaryDirectory() as directory:
            process = self.start(hosts.a, hosts.b, *options, LYRE_TELEMETRY_DIR=directory)
            deadline = time.monotonic() + BOUND_S
            while not is_complete(shown := self.shown(directory)):
                self.assertIsNone(process.poll(), "the job ended before it was shown")
                self.assertLess(time.monotonic(), deadline, shown)
                time.sleep(0.1)
            processes.end(process)
        return shown

    def shown(self, directory):
        done = run([Programs(ARGS.build).lyre, "comms", "--json", "--directory", directory])
        self.assertEqual(done.returncode, 0, done.stderr)
        return [comm for rank in json.loads(done.stdout)["processes"] for comm in rank["comms"]]

    def test_the_collective_and_the_ranks_are_named(self):
        def is_complete(shown):
            return ({(comm.get("rank"), comm.get("channel")) for comm in shown} >= self.CHANNELS and
                    min(comm.get("operation_number", 0) for comm in shown) > 1)

        with TwoHosts(Programs(ARGS.build)) as hosts:
            for abi in (10, 11, 12):  # profilers of v4 and v5
                with self.subTest(abi=abi):
                    shown = self.look(hosts, is_complete, "--abi", str(abi))
                    self.assertEqual({comm["operation"] for comm in shown}, {"AllReduce"})
                    self.assertEqual({(comm["rank"], comm["peer_rank"]) for comm in shown},
                                     {(0, 1), (1, 0)})
                    self.assertEqual({comm["channel"] for comm in shown}, {0, 1})

    def test_nothing_is_made_up_where_nccl_does_not_tell(self):
        with TwoHosts(Programs(ARGS.build)) as hosts:
            for comm in self.look(hosts, bool, "--abi", "9"):
                self.assertFalse({"operation", "operation_number", "rank", "channel"} & set(comm))


class UpgradedJob(RunningJob):
    """`lyre upgrade` of both daemons under a job, which keeps all of its sessions."""

    ITERATIONS = 400

    @staticmethod
    def ends_of_sessions(host):
        return {(one["local"], one["remote"]) for one in host.look("sessions")["sessions"]
                if one.get("remote")}

    def test_the_job_does_not_notice(self):
        with TwoHosts(Programs(ARGS.build)) as hosts:
            self.with_longer_jobs(lambda iterations: self.is_upgraded(hosts, iterations),
                                  self.ITERATIONS)

    def is_upgraded(self, hosts, iterations):
        """Whether the daemons were upgraded before the job ended, all of which was verified."""
        # The plugin ends streams by itself that it tried and that did not help.
        process = self.start(hosts.a, hosts.b, "--json", iterations=iterations, LYRE_STREAMS="1")
        before = [self.ends_of_sessions(host) for host in (hosts.a, hosts.b)]
        for host in (hosts.a, hosts.b, hosts.a):
            host.upgrade()
        after = [self.ends_of_sessions(host) for host in (hosts.a, hosts.b)]
        was_running = process.poll() is None
        self.expect_all_verified(process, iterations)
        if was_running:
            for ends, ends_after in zip(before, after):
                self.assertTrue(ends)
                self.assertLessEqual(ends, ends_after)
        return was_running


class UnharmedJob(RunningJob):
    """The failure of a stream or a port, while others work, costs the job only time."""

    @staticmethod
    def senders(host):
        """Local address and port of the sessions over which the job sends, the busiest first."""
        sessions = [session for session in host.look("sessions")["sessions"]
                    if session.get("bytes_sent", 0) > 1 << 20]
        sessions.sort(key=lambda session: session["bytes_sent"], reverse=True)
        return [tuple(session["local"].rsplit(":", 1)) for session in sessions]


class Streams(UnharmedJob):
    ITERATIONS = 200  # more than a slow stream can hide in
    # Where acknowledgements come rarely, the slow stream is taken for one that stalls.
    REPLACED = r"a stream to \S+ (is slow|stalls) \(wire > 10\.9\.5\.2:"

    def test_a_slow_stream_is_dialled_again_from_another_port(self):
        hosts = self.wired_hosts(Switch(NO_OFFLOADS))
        self.with_longer_jobs(lambda iterations: self.is_replaced(hosts, iterations),
                              self.ITERATIONS)

    def is_replaced(self, hosts, iterations):
        """Whether the rank replaced a stream that became slow. The end of a job ends its sessions,
        too: only its log tells why the slow one went."""
        process = self.start(hosts.a, hosts.b, "--json", "--verbose", iterations=iterations,
                             LYRE_STREAMS="2")
        before = self.senders(hosts.a)
        slow = next(iter(before), None)
        has_another = False
        if slow is not None:
            hosts.wire.slow_down(slow[1], "8mbit")
            has_another = self.await_another(process, hosts.a, slow, before)
        said = self.expect_all_verified(process, iterations)
        if slow is not None:
            hosts.wire.speed_up()
        return has_another and re.search(self.REPLACED, said) is not None

    def await_another(self, process, host, stream, before):
        """Waits until the job sends no more over `stream`, and over one that was not there before.
        False: the job ended meanwhile."""
        deadline = time.monotonic() + BOUND_S
        seen = set(before)
        while process.poll() is None:
            now = self.senders(host)
            seen.update(now)
            if stream not in now and seen.difference(before):
                return True
            self.assertLess(time.monotonic(), deadline, "no peer redials the slow stream")
            time.sleep(0.1)
        return False

    def test_a_slow_wire_is_no_reason_for_another_stream(self):
        hosts = self.wired_hosts(Switch(NO_OFFLOADS))
        hosts.wire.narrow("1mbit", 30)
        done = run(job(hosts.a, hosts.b, "--verbose", "--bytes", "512KiB"), LYRE_STREAMS="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "streams: 1 ")
        # The other direction's acknowledgements share the narrow queue, and may all be lost for so
        # long that its stream counts as stalled.
        self.assertNotRegex(done.stderr, r"(is there|stalls) \(wire > 10\.9\.5\.2:")


class LostRail(UnharmedJob):
    """A port goes down while its queue is full; the job continues over the other port."""

    ITERATIONS = 160
    RAILS = {"10.9.5.1", "10.9.5.11"}

    def used_rails(self, hosts):
        return {address for address, _port in self.senders(hosts.a)}

    def reaches_rails(self, hosts, process, rails):
        """Waits until the job sends over these. False: it has ended first."""
        deadline = time.monotonic() + BOUND_S
        while self.used_rails(hosts) != rails:
            if process.poll() is not None:
                return False
            self.assertLess(time.monotonic(), deadline, f"no streams on just {rails}")
            time.sleep(0.2)
        return True

    def await_rails(self, hosts, process, rails):
        self.assertTrue(self.reaches_rails(hosts, process, rails),
                        "the job ended before its streams moved")

    def test_a_rail_that_returns_is_used_again(self):
        hosts = self.wired_hosts(TwoRails(NO_OFFLOADS))
        for rails in ("all", "own"):
            with self.subTest(rails=rails):
                own = self.RAILS if rails == "all" else {"10.9.5.1"}
                process = self.start(hosts.a, hosts.b, LYRE_RAILS=rails, LYRE_STREAMS="2")
                self.await_rails(hosts, process, own)
                hosts.wire.pull_out(hosts.wire.left)
                self.await_rails(hosts, process, {"10.9.5.11"})
                hosts.wire.plug_in(hosts.wire.left)
                self.await_rails(hosts, process, own)
                processes.end(process)

    def test_a_rail_that_disappears(self):
        hosts = self.wired_hosts(TwoRails(NO_OFFLOADS))
        self.with_longer_jobs(lambda iterations: self.is_survived(hosts, iterations),
                              self.ITERATIONS)

    def is_survived(self, hosts, iterations):
        """Whether a rail went down before the job ended, all of which was verified."""
        with tempfile.TemporaryDirectory() as shown:
            process = self.start(hosts.a, hosts.b, "--json", iterations=iterations,
                                 LYRE_RAILS="all", LYRE_STREAMS="4", LYRE_TELEMETRY_DIR=shown)
            is_ready = self.reaches_rails(hosts, process, self.RAILS)
            done = run([Programs(ARGS.build).lyre, "comms", "--directory", shown])
            hosts.wire.pull_out(hosts.wire.left)
            was_running = is_ready and process.poll() is None
            self.expect_all_verified(process, iterations)
        hosts.wire.plug_in(hosts.wire.left)
        for host in (hosts.a, hosts.b):
            host.wait_link()
        if was_running:
            self.assertRegex(done.stdout, r"\w+ > 10\.9\.5\.\d+:\d+ \(\+\d over \w+\)")
            self.assertRegex(done.stdout, r"from 10\.9\.5\.\d+:\d+ \(\+\d from 10\.9\.5\.\d+\)")
        return was_running


class Restart(RunningJob):
    def test_counters_of_a_daemon_that_was_started_again_are_not_compared(self):
        with TwoHosts(Programs(ARGS.build)) as hosts:
            self.with_longer_jobs(lambda iterations: self.is_restarted(hosts, iterations), 400)

    def is_restarted(self, hosts, iterations):
        """Whether a daemon was killed before the job ended."""
        # The machine may start a daemon slowly.
        process = self.start(hosts.a, hosts.b, "--json", iterations=iterations,
                             LYRE_RESUME_SECONDS="60")
        hosts.b.kill()
        was_running = process.poll() is None
        hosts.b.start()
        shown, said = process.communicate(timeout=BOUND_S)
        if was_running:
            self.assertEqual(process.returncode, 0, said)
            checked = {host: bytes_["checked_by_daemon_counters"] for host, bytes_
                       in json.loads(shown)["bytes_between_hosts"].items()}
            self.assertEqual(checked, {"A": True, "B": False})
        return was_running


class Disasters(RunningJob):
    """Faults that end the job: each with one line, in bounded time, and no rank stays."""

    def expect_error(self, process, pattern):
        """The last line has to match. Returns all that was said."""
        _out, said = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, 1, said)
        self.assertRegex(said.strip().splitlines()[-1], pattern, said)
        return said

    @staticmethod
    def rank_at(host):
        """The rank that the host's daemon serves: its process, and a pattern of how the plugin of
        another rank names it, by host, address and process."""
        busiest = max(host.look("sessions")["sessions"],
                      key=lambda session: session.get("bytes_received", 0))
        address = busiest["local"].rsplit(":", 1)[0]
        return busiest["pid"], (rf"host {re.escape(socket.gethostname())} "
                                rf"\({re.escape(address)}:\d+\), process {busiest['pid']}: ")

    def test_a_rank_that_is_killed(self):
        with TwoHosts(Programs(ARGS.build)) as hosts:
            process = self.start(hosts.a, hosts.b, "--verbose")
            victim, its_name = self.rank_at(hosts.b)
            os.kill(victim, signal.SIGKILL)
            # The launcher hears of it from the kernel or from the other rank, whichever is first.
            said = self.expect_error(
                process, rf"rank 1 on host B ended early: .*signal 9|{its_name}its process ended")
            self.assertRegex(said, rf"comm that (sends to|receives from) {its_name}"
                                   r"its process ended, or gave up, without closing the connection")

    def test_a_daemon_that_is_killed(self):
        with TwoHosts(Programs(ARGS.build)) as hosts:
            process = self.start(hosts.a, hosts.b)
            hosts.b.kill()
            self.expect_error(process, r"rank 1 on host B: .*the Lyre daemon at "
                                       rf"{re.escape(hosts.b.socket)} "
                                       r"is gone and was not back after \d+ s")

    def test_a_wire_that_is_cut(self):
        hosts = self.wired_hosts(VethPair(NO_OFFLOADS))
        process = self.start(hosts.a, hosts.b, LYRE_PEER_TIMEOUT_SECONDS="4")
        (_, name_of_a), (_, name_of_b) = self.rank_at(hosts.a), self.rank_at(hosts.b)
        hosts.wire.pull_out(hosts.wire.left)
        # Each rank misses the other one.
        self.expect_error(process, rf"(rank 0 on host A: .*{name_of_b}|"
                                   rf"rank 1 on host B: .*{name_of_a}).*given up after \d+ s")


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--liblyre", help="the client library (default: of the build)")
    ARGS, rest = parser.parse_known_args()
    ARGS.liblyre = ARGS.liblyre or os.path.join(ARGS.build, "libclient", "liblyre.so.0")
    processes.exit_on_signals()
    processes.adopt_orphans()  # an upgraded daemon
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
