#!/usr/bin/env python3
"""Real NCCL under PyTorch on one GPU: over Lyre between two daemons, and over NCCL's own sockets.

Collectives from 8 B to 256 MiB are checked and timed on both, which take turns. A ResNet-50 is
trained on both, and its losses are compared. A job goes on while one daemon is upgraded and the
other is killed. A rank is killed, and the other one must be told. Needs root, a GPU, PyTorch and
torchvision; without a GPU or PyTorch it says so and ends with status 77.
"""

import argparse
import contextlib
import glob
import json
import math
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "support"), os.path.join(FOLDER, "..", "bench")]

import processes
from daemon import Programs
from measures import HONEST, KERNEL, SUPER, SUPER_PACKETS, TRUSTED, kernel_wire
from two_hosts import TwoHosts, scratch_folder

SKIPPED = 77
TIMEOUT_S = 600
SESSION_PATIENCE_S = 60
MPS_PATIENCE_S = 20
RANKS_FILE = os.path.join(FOLDER, "torch_ranks.py")
LOSS_TOLERANCE = 1e-3
NETWORKS = ["Lyre", "Socket"]
# What the plugin says when the peer's daemon tells of the death; a timeout has another text.
TOLD = "its process ended"
STEPS = ["sweep", "train", "hold", "death"]


def why_not():
    probe = "import torch, torchvision, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
    done = processes.run([sys.executable, "-c", probe], 120, capture_output=True)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else "no GPU here"


