#!/usr/bin/env python3
"""`lyre upgrade`: another process goes on in the place of a running daemon with its sessions, over
memif, AF_PACKET, TAP and AF_XDP, and with the kernel as the peer.

usage: upgrade_test.py BUILD [TEST...]
       upgrade_test.py BUILD --thorough [TEST...]   1,000 sessions and 100 upgrades of each kind
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Daemon, DaemonError, Programs, Settings
from network import Namespace, NetworkError, VethPair
from two_hosts import (ADDRESSES, SUPER_PACKETS, TwoHosts, cores, need_super_packets,
                       scratch_folder)

BOUND_S = 90
PORT = 5300
ECHO_PORT = 7007
BULK_SESSIONS = 16
IS_THOROUGH = "--thorough" in sys.argv
UPGRADES = 100 if IS_THOROUGH else 3
SESSIONS = 1000 if IS_THOROUGH else 300
MOVING_S = 8 + 2 * UPGRADES
ONE_UPGRADE_S = 4
# Of one transfer: a machine that needs longer for its upgrades is not slow, but stuck.
LONGEST_S = 300 + 8 * UPGRADES
INTERVAL_S = 0.02  # of round trips
THOROUGH = ["MemifTest.test_many_sessions", "AfPacketTest.test_many_sessions",
            "TapTest.test_many_sessions"]
KERNEL, LYRE = "10.9.7.1", "10.9.7.2"
REFUSED = 1


def documents_in(text):
    """The JSON documents that follow each other in `text`."""
    out, at = [], 0
    while (at := at + len(text[at:]) - len(text[at:].lstrip())) < len(text):
        document, at = json.JSONDecoder().raw_decode(text, at)
        out.append(document)
    return out


class Transfer:
    """`lyre perf` between two sides, each a function from arguments to (command, environment).

    Reports go to files: a server that waits until its pipe is read does not serve."""

    def __init__(self, server, client, address, *options):
        command, environment = server("perf", "server", "--listen", f":{PORT}", "--once", "--json")
        self._files = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]
        self._server = processes.start(command, env=environment, text=True,
                                       stdout=self._files[1], stderr=subprocess.PIPE)
        line = processes.read_line(self._server, BOUND_S)
        if "listening" not in line:
            raise AssertionError(f"the server said {line!r}")
        command, environment = client("perf", "client", f"{address}:{PORT}", "--json", *options)
        self._client = processes.start(command, env=environment, text=True,
                                       stdout=self._files[0], stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        for process in (self._client, self._server):
            processes.end(process)
            process.stderr.close()
        for file in self._files:
            file.close()

    def is_running(self):
        """Whether neither side has ended, well or not: reports() tells."""
        return self._client.poll() is None and self._server.poll() is None

    def await_bytes(self, host, count=1):
        """Returns once more bytes have come to `host`, and some over each of so many sessions, or
        the transfer has ended."""
        def received():  # listeners receive nothing
            return [bytes_ for one in host.look("sessions")["sessions"]
                    if (bytes_ := one.get("bytes_received", 0))]
        before, deadline = sum(received()), time.monotonic() + BOUND_S
        while self.is_running() and (sum(now := received()) <= before or len(now) < count):
            if time.monotonic() > deadline:
                raise AssertionError(f"after {BOUND_S} s no bytes, or over {len(now)} sessions")
            time.sleep(0.05)

    def reports(self):
        """What client and server have printed, when both have ended well: the server a document for
        each session."""
        out = []
        for name, process, file in (("client", self._client, self._files[0]),
                                    ("server", self._server, self._files[1])):
            _, said = process.communicate(timeout=BOUND_S + LONGEST_S)
            if process.returncode != 0 or said:
                raise AssertionError(f"the {name}, status {process.returncode}: {said.strip()}")
            file.seek(0)
            out.append(documents_in(file.read()))
        return out


def receive(session, count):
    """So many bytes, or as many as come before its end."""
    out = b""
    while len(out) < count and (part := session.recv(count - len(out))):
        out += part
    return out


def change_config(test, host, old, new):
    path = host.socket.replace(".sock", ".toml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    test.assertIn(old, text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


def replace(path, text):
    """Another file in its place, as a package manager does it."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)


