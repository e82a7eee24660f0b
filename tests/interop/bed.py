"""The test bed: a lyred on one end of a veth wire, a kernel on the other."""

import argparse
import json
import os
import shutil
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from capture import LYRE, LYRE6, Capture
from daemon import Daemon, DaemonError, Programs, Settings
from network import NetworkError, VethPair
from two_hosts import cores, scratch_folder

KERNEL, KERNEL6 = "10.9.2.2", "fd00:9:2::2"
# Every packet and checksum on the wire is then as a NIC would send it.
OFFLOADS = ["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]
TIMEOUTS = {"user_timeout_ms": 4000, "connect_timeout_ms": 4000}
EXIT_SKIPPED = 77
DOCTOR_TIMEOUT_S = 60

options = argparse.Namespace(family=4)


def lyre():
    """Lyre's address of the requested family."""
    return LYRE if options.family == 4 else LYRE6


def kernel():
    return KERNEL if options.family == 4 else KERNEL6


def endpoint(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Bed:
    """Lyre has the wire's left end, the kernel its right; up inside a `with` block.

    `sections` are further keys of the daemon's configuration; `wire` may be a BridgedPair, in which
    the caller then runs a Bridge.
    """

    def __init__(self, wire=None, sections=None, mtu=1500, addresses=None, kernel_addresses=(),
                 driver="net_af_packet"):
        self.folder = scratch_folder()
        self._kernel_addresses = kernel_addresses
        self.wire = wire or VethPair(OFFLOADS, mtu)
        self.programs = Programs(options.build)
        self._peer = os.path.join(os.path.abspath(options.build), "tests", "interop", "lyre_peer")
        self.daemon = Daemon(
            self.programs,
            Settings("lyre", self.wire.port().replace("net_af_packet", driver),
                     addresses or lyre_addresses(), cores()[1], mtu,
                     sections or {"tcp": TIMEOUTS}),
            self.folder, self.wire.inside(self.wire.left))

    def __enter__(self):
        try:
            self.wire.__enter__()
            self.wire.give_address(self.wire.right, kernel())
            for address in self._kernel_addresses:
                self.wire.run(self.wire.right, "ip", "addr", "add", address, "dev",
                              self.wire.device, "nodad")
            self.daemon.start()
            self.wire.connect_ports()
            self.daemon.wait_link()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        try:
            self.daemon.stop()
        finally:
            self.wire.__exit__()
            shutil.rmtree(self.folder, ignore_errors=True)

    def capture(self, name, mib):
        path = os.path.join(self.folder, name + ".pcapng")
        return Capture(self.wire, self.wire.right, path, mib)

    def by_lyre(self, *arguments):
        """(command, environment) of the lyre tool on Lyre's side."""
        return self.daemon.lyre(*arguments)

    def by_kernel(self, *arguments):
        """The same of the lyre tool on the kernel's side."""
        return self.in_kernel(self.programs.lyre, *arguments, "--kernel"), dict(os.environ)

    def doctor(self, check):
        """What `lyre doctor` found in that check."""
        command, environment = self.by_lyre("doctor", "--json")
        done = processes.run(command, DOCTOR_TIMEOUT_S, env=environment, capture_output=True)
        return [found for found in json.loads(done.stdout)["checks"] if found["check"] == check]

    def in_kernel(self, *command):
        return self.wire.inside(self.wire.right, *command)

    def lyre_peer(self, *arguments):
        return [self._peer, *arguments], dict(os.environ, LYRE_SOCKET=self.daemon.socket)


def lyre_addresses():
    """Beside an IPv6 address there is an IPv4 address that no test uses."""
    return [f"{LYRE}/24"] if options.family == 4 else [f"{LYRE}/24", f"{LYRE6}/64"]


def main(another_reason_to_skip=lambda: None):
    """Runs the tests of the calling module. Exit status 77: they cannot run here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="folder with the finished build")
    parser.add_argument("--mib", type=int, default=64, help="each way, of the larger transfers")
    parser.add_argument("--family", type=int, choices=(4, 6), default=4)
    parser.add_argument("tests", nargs="*", help="such as PeersTest.test_half_close; default: all")
    parser.parse_args(namespace=options)
    processes.exit_on_signals()
    reason = reason_to_skip() or another_reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(EXIT_SKIPPED)
    unittest.main(argv=[sys.argv[0], *options.tests], verbosity=2)


def reason_to_skip():
    for program in ("ip", "ethtool", "dumpcap", "tshark"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        with VethPair(OFFLOADS):
            return None
    except NetworkError as error:
        return str(error)
