#!/usr/bin/env python3
"""Goodput under random loss: Lyre to a Linux receiver against Linux to the same.

Both senders go through tests/interop's bridge with the same delay, loss and seed, in alternating
rounds; prints the ratio of medians. Needs root; run it on a machine with nothing else to do.
"""

import argparse
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
for folder in ("support", "interop"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))

import bed
import processes
import transfer
from bridge import Bridge
from network import BridgedPair

PORT = 5201
TIMEOUT_S = 120
KERNEL_LEFT = bed.LYRE
CONGESTIONS = {"cubic": "cubic", "reno": "newreno"}  # the kernel's names and Lyre's


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="folder with the finished build")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--mib", type=int, default=16, help="of each transfer")
    parser.add_argument("--delay-us", type=int, default=500, help="each way")
    parser.add_argument("--loss-ppm", type=int, default=20_000, help="of data; ACKs pass")
    parser.add_argument("--congestion", choices=CONGESTIONS, default="cubic",
                        help="the kernel's")
    parser.add_argument("--lyre-congestion", choices=CONGESTIONS.values(), default="cubic")
    parser.add_argument("--ack-loss", action="store_true", help="ACKs are lost as well")
    return parser.parse_args(namespace=bed.options)


def measure(options, wire, client, seed):
    """Gb/s of one transfer from the left end of `wire` to its kernel; and the share lost."""
    there = {"delay_us": options.delay_us, "loss_ppm": options.loss_ppm}
    back = dict(there) if options.ack_loss else {"delay_us": options.delay_us}
    server = wire.inside(wire.right, bed.Programs(options.build).lyre, "perf", "server", "--listen",
                         f":{PORT}", "--once", "--json", "--kernel")
    with Bridge(options.build, wire, there, back, seed=seed) as bridge:
        sender, _receiver = transfer.run((server, None), client, TIMEOUT_S)
    lost = bridge.counters["there"]["lost"] / max(bridge.counters["there"]["carried"], 1)
    return sender["sent"]["bits_per_s"] / 1e9, lost


def client_arguments(options):
    return ("--json", "perf", "client", f"{bed.KERNEL}:{PORT}", "--bytes", str(options.mib << 20),
            "--direction", "tx")


def by_lyre(options, seed):
    wire = BridgedPair(bed.OFFLOADS)
    with bed.Bed(wire, {"tcp": {"congestion": options.lyre_congestion}}) as host:
        return measure(options, wire, host.by_lyre(*client_arguments(options)), seed)


def by_kernel(options, seed):
    lyre = bed.Programs(options.build).lyre
    wire = BridgedPair(bed.OFFLOADS)
    wire.congestion = options.congestion
    with wire:
        wire.give_address(wire.left, KERNEL_LEFT)
        wire.give_address(wire.right, bed.KERNEL)
        client = wire.inside(wire.left, lyre, *client_arguments(options), "--kernel")
        return measure(options, wire, (client, None), seed)


def main():
    options = arguments()
    processes.exit_on_signals()
    figures = {"lyre": [], "kernel": []}
    for round_index in range(options.rounds):
        for name, sender in (("lyre", by_lyre), ("kernel", by_kernel)):
            gbps, lost = sender(options, round_index + 1)
            figures[name].append(gbps)
            print(f"round {round_index + 1} {name}: {1000 * gbps:.1f} Mb/s, {100 * lost:.2f} % "
                  "lost", flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    print(json.dumps({"ratio": medians["lyre"] / medians["kernel"],
                      "lyre_mbps": 1000 * medians["lyre"],
                      "kernel_mbps": 1000 * medians["kernel"], "rounds": options.rounds}))


if __name__ == "__main__":
    main()
