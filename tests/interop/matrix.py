#!/usr/bin/env python3
"""Lyre against Linux TCP, in combinations of options of either side and properties of the wire.

Without arguments: cases in which every two values meet. `--all`: the whole product, for hours.
`--case mtu=576,sack=0,...` is what a failure prints to repeat it; what is not named is usual.
"""

import argparse
import subprocess
import sys
import time

import bed
import processes
import transfer
from bridge import Bridge, BridgeError
from capture import CaptureError
from daemon import DaemonError
from network import BridgedPair, CommandFailed, kernel_congestions
from pairwise import pairwise, product

PORT = 5201
# With a smaller MSS there would be too few segments for losses, and 2 % loss makes Reno slow.
BYTES = 1 << 20
TRANSFER_TIMEOUT_S = 180
# None of these occurs unless one side has a defect.
FAULTS = ("malformed packets", "bad TCP checksums", "bad IP checksums", "bad ICMPv6 checksums")
DELAY_US = 100
# With ECN the wire has a rate and marks queued packets, from six packets of 1500 bytes on.
MARKING = {"rate_mbps": 100, "queue_kib": 500, "mark_kib": 9}
# With this many queued frames there were marks that the sender must react to.
MARKS_MIN = 20

# The first value of each dimension is the default.
DIMENSIONS = {
    "family": [4, 6],
    "timestamps": [1, 0],
    "sack": [1, 0],
    "scaling": [1, 0],
    "ecn": [0, 1],
    "mtu": [1500, 576, 1280, 9000],
    "congestion": ["cubic", "reno", "bbr", "dctcp"],
    "lyre_congestion": ["cubic", "newreno", "dctcp"],
    "dialer": ["lyre", "kernel"],
    "loss_ppm": [0, 1000, 20_000],
    "disorder": ["none", "reorder", "duplicate"],
}
IPV6_MTU_MIN = 1280  # replaces a smaller MTU for IPv6
DISORDER = {"none": {}, "reorder": {"reorder_ppm": 20_000, "reorder_us": 300},
            "duplicate": {"duplicate_ppm": 20_000}}
SYSCTLS = {"timestamps": "tcp_timestamps", "sack": "tcp_sack", "scaling": "tcp_window_scaling",
           "ecn": "tcp_ecn"}


class CaseFailed(Exception):
    """The text is one line: hash, malformed or hang, and the observation."""


def text_of(case):
    return ",".join(f"{name}={value}" for name, value in case.items())


def dimensions_here():
    """Removes what this kernel does not support, and prints it."""
    there = kernel_congestions()
    missing = [name for name in DIMENSIONS["congestion"] if name not in there]
    if missing:
        print(f"this kernel has no {', no '.join(missing)}: not tried", flush=True)
    return {**DIMENSIONS, "congestion": [name for name in there
                                         if name in DIMENSIONS["congestion"]]}


def parse_case(text):
    case = {name: values[0] for name, values in DIMENSIONS.items()}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        found = [known for known in DIMENSIONS.get(name, []) if str(known) == value]
        if not found:
            raise argparse.ArgumentTypeError(f"{part}: no such dimension or value")
        case[name] = found[0]
    return case


def exchange(server, client):
    """BYTES each way at once; `server` and `client` are (command, environment)."""
    try:
        here, there = transfer.run(server, client, TRANSFER_TIMEOUT_S)
        transfer.check_sides(here, there, BYTES)
    except subprocess.TimeoutExpired as error:
        raise CaseFailed(f"hang: not done within {TRANSFER_TIMEOUT_S} s") from error
    except transfer.TransferFailed as error:
        raise CaseFailed(f"hash: {error}") from error


def arrange(host, case):
    """Sets the options that the kernel's side offers."""
    for name, sysctl in SYSCTLS.items():
        host.wire.run(host.wire.right, "sh", "-c",
                      f"echo {case[name]} > /proc/sys/net/ipv4/{sysctl}")