def log_pauses(subject, pauses):
    """For a person who reads the log: nothing is asserted of times."""
    milliseconds = sorted(pause / 1e6 for pause in pauses)
    print(f"{subject}: {len(pauses)} upgrades, without a turn for "
          f"{milliseconds[0]:.1f} to {milliseconds[-1]:.1f} ms, half of them "
          f"{milliseconds[len(milliseconds) // 2]:.1f} ms or less", file=sys.stderr)


def refusal_of(host):
    """Why an upgrade is refused; None if it is not."""
    try:
        host.upgrade()
        return None
    except DaemonError as error:
        return str(error)


class Upgrades(unittest.TestCase):
    programs = None

    def check(self, reports):
        for flow, mirror in (("sent", "received"), ("received", "sent")):
            here, there = ([one[way] for one in side] for side, way in zip(reports, (flow, mirror)))
            self.assertTrue(all(one["intact"] for one in here + there))
            count = sum(one["bytes"] for one in here)
            self.assertEqual(count, sum(one["bytes"] for one in there))
            self.assertGreater(count, 0)

    def beside(self, start, action, seconds=MOVING_S):
        """What `action` returns, called with a transfer of so many seconds by `start`, and the
        reports. If the transfer ends first, another one lasts longer."""
        while seconds < LONGEST_S:
            with start(seconds) as transfer:
                result = action(transfer)
                was_running = transfer.is_running()
                reports = transfer.reports()
            if was_running:
                return result, reports
            seconds *= 2
        return self.fail(f"a transfer of {seconds // 2} s ended before its upgrades were done")

    def upgrade_while(self, start, hosts, count=UPGRADES, seconds=MOVING_S, sessions=1):
        """Pauses of the upgrades of `hosts` in turns during a transfer of so many sessions, and the
        reports."""
        def upgrade(transfer):
            pauses = []
            for i in range(count):
                host = hosts[i % len(hosts)]
                transfer.await_bytes(host, sessions)
                if not transfer.is_running():
                    break
                pauses.append(host.upgrade()["pause_ns"])
            return pauses
        return self.beside(start, upgrade, seconds)

    def with_own_lyred(self):
        """The programs, with a copy of lyred that the test may replace."""
        folder = scratch_folder()
        self.addCleanup(shutil.rmtree, folder, True)
        programs = Programs(self.programs.build)
        programs.lyred = os.path.join(folder, "lyred")
        shutil.copy(self.programs.lyred, programs.lyred)
        return programs

    def expect_refusal(self, said, *words):
        """`said` comes from refusal_of()."""
        self.assertIsNotNone(said, "the upgrade was not refused")
        self.assertTrue(said.startswith(f"lyre upgrade, status {REFUSED}: "), said)
        self.assertEqual(len(said.splitlines()), 1, said)
        for word in words:
            self.assertIn(word, said)


