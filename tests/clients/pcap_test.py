#!/usr/bin/env python3
"""`lyre pcap` with two daemons on a memif wire; tshark reads what it wrote.

usage: pcap_test.py BUILD
"""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from two_hosts import TwoHosts

BOUND_S = 60
FAILURE, USAGE, NO_DAEMON = 1, 2, 3
SERVER, SERVER6 = "10.9.0.2:5201", "[fd00:9::2]:5201"
INTERFACES = {"host-a": ["10.9.0.1/24", "fd00:9::1/64"], "host-b": ["10.9.0.2/24", "fd00:9::2/64"]}
DSCP, HOP_LIMIT = 46, 33
# More than fits into the ring of a worker.
MANY_BYTES = 64 << 20


def statistics(path):
    """The options of the statistics block, which is the last of the file, by code."""
    with open(path, "rb") as file:
        data = file.read()
    at, last = 0, None
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert data[at + length - 4:at + length] == data[at + 4:at + 8]
        last, at = (kind, data[at + 20:at + length - 4]), at + length
    kind, options = last
    assert kind == 5, kind
    found, at = {}, 0
    while True:
        code, length = struct.unpack_from("<HH", options, at)
        if code == 0:
            return found
        found[code] = options[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


RECEIVED, DROPPED, ACCEPTED = 4, 5, 6


def counter(path, code):
    return struct.unpack("<Q", statistics(path)[code])[0]


class Pcap(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts(
            Programs(BUILD), interfaces=INTERFACES,
            sections={"port": {"dscp": DSCP, "hop_limit": HOP_LIMIT}}))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "packets.pcapng")

    def start(self, host, *arguments, **options):
        command, environment = host.lyre(*arguments)
        process = processes.start(command, env=environment, stderr=subprocess.PIPE, text=True,
                                  **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def capture(self, *arguments, **options):
        """A capture that has begun."""
        process = self.start(self.hosts.a, "pcap", "wire", *arguments, **options)
        self.assertEqual(processes.read_line(process, BOUND_S), "capturing wire\n")
        return process

    def end(self, process, number=signal.SIGINT):
        """Numbers of packets that were captured and dropped."""
        process.send_signal(number)
        return self.summary(process)

    def summary(self, process, status=0):
        said = process.stderr.read()
        self.assertEqual(process.wait(BOUND_S), status, said)
        return tuple(map(int, re.match(r"(\d+) packets captured, (\d+) dropped\n",
                                       said).groups()))

    def run_lyre(self, host, *arguments):
        command, environment = host.lyre(*arguments)
        return processes.run(command, BOUND_S, capture_output=True, env=environment)

    def transfer(self, count, address=SERVER):
        """Sends so many bytes from a to b, which verifies them."""
        server = self.start(self.hosts.b, "perf", "server", "--once", stdout=subprocess.DEVNULL)
        processes.read_line(server, BOUND_S)  # it listens
        done = self.run_lyre(self.hosts.a, "perf", "client", address, "--bytes", str(count),
                             "--verify")
        self.assertEqual(done.returncode, 0, done.stderr)
        server.wait(BOUND_S)

    def tshark(self, *fields):
        """These fields of each packet of the file."""
        command = ["tshark", "-n", "-r", self.file, "-T", "fields"]
        done = processes.run([*command, *(word for field in fields for word in ("-e", field))],
                             BOUND_S, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("\t") for line in done.stdout.splitlines()]

    @unittest.skipUnless(shutil.which("tshark"), "no tshark on this machine")
    def test_a_transfer_is_captured_whole_and_nothing_beside_it(self):
        process = self.capture("-w", self.file, "tcp", "port", "5201")
        self.transfer(100_000)
        captured, dropped = self.end(process)
        packets = self.tshark("frame.protocols", "tcp.port", "tcp.flags.syn", "tcp.seq", "tcp.len",
                              "ip.src", "frame.packet_flags_direction")
        self.assertEqual((len(packets), dropped), (captured, 0))
        self.assertTrue(all("tcp" in packet[0] and "5201" in packet[1].split(",")
                            for packet in packets))
        self.assertEqual({packet[5]: int(packet[6], 0) for packet in packets},
                         {"10.9.0.1": 2, "10.9.0.2": 1})
        self.assertIn(packets[0][2], ("1", "True"))
        sent = {(int(packet[3]), int(packet[4])) for packet in packets if packet[5] == "10.9.0.1"}
        self.assertGreaterEqual(sum(length for _, length in sent), 100_000)
        self.assertEqual((counter(self.file, ACCEPTED), counter(self.file, DROPPED)),
                         (captured, 0))
        self.assertGreaterEqual(counter(self.file, RECEIVED), captured)
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)

    @unittest.skipUnless(shutil.which("tshark"), "no tshark on this machine")
    def test_packets_have_the_dscp_and_the_hop_limit_of_the_configuration(self):
        for address, fields in ((SERVER, ("ip.dsfield.dscp", "ip.ttl")),
                                (SERVER6, ("ipv6.tclass.dscp", "ipv6.hlim"))):
            with self.subTest(address=address):
                process = self.capture("-w", self.file, "tcp port 5201")
                self.transfer(1000, address)
                self.end(process)
                self.assertEqual({tuple(packet) for packet in self.tshark(*fields)},
                                 {(str(DSCP), str(HOP_LIMIT))})

    @unittest.skipUnless(shutil.which("tshark"), "no tshark on this machine")
    def test_limits_cut_packets_and_end_the_capture(self):
        process = self.capture("-s", "40", "-c", "20", "-w", self.file, "tcp port 5201")
        self.transfer(100_000)
        self.assertEqual(self.summary(process), (20, 0))
        packets = self.tshark("frame.cap_len", "frame.len")
        self.assertEqual([packet[0] for packet in packets], ["40"] * 20)
        self.assertTrue(all(int(packet[1]) > 40 for packet in packets))
        done = self.run_lyre(self.hosts.a, "pcap", "wire", "-w", self.file, "--duration", "0.1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_capture_goes_through_a_pipe(self):
        process = self.capture("-c", "3", "tcp port 5201", stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.transfer(1000)
        self.assertEqual(self.summary(process), (3, 0))
        self.assertTrue(process.stdout.buffer.read().startswith(b"\x0a\x0d\x0d\x0a"))

    def blocked_capture(self):
        """A capture whose first write waits in a pipe that is full, the reader's end of the pipe,
        and what fills the pipe."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with open(writer, "wb", buffering=0) as pipe:
            filling = bytes(fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
            pipe.write(filling)
            process = self.start(self.hosts.a, "pcap", "wire", stdout=pipe)
        # Once it has mapped the capture it sleeps only in that write.
        self.wait_until(lambda: captures_of(process.pid) > 0)
        self.wait_until(lambda: status_of(process.pid)["State"].startswith("S"))
        return process, reader, filling

    def send_and_see_taken(self, process, number):
        process.send_signal(number)
        self.wait_until(lambda: int(status_of(process.pid)["ShdPnd"], 16) == 0)

    def wait_until(self, is_so):
        deadline = time.monotonic() + BOUND_S
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)

    def test_a_capture_that_is_ended_while_its_reader_is_slow_is_whole(self):
        process, reader, filling = self.blocked_capture()
        self.send_and_see_taken(process, signal.SIGINT)
        with open(reader, "rb", closefd=False) as pipe:
            written = pipe.read()[len(filling):]
        self.assertEqual(processes.read_line(process, BOUND_S), "capturing wire\n")
        captured, dropped = self.summary(process)
        with open(self.file, "wb") as file:
            file.write(written)
        self.assertEqual((counter(self.file, ACCEPTED), counter(self.file, DROPPED)),
                         (captured, dropped))

    def test_a_second_signal_ends_a_capture_whose_reader_has_stopped(self):
        process, _, _ = self.blocked_capture()
        self.send_and_see_taken(process, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(BOUND_S), -signal.SIGINT)
        # The port can be captured again.
        self.wait_until(lambda: captures_of(self.hosts.a.pid) == 0)

    def test_a_reader_that_stops_delays_nobody_and_what_it_lost_is_counted(self):
        process = self.capture("-w", self.file)
        process.send_signal(signal.SIGSTOP)
        self.transfer(MANY_BYTES)
        process.send_signal(signal.SIGCONT)
        captured, dropped = self.end(process)
        self.assertGreater(dropped, 0)
        self.assertGreater(captured, 0)
        self.assertEqual(counter(self.file, DROPPED), dropped)
        self.assertEqual(counter(self.file, RECEIVED), captured + dropped)

    def test_one_capture_a_port_which_ends_when_its_tool_is_killed(self):
        process = self.capture("-w", self.file)
        refused = self.run_lyre(self.hosts.a, "pcap", "wire", "-w", self.file)
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (FAILURE, 1))
        self.assertIn("captured already", refused.stderr)
        process.kill()
        process.wait()
        deadline = time.monotonic() + BOUND_S
        while (again := self.run_lyre(self.hosts.a, "pcap", "wire", "-w", self.file, "--duration",
                                      "0.1")).returncode != 0:
            self.assertIn("captured already", again.stderr)
            self.assertLess(time.monotonic(), deadline)
        self.assertIn("captures no more", self.hosts.a.log_tail())
        # The first one's memory is gone, and that of the second goes.
        while captures_of(self.hosts.a.pid) > 0:
            self.assertLess(time.monotonic(), deadline)

    def test_without_a_port_the_ports_are_listed(self):
        self.assertIn("wire", self.run_lyre(self.hosts.a, "pcap").stdout)
        listed = json.loads(self.run_lyre(self.hosts.a, "pcap", "--json").stdout)
        self.assertEqual([port["name"] for port in listed["ports"]], ["wire"])

    def test_what_is_wrong_is_said_in_one_line(self):
        with open(self.file, "wb") as file:
            file.write(b"stays")
        for arguments, status, text in (
                (("eth9", "-w", self.file), FAILURE, "no port 'eth9', but wire"),
                (("wire", "-w", self.file, "tcp prot 1"), USAGE, "filter 'tcp prot 1'"),
                (("wire", "-w", "/nonexistent/x"), FAILURE, "/nonexistent/x cannot be written"),
                (("wire", "--json"), USAGE, "pcapng")):
            done = self.run_lyre(self.hosts.a, "pcap", *arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr.splitlines()[-1])
        with open(self.file, "rb") as file:
            self.assertEqual(file.read(), b"stays")

    def test_a_reader_that_closes_the_pipe_ends_the_capture(self):
        for is_service in (False, True):  # which has SIGPIPE ignored
            with self.subTest(is_service=is_service):
                process = self.capture(stdout=subprocess.PIPE, restore_signals=not is_service)
                process.stdout.close()
                self.transfer(1 << 20)
                self.summary(process)

    def test_a_terminal_gets_no_packets(self):
        controller, terminal = pty.openpty()
        process = self.start(self.hosts.a, "pcap", "wire", stdout=terminal)
        os.close(terminal)
        self.assertEqual(process.wait(BOUND_S), USAGE)
        self.assertIn("-w", process.stderr.read())
        os.close(controller)

    def test_a_daemon_that_ends_ends_the_capture(self):
        with TwoHosts(Programs(BUILD)) as hosts:
            process = self.start(hosts.a, "pcap", "wire", "-w", self.file)
            self.assertEqual(processes.read_line(process, BOUND_S), "capturing wire\n")
            hosts.a.kill()
            self.assertEqual(process.wait(BOUND_S), NO_DAEMON)
            self.assertIn(" packets captured, 0 dropped\n", process.stderr.read())
            self.assertEqual(counter(self.file, DROPPED), 0)


def status_of(pid):
    """The lines of /proc/PID/status by name."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def captures_of(pid):
    """Mappings of captures that the process has."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return sum("lyre-capture" in line for line in maps)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
