#!/usr/bin/env python3
"""What the daemon may do while it runs, as the service starts it: with the capabilities of the unit
and of a drop-in, as a user of its own.

usage: privileges_test.py LYRED LIBLYRE CONFIG_FOLDER      exit status 77: skipped, with the reason
"""

import ctypes
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from folders import public_folder
from network import NetworkError, VethPair

DAEMON_ID = 54321  # uid and gid; neither needs an entry in /etc/passwd
CLIENT_ID = 54322
STEP_TIMEOUT_S = 60
REGION_BYTES = 1 << 20
EXIT_BAD_CONFIG = 2
SKIPPED = 77
PR_SET_DUMPABLE = 4
# Bits of linux/capability.h.
DAC_READ_SEARCH, NET_ADMIN, NET_RAW = 1 << 2, 1 << 12, 1 << 13
SYS_PTRACE, CHECKPOINT_RESTORE = 1 << 19, 1 << 40
HELPER = DAC_READ_SEARCH | SYS_PTRACE | CHECKPOINT_RESTORE


class Options(ctypes.Structure):
    """lyre_options."""

    _fields_ = [("struct_bytes", ctypes.c_uint64), ("socket_path", ctypes.c_char_p),
                ("label", ctypes.c_char_p), ("arena_bytes", ctypes.c_uint64)]


def capabilities_of(pid):
    """Effective and permitted ones of all threads together."""
    found = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(("CapEff:", "CapPrm:")):
                    found |= int(line.split()[1], 16)
    return found


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()


def arguments_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")[1:-1]


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


