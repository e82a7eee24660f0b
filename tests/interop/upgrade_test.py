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
from daemon import Daemon, Programs, Settings
from network import Namespace, NetworkError, VethPair
from two_hosts import ADDRESSES, TwoHosts, cores, scratch_folder

BOUND_S = 90
PORT = 5300
ECHO_PORT = 7007
BULK_SESSIONS = 16
IS_THOROUGH = "--thorough" in sys.argv
UPGRADES = 100 if IS_THOROUGH else 3
SESSIONS = 1000 if IS_THOROUGH else 300
MOVING_S = 4 + UPGRADES
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
        line = self._server.stderr.readline()
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

    def check_running(self):
        """Fails with what a side that has ended said."""
        for name, process in (("client", self._client), ("server", self._server)):
            if process.poll() is not None:
                said = process.stderr.read().strip()
                raise AssertionError(f"the {name} has ended, status {process.returncode}: {said}")

    def reports(self):
        """What client and server have printed, when both have ended well: the server a document for
        each session."""
        out = []
        for name, process, file in (("client", self._client, self._files[0]),
                                    ("server", self._server, self._files[1])):
            _, said = process.communicate(timeout=BOUND_S + 2 * MOVING_S)
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


def log_pauses(subject, pauses):
    """For a person who reads the log: nothing is asserted of times."""
    milliseconds = sorted(pause / 1e6 for pause in pauses)
    print(f"{subject}: {len(pauses)} upgrades, without a turn for "
          f"{milliseconds[0]:.1f} to {milliseconds[-1]:.1f} ms, half of them "
          f"{milliseconds[len(milliseconds) // 2]:.1f} ms or less", file=sys.stderr)


class Upgrades(unittest.TestCase):
    programs = None

    def check(self, reports):
        for flow, mirror in (("sent", "received"), ("received", "sent")):
            here, there = ([one[way] for one in side] for side, way in zip(reports, (flow, mirror)))
            self.assertTrue(all(one["intact"] for one in here + there))
            count = sum(one["bytes"] for one in here)
            self.assertEqual(count, sum(one["bytes"] for one in there))
            self.assertGreater(count, 0)

    def upgrade_while(self, transfer, hosts, count=UPGRADES):
        pauses = []
        for i in range(count):
            time.sleep(0.2)
            transfer.check_running()
            pauses.append(hosts[i % len(hosts)].upgrade()["pause_ns"])
        transfer.check_running()
        return pauses


class MemifTest(Upgrades):
    """Two daemons, each of which is upgraded."""

    def test_a_transfer_over_memif(self):
        with TwoHosts(self.programs) as hosts:
            first = [hosts.a.pid, hosts.b.pid]
            with Transfer(hosts.a.lyre, hosts.b.lyre, ADDRESSES["host-a"], "--direction", "both",
                          "--verify", "--seconds", str(MOVING_S * 2)) as transfer:
                pauses = self.upgrade_while(transfer, [hosts.a, hosts.b])
                self.check(transfer.reports())
            self.assertNotIn(hosts.a.pid, first)
            self.assertNotIn(hosts.b.pid, first)
        log_pauses("memif", pauses)

    def test_two_workers_each(self):
        """Connections belong to a worker, and are claimed again."""
        both = cores() if cores()[0] != cores()[1] else cores()[:1]
        with TwoHosts(self.programs, cores_of=dict.fromkeys(ADDRESSES, both)) as hosts:
            with Transfer(hosts.a.lyre, hosts.b.lyre, ADDRESSES["host-a"], "--direction", "both",
                          "--sessions", "8", "--seconds", "8") as transfer:
                time.sleep(1)
                self.upgrade_while(transfer, [hosts.a, hosts.b], 2)
                self.check(transfer.reports())

    def test_a_listener_stays_and_new_clients_come(self):
        with TwoHosts(self.programs) as hosts:
            command, environment = hosts.a.lyre("perf", "server", "--listen", f":{PORT}")
            server = processes.start(command, env=environment, text=True, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE)
            self.addCleanup(server.stderr.close)
            self.addCleanup(processes.end, server)
            self.assertIn("listening", server.stderr.readline())
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

    def test_many_sessions(self):
        count = SESSIONS if IS_THOROUGH else BULK_SESSIONS
        with TwoHosts(self.programs) as hosts:
            with Transfer(hosts.a.lyre, hosts.b.lyre, ADDRESSES["host-a"], "--direction", "both",
                          "--sessions", str(count), "--seconds", str(MOVING_S * 2)) as transfer:
                time.sleep(2)
                pauses = self.upgrade_while(transfer, [hosts.a, hosts.b])
                reports = transfer.reports()
                self.check(reports)
        self.assertEqual([one["sessions"] for one in reports[0]], [count])
        self.assertEqual(len(reports[1]), count)
        log_pauses(f"memif, {count} sessions", pauses)


