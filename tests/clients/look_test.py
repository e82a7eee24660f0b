#!/usr/bin/env python3
"""The commands of lyre that look at a daemon, with a daemon: once, in a watch, and when it ends.

usage: look_test.py BUILD
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Daemon, Programs, Settings
from two_hosts import TwoHosts, cores, scratch_folder

COMMANDS = ("status", "sessions", "stats", "clients", "ports", "neighbours", "routes")
BOUND_S = 60
DAY_NS = 24 * 3600 * 10**9
# A client whose session has few events. In bulk the window may close often enough to push the first
# ones out of the trace.
SMALL_MESSAGES = ("perf", "client", "10.9.0.2:5201", "--ping-pong", "--count", "1000000",
                  "--interval", "0.01")
NO_DAEMON = 3
# In a network namespace whose kernel has the port's address.
BESIDE_THE_KERNEL = ("unshare", "--net", "sh", "-ec",
                     'ip address add 10.9.0.1/32 dev lo; exec "$@"', "sh")
# In a network namespace whose default route has two next hops, and a third interface has none.
WITH_TWO_UPLINKS = ("unshare", "--net", "sh", "-ec", """
    for n in 0 1 2; do
        ip link add up$n type veth peer name far$n
        ip link set up$n up
        ip link set far$n up
        ip address add 10.8.$n.1/24 dev up$n
    done
    ip route add default nexthop via 10.8.0.2 dev up0 nexthop via 10.8.1.2 dev up1
    exec "$@"
    """, "sh")


class Look(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts(Programs(BUILD)))

    def look(self, *arguments):
        command, environment = self.hosts.a.lyre(*arguments)
        return subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)

    def watch(self, *arguments):
        """A running `lyre ARGUMENTS --watch`, of which the first output was read."""
        command, environment = self.hosts.a.lyre(*arguments, "--watch", "0.2")
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, processes.read_line(process, BOUND_S, process.stdout)

    def test_each_command_shows_text(self):
        for name in COMMANDS:
            done = self.look(name)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertNotEqual(done.stdout, "", name)

    def test_each_command_prints_one_document(self):
        for name in COMMANDS:
            document = json.loads(self.look(name, "--json").stdout)
            self.assertEqual(document["schema"], 1, name)
            # The epoch and the unit: the machine may be slow, and its clock may be set meanwhile.
            self.assertLess(abs(document["taken_unix_ns"] - time.time_ns()), DAY_NS, name)
            self.assertNotIn("interval_ns", document, name)

    def test_each_watch_prints_a_document_a_line(self):
        for name in COMMANDS:
            process, first = self.watch(name, "--json")
            for line in (first, processes.read_line(process, BOUND_S, process.stdout)):
                document = json.loads(line)
                self.assertEqual(document["schema"], 1, name)
                self.assertGreater(document["interval_ns"], 0, name)

    def test_a_reader_that_leaves_ends_a_watch(self):
        process, _ = self.watch("status", "--json")
        process.stdout.close()
        self.assertNotEqual(process.wait(BOUND_S), 0)


def trace(host, *arguments):
    command, environment = host.lyre("trace", "--json", *arguments)
    done = subprocess.run(command, env=environment, capture_output=True, text=True,
                          timeout=BOUND_S, check=True)
    return json.loads(done.stdout)["sessions"]


def events(session):
    return [event["event"] for event in session["events"]]


class Trace(unittest.TestCase):
    """What happened to a session whose peer dies."""

    def start(self, host, *arguments):
        command, environment = host.lyre(*arguments)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_session_has_a_trace_while_it_is_open_and_after_it_ended_badly(self):
        with TwoHosts(Programs(BUILD), sections={"tcp": {"user_timeout_ms": 1000}}) as hosts:
            processes.read_line(self.start(hosts.b, "perf", "server"), BOUND_S)  # it listens
            client = self.start(hosts.a, *SMALL_MESSAGES)
            peer = "10.9.0.2:5201"
            found = await_session(self, hosts.a, client, peer)
            self.assertEqual(trace(hosts.a), [])
            self.assertEqual(events(found[0])[:2], ["opened", "state"])
            hosts.b.kill()
            client.wait(BOUND_S)
            ended = [one for one in trace(hosts.a, peer) if "status" in one]
            self.assertTrue(ended)
            for session in ended:
                self.assertIn(session["status"], ("timed_out", "icmp_error"))
                # The last message may have been acknowledged: keep-alive finds that the peer died.
                self.assertTrue({"timeout", "keepalive_probe"} & set(events(session)))
                self.assertEqual(events(session)[-1], "ended")
            command, environment = hosts.a.lyre("trace")
            lines = subprocess.run(command, env=environment, capture_output=True, text=True,
                                   timeout=BOUND_S, check=True).stdout.splitlines()
            self.assertEqual(len(lines), 1 + len(ended))

    def test_a_peer_that_dies_when_all_is_acknowledged_ends_the_command(self):
        with TwoHosts(Programs(BUILD)) as hosts:
            server = self.start(hosts.b, "perf", "server")
            processes.read_line(server, BOUND_S)  # it listens
            client = self.start(hosts.a, *SMALL_MESSAGES)
            await_session(self, hosts.a, client, "10.9.0.2:5201")
            server.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.pid, os.WSTOPPED)
            await_unanswered_message(self, hosts)
            hosts.b.kill()
            self.assertNotEqual(client.wait(BOUND_S), 0)

    def test_an_unknown_session_is_an_error_of_one_line(self):
        with TwoHosts(Programs(BUILD)) as hosts:
            command, environment = hosts.a.lyre("trace", "10.9.0.2:1")
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=BOUND_S, check=False)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1))
            self.assertIn("no session", done.stderr)


class Last(unittest.TestCase):
    """What a daemon leaves behind."""

    def look(self, host, *arguments):
        command, environment = host.lyre(*arguments)
        return subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)

    def wait_for_last(self, host, pid):
        """A process beside the daemon writes the file when that has died."""
        deadline = time.monotonic() + BOUND_S
        while True:
            done = self.look(host, "status", "--last", "--json")
            if done.returncode == 0 and json.loads(done.stdout)["last_daemon"]["pid"] == pid:
                return json.loads(done.stdout)["last_daemon"]
            self.assertIn(done.returncode, (0, NO_DAEMON), done.stderr)
            self.assertLess(time.monotonic(), deadline, done.stdout + done.stderr)

    def test_what_a_daemon_left_says_whose_it_was_and_when_it_ended(self):
        with TwoHosts(Programs(BUILD)) as hosts:
            a = hosts.a
            nothing = self.look(a, "stats", "--last")
            self.assertEqual((nothing.returncode, len(nothing.stderr.splitlines())), (NO_DAEMON, 1))
            self.assertEqual(self.look(a, "stats", "--last", "--watch").returncode, 2)
            command, environment = hosts.b.lyre("perf", "server")
            server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            self.addCleanup(server.stderr.close)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            processes.read_line(server, BOUND_S)  # it listens
            command, environment = a.lyre(*SMALL_MESSAGES)
            client = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            self.addCleanup(client.wait)
            self.addCleanup(client.kill)
            await_session(self, a, client, "10.9.0.2:5201")
            died = a.pid
            a.kill()
            self.assertFalse(self.wait_for_last(a, died)["has_stopped"])
            for name in (*COMMANDS, "trace"):
                text = self.look(a, name, "--last").stdout
                self.assertRegex(text, rf"^left by lyred .* 'host-a', process {died}, .* died ")
            peers = [session.get("remote") for session in
                     json.loads(self.look(a, "sessions", "--last", "--json").stdout)["sessions"]]
            self.assertIn("10.9.0.2:5201", peers)
            left = trace(a, "--last", "10.9.0.2:5201")
            self.assertEqual(events(left[0])[:2], ["opened", "state"])

            a.start()
            stopped = a.pid
            self.assertEqual(self.wait_for_last(a, died)["pid"], died)
            a.stop()
            self.assertTrue(self.wait_for_last(a, stopped)["has_stopped"])
            self.assertIn("stopped", self.look(a, "stats", "--last").stdout.splitlines()[0])


def open_sessions(host, peer):
    """Those that are established; none before there is one."""
    command, environment = host.lyre("trace", "--json", peer)
    done = subprocess.run(command, env=environment, capture_output=True, text=True,
                          timeout=BOUND_S, check=False)
    if done.returncode != 0:
        return []
    return [one for one in json.loads(done.stdout)["sessions"] if one["state"] == "ESTABLISHED"]


def await_session(case, host, client, peer):
    """Those of the client, which runs on, once there is one."""
    deadline = time.monotonic() + BOUND_S
    while not (found := open_sessions(host, peer)):
        case.assertIsNone(client.poll(), "the client ended before its session was seen")
        case.assertLess(time.monotonic(), deadline, "no session")
    return found


def await_unanswered_message(case, hosts):
    """The daemon of the server, which is stopped, keeps a message, and the client's daemon has its
    acknowledgement. No answer can follow."""
    deadline = time.monotonic() + BOUND_S
    while True:
        near, far = ([one for one in host.look("sessions")["sessions"] if "remote" in one]
                     for host in (hosts.a, hosts.b))
        if (near and far and far[0]["receive_charged_bytes"] > 0
                and near[0]["bytes_acked"] == far[0]["bytes_received"]):
            return
        case.assertLess(time.monotonic(), deadline, f"no message is kept: {near}, {far}")


class Start(unittest.TestCase):
    def test_an_address_that_the_kernel_has_as_well_is_in_the_log(self):
        folder = scratch_folder()
        self.addCleanup(shutil.rmtree, folder)
        device = f"net_memif0,role=server,socket={folder}/wire.sock,socket-abstract=no"
        daemon = Daemon(Programs(BUILD), Settings("host-a", device, "10.9.0.1/24", cores()[0]),
                        folder, BESIDE_THE_KERNEL)
        self.addCleanup(daemon.stop)
        daemon.start()
        self.assertRegex(daemon.log_tail(), "port.address: 10.9.0.1 .* this machine's kernel")

    def check_port_on(self, interface):
        """What `lyred --check` says of a port there, in that namespace."""
        folder = scratch_folder()
        self.addCleanup(shutil.rmtree, folder)
        device = f"net_af_packet0,iface={interface}"
        path = os.path.join(folder, "lyred.toml")
        with open(path, "w", encoding="utf-8") as file:
            settings = Settings("host-a", device, "10.9.0.1/24", cores()[0])
            file.write(settings.toml(os.path.join(folder, "lyred.sock")))
        done = subprocess.run([*WITH_TWO_UPLINKS, Programs(BUILD).lyred, "--check", "--config",
                               path], capture_output=True, text=True, timeout=BOUND_S, check=False)
        return done.stdout + done.stderr

    def test_each_uplink_of_the_default_route_is_the_kernel_s(self):
        refusal = "which carries this machine's default route"
        for interface in ("up0", "up1"):
            self.assertIn(f" is {interface}, {refusal}", self.check_port_on(interface))
        said = self.check_port_on("up2")
        self.assertIn("lyred.toml", said)
        self.assertNotIn(refusal, said)


class Ended(unittest.TestCase):
    def test_every_watch_notices_that_the_daemon_ended(self):
        with TwoHosts(Programs(BUILD)) as hosts:
            watches = []
            for name in COMMANDS:
                command, environment = hosts.b.lyre(name, "--watch", "0.1")
                watches.append((name, subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True)))
            for _, process in watches:
                processes.read_line(process, BOUND_S, process.stdout)
            hosts.b.stop()
            for name, process in watches:
                _, said = process.communicate(timeout=BOUND_S)
                self.assertEqual(process.returncode, NO_DAEMON, name)
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn("no daemon", said)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