def check_ecn(capture, counters):
    """Both agreed on it, and where there were marks they were echoed and answered with CWR."""
    opening = "tcp.flags.syn == 1 and tcp.flags.ece == 1"
    for step in (f"{opening} and tcp.flags.cwr == 1 and tcp.flags.ack == 0",
                 f"{opening} and tcp.flags.cwr == 0 and tcp.flags.ack == 1"):
        if not capture.matching(step):
            raise CaseFailed(f"ECN: no packet with {step}")
    # `there` is the direction from Lyre to the kernel.
    for way, sender, receiver in (("there", bed.lyre(), bed.kernel()),
                                  ("back", bed.kernel(), bed.lyre())):
        if counters[way]["marked"] < MARKS_MIN:
            continue
        for flag, who in (("ece", receiver), ("cwr", sender)):
            if not capture.matching(f"tcp.flags.{flag} == 1 and tcp.flags.syn == 0 and "
                                    f"{'ip' if bed.options.family == 4 else 'ipv6'}.src == {who}"):
                raise CaseFailed(f"ECN: {counters[way]['marked']} marks from {sender}, and {who} "
                                 f"never set {flag.upper()}")


def run_case(case, seed):
    path = {"delay_us": DELAY_US, "loss_ppm": case["loss_ppm"], **DISORDER[case["disorder"]],
            **(MARKING if case["ecn"] else {})}
    bed.options.family = case["family"]
    mtu = case["mtu"] if case["family"] == 4 else max(case["mtu"], IPV6_MTU_MIN)
    wire = BridgedPair(bed.OFFLOADS, mtu)
    wire.congestion = case["congestion"]
    sections = {"tcp": {**bed.TIMEOUTS, "congestion": case["lyre_congestion"],
                        "ecn": "on" if case["ecn"] else "accept"}}
    with bed.Bed(wire, sections, mtu=mtu) as host:
        arrange(host, case)
        serving = ("perf", "server", "--listen", f":{PORT}", "--once", "--json")
        capture = host.capture("case", 2 * BYTES >> 20)
        with Bridge(bed.options.build, wire, path, path, seed) as bridge, capture:
            if case["dialer"] == "lyre":
                exchange(host.by_kernel(*serving), host.by_lyre(*asking(bed.kernel())))
            else:
                exchange(host.by_lyre(*serving), host.by_kernel(*asking(bed.lyre())))
        faults = capture.faults(FAULTS)
        if case["ecn"]:
            check_ecn(capture, bridge.counters)
    if faults:
        raise CaseFailed(f"malformed: {len(faults)} packets, the first: {faults[0]}")


def asking(address):
    return ("perf", "client", bed.endpoint(address, PORT), "--bytes", str(BYTES),
            "--direction", "both", "--verify", "--json")


def run_all(cases, seed):
    """Runs the cases; returns how many failed."""
    failed = 0
    for number, case in enumerate(cases, 1):
        started = time.monotonic()
        try:
            run_case(case, seed)
            verdict = "ok"
        except (CaseFailed, CaptureError, BridgeError, DaemonError, CommandFailed,
                processes.NoLine) as error:
            failed += 1
            verdict = (f"FAILED: {error}\n  repeat: tests/interop/matrix.py --build "
                       f"{bed.options.build} --seed {seed} --case {text_of(case)}")
        print(f"{number}/{len(cases)} {text_of(case)}: {time.monotonic() - started:.1f} s: "
              f"{verdict}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="folder with the finished build")
    parser.add_argument("--seed", type=int, default=1, help="of the cases and of the wire")
    parser.add_argument("--all", action="store_true", help="every combination")
    parser.add_argument("--case", type=parse_case, action="append", help="this one")
    parser.parse_args(namespace=bed.options)
    processes.exit_on_signals()
    reason = bed.reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        return bed.EXIT_SKIPPED
    dimensions = dimensions_here()
    cases = bed.options.case or (product(dimensions) if bed.options.all
                                 else pairwise(dimensions, bed.options.seed))
    failed = run_all(cases, bed.options.seed)
    print(f"{len(cases) - failed} of {len(cases)} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
