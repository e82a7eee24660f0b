#!/usr/bin/env python3
"""Runs `lyre allreduce` between two daemons on this machine, and the same job over kernel TCP.

Arguments after `--` go to `lyre allreduce`. Leaves nothing running and nothing behind.
"""

import argparse
import contextlib
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import processes
from daemon import DaemonError, Programs
from network import CommandFailed, NetworkError, VethPair
from two_hosts import TwoHosts

JOB_TIMEOUT_S = 900
# In addition to the warm-up. Every pass is verified; more passes reduce the variance.
ITERATIONS = "1"
KERNEL_ADDRESSES = {"A": "10.9.1.1", "B": "10.9.1.2"}
# As a NIC without segmentation offload: the kernel's software segmentation and merging stay on.
KERNEL_OFFLOADS = ["tso", "off", "gso", "on", "gro", "on"]


def say(text):
    print(f"quickstart: {text}", file=sys.stderr, flush=True)


def kernel_wire(stack):
    """Arguments by which the job over kernel TCP gets a wire of its own, where that is possible."""
    wire = VethPair(KERNEL_OFFLOADS)
    try:
        stack.enter_context(wire)
        namespaces = {"A": wire.left, "B": wire.right}
        for name, address in KERNEL_ADDRESSES.items():
            wire.give_address(namespaces[name], address)
    except (NetworkError, CommandFailed) as error:  # a measurement, which loopback serves too
        say(f"kernel TCP is measured on loopback ({error})")
        return []
    arguments = []
    for name, address in KERNEL_ADDRESSES.items():
        arguments += ["--kernel-addr", f"{name}={address}",
                      "--kernel-netns", f"{name}={namespaces[name]}"]
    return arguments


def run_job(programs, hosts, arguments):
    command = [programs.lyre, "allreduce", "--host", f"A={hosts.a.socket}",
               "--host", f"B={hosts.b.socket}", *arguments]
    if "--iterations" not in arguments:
        command += ["--iterations", ITERATIONS]
    job = processes.start(command)
    try:
        return job.wait(JOB_TIMEOUT_S)
    finally:
        processes.end(job)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="folder with the finished build")
    parser.add_argument("arguments", nargs="*", help="for lyre allreduce")
    options = parser.parse_args()
    processes.exit_on_signals()
    try:
        programs = Programs(options.build)
        with contextlib.ExitStack() as stack:
            say("starting host A and host B")
            hosts = stack.enter_context(TwoHosts(programs))
            kernel = [] if "--no-kernel" in options.arguments else kernel_wire(stack)
            say("running lyre allreduce")
            return run_job(programs, hosts, kernel + options.arguments)
    except subprocess.TimeoutExpired:
        say(f"lyre allreduce did not end within {JOB_TIMEOUT_S} s")
    except DaemonError as error:
        say(str(error))
    return 1


if __name__ == "__main__":
    sys.exit(main())