class Privileges(unittest.TestCase):
    lyred = liblyre = config = ""

    def setUp(self):
        self.folder = public_folder(self)
        self.program = shutil.copy(self.lyred, os.path.join(self.folder, "program"))
        os.chmod(self.program, 0o755)  # a memory helper executes only what root alone may write
        self.client_library = shutil.copy(self.liblyre, os.path.join(self.folder, "liblyre.so"))
        self.private = os.path.join(self.folder, "lyred")
        os.mkdir(self.private, 0o700)
        os.chown(self.private, DAEMON_ID, DAEMON_ID)
        shared = os.path.join(self.folder, "lyre")
        os.mkdir(shared, 0o755)
        os.chown(shared, DAEMON_ID, DAEMON_ID)
        self.control = os.path.join(shared, "lyred.sock")
        self.log = os.path.join(self.folder, "log")
        self.toml = os.path.join(self.folder, "lyred.toml")

    def unit_capabilities(self, drop_in):
        """As words for setpriv: all that the unit and the drop-in allow."""
        names = []
        for path in ["lyred.service.in"] + ([f"drop-ins/{drop_in}"] if drop_in else []):
            with open(os.path.join(self.config, path), encoding="utf-8") as unit:
                for line in unit:
                    found = re.fullmatch(r"AmbientCapabilities=(.*)\n", line)
                    names += found[1].lower().replace("cap_", "").split() if found else []
        self.assertTrue(names)
        return ",".join("+" + name for name in names)

    def write_config(self, device, level="info"):
        with open(self.toml, "w", encoding="utf-8") as file:
            file.write(f'[daemon]\nsocket = "{self.control}"\nsocket_group = ""\n'
                       f'socket_mode = "0666"\nlog_level = "{level}"\n'
                       f'[workers]\ncores = [{min(os.sched_getaffinity(0))}]\n'
                       '[memory]\nhugepages = "no"\n'
                       f'[[port]]\nname = "wire"\ndevice = "{device}"\naddress = "10.9.0.1/24"\n')

    def start(self, device, drop_in="", inside=()):
        self.write_config(device)
        allowed = self.unit_capabilities(drop_in)
        with open(self.log, "w", encoding="utf-8") as log:
            daemon = processes.start(
                [*inside, "setpriv", f"--reuid={DAEMON_ID}", f"--regid={DAEMON_ID}",
                 "--clear-groups", f"--bounding-set=-all,{allowed}", f"--inh-caps=-all,{allowed}",
                 f"--ambient-caps={allowed}", "--no-new-privs", self.program, "--config",
                 self.toml],
                stderr=log, env=dict(os.environ, RUNTIME_DIRECTORY=self.private))
        self.addCleanup(processes.end, daemon)
        return daemon

    def wait_for(self, is_done, what):
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not is_done():
            self.assertLess(time.monotonic(), deadline, f"{what}\n{self.said()}")
            time.sleep(0.02)

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def wait_ready(self, daemon):
        self.wait_for(lambda: "listening on" in self.said() or daemon.poll() is not None, "ready")
        self.assertIsNone(daemon.poll(), self.said())

    def expect_clean_end(self, daemon):
        self.assertEqual(0, processes.end(daemon, STEP_TIMEOUT_S), self.said())

    def client(self):
        """Registers shared anonymous memory as another user. Whether it is sent without a copy."""
        library = ctypes.CDLL(self.client_library)
        context, region = ctypes.c_void_p(), ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), self.control.encode(), b"privileges", 0)
        if library.lyre_context_open(ctypes.byref(options), ctypes.byref(context)) != 0:
            return 2
        memory = mmap.mmap(-1, REGION_BYTES)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if library.lyre_register(context, ctypes.c_void_p(address), ctypes.c_size_t(REGION_BYTES),
                                 ctypes.byref(region)) != 0:
            return 3
        return 0 if library.lyre_region_is_direct(region, None) == 1 else 1

    def as_client(self):
        child = os.fork()
        if child == 0:
            code = 4
            try:
                os.setgroups([])
                os.setresgid(CLIENT_ID, CLIENT_ID, CLIENT_ID)
                os.setresuid(CLIENT_ID, CLIENT_ID, CLIENT_ID)
                # As exec does, with which every other client starts: its memory may be opened.
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
                code = self.client()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def expect_little(self, device, kept, drop_in="", inside=()):
        daemon = self.start(device, drop_in, inside)
        self.wait_ready(daemon)
        self.assertEqual(0, capabilities_of(daemon.pid) & ~kept, self.said())
        helpers = [child for child in children_of(daemon.pid) if name_of(child) == "lyred-memory"]
        self.assertEqual(1, len(helpers))
        self.assertEqual(HELPER, capabilities_of(helpers[0]))
        self.assertEqual(0, self.as_client(), "its memory is copied\n" + self.said())
        return daemon, helpers[0]

    def test_memif(self):
        daemon, _ = self.expect_little(
            f"net_memif0,role=server,socket={self.private}/wire.sock", 0)
        self.expect_clean_end(daemon)

    def test_interfaces_of_the_kernel(self):
        with VethPair([]) as wire:
            for device, kept in ((f"net_af_packet0,iface={wire.device}", NET_RAW | NET_ADMIN),
                                 ("net_tap0,iface=lyre0", NET_ADMIN)):
                with self.subTest(device):
                    daemon, _ = self.expect_little(device, kept, "kernel-interface.conf",
                                                   wire.inside(wire.left))
                    self.expect_clean_end(daemon)

    def test_an_interface_that_comes_back_is_opened_again(self):
        with VethPair([]) as wire:
            daemon = self.start(f"net_af_packet0,iface={wire.device}", "kernel-interface.conf",
                                wire.inside(wire.left))
            self.wait_ready(daemon)
            link = json.loads(wire.run(wire.left, "ip", "-j", "link", "show", wire.device))
            mac = link[0]["address"]
            wire.run(wire.left, "ip", "link", "del", wire.device)
            self.wait_for(lambda: "the device is away" in self.said(), "still there")
            wire.run(wire.left, "ip", "link", "add", wire.device, "address", mac, "type", "veth",
                     "peer", "name", wire.device, "netns", wire.right)
            wire.run(wire.left, "ip", "link", "set", wire.device, "up")
            self.wait_for(lambda: "the device runs again" in self.said(), "not opened again")
            self.expect_clean_end(daemon)

    def test_a_missing_drop_in_is_named(self):
        daemon = self.start("net_af_packet0,iface=lo")
        self.assertEqual(EXIT_BAD_CONFIG, daemon.wait(STEP_TIMEOUT_S))
        self.assertIn("lyred.toml:12: port.device: 'net_af_packet0,iface=lo' of 'wire' needs "
                      "CAP_NET_ADMIN CAP_NET_RAW, allowed: root, or a service with the drop-in "
                      "kernel-interface.conf\n", self.said())

    def test_the_helper_s_death_costs_the_copy_only(self):
        daemon, helper = self.expect_little(
            f"net_memif0,role=server,socket={self.private}/wire.sock", 0)
        os.kill(helper, signal.SIGKILL)
        self.wait_for(lambda: "the memory helper has ended" in self.said(), "no line")
        self.assertEqual(1, self.as_client(), self.said())
        self.assertEqual(1, self.said().count("the memory helper has ended"))
        self.expect_clean_end(daemon)

    def upgrade(self):
        """The process that goes on. The caller has called processes.adopt_orphans()."""
        done = None

        def is_done():
            nonlocal done
            done = processes.run([self.program, "--config", self.toml, "--upgrade"],
                                 STEP_TIMEOUT_S, capture_output=True)
            return "try again" not in done.stderr
        self.wait_for(is_done, "the workers do not come to rest")
        found = re.match(r"process (\d+), release ", done.stdout)
        self.assertIsNotNone(found, done.stderr + self.said())
        successor = processes.Adopted(int(found[1]))
        self.addCleanup(processes.end, successor)
        return successor

    def test_an_upgrade_replaces_the_helper(self):
        processes.adopt_orphans()
        daemon, helper = self.expect_little(
            f"net_memif0,role=server,socket={self.private}/wire.sock", 0)
        self.assertNotIn(b"--memory-helper", arguments_of(helper))
        successor = self.upgrade()
        self.assertEqual(0, daemon.wait(STEP_TIMEOUT_S), self.said())
        self.wait_for(lambda: self.said().count("the memory helper has release") == 2
                      or "was not replaced" in self.said(), "no line")
        self.assertNotIn("was not replaced", self.said())
        self.assertEqual([b"--memory-helper"], arguments_of(helper))
        self.assertEqual("lyred-memory", name_of(helper))
        self.assertEqual(HELPER, capabilities_of(helper))
        self.assertEqual(0, self.as_client(), "its memory is copied\n" + self.said())
        self.expect_clean_end(successor)

    def test_a_helper_that_no_daemon_started_says_so(self):
        done = processes.run([self.program, "--memory-helper"], STEP_TIMEOUT_S, capture_output=True)
        self.assertEqual(EXIT_BAD_CONFIG, done.returncode, done.stderr)
        self.assertIn("lyred: --memory-helper is for the daemon itself\n", done.stderr)

    def test_the_log_level_is_reloaded(self):
        device = f"net_memif0,role=server,socket={self.private}/wire.sock"
        daemon = self.start(device)
        self.wait_ready(daemon)
        self.assertEqual(0, self.as_client())
        self.assertIn("attached", self.said())
        self.write_config(device, "verbose")
        daemon.send_signal(signal.SIGHUP)
        self.wait_for(lambda: "not reloaded: " in self.said(), "no line")
        self.assertIn("'verbose' is not one of the choices", self.said())
        self.write_config(device, "warning")
        daemon.send_signal(signal.SIGHUP)
        # After a client's whole life the daemon has read the signal as well.
        self.assertEqual(0, self.as_client())
        before = self.said()
        self.assertEqual(0, self.as_client())
        self.assertEqual(before, self.said())
        self.expect_clean_end(daemon)


def reason_to_skip():
    if os.geteuid() != 0:
        return "needs root, to be several users"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    if subprocess.run(["setpriv", "--bounding-set=-all,+sys_ptrace", "true"], check=False,
                      capture_output=True).returncode != 0:
        return "capabilities cannot be changed here"
    try:
        with VethPair([]):
            return ""
    except NetworkError as error:
        return str(error)


if __name__ == "__main__":
    REASON = reason_to_skip()
    if REASON:
        print(f"SKIP: {REASON}")
        sys.exit(SKIPPED)
    Privileges.config = sys.argv.pop(3)
    Privileges.liblyre = sys.argv.pop(2)
    Privileges.lyred = sys.argv.pop(1)
    unittest.main()
