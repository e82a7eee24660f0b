#!/usr/bin/env python3
"""Real NCCL under PyTorch on one GPU: over Lyre between two daemons, and over NCCL's own sockets.

Every collective from 8 B to 256 MiB is checked and timed on both, then a small ResNet is trained on
both and its losses are compared. Needs a GPU, PyTorch and torchvision; without them it says so and
ends with status 77.
"""

import argparse
import json
import math
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from two_hosts import TwoHosts

SKIPPED = 77
TIMEOUT_S = 900
RANKS_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_ranks.py")
LOSS_TOLERANCE = 1e-3


def why_not():
    probe = "import torch, torchvision, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
    done = processes.run([sys.executable, "-c", probe], 120, capture_output=True)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else "no GPU here"


def run_ranks(what, ranks, environments):
    """What rank 0 reports. Ranks share the GPU: NCCL takes them for ranks of different hosts."""
    children = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", NCCL_SOCKET_IFNAME="lo",
                           NCCL_HOSTID=f"lyre-test-host-{rank}", NCCL_DEBUG="INFO",
                           NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=f"{what}.%h.%p.log",
                           **environments[rank % len(environments)])
        children.append(processes.start([sys.executable, RANKS_FILE, what], env=environment,
                                        stdout=subprocess.PIPE, text=True))
    try:
        out, _ = children[0].communicate(timeout=TIMEOUT_S)
        if any(child.wait(TIMEOUT_S) != 0 for child in children):
            raise SystemExit(f"{what}: a rank failed; see {what}.*.log")
        return json.loads(out.strip().splitlines()[-1])
    finally:
        for child in children:
            processes.end(child)


def print_sweep(lyre, sockets):
    print(f"{'collective':16} {'bytes':>10} {'Lyre us':>12} {'sockets us':>12}")
    for ours, theirs in zip(lyre["sweep"], sockets["sweep"]):
        print(f"{ours['collective']:16} {ours['bytes']:10} {ours['seconds'] * 1e6:12.1f} "
              f"{theirs['seconds'] * 1e6:12.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    reason = why_not()
    if reason is not None:
        print(f"SKIPPED: {reason}: the real NCCL was NOT run")
        return SKIPPED
    processes.exit_on_signals()
    plugin = os.path.join(os.path.abspath(arguments.build), "nccl_adapter/libnccl-net-lyre.so")
    sockets = [{"NCCL_NET": "Socket"}]
    with TwoHosts(Programs(arguments.build)) as hosts:
        lyre = [{"NCCL_NET": "Lyre", "NCCL_NET_PLUGIN": plugin, "LYRE_SOCKET": host.socket}
                for host in (hosts.a, hosts.b)]
        ours = run_ranks("sweep", arguments.ranks, lyre)
        theirs = run_ranks("sweep", arguments.ranks, sockets)
        print(f"NCCL {ours['nccl']}, PyTorch {ours['torch']}, {ours['gpu']}")
        print_sweep(ours, theirs)
        losses = [run_ranks("train", arguments.ranks, network)["train"]
                  for network in (lyre, sockets)]
    same = all(math.isclose(a, b, rel_tol=LOSS_TOLERANCE) for a, b in zip(*losses))
    print(f"losses of {len(losses[0])} steps: {'equal' if same else 'DIFFERENT'}", losses)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
