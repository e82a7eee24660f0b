#!/usr/bin/env python3
"""Lyre behind a Linux router whose other link carries less: gateways, router advertisements, and
the path MTU that only the router knows."""

import hashlib
import os
import random
import socket
import struct
import subprocess
import threading
import time
import unittest

import bed
import processes
from peers import REFUSED, UNREACHABLE, Namespace

PORT = 7200
STEP_TIMEOUT_S = 120
FAR = {4: "10.9.5.2", 6: "fd00:9:5::2"}
NEAR = {4: "10.9.5.1", 6: "fd00:9:5::1"}  # the router, as the far host sees it
# The router has no way there: the network, and a host in it.
NOWHERE = {4: ("10.9.6.0/24", "10.9.6.2"), 6: ("fd00:9:6::/64", "fd00:9:6::2")}
FAR_DEVICE = "far0"
# Set at the router's end only: the far host does not know it, and offers a full-sized MSS.
ROUTER_MTU = 1300
FAULTS = ("malformed packets", "bad TCP checksums", "bad IP checksums", "bad ICMPv6 checksums")
ROUTER_LIFETIME_S = 1800
# The counters of "packet too big" in /proc/net, by family: the line and the name.
TOO_BIG = {4: ("snmp", "IcmpMsg:", "OutType3"), 6: ("snmp6", "Icmp6OutPktTooBigs", None)}


class FarHost:
    """A namespace behind the router, for as long as a `with` block lasts."""

    def __init__(self, wire):
        self._wire = wire
        self.name = f"lyre-{os.getpid()}-f"

    def __enter__(self):
        router, run = self._wire.right, self._wire.run
        subprocess.run(["ip", "netns", "add", self.name], check=True, timeout=STEP_TIMEOUT_S)
        try:
            run(router, "ip", "link", "add", FAR_DEVICE, "type", "veth", "peer", "name", FAR_DEVICE,
                "netns", self.name)
            for name, addresses in ((router, NEAR), (self.name, FAR)):
                run(name, "ethtool", "-K", FAR_DEVICE, *bed.OFFLOADS)
                run(name, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
                run(name, "ip", "link", "set", FAR_DEVICE, "up")
                run(name, "ip", "addr", "add", addresses[4] + "/24", "dev", FAR_DEVICE)
                run(name, "ip", "addr", "add", addresses[6] + "/64", "dev", FAR_DEVICE, "nodad")
            for family in (4, 6):
                run(self.name, "ip", f"-{family}", "route", "add", "default", "via", NEAR[family])
            run(router, "ip", "link", "set", FAR_DEVICE, "mtu", str(ROUTER_MTU))
            for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                run(router, "sh", "-c", f"echo 1 > /proc/sys/net/{key}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False,
                       timeout=STEP_TIMEOUT_S)


class Routed(unittest.TestCase):
    PORT_KEYS = {}
    TCP_KEYS = {}

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed(sections={"port": cls.PORT_KEYS,
                                                          "tcp": cls.TCP_KEYS}))
        cls.far = cls.enterClassContext(FarHost(cls.bed.wire))

    def too_big_sent(self):
        """How often the router sent "packet too big"."""
        file, start, key = TOO_BIG[bed.options.family]
        lines = [line.split() for line in self.bed.wire.run(
            self.bed.wire.right, "cat", f"/proc/net/{file}").splitlines()]
        lines = [line for line in lines if line and line[0] == start]
        if key is None:
            return int(lines[0][1])
        return int(dict(zip(*lines)).get(key, 0)) if len(lines) == 2 else 0

    def listen_afar(self):
        family = socket.AF_INET if bed.options.family == 4 else socket.AF_INET6
        with Namespace(self.far.name):
            made = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((FAR[bed.options.family], PORT))
        made.listen()
        made.settimeout(STEP_TIMEOUT_S)
        return made

    def send_afar(self, text):
        """Lyre's client sends `text`; returns what arrived."""
        listener = self.listen_afar()
        command, environment = self.bed.lyre_peer(
            "connect", bed.endpoint(FAR[bed.options.family], PORT))
        client = processes.start(command, env=environment, stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL)
        self.addCleanup(processes.end, client)

        def feed():
            with client.stdin:
                client.stdin.write(text)
        feeder = threading.Thread(target=feed)
        feeder.start()
        connection, _ = listener.accept()
        got = b""
        with connection:
            connection.settimeout(STEP_TIMEOUT_S)
            while part := connection.recv(1 << 16):
                got += part
        feeder.join(STEP_TIMEOUT_S)
        self.assertEqual(client.wait(STEP_TIMEOUT_S), 0)
        return got

    def expect_narrow_path_used(self, name):
        text = random.Random(5).randbytes(2 << 20)
        before = self.too_big_sent()
        capture = self.bed.capture(name, 8)
        with capture:
            got = self.send_afar(text)
        self.assertEqual(hashlib.sha256(got).digest(), hashlib.sha256(text).digest())
        self.assertGreater(self.too_big_sent(), before, "the router had nothing to say")
        self.assertEqual(capture.faults(FAULTS), [])


