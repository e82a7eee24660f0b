#!/usr/bin/env python3
"""Lyre against Linux TCP in every combination of what either may offer and what a wire may do.

Without arguments: cases in which every two values meet. `--all`: the whole product, for hours.
`--case mtu=576,sack=0,...` is what a failure prints to repeat it; what is not named is usual.
"""

import argparse
import json
import subprocess
import sys
import time

import bed
import processes
from bridge import Bridge, BridgeError
from capture import CaptureError
from daemon import DaemonError
from network import BridgedPair, NetworkError
from pairwise import pairwise, product

PORT = 5201
# Two of the smaller MSS would be too few for losses, and 2 % loss slows Reno down.
BYTES = 1 << 20
TRANSFER_TIMEOUT_S = 60
# A wire without a bug of either side shows none of these.
FAULTS = ("malformed packets", "bad TCP checksums", "bad IP checksums", "bad ICMPv6 checksums")
DELAY_US = 100

# The first value of each is the usual one.
DIMENSIONS = {
    "family": [4, 6],
    "timestamps": [1, 0],
    "sack": [1, 0],
    "scaling": [1, 0],
    "ecn": [0, 1],
    "mtu": [1500, 576, 1280, 9000],
    "congestion": ["cubic", "reno", "bbr"],
    "dialer": ["lyre", "kernel"],
    "loss_ppm": [0, 1000, 20_000],
    "disorder": ["none", "reorder", "duplicate"],
}
IPV6_MTU_MIN = 1280  # what a smaller one means to IPv6
DISORDER = {"none": {}, "reorder": {"reorder_ppm": 20_000, "reorder_us": 300},
            "duplicate": {"duplicate_ppm": 20_000}}
SYSCTLS = {"timestamps": "tcp_timestamps", "sack": "tcp_sack", "scaling": "tcp_window_scaling",
           "ecn": "tcp_ecn"}


class CaseFailed(Exception):
    """The text is one line: hash, malformed or hang, and what was seen."""


def text_of(case):
    return ",".join(f"{name}={value}" for name, value in case.items())


def parse_case(text):
    case = {name: values[0] for name, values in DIMENSIONS.items()}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        found = [known for known in DIMENSIONS.get(name, []) if str(known) == value]
        if not found:
            raise argparse.ArgumentTypeError(f"{part}: no such dimension or value")
        case[name] = found[0]
    return case


def transfer(server, client):
    """BYTES each way at once; `server` and `client` are (command, environment)."""
    command, environment = server
    serving = processes.start(command, env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    try:
        if "listening" not in serving.stderr.readline():
            raise CaseFailed("hang: the server does not start")
        command, environment = client
        asked = processes.run(command, TRANSFER_TIMEOUT_S, env=environment, capture_output=True)
        if asked.returncode != 0:
            raise CaseFailed(f"hash: the client says: {asked.stderr.strip()}")
        out, said = serving.communicate(timeout=TRANSFER_TIMEOUT_S)
        if serving.returncode != 0:
            raise CaseFailed(f"hash: the server says: {said.strip()}")
    except subprocess.TimeoutExpired as error:
        raise CaseFailed(f"hang: not done within {TRANSFER_TIMEOUT_S} s") from error
    finally:
        processes.end(serving)
        serving.stdout.close()
        serving.stderr.close()
    check_hashes(json.loads(asked.stdout), json.loads(out))


def check_hashes(here, there):
    for flow, mirror in (("sent", "received"), ("received", "sent")):
        one, other = here[flow], there[mirror]
        if one["bytes"] != BYTES or one["sha256"] != other["sha256"] or not one["intact"]:
            raise CaseFailed(f"hash: {flow} {one} but {mirror} {other}")


def arrange(host, case):
    """What the kernel's side offers."""
    for name, sysctl in SYSCTLS.items():
        host.wire.run(host.wire.right, "sh", "-c",
                      f"echo {case[name]} > /proc/sys/net/ipv4/{sysctl}")


def run_case(case, seed):
    path = {"delay_us": DELAY_US, "loss_ppm": case["loss_ppm"], **DISORDER[case["disorder"]]}
    bed.options.family = case["family"]
    mtu = case["mtu"] if case["family"] == 4 else max(case["mtu"], IPV6_MTU_MIN)
    wire = BridgedPair(bed.OFFLOADS, mtu)
    wire.congestion = case["congestion"]
    with bed.Bed(wire, mtu=mtu) as host, \
            Bridge(bed.options.build, wire, path, path, seed):
        arrange(host, case)
        serving = ("perf", "server", "--listen", f":{PORT}", "--once", "--json")
        capture = host.capture("case", 2 * BYTES >> 20)
        with capture:
            if case["dialer"] == "lyre":
                transfer(host.by_kernel(*serving), host.by_lyre(*asking(bed.kernel())))
            else:
                transfer(host.by_lyre(*serving), host.by_kernel(*asking(bed.lyre())))
        faults = capture.faults(FAULTS)
    if faults:
        raise CaseFailed(f"malformed: {len(faults)} packets, the first: {faults[0]}")


def asking(address):
    return ("perf", "client", bed.endpoint(address, PORT), "--bytes", str(BYTES),
            "--direction", "both", "--verify", "--json")


def run_all(cases, seed):
    """How many failed."""
    failed = 0
    for number, case in enumerate(cases, 1):
        started = time.monotonic()
        try:
            run_case(case, seed)
            verdict = "ok"
        except (CaseFailed, CaptureError, BridgeError, DaemonError, NetworkError) as error:
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
    cases = bed.options.case or (product(DIMENSIONS) if bed.options.all
                                 else pairwise(DIMENSIONS, bed.options.seed))
    failed = run_all(cases, bed.options.seed)
    print(f"{len(cases) - failed} of {len(cases)} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
