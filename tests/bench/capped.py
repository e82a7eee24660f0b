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
# A cloud's 1 and 8 Gb/s, both a tenth of that. The bridge and both hosts share the cores of this
# machine: with two, no stack brings more than 1 Gb/s each way over this wire.
FLOW_MBPS = 100
HOST_MBPS = 800
HOST_LIMIT = {"rate_mbps": HOST_MBPS, "queue_kib": 1024, "delay_us": 50}
LIMITS = HOST_LIMIT | {"flow_mbps": FLOW_MBPS, "flow_queue_kib": 512}
# Checksums are computed, and frames of the MTU cross the wire.
OFFLOADS = ["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"]
# What the host's limit lets pass in 0.7 s. The first all-reduce, which takes about a second until
# enough streams are there, is not reported.
SIZE = HOST_MBPS * 125_000 * 7 // 10


def flow_capped(bench):
    cap = bench.table.add(Row(GROUP, "the host's limit", "Gb/s", [HOST_MBPS / 1000], ""))
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(BridgedPair(OFFLOADS, MTU))
        wire.give_address(wire.left, KERNEL["left"])
        wire.give_address(wire.right, KERNEL["right"])
        hosts = stack.enter_context(TwoHosts(bench.programs, MTU, wire=wire))
        job = Job(bench, hosts, wire)
        one, unlimited, lyre, kernels = [], [], [], {}
        for _ in range(bench.rounds):
            with Bridge(bench.build, wire, LIMITS, LIMITS):
                report = job.run()
                lyre.append(gbps(report["plugin"]))
                for kernel in report["kernel"]:
                    kernels.setdefault(kernel["transport"], []).append(gbps(kernel))
                one.append(job.of_one_stream())
            with Bridge(bench.build, wire, HOST_LIMIT, HOST_LIMIT):
                unlimited.append(job.of_one_stream())
    for name, values in kernels.items():
        bench.table.add(Row(GROUP, name, "Gb/s", values, job.text))
    best = bench.table.add(Row(GROUP, "kernel's best", "Gb/s",
                               [max(values) for values in zip(*kernels.values())], job.text))
    bench.table.add(Row(GROUP, "one stream", "Gb/s", one, job.text_of_one_stream))
    # What is left to win: the rings of an all-reduce wait for each other on any network.
    whole = bench.table.add(Row(GROUP, "one stream, flows not limited", "Gb/s", unlimited,
                                job.text_of_one_stream))
    bench.table.add(Row(GROUP, "after the first second", "Gb/s", lyre, job.text, best))
    bench.table.add(Row(GROUP, "the same beside flows not limited", "Gb/s", lyre, job.text, whole))
    bench.table.add(Row(GROUP, "the same beside the limit", "Gb/s", lyre, job.text, cap))


def gbps(measurement):
    """Each way, of all but the first all-reduce."""
    return measurement["buckets"][0]["bus_bits_per_s"] / 1e9


class Job:
    """`lyre allreduce` of two ranks, one on each host."""

    def __init__(self, bench, hosts, wire):
        self._environment = dict(os.environ, LYRE_DATA_DIR=os.path.join(bench.build, "tools/lyre"))
        self._command = [bench.programs.lyre, "allreduce", "--json", "--iterations", "1",
                         "--bytes", str(SIZE),
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