class MemifTest(Upgrades):
    """Two daemons, each of which is upgraded."""

    @staticmethod
    def transfer(hosts, *options):
        """Makes a transfer both ways of so many seconds."""
        return lambda seconds: Transfer(
            hosts.a.lyre, hosts.b.lyre, ADDRESSES["host-a"], "--direction", "both", "--seconds",
            str(seconds), *options)

    def test_a_transfer_over_memif(self):
        with TwoHosts(self.programs) as hosts:
            first = [hosts.a.pid, hosts.b.pid]
            pauses, reports = self.upgrade_while(self.transfer(hosts, "--verify"),
                                                 [hosts.a, hosts.b])
            self.check(reports)
            self.assertNotIn(hosts.a.pid, first)
            self.assertNotIn(hosts.b.pid, first)
        log_pauses("memif", pauses)

    def test_a_reload_of_the_service(self):
        """lyred.service asks by its program and its configuration."""
        with TwoHosts(self.programs) as hosts:
            first = hosts.a.pid

            def reload(transfer):
                transfer.await_bytes(hosts.a)
                hosts.a.reload()

            _, reports = self.beside(self.transfer(hosts, "--verify"), reload, ONE_UPGRADE_S)
            self.check(reports)
            self.assertNotEqual(hosts.a.pid, first)
            self.assertTrue(hosts.a.is_running())

    def test_two_workers_each(self):
        """Connections belong to a worker, and are claimed again."""
        both = cores() if cores()[0] != cores()[1] else cores()[:1]
        with TwoHosts(self.programs, cores_of=dict.fromkeys(ADDRESSES, both)) as hosts:
            _, reports = self.upgrade_while(self.transfer(hosts, "--sessions", "8"),
                                            [hosts.a, hosts.b], 2, 8, 8)
            self.check(reports)

    def test_a_listener_stays_and_new_clients_come(self):
        with TwoHosts(self.programs) as hosts:
            command, environment = hosts.a.lyre("perf", "server", "--listen", f":{PORT}")
            server = processes.start(command, env=environment, text=True, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE)
            self.addCleanup(server.stderr.close)
            self.addCleanup(processes.end, server)
            self.assertIn("listening", processes.read_line(server, BOUND_S))
            for _ in range(2):
                hosts.a.upgrade()
                hosts.a.wait_link()
                hosts.b.wait_link()
                command, environment = hosts.b.lyre("perf", "client",
                                                    f"{ADDRESSES['host-a']}:{PORT}", "--json",
                                                    "--bytes", "8MiB", "--direction", "both")
                done = processes.run(command, BOUND_S, capture_output=True, env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(json.loads(done.stdout)["received"]["intact"])
            self.assertEqual(len(hosts.a.look("clients")["clients"]), 1)

    def test_super_packets(self):
        """After an upgrade clients get copies of what came in several buffers."""
        need_super_packets(self, self.programs)
        with TwoHosts(self.programs, sections=SUPER_PACKETS) as hosts:
            _, reports = self.upgrade_while(self.transfer(hosts, "--verify"), [hosts.a, hosts.b], 2,
                                            8)
            self.check(reports)

    def test_many_sessions(self):
        count = SESSIONS if IS_THOROUGH else BULK_SESSIONS
        with TwoHosts(self.programs) as hosts:
            pauses, reports = self.upgrade_while(self.transfer(hosts, "--sessions", str(count)),
                                                 [hosts.a, hosts.b], sessions=count)
            self.check(reports)
        self.assertEqual([one["sessions"] for one in reports[0]], [count])
        self.assertEqual(len(reports[1]), count)
        log_pauses(f"memif, {count} sessions", pauses)


class KernelPeer(Upgrades):
    """A daemon whose peer is the kernel."""

    name = None
    offloads = ["tx", "off"]

    def setUp(self):
        try:
            self.wire = self.enterContext(VethPair(self.offloads))
        except NetworkError as error:
            self.skipTest(str(error))
        self.folder = scratch_folder()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.daemon = Daemon(self.programs,
                             Settings("host-a", self.device(), f"{LYRE}/24", cores()[0]),
                             self.folder, self.wire.inside(self.wire.left))
        self.daemon.start()
        self.addCleanup(self.daemon.stop)
        self.give_kernel_its_address()
        self.daemon.wait_link()

    def device(self):
        raise NotImplementedError

    def give_kernel_its_address(self):
        raise NotImplementedError

    def kernel_side(self):
        """The namespace in which the peer is."""
        raise NotImplementedError

    def by_kernel(self, *arguments):
        command = (self.programs.lyre, *arguments, "--kernel")
        return self.wire.inside(self.kernel_side(), *command), dict(os.environ)

    def transfer(self, *options, is_lyre_server=True):
        sides = (self.daemon.lyre, self.by_kernel, LYRE)
        if not is_lyre_server:
            sides = (self.by_kernel, self.daemon.lyre, KERNEL)
        return Transfer(*sides, "--direction", "both", *options)

    def upgrade_under_a_transfer(self):
        pauses, reports = self.upgrade_while(
            lambda seconds: self.transfer("--verify", "--seconds", str(seconds)), [self.daemon])
        self.check(reports)
        log_pauses(f"{self.name}, from the kernel", pauses)

    def echoed_sessions(self, count):
        """Sockets of the kernel that are connected with an echo server of the daemon."""
        peer = os.path.join(self.programs.build, "tests/interop/lyre_peer")
        environment = dict(os.environ, LYRE_SOCKET=self.daemon.socket)
        echo = processes.start([peer, "echo", f":{ECHO_PORT}"], env=environment,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(echo.stdout.close)
        self.addCleanup(processes.end, echo)
        self.assertEqual(processes.read_line(echo, BOUND_S, echo.stdout), "listening\n")
        with Namespace(self.kernel_side()):
            sessions = [socket.create_connection((LYRE, ECHO_PORT), BOUND_S)
                        for _ in range(count)]
        for session in sessions:
            self.addCleanup(session.close)
        return sessions

    @staticmethod
    def send_all(sessions, texts):
        for session, text in zip(sessions, texts):
            session.sendall(text)

    def expect_all(self, sessions, texts):
        for session, text in zip(sessions, texts):
            self.assertEqual(receive(session, len(text)), text)

    def upgrade_with_many_sessions(self):
        """Each has sent when the upgrade begins, and gets all of it back, once."""
        sessions = self.echoed_sessions(SESSIONS)
        pauses = []
        for turn in range(UPGRADES):
            texts = [f"{turn} of {number};".encode() * 40 for number in range(SESSIONS)]
            self.send_all(sessions, texts)
            pauses.append(self.daemon.upgrade()["pause_ns"])
            self.expect_all(sessions, texts)
        log_pauses(f"{self.name}, {SESSIONS} sessions of the kernel", pauses)

    def refuse_without_address(self):
        """The new process has opened the port, and finds that the session's address is not its
        own. The session goes on in the old one."""
        sessions, pid = self.echoed_sessions(1), self.daemon.pid
        self.send_all(sessions, [b"before"])
        self.expect_all(sessions, [b"before"])
        change_config(self, self.daemon, LYRE, "10.9.7.9")
        self.expect_refusal(refusal_of(self.daemon), "do not fit")
        self.assertTrue(self.daemon.is_running())
        self.assertEqual(self.daemon.pid, pid)
        self.send_all(sessions, [b"afterwards"])
        self.expect_all(sessions, [b"afterwards"])


class VethPeer(KernelPeer):
    """The daemon has one end of a veth wire, the kernel the other."""

    def give_kernel_its_address(self):
        self.wire.give_address(self.wire.right, KERNEL)

    def kernel_side(self):
        return self.wire.right


class AfPacketTest(VethPeer):
    """On one end of a veth wire by AF_PACKET; the kernel has the other."""

    name = "AF_PACKET"

    def device(self):
        return f"net_af_packet0,iface={self.wire.device}"

    def test_a_transfer_that_lyre_serves(self):
        self.upgrade_under_a_transfer()

    def test_many_sessions(self):
        self.upgrade_with_many_sessions()

    def test_a_session_that_is_silent_is_there_afterwards(self):
        """Its client sleeps on its bell, and is woken by the process that came."""
        interval_s = 0.3
        self.upgrade_while(
            lambda seconds: Transfer(self.daemon.lyre, self.by_kernel, LYRE, "--ping-pong",
                                     "--count", str(int(seconds / interval_s)),
                                     "--interval", str(interval_s)), [self.daemon], 2, 6)


class SuperPacketsTest(AfPacketTest):
    """The same on a wire that carries packets of up to 64 KiB uncut."""

    name = "AF_PACKET with super-packets"
    offloads = ["tso", "on"]


class TapTest(KernelPeer):
    """A TAP device, of which the kernel has the other side. It keeps what it was given there."""

    name = "TAP"
    INTERFACE = "lyre0"
    KERNEL_MAC = "02:00:00:00:00:07"

    def device(self):
        return f"net_tap0,iface={self.INTERFACE}"

    def give_kernel_its_address(self):
        # The driver gives the kernel's side its own MAC address.
        for words in (["link", "set", "dev", self.INTERFACE, "address", self.KERNEL_MAC],
                      ["addr", "add", f"{KERNEL}/24", "dev", self.INTERFACE]):
            self.wire.run(self.wire.left, "ip", *words)

    def kernel_side(self):
        return self.wire.left

    def check_interface(self):
        shown = json.loads(self.wire.run(self.wire.left, "ip", "-json", "addr", "show", "dev",
                                         self.INTERFACE))[0]
        self.assertEqual(shown["address"], self.KERNEL_MAC)
        self.assertIn(KERNEL, [each.get("local") for each in shown["addr_info"]])
        self.assertIn("UP", shown["flags"])

    def test_a_transfer_that_lyre_serves(self):
        self.upgrade_under_a_transfer()
        self.check_interface()

    def test_many_sessions(self):
        self.upgrade_with_many_sessions()
        self.check_interface()

    def test_a_process_that_fails_leaves_the_interface(self):
        self.refuse_without_address()
        self.check_interface()


class XdpTest(VethPeer):
    """On one end of a veth wire by AF_XDP: one process can have a queue of an interface."""

    name = "AF_XDP"

    def device(self):
        return f"net_af_xdp0,iface={self.wire.device}"

    def test_a_transfer_that_lyre_serves(self):
        self.upgrade_under_a_transfer()

    def test_many_sessions(self):
        self.upgrade_with_many_sessions()

    def test_the_old_process_opens_its_port_again(self):
        self.refuse_without_address()


class SlowPortTest(Upgrades):
    """The port of the new process needs longer to open than a session may stay unacknowledged."""

    USER_TIMEOUT_MS = 3000
    SLOW_S = 5
    TIMEOUTS = {"host-a": {"tcp": {"user_timeout_ms": USER_TIMEOUT_MS}},
                "host-b": {"tcp": {"user_timeout_ms": 1000 * LONGEST_S}}}

    def test_the_pause_ends_no_session(self):
        programs = self.with_own_lyred()
        library = os.path.join(os.path.abspath(programs.build), "tests/support/libslow_nic.so")
        with TwoHosts(programs, sections_of=self.TIMEOUTS) as hosts:
            replace(programs.lyred, f"#!/bin/sh\nexec env LD_PRELOAD={library} "
                    f"LYRE_TEST_SLOW_NIC={self.SLOW_S} {self.programs.lyred} \"$@\"\n")
            pauses, reports = self.upgrade_while(MemifTest.transfer(hosts, "--verify"), [hosts.a],
                                                 1, MOVING_S)
            self.check(reports)
        self.assertGreater(pauses[0], self.USER_TIMEOUT_MS * 1_000_000, "the port was not slow")


class FailureTest(Upgrades):
    """A new process that cannot serve leaves the old one as it was."""

    def run_refused(self, change, *words):
        """`change` is called with the daemon and its copy of the program. The transfer has to last
        longer than the attempt: what does not fit may be its session."""
        seconds = ONE_UPGRADE_S
        while not self.is_refused(seconds, change, words):
            seconds *= 2
            self.assertLess(seconds, LONGEST_S, "transfers end before the upgrade is refused")

    def is_refused(self, seconds, change, words):
        """False, and nothing is known, if the transfer of so many seconds ended too early."""
        programs = self.with_own_lyred()
        with TwoHosts(programs) as hosts:
            with Transfer(hosts.a.lyre, hosts.b.lyre, ADDRESSES["host-a"], "--ping-pong", "--count",
                          str(int(seconds / INTERVAL_S)), "--interval",
                          str(INTERVAL_S)) as transfer:
                transfer.await_bytes(hosts.a)
                pid = hosts.a.pid
                change(hosts.a, programs.lyred)
                said = refusal_of(hosts.a)
                was_running = transfer.is_running()
                if was_running:
                    self.expect_refusal(said, *words)
                    self.assertTrue(hosts.a.is_running())
                    self.assertEqual(hosts.a.pid, pid)
                transfer.reports()
        return was_running

    def test_a_program_that_is_not_there(self):
        self.run_refused(lambda host, program: os.unlink(program), "No such file")

    def test_a_program_that_crashes(self):
        self.run_refused(lambda host, program: replace(program, "#!/bin/sh\nkill -SEGV $$\n"),
                         "signal 11")

    def test_a_program_that_is_another(self):
        self.run_refused(
            lambda host, program: replace(program, "#!/bin/sh\nexit 7\n"), "status 7")

    def test_a_configuration_that_is_wrong(self):
        self.run_refused(lambda host, program: change_config(self, host, "mtu =", "mtus ="),
                         "status 2")

    def test_a_configuration_with_another_port(self):
        self.run_refused(
            lambda host, program: change_config(self, host, "role=server", "role=client"),
            "restart")

    def test_a_configuration_without_the_address_of_a_session(self):
        """Found only when the ports are closed already, which are opened again."""
        self.run_refused(
            lambda host, program: change_config(self, host, ADDRESSES["host-a"], "10.9.0.9"),
            "do not fit")

    def test_another_user_may_not_ask(self):
        with TwoHosts(self.programs) as hosts:
            os.chmod(hosts.a.socket, 0o777)
            os.chmod(os.path.dirname(hosts.a.socket), 0o755)
            command, environment = hosts.a.lyre("upgrade")
            done = processes.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                  *command], BOUND_S, capture_output=True, env=environment)
            self.assertEqual(done.returncode, REFUSED, done.stderr)
            self.assertIn("for root and the daemon's own user", done.stderr)


if __name__ == "__main__":
    processes.exit_on_signals()
    processes.adopt_orphans()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Upgrades.programs = Programs(sys.argv.pop(1))
    if IS_THOROUGH:
        sys.argv.remove("--thorough")
        sys.argv[1:] = sys.argv[1:] or THOROUGH
    unittest.main(verbosity=2)
