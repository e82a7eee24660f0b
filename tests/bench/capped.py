"""The main job on a network that limits each flow (5-tuple), as clouds do, and each host."""

import contextlib
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(FOLDER), "interop"))

from bridge import Bridge
from measures import KERNEL, output_of
from network import BridgedPair
from record import Row
from two_hosts import TwoHosts

GROUP = "flow-capped"
MTU = 9000
# A cloud's 1 and 8 Gb/s, both a twentieth of that. The bridge and both hosts share the cores of
# this machine: with two, and more than that, hosts wait for a core and not for the network.
FLOW_MBPS = 50
HOST_MBPS = 400
HOST_LIMIT = {"rate_mbps": HOST_MBPS, "queue_kib": 512, "delay_us": 50}
LIMITS = HOST_LIMIT | {"flow_mbps": FLOW_MBPS, "flow_queue_kib": 256}
# Checksums are computed, and frames of the MTU cross the wire.
OFFLOADS = ["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]
# What the host's limit lets pass in 1.4 s. The first collective, in which enough streams are found,
# is not reported.
SIZE = HOST_MBPS * 125_000 * 14 // 10
# In a send and receive nothing but the network limits a rank. The rings of an all-reduce wait for
# slices of the peer, whatever the network is.
COLLECTIVES = {"sendrecv": GROUP, "allreduce": f"{GROUP}, all-reduce"}


def flow_capped(bench):
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(BridgedPair(OFFLOADS, MTU))
        wire.give_address(wire.left, KERNEL["left"])
        wire.give_address(wire.right, KERNEL["right"])
        hosts = stack.enter_context(TwoHosts(bench.programs, MTU, wire=wire))
        results = {name: Results(Job(bench, hosts, wire, name)) for name in COLLECTIVES}
        for _ in range(bench.rounds):
            for result in results.values():
                result.measure(bench.build, wire)
    for name, group in COLLECTIVES.items():
        results[name].add_rows(bench.table, group)


class Results:
    """Rates of one job by what carried it, a value for each round."""

    def __init__(self, job):
        self._job = job
        self._kernels = {}
        self._one, self._unlimited, self._lyre = [], [], []

    def measure(self, build, wire):
        with Bridge(build, wire, LIMITS, LIMITS):
            report = self._job.run()
            self._lyre.append(gbps(report["plugin"]))
            for kernel in report["kernel"]:
                self._kernels.setdefault(kernel["transport"], []).append(gbps(kernel))
            self._one.append(self._job.of_one_stream())
        with Bridge(build, wire, HOST_LIMIT, HOST_LIMIT):
            self._unlimited.append(self._job.of_one_stream())

    def add_rows(self, table, group):
        job = self._job
        cap = table.add(Row(group, "the host's limit", "Gb/s", [HOST_MBPS / 1000], ""))
        for name, values in self._kernels.items():
            table.add(Row(group, name, "Gb/s", values, job.text))
        best = table.add(Row(group, "kernel's best", "Gb/s",
                             [max(values) for values in zip(*self._kernels.values())], job.text))
        table.add(Row(group, "one stream", "Gb/s", self._one, job.text_of_one_stream))
        # What is left to win: the job on the same wire without a limit for flows.
        whole = table.add(Row(group, "one stream, flows not limited", "Gb/s", self._unlimited,
                              job.text_of_one_stream))
        table.add(Row(group, "after the first second", "Gb/s", self._lyre, job.text, best))
        table.add(Row(group, "the same beside flows not limited", "Gb/s", self._lyre, job.text,
                      whole))
        table.add(Row(group, "the same beside the limit", "Gb/s", self._lyre, job.text, cap))


def gbps(measurement):
    """Each way, of all but the first collective."""
    return measurement["buckets"][0]["bus_bits_per_s"] / 1e9


class Job:
    """`lyre allreduce` of two ranks, one on each host."""

    def __init__(self, bench, hosts, wire, collective):
        self._environment = dict(os.environ, LYRE_DATA_DIR=os.path.join(bench.build, "tools/lyre"))
        self._command = [bench.programs.lyre, "allreduce", "--json", "--iterations", "1",
                         "--collective", collective, "--bytes", str(SIZE),
                         "--host", f"A={hosts.a.socket}", "--host", f"B={hosts.b.socket}"]
        for host, end, address in (("A", wire.left, KERNEL["left"]),
                                   ("B", wire.right, KERNEL["right"])):
            self._command += ["--kernel-addr", f"{host}={address}", "--kernel-netns",
                              f"{host}={end}"]
        self.text = " ".join(self._command)
        self.text_of_one_stream = f"LYRE_STREAMS=1 {self.text} --no-kernel"

    def run(self, *options, **variables):
        return json.loads(output_of([*self._command, *options], "lyre allreduce",
                                    env=self._environment | variables))

    def of_one_stream(self):
        return gbps(self.run("--no-kernel", LYRE_STREAMS="1")["plugin"])


GROUPS = {GROUP: flow_capped}
