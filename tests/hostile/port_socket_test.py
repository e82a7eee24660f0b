#!/usr/bin/env python3
"""Which sockets of a daemon with a memif port an unprivileged client, and another user, can reach.

The daemon runs as a user of its own, as the service does: its control socket belongs to the group
of the clients, and whatever else it makes is closed to them. DPDK's memif server ends the process
when clients connect and close at once, so a client that reaches the port's socket stops all others.

usage: port_socket_test.py LYRED        exit status 77: skipped, with the reason
"""

import grp
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from folders import public_folder

DAEMON_ID = 54321  # uid and gid; neither needs an entry in /etc/passwd
CLIENT_ID = 54322
READY_TIMEOUT_S = 60
CONNECTIONS = 64  # about 31 were enough
EXIT_BAD_CONFIG = 2
SKIPPED = 77


def clients_group():
    """A group of this machine that is neither root's nor the daemon's."""
    return next(group for group in grp.getgrall() if group.gr_gid not in (0, DAEMON_ID))


class PortSocket(unittest.TestCase):
    lyred = ""

    def setUp(self):
        self.folder = public_folder(self)
        self.program = shutil.copy(self.lyred, os.path.join(self.folder, "program"))
        # As config/lyre.tmpfiles creates them.
        self.shared = self.directory("lyre", 0o755)
        self.private = self.directory("lyred", 0o700)
        self.control = os.path.join(self.shared, "lyred.sock")
        self.group = clients_group()

    def directory(self, name, mode, owner=DAEMON_ID, group=DAEMON_ID):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        os.chown(path, owner, group)
        os.chmod(path, mode)
        return path

    def start(self, device):
        config = os.path.join(self.folder, "lyred.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'[daemon]\nsocket = "{self.control}"\n'
                       f'socket_group = "{self.group.gr_name}"\n'
                       f'[workers]\ncores = [{min(os.sched_getaffinity(0))}]\n'
                       '[memory]\nhugepages = "no"\n'
                       f'[[port]]\nname = "wire"\ndevice = "{device}"\naddress = "10.9.0.1/24"\n')
        daemon = processes.start(
            [self.program, "--config", config], user=DAEMON_ID, group=DAEMON_ID,
            extra_groups=[self.group.gr_gid], umask=0o007, text=True, stderr=subprocess.PIPE,
            env=dict(os.environ, RUNTIME_DIRECTORY=self.private))
        self.addCleanup(daemon.stderr.close)
        self.addCleanup(processes.end, daemon)
        return daemon

    def wait_ready(self, daemon):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.is_open_to_clients():
            self.assertIsNone(daemon.poll(), "the daemon ended")
            self.assertLess(time.monotonic(), deadline, "the daemon did not become ready")
            time.sleep(0.05)

    def is_open_to_clients(self):
        try:
            return os.stat(self.control).st_mode & 0o777 == 0o660
        except FileNotFoundError:
            return False

    def as_client(self, action, groups):
        """Runs `action` as a user who is in these groups; returns its result, a number."""
        child = os.fork()
        if child == 0:
            os.setgroups(groups)
            os.setresgid(CLIENT_ID, CLIENT_ID, CLIENT_ID)
            os.setresuid(CLIENT_ID, CLIENT_ID, CLIENT_ID)
            os._exit(action())
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def made_paths(self):
        return [os.path.join(folder, name) for top in (self.shared, self.private)
                for folder, folders, files in os.walk(top) for name in folders + files]

    def test_clients_reach_the_control_socket_and_nothing_else(self):
        wire = os.path.join(self.private, "ports", "wire.sock")
        daemon = self.start(f"net_memif0,role=server,socket={wire}")
        self.wait_ready(daemon)
        self.assertTrue(os.path.exists(wire))
        self.assertEqual(0o700, os.stat(os.path.dirname(wire)).st_mode & 0o7777)

        # A container gets the whole directory, and root in it may enter every directory.
        self.assertEqual(["lyred.sock"], os.listdir(self.shared))
        paths = self.made_paths()

        def reached():
            count = 0
            for path in paths:
                for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
                    with socket.socket(socket.AF_UNIX, kind) as probe:
                        count += probe.connect_ex(path) == 0
                if not path.endswith(".sock"):
                    count += os.access(path, os.R_OK) or os.access(path, os.W_OK)
            return count

        def connect_often():
            count = 0
            for _ in range(CONNECTIONS):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                    count += probe.connect_ex(wire) == 0
            return count

        for groups, expected in (([self.group.gr_gid], 1), ([], 0)):
            self.assertEqual(0, self.as_client(connect_often, groups))
            self.assertEqual(expected, self.as_client(reached, groups), paths)
        self.assertEqual([], self.other_listeners(daemon.pid))
        self.assertIsNone(daemon.poll())
        self.assertEqual(0, processes.end(daemon, READY_TIMEOUT_S))

    def other_listeners(self, pid):
        """Names of sockets of the daemon that no directory protects."""
        own = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        out = []
        with open("/proc/net/unix", encoding="utf-8") as table:
            for line in table:
                words = line.split()
                if len(words) == 8 and words[7][0] == "@" and f"socket:[{words[6]}]" in own:
                    out.append(words[7])
        return out

    def refusal(self, device):
        daemon = self.start(device)
        _, said = daemon.communicate(timeout=READY_TIMEOUT_S)
        self.assertEqual(EXIT_BAD_CONFIG, daemon.returncode, said)
        self.assertEqual(1, said.count("\n"), said)
        self.assertIn("lyred.toml:10: port.device: ", said)
        self.assertFalse(os.path.exists(self.control))
        return said

    def test_a_directory_that_others_can_enter_is_refused(self):
        for role in ("server", "client"):
            said = self.refusal(f"net_memif0,role={role},socket={self.shared}/wire.sock")
            self.assertIn("mode 0755, open to others, allowed: ", said)

    def test_a_directory_of_the_clients_is_refused(self):
        folder = self.directory("ports", 0o750, group=self.group.gr_gid)
        said = self.refusal(f"net_memif0,role=server,socket={folder}/wire.sock")
        self.assertIn(f"mode 0750, open to group {self.group.gr_gid}", said)

    def test_a_directory_of_somebody_else_is_refused(self):
        folder = self.directory("ports", 0o700, CLIENT_ID, CLIENT_ID)
        said = self.refusal(f"net_memif0,role=client,socket={folder}/wire.sock")
        self.assertIn(f"belongs to uid {CLIENT_ID}", said)

    def test_a_socket_without_a_directory_is_refused(self):
        self.assertIn("socket-abstract=yes is refused",
                      self.refusal("net_memif0,role=server,socket=/tmp/x,socket-abstract=yes"))
        self.assertIn("allowed: an absolute path", self.refusal("net_memif0,role=server"))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: needs root, to be several users")
        sys.exit(SKIPPED)
    PortSocket.lyred = sys.argv.pop(1)
    unittest.main()