class KernelPeer(Upgrades):
    """A daemon whose peer is the kernel."""

    name = None

    def setUp(self):
        try:
            self.wire = self.enterContext(VethPair(["tx", "off"]))
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
        with self.transfer("--verify", "--seconds", str(MOVING_S * 2)) as transfer:
            pauses = self.upgrade_while(transfer, [self.daemon])
            self.check(transfer.reports())
        log_pauses(f"{self.name}, from the kernel", pauses)

    def upgrade_with_many_sessions(self):
        """Each has sent when the upgrade begins, and gets all of it back, once."""
        peer = os.path.join(self.programs.build, "tests/interop/lyre_peer")
        environment = dict(os.environ, LYRE_SOCKET=self.daemon.socket)
        echo = processes.start([peer, "echo", f":{ECHO_PORT}"], env=environment,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(echo.stdout.close)
        self.addCleanup(processes.end, echo)
        self.assertEqual(echo.stdout.readline(), "listening\n")
        with Namespace(self.kernel_side()):
            sessions = [socket.create_connection((LYRE, ECHO_PORT), BOUND_S)
                        for _ in range(SESSIONS)]
        for session in sessions:
            self.addCleanup(session.close)
        pauses = []
        for turn in range(UPGRADES):
            texts = [f"{turn} of {number};".encode() * 40 for number in range(SESSIONS)]
            for session, text in zip(sessions, texts):
                session.sendall(text)
            pauses.append(self.daemon.upgrade()["pause_ns"])
            for session, text in zip(sessions, texts):
                self.assertEqual(receive(session, len(text)), text)
        log_pauses(f"{self.name}, {SESSIONS} sessions of the kernel", pauses)

    def refuse_without_address(self):
        """The new process has opened the port, and finds that the session's address is not its
        own."""
        pid = self.daemon.pid
        change_config(self, self.daemon, LYRE, "10.9.7.9")
        command, environment = self.daemon.lyre("upgrade")
        done = processes.run(command, BOUND_S, capture_output=True, env=environment)
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        self.assertIn("do not fit", done.stderr)
        self.assertEqual(self.daemon.pid, pid)


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
        with self.transfer("--ping-pong", "--count", "20", "--interval", "0.3") as transfer:
            self.upgrade_while(transfer, [self.daemon], 2)
            transfer.reports()


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
        with self.transfer("--ping-pong", "--count", "100", "--interval", "0.02") as transfer:
            time.sleep(0.5)
            self.refuse_without_address()
            self.check_interface()
            transfer.reports()


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
        with self.transfer("--ping-pong", "--count", "100", "--interval", "0.02") as transfer:
            time.sleep(0.5)
            self.refuse_without_address()
            transfer.reports()


class FailureTest(Upgrades):
    """A new process that cannot serve leaves the old one as it was."""

    def run_refused(self, change, *words):
        """`change` is called with the daemon's folder and its copy of the program."""
        folder = scratch_folder()
        self.addCleanup(shutil.rmtree, folder, True)
        programs = Programs(self.programs.build)
        programs.lyred = os.path.join(folder, "lyred")
        shutil.copy(self.programs.lyred, programs.lyred)
        with TwoHosts(programs) as hosts:
            with Transfer(hosts.a.lyre, hosts.b.lyre, ADDRESSES["host-a"], "--ping-pong",
                          "--count", "150", "--interval", "0.02") as transfer:
                time.sleep(0.5)
                pid = hosts.a.pid
                change(hosts.a, programs.lyred)
                command, environment = hosts.a.lyre("upgrade")
                done = processes.run(command, BOUND_S, capture_output=True, env=environment)
                self.assertEqual(done.returncode, REFUSED, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertTrue(hosts.a.is_running())
                self.assertEqual(hosts.a.pid, pid)
                transfer.check_running()
                transfer.reports()

    @staticmethod
    def replace(path, text):
        """Another file in its place, as a package manager does it."""
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def test_a_program_that_is_not_there(self):
        self.run_refused(lambda host, program: os.unlink(program), "No such file")

    def test_a_program_that_crashes(self):
        self.run_refused(lambda host, program: self.replace(program, "#!/bin/sh\nkill -SEGV $$\n"),
                         "signal 11")

    def test_a_program_that_is_another(self):
        self.run_refused(
            lambda host, program: self.replace(program, "#!/bin/sh\nexit 7\n"), "status 7")

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
