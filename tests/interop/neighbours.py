#!/usr/bin/env python3
"""Neighbour discovery with a Linux kernel: resolution in both directions, and address conflicts."""

import json
import re
import socket
import time
import unittest

import bed
import processes
from peers import Namespace

PORT = 7100
CONTESTED = "fd00:9:2::c"
CONTESTED4 = "10.9.2.12"
STEP_TIMEOUT_S = 120
FAULTS = ("malformed packets", "bad TCP checksums", "bad ICMPv6 checksums")


class Looks(unittest.TestCase):
    """Queries of Lyre and of the kernel, for both tests."""

    def in_kernel(self, *command):
        return self.bed.wire.run(self.bed.wire.right, *command)

    def ping(self, address):
        done = processes.run(
            self.bed.in_kernel("ping", "-n", "-q", "-c", "3", "-l", "3", "-i", "2", address),
            STEP_TIMEOUT_S, capture_output=True)
        return " 3 received" in done.stdout

    def until(self, is_true, what):
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not is_true():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def port(self):
        return self.bed.daemon.look("status")["ports"][0]

    def drops(self, reason):
        return sum(worker["drops"][reason] for worker in self.bed.daemon.look("stats")["workers"])


class NeighboursTest(Looks):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed())
        cls.capture = cls.bed.capture("neighbours", 64)
        cls.capture.__enter__()
        cls.addClassCleanup(cls.judge_wire)

    @classmethod
    def judge_wire(cls):
        cls.capture.__exit__()
        faults = cls.capture.faults(FAULTS)
        if not cls.capture.packets() or faults:
            raise AssertionError("on the wire: " + "\n".join(faults[:20]))

    def neighbour(self, address):
        """The kernel's entry of its neighbour."""
        entries = json.loads(self.in_kernel("ip", "-6", "-j", "neigh", "show", "dev",
                                            self.bed.wire.device))
        return next((entry for entry in entries if entry["dst"] == address), {})

    def test_the_kernel_finds_it(self):
        self.until(lambda: self.ping(bed.LYRE6), "no answer to a ping")
        self.until(self.is_found_again, "Lyre's address is not resolved again")

    def is_found_again(self):
        """After a flush the kernel asks again: the address resolution itself works, too. What it
        found is REACHABLE for some seconds only."""
        self.in_kernel("ip", "-6", "neigh", "flush", "dev", self.bed.wire.device)
        if not self.ping(bed.LYRE6):
            return False
        found = self.neighbour(bed.LYRE6)
        return (found.get("state"), found.get("lladdr")) == (["REACHABLE"], self.port()["mac"])

    def test_its_link_local_address_answers(self):
        own = next(own.split("/")[0] for own in self.port()["addresses"] if own.startswith("fe80"))
        self.until(lambda: self.ping(f"{own}%{self.bed.wire.device}"), "no answer to a ping")

    def test_the_kernel_does_not_take_its_address(self):
        self.until(lambda: self.ping(bed.LYRE6), "no answer to a ping")
        self.in_kernel("ip", "addr", "add", bed.LYRE6 + "/64", "dev", self.bed.wire.device)
        try:
            def is_refused():
                shown = self.in_kernel("ip", "-6", "addr", "show", "dev", self.bed.wire.device)
                return re.search(bed.LYRE6 + "/64 .*dadfailed", shown)
            self.until(is_refused, "the kernel uses Lyre's address")
        finally:
            self.in_kernel("ip", "addr", "del", bed.LYRE6 + "/64", "dev", self.bed.wire.device)
        self.until(lambda: self.ping(bed.LYRE6), "Lyre gave up an address that it had first")

    def test_a_protocol_that_is_not_there_is_reported(self):
        """UDP to Lyre: a Parameter Problem, which Linux hands to the socket as an error."""
        self.until(lambda: self.ping(bed.LYRE6), "no answer to a ping")
        with Namespace(self.bed.wire.right):
            asking = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        with asking:
            asking.settimeout(STEP_TIMEOUT_S)
            asking.connect((bed.LYRE6, PORT))
            asking.send(b"anybody?")
            with self.assertRaises(OSError) as caught:
                asking.recv(100)
        self.assertNotIsInstance(caught.exception, TimeoutError)


class ContestTest(Looks):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed(
            addresses=[f"{bed.LYRE}/24", f"{CONTESTED4}/24", f"{bed.LYRE6}/64", f"{CONTESTED}/64"],
            kernel_addresses=[f"{CONTESTED}/64", f"{CONTESTED4}/24"]))

    def test_an_address_that_the_kernel_has_is_given_up(self):
        self.until(lambda: self.drops("ndp_conflict") > 0, "no host objected")
        self.until(lambda: self.ping(bed.LYRE6), "the other address does not answer")
        self.assertEqual(self.drops("ndp_conflict"), 1)

    def test_doctor_names_who_has_an_address_of_ipv4(self):
        """A kernel answers probes only: it takes announcements of its address for a mistake."""
        self.until(lambda: self.drops("arp_conflict") > 0, "no host objected")
        link = json.loads(self.in_kernel("ip", "-j", "link", "show", self.bed.wire.device))[0]
        self.until(lambda: CONTESTED4 in self.bed.doctor("address")[0]["saw"], "not told")
        found, = self.bed.doctor("address")
        self.assertEqual(found["verdict"], "PROBLEM")
        self.assertIn(link["address"], found["saw"])
        self.until(lambda: CONTESTED4 in self.bed.daemon.log_tail(), "not logged")


if __name__ == "__main__":
    bed.main()
