#!/usr/bin/env python3
"""Lyre and the kernel on one interface, by AF_XDP: each gets the packets of its own addresses."""

import concurrent.futures
import re
import subprocess
import time
import unittest

import bed
import processes
import transfer
from daemon import Daemon, DaemonError, Settings

# The kernel's own, on Lyre's side of the wire.
HOST, HOST6 = "10.9.2.3", "fd00:9:2::3"
SECOND = "10.9.2.4/24"  # of a daemon that does not start
LYRE_PORT, HOST_PORT = 5201, 5202
PINGS = 40
PING_INTERVAL_S = 0.05
TIMEOUT_S = 180
ANSWER_S = 60  # of a ping
QUEUE_IN_USE = "cannot set up receive queue"


def host():
    return HOST if bed.options.family == 4 else HOST6


class SharedInterfaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = bed.Bed(driver="net_af_xdp")
        cls.enterClassContext(cls.bed)
        cls.bed.wire.give_address(cls.bed.wire.left, host())

    def perf(self, server, client, address, port, direction):
        count = bed.options.mib << 20
        asked, served = transfer.run(
            server("perf", "server", "--listen", f":{port}", "--once", "--json"),
            client("perf", "client", bed.endpoint(address, port), "--bytes", str(count),
                   "--direction", direction, "--verify", "--json"), TIMEOUT_S)
        transfer.check_sides(asked, served, count)

    def by_host(self, *arguments):
        """A command of the lyre tool over the kernel's TCP, on Lyre's side of the wire."""
        command = [self.bed.programs.lyre, *arguments, "--kernel"]
        return self.bed.wire.inside(self.bed.wire.left, *command), None

    def expect_answers(self):
        """With -w ping sends until that many are answered: a full queue of the wire drops some."""
        ping = self.bed.in_kernel("ping", "-q", "-c", str(PINGS), "-i", str(PING_INTERVAL_S),
                                  "-w", str(ANSWER_S), host())
        done = processes.run(ping, TIMEOUT_S, capture_output=True)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        answers = int(done.stdout.split(" packets transmitted, ")[1].split()[0])
        self.assertGreaterEqual(answers, PINGS)

    def test_both_transfer_and_the_kernel_answers_pings(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = [
                pool.submit(self.perf, self.bed.by_kernel, self.bed.by_lyre, bed.kernel(),
                            LYRE_PORT, "both"),
                pool.submit(self.perf, self.by_host, self.bed.by_kernel, host(), HOST_PORT,
                            "both")]
            self.expect_answers()
            for job in running:
                job.result(TIMEOUT_S)

    def test_the_kernel_resolves_by_itself(self):
        """A neighbour that the kernel has forgotten is found again, in both directions."""
        for name, peer in ((self.bed.wire.left, bed.kernel()), (self.bed.wire.right, host())):
            self.bed.wire.run(name, "ip", "neigh", "flush", "all")
            ping = self.bed.wire.inside(name, "ping", "-q", "-c", "1", "-W", str(ANSWER_S), peer)
            self.assertEqual(0, subprocess.run(ping, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S,
                                               check=False).returncode)

    def ping_lyre(self):
        """Until there is an answer: an IPv6 address is checked for a second owner at first."""
        ping = self.bed.in_kernel("ping", "-q", "-c", "1", "-W", "1", bed.lyre())
        end = time.monotonic() + ANSWER_S
        while subprocess.run(ping, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S,
                             check=False).returncode != 0:
            self.assertLess(time.monotonic(), end, "no answer")

    def test_lyre_answers_where_the_kernel_has_no_address(self):
        self.ping_lyre()

    def xdp_program(self):
        """The number of the interface's XDP program, or None."""
        show = self.bed.wire.inside(self.bed.wire.left, "ip", "link", "show", "dev",
                                    self.bed.wire.device)
        found = re.search(r"prog/xdp id (\d+)", subprocess.check_output(show, text=True))
        return found and int(found[1])

    def test_a_daemon_that_cannot_start_leaves_the_program(self):
        second = Daemon(self.bed.programs,
                        Settings("second", f"net_af_xdp0,iface={self.bed.wire.device}",
                                 SECOND, bed.cores()[1]),
                        self.bed.folder, self.bed.wire.inside(self.bed.wire.left))
        program = self.xdp_program()
        self.assertIsNotNone(program)
        with self.assertRaisesRegex(DaemonError, f"has the XDP program {program} of another"):
            second.start()
        self.assertEqual(program, self.xdp_program())
        self.bed.wire.run(self.bed.wire.right, "ip", "neigh", "flush", "all")
        self.ping_lyre()

    def until(self, is_true, complaint):
        deadline = time.monotonic() + TIMEOUT_S
        while not is_true():
            self.assertLess(time.monotonic(), deadline, complaint)
            time.sleep(0.05)

    def starts(self):
        """The kernel frees the queue of a socket that was closed some time later."""
        try:
            self.bed.daemon.start()
            return True
        except DaemonError as error:
            self.assertIn(QUEUE_IN_USE, str(error))
            return False

    def test_a_start_after_a_crash_serves(self):
        self.bed.daemon.kill()
        self.until(lambda: self.xdp_program() is None, "the program stays")
        self.until(self.starts, "the queue stays in use")
        self.bed.daemon.wait_link()
        self.ping_lyre()


if __name__ == "__main__":
    bed.main()