class GatewayTest(Routed):
    @classmethod
    def setUpClass(cls):
        cls.PORT_KEYS = {"gateway": bed.kernel()}
        super().setUpClass()

    def test_the_routers_word_on_the_mtu_is_taken(self):
        self.expect_narrow_path_used("gateway")


class UnreachableTest(Routed):
    # How long an open goes on although the network says that it is in vain.
    TCP_KEYS = {"connect_timeout_ms": 3000}

    @classmethod
    def setUpClass(cls):
        cls.PORT_KEYS = {"gateway": bed.kernel()}
        super().setUpClass()

    def test_a_client_hears_what_the_router_said(self):
        # RFC 1122 4.2.3.9: it ends by its timeout, and not with "timed out".
        network, address = NOWHERE[bed.options.family]
        self.bed.wire.run(self.bed.wire.right, "ip", "route", "add", "unreachable", network)
        command, environment = self.bed.lyre_peer("connect", bed.endpoint(address, PORT))
        done = processes.run(command, STEP_TIMEOUT_S, env=environment, capture_output=True,
                             input="")
        self.assertEqual(UNREACHABLE, done.returncode, done.stderr)
        self.assertIn("ICMP", done.stderr)


class AdvertisementTest(Routed):
    PORT_KEYS = {"accept_ra": True}

    @classmethod
    def setUpClass(cls):
        if bed.options.family == 4:
            raise unittest.SkipTest("does not apply: IPv4 has no router advertisements")
        super().setUpClass()

    def advertise(self, lifetime_s):
        """The router sends an advertisement to all nodes, as routing daemons do."""
        with Namespace(self.bed.wire.right):
            telling = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
            index = socket.if_nametoindex(self.bed.wire.device)
        with telling:
            telling.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
            telling.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            telling.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, lifetime_s, 0, 0),
                           ("ff02::1", 0, 0, index))

    def test_a_router_is_learned_and_forgotten(self):
        # The router's own link-local address may still be tentative, so it advertises again.
        stop = threading.Event()

        def repeat():
            while not stop.wait(0.5):
                try:
                    self.advertise(ROUTER_LIFETIME_S)
                except OSError:
                    pass  # no link-local address yet
        telling = threading.Thread(target=repeat)
        telling.start()
        try:
            self.wait_for_route()
        finally:
            stop.set()
            telling.join(STEP_TIMEOUT_S)
        self.expect_narrow_path_used("advertisement")
        self.advertise(0)
        self.wait_until_connecting_is(UNREACHABLE, "the way is still known")

    def wait_for_route(self):
        """Waits until a connection takes the route: the far kernel refuses it."""
        self.wait_until_connecting_is(REFUSED, "no way there")

    def wait_until_connecting_is(self, status, complaint):
        command, environment = self.bed.lyre_peer("connect", bed.endpoint(FAR[6], PORT + 1))
        for _ in range(100):
            done = processes.run(command, STEP_TIMEOUT_S, env=environment, capture_output=True,
                                 input="")
            if done.returncode == status:
                return
            time.sleep(0.1)
        self.fail(f"{complaint}: {done.stderr}")


if __name__ == "__main__":
    bed.main()