@contextlib.contextmanager
def shared_gpu():
    """The environment of processes whose kernels run at once. Without MPS they take turns on the
    GPU, some milliseconds each, and the times are those of the turns."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        print("MPS is not installed: the ranks take turns on the GPU", flush=True)
        yield {}
        return
    folder = scratch_folder()
    environment = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    server = processes.start([control, "-f"], env=dict(os.environ, **environment),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + MPS_PATIENCE_S
    while not os.path.exists(os.path.join(folder, "control")) and time.monotonic() < deadline:
        time.sleep(0.1)
    try:
        yield environment
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes.run([control], MPS_PATIENCE_S, input="quit\n", capture_output=True,
                          env=dict(os.environ, **environment))
        processes.end(server)
        shutil.rmtree(folder, ignore_errors=True)


class Job:
    """Two ranks, one on each host. NCCL takes them for ranks of different machines."""

    def __init__(self, build, hosts, wire, logs, options=()):
        """`options`: of torch_ranks.py."""
        self._options = list(options)
        self._plugin = os.path.join(os.path.abspath(build), "nccl_adapter/libnccl-net-lyre.so")
        self._hosts = [hosts.a, hosts.b]
        self._wire, self._logs = wire, logs
        self._places = [wire.left, wire.right]

    @contextlib.contextmanager
    def running(self, what, networks, environment):
        """The processes of the ranks; those that still run are ended."""
        ranks = []
        try:
            for rank in range(len(self._hosts)):
                command = self._wire.inside(self._places[rank], sys.executable, RANKS_FILE, what,
                                            *networks, *self._options)
                ranks.append(processes.start(
                    command, stdout=subprocess.PIPE, text=True,
                    env=dict(os.environ, **self._environment_of(rank, what), **environment)))
            yield ranks
        finally:
            for process in ranks:
                processes.end(process)

    def _environment_of(self, rank, what):
        return {
            "RANK": str(rank), "WORLD_SIZE": str(len(self._hosts)),
            "MASTER_ADDR": KERNEL["left"], "MASTER_PORT": "29511",
            "GLOO_SOCKET_IFNAME": self._wire.device, "NCCL_SOCKET_IFNAME": self._wire.device,
            "NCCL_HOSTID": f"lyre-test-host-{rank}", "NCCL_NET_PLUGIN": self._plugin,
            "LYRE_SOCKET": self._hosts[rank].socket, "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET",
            "NCCL_DEBUG_FILE": os.path.join(self._logs, f"{what}.{rank}.log"),
        }

    def run(self, what, networks, environment, meanwhile=lambda: None, survivors=None):
        """What rank 0 reports. The ranks from `survivors` on may end as they like."""
        with self.running(what, networks, environment) as ranks:
            meanwhile()
            if ranks[0].poll() is not None:
                raise SystemExit(f"{what}: the job was over before the daemons were disturbed")
            out, _ = ranks[0].communicate(timeout=TIMEOUT_S)
            if any(rank.wait(TIMEOUT_S) != 0 for rank in ranks[:survivors]):
                raise SystemExit(f"{what}: a rank failed; see {self._logs}/{what}.*.log")
        return json.loads(out.strip().splitlines()[-1])


def print_sweep(report):
    print(f"NCCL {report['nccl']}, PyTorch {report['torch']}, {report['gpu']}")
    print(f"{'collective':16} {'bytes':>10} {'Lyre us':>12} {'sockets us':>12} {'ratio':>6}")
    for row in report["result"]:
        lyre, sockets = row["Lyre"], row["Socket"]
        print(f"{row['collective']:16} {row['bytes']:10} {lyre * 1e6:12.1f} "
              f"{sockets * 1e6:12.1f} {sockets / lyre:6.2f}", flush=True)


def compare_training(report):
    lyre, sockets = report["result"]["Lyre"], report["result"]["Socket"]
    same = all(math.isclose(a, b, rel_tol=LOSS_TOLERANCE)
               for a, b in zip(lyre["losses"], sockets["losses"]))
    print(f"ResNet-50, a step: Lyre {lyre['step_s'] * 1e3:.1f} ms, "
          f"sockets {sockets['step_s'] * 1e3:.1f} ms; losses of {len(lyre['losses'])} steps "
          f"{'equal' if same else 'DIFFERENT'}: {lyre['losses'][-1]:.4f}, "
          f"{sockets['losses'][-1]:.4f}", flush=True)
    return same


def disturb(hosts):
    """One daemon is replaced while it runs; the other is killed and comes back a second later."""
    wait_for_sessions(hosts.a)
    print_copies(hosts.a)
    hosts.a.upgrade()
    print("held: one daemon was upgraded", flush=True)
    time.sleep(2)
    hosts.b.kill()
    time.sleep(1)
    hosts.b.start()
    print("held: the other was killed and is back", flush=True)


def wait_for_sessions(host):
    deadline = time.monotonic() + SESSION_PATIENCE_S
    while not host.look("sessions")["sessions"]:
        if time.monotonic() > deadline:
            raise SystemExit(f"the job made no session within {SESSION_PATIENCE_S} s")
        time.sleep(0.5)
    time.sleep(2)


def print_copies(host):
    """The plugin copies what it receives, and of what it sends only what the daemon cannot read."""
    for process in host.look("comms")["processes"]:
        for comm in process["comms"]:
            print(f"held: {comm['direction']}, {comm['bytes'] >> 20} MiB, of which "
                  f"{comm['copied_bytes'] >> 20} MiB were copied", flush=True)


def is_told_of_death(report):
    result = report["result"]
    print(f"death: rank 0 was told after {result['seconds']:.2f} s: "
          f"{result['error'].splitlines()[0]}", flush=True)
    return TOLD in result["error"]


def check(job, hosts, steps):
    """Whether all was well. A client of MPS that is killed may end the others, so the step that
    kills one has no MPS."""
    good = True
    with shared_gpu() as shared:
        if "sweep" in steps:
            print_sweep(job.run("sweep", NETWORKS, shared))
        if "train" in steps:
            good = compare_training(job.run("train", NETWORKS, shared)) and good
        if "hold" in steps:
            held = job.run("hold", ["Lyre"], shared, lambda: disturb(hosts))["result"]
            print(f"held: {held['all_reduces']} all-reduces verified, the longest took "
                  f"{held['longest_s']:.2f} s", flush=True)
    if "death" in steps:
        report = job.run("death", ["Lyre"], {"TORCH_NCCL_BLOCKING_WAIT": "1"}, survivors=1)
        good = is_told_of_death(report) and good
    return good


def print_plugin_lines(logs):
    """What the plugin said in NCCL's log, each line once."""
    said = {}
    for path in sorted(glob.glob(os.path.join(logs, "*.log"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if "NET/Lyre" in line or "via NET/" in line and "Channel 00" in line:
                    said.setdefault(line[line.find("NCCL"):].strip(), os.path.basename(path))
    for line, name in said.items():
        print(f"  {name}: {line}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--logs", default=".", help="the folder of NCCL's logs (.)")
    parser.add_argument("--step", action="append", choices=STEPS,
                        help="only this one; may be repeated")
    parser.add_argument("--collective", action="append", default=[],
                        help="in the sweep, only this one; may be repeated")
    parser.add_argument("--bytes", action="append", default=[],
                        help="in the sweep, only this size; may be repeated")
    parser.add_argument("--workers", type=int, default=1, help="of each daemon (1)")
    parser.add_argument("--mtu", type=int, default=1500, help="of both wires (1500)")
    parser.add_argument("--uncut", action="store_true", help="both wires carry 64 KiB packets")
    return parser.parse_args()


def cores_of(workers):
    """From both ends of the machine."""
    available = sorted(os.sched_getaffinity(0))
    return {"host-a": available[:workers], "host-b": available[-workers:]}


def main():
    options = arguments()
    reason = why_not()
    if reason is not None:
        print(f"SKIPPED: {reason}: the real NCCL was NOT run")
        return SKIPPED
    processes.exit_on_signals()
    processes.adopt_orphans()
    of_ranks = [f"--collective={name}" for name in options.collective] + [
        f"--bytes={size}" for size in options.bytes]
    offloads, sections = (SUPER, SUPER_PACKETS) if options.uncut else (HONEST, TRUSTED)
    with TwoHosts(Programs(options.build), options.mtu, sections,
                  cores_of=cores_of(options.workers)) as hosts, \
            kernel_wire(offloads, options.mtu) as wire:
        job = Job(options.build, hosts, wire, options.logs, of_ranks)
        try:
            return 0 if check(job, hosts, options.step or STEPS) else 1
        finally:
            print_plugin_lines(options.logs)


if __name__ == "__main__":
    sys.exit(main())
