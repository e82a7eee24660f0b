#!/usr/bin/env python3
"""Compares `lyre perf` over Lyre with the same program over kernel TCP, in alternating rounds.

Lyre: two daemons joined by memif, MTU 1500, checksums computed and verified in software. Kernel:
veth between two network namespaces with MTU-sized packets crossing it (tso off, gso on, gro on),
CUBIC.
Prints the ratio of medians first. Needs root; run it on a machine with nothing else to do.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from network import VethPair
from two_hosts import ADDRESSES, TwoHosts

KERNEL = {"left": "10.9.4.1", "right": "10.9.4.2"}
PORT = 5201
PATIENCE_S = 60
LISTEN_S = 0.5


class Case:
    """One thing to measure: its arguments, and how to read its figure."""

    def __init__(self, name, unit, arguments, figure):
        self.name, self.unit, self.arguments, self.figure = name, unit, arguments, figure


def gbps(report):
    return report["sent"]["gbps"]


def p50_us(report):
    return report["ping_pong"]["p50_us"]


def cases(seconds):
    return [Case("one session, every byte written and read", "Gb/s", ["--seconds", seconds], gbps),
            Case("one session, payload not touched", "Gb/s",
                 ["--seconds", seconds, "--untouched"], gbps),
            Case("round trip of 64 bytes, p50", "us", ["--ping-pong", "--count", "20000"], p50_us)]


def measure(server, client, case):
    """The figure of one run; each command is (words, environment)."""
    listening = processes.start([*server[0], "perf", "server", "--listen", f"0.0.0.0:{PORT}",
                                 *server[2]], env=server[1], stdout=subprocess.DEVNULL)
    try:
        time.sleep(LISTEN_S)
        done = processes.run([*client[0], "--json", "perf", "client", f"{client[3]}:{PORT}",
                              *client[2], *case.arguments], PATIENCE_S, env=client[1],
                             capture_output=True)
        if done.returncode != 0:
            sys.exit(f"compare_perf: {done.stderr.strip()}")
        return case.figure(json.loads(done.stdout))
    finally:
        processes.end(listening)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="2")
    options = parser.parse_args()
    processes.exit_on_signals()
    programs = Programs(options.build)
    with TwoHosts(programs) as hosts, VethPair(["tso", "off", "gso", "on", "gro", "on"]) as wire:
        wire.give_address(wire.left, KERNEL["left"])
        wire.give_address(wire.right, KERNEL["right"])
        (lyre, env_a), (_, env_b) = hosts.a.lyre(), hosts.b.lyre()
        sides = {
            "lyre": ((lyre, env_a, []), (lyre, env_b, [], ADDRESSES["host-a"])),
            "kernel": ((wire.inside(wire.left, *lyre), env_a, ["--kernel"]),
                       (wire.inside(wire.right, *lyre), env_b, ["--kernel"], KERNEL["left"]))}
        for case in cases(options.seconds):
            figures = {name: [] for name in sides}
            for _ in range(options.rounds):
                for name, (server, client) in sides.items():
                    figures[name].append(measure(server, client, case))
            median = {name: statistics.median(values) for name, values in figures.items()}
            spread = {name: f"{median[name]:.1f} ({min(v):.1f} to {max(v):.1f})"
                      for name, v in figures.items()}
            print(f"{median['lyre'] / median['kernel']:.2f}  {case.name}: "
                  f"Lyre {spread['lyre']} {case.unit}, kernel {spread['kernel']} {case.unit}",
                  flush=True)


if __name__ == "__main__":
    main()
