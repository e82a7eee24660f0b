"""One rank of PyTorch over NCCL. Started by gpu_check.py, which gives rank and daemon in the
environment, and the names of the networks that are compared. Each is a communicator of its own in
the same processes, so that they take turns.
"""

import argparse
import json
import os
import signal
import statistics
import time

import torch
import torch.distributed as dist

FLOAT_BYTES = 4
SIZES = [8 << shift for shift in range(0, 26, 3)] + [256 << 20]
# The others move as many bytes over the same connections.
FEW_SIZES = [1 << 10, 1 << 20, 64 << 20]
# What is timed at once: back to back, as in a backward pass.
TIMED_BYTES = 128 << 20
PASSES_MIN, PASSES_MAX = 2, 200
ROUNDS = 5
STEPS = 30
WARM_STEPS = 5
CLASSES = 1000
IMAGE = 224
HELD_SIZES = [8, 64 << 10, 1 << 20, 25 << 20]
HELD_PASSES_A_LOOK = 10
PASSES_BEFORE_DEATH = 20


def value(rank, elements):
    """Small integers: every sum is exact, whatever its order."""
    return ((torch.arange(elements, device="cuda") + rank * 7) % 64).float()


class AllReduce:
    name = "all_reduce"

    def __init__(self, rank, ranks, elements, group):
        self.data, self.group = value(rank, elements), group
        self.expected = sum(value(r, elements) for r in range(ranks))

    def run(self):
        dist.all_reduce(self.data, group=self.group)
        return self.data


class AllGather:
    name = "all_gather"

    def __init__(self, rank, ranks, elements, group):
        self.data, self.group = value(rank, elements), group
        self.out = torch.empty(ranks * elements, device="cuda")
        self.expected = torch.cat([value(r, elements) for r in range(ranks)])

    def run(self):
        dist.all_gather_into_tensor(self.out, self.data, group=self.group)
        return self.out


class ReduceScatter:
    name = "reduce_scatter"

    def __init__(self, rank, ranks, elements, group):
        self.data, self.group = value(rank, ranks * elements), group
        self.out = torch.empty(elements, device="cuda")
        whole = sum(value(r, ranks * elements) for r in range(ranks))
        self.expected = whole[rank * elements:(rank + 1) * elements]

    def run(self):
        dist.reduce_scatter_tensor(self.out, self.data, group=self.group)
        return self.out


class Broadcast:
    name = "broadcast"

    def __init__(self, rank, _ranks, elements, group):
        self.data, self.group = value(rank, elements), group
        self.expected = value(0, elements)

    def run(self):
        dist.broadcast(self.data, src=0, group=self.group)
        return self.data


class SendRecv:
    """To the next rank of the ring."""

    name = "send_recv"

    def __init__(self, rank, ranks, elements, group):
        before = (rank - 1) % ranks
        self.out = torch.empty(elements, device="cuda")
        self.operations = [
            dist.P2POp(dist.isend, value(rank, elements), (rank + 1) % ranks, group=group),
            dist.P2POp(dist.irecv, self.out, before, group=group)]
        self.expected = value(before, elements)

    def run(self):
        for work in dist.batch_isend_irecv(self.operations):
            work.wait()
        return self.out


class AllToAll:
    name = "all_to_all"

    def __init__(self, rank, ranks, elements, group):
        share = max(elements // ranks, 1)
        self.data, self.group = value(rank, ranks * share), group
        self.out = torch.empty(ranks * share, device="cuda")
        self.expected = torch.cat([value(r, ranks * share)[rank * share:(rank + 1) * share]
                                   for r in range(ranks)])

    def run(self):
        dist.all_to_all_single(self.out, self.data, group=self.group)
        return self.out


class Ranks:
    """This rank, and a communicator for each network."""

    def __init__(self, networks):
        dist.init_process_group("gloo")
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        torch.cuda.set_device(0)
        self.groups = {name: self._group(name) for name in networks}

    def _group(self, network):
        options = dist.ProcessGroupNCCL.Options()
        options.config.net_name = network
        return dist.new_group(list(range(self.ranks)), backend="nccl", pg_options=options)

    def verified(self, kind, size, network):
        """The collective after one run of it, whose result was right."""
        elements = max(size // FLOAT_BYTES, 1)
        collective = kind(self.rank, self.ranks, elements, self.groups[network])
        if not torch.equal(collective.run(), collective.expected):
            raise SystemExit(f"{kind.name} of {size} bytes over {network}: wrong result")
        return collective

    @staticmethod
    def seconds_of(run, passes):
        """Of each pass. All ranks begin together."""
        torch.cuda.synchronize()
        dist.barrier()
        began = time.perf_counter()
        for _ in range(passes):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / passes


COLLECTIVES = {kind.name: kind for kind in
               (AllReduce, AllGather, ReduceScatter, Broadcast, SendRecv, AllToAll)}


def sweep(ranks, names, sizes):
    rows = []
    for name in names or COLLECTIVES:
        kind = COLLECTIVES[name]
        for size in sizes or (SIZES if kind is AllReduce else FEW_SIZES):
            rows.append({"collective": name, "bytes": size, **timed(ranks, kind, size)})
    return rows


def timed(ranks, kind, size):
    """Seconds by network, the median of rounds in which the networks take turns."""
    collectives = {network: ranks.verified(kind, size, network) for network in ranks.groups}
    passes = min(max(TIMED_BYTES // size, PASSES_MIN), PASSES_MAX)
    seconds = {network: [] for network in collectives}
    for _ in range(ROUNDS):
        for network, collective in collectives.items():
            seconds[network].append(ranks.seconds_of(collective.run, passes))
    return {network: statistics.median(values) for network, values in seconds.items()}


class Training:
    """A ResNet-50 under DistributedDataParallel, from the same seed over every network."""

    def __init__(self, group, batch):
        import torchvision

        torch.manual_seed(1)
        model = torchvision.models.resnet50(num_classes=CLASSES).cuda()
        self.model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = batch
        self.losses = []

    def step(self, seed):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        images = torch.randn(self.batch, 3, IMAGE, IMAGE, device="cuda", generator=generator)
        labels = torch.randint(CLASSES, (self.batch,), device="cuda", generator=generator)
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(loss.item())


def train(ranks, batch=32):
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    jobs = {network: Training(group, batch) for network, group in ranks.groups.items()}
    seconds = {network: [] for network in jobs}
    for step in range(STEPS):
        for network, job in jobs.items():
            took = ranks.seconds_of(lambda job=job: job.step(1000 * ranks.rank + step), 1)
            seconds[network].append(took)
    return {network: {"losses": job.losses,
                      "step_s": statistics.median(seconds[network][WARM_STEPS:])}
            for network, job in jobs.items()}


def hold(ranks, seconds=12):
    """Verified all-reduces, for as long as the daemons are disturbed; the longest wait for one."""
    network = next(iter(ranks.groups))
    done, longest, began = 0, 0, time.perf_counter()
    while True:
        for _ in range(HELD_PASSES_A_LOOK):
            for size in HELD_SIZES:
                before = time.perf_counter()
                ranks.verified(AllReduce, size, network)
                longest = max(longest, time.perf_counter() - before)
                done += 1
        is_over = torch.tensor([time.perf_counter() - began > seconds])
        dist.broadcast(is_over, src=0)
        if is_over.item():
            return {"all_reduces": done, "longest_s": longest}


def death(ranks):
    """The last rank kills itself; rank 0 says after what time NCCL reported it."""
    network = next(iter(ranks.groups))
    for _ in range(PASSES_BEFORE_DEATH):
        ranks.verified(AllReduce, 1 << 20, network)
    dist.barrier()
    if ranks.rank == ranks.ranks - 1:
        # What this rank would send is missing then.
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.perf_counter()
    try:
        dist.all_reduce(value(0, 1 << 20), group=ranks.groups[network], async_op=True).wait()
        torch.cuda.synchronize()
        error = "none"
    except Exception as raised:
        error = str(raised)
    return {"seconds": time.perf_counter() - began, "error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["sweep", "train", "hold", "death"])
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--collective", action="append", choices=list(COLLECTIVES))
    parser.add_argument("--bytes", action="append", type=int)
    arguments = parser.parse_args()
    ranks = Ranks(arguments.networks)
    result = {"sweep": lambda: sweep(ranks, arguments.collective, arguments.bytes),
              "train": lambda: train(ranks), "hold": lambda: hold(ranks),
              "death": lambda: death(ranks)}[arguments.what]()
    if ranks.rank == 0:
        print(json.dumps({"nccl": ".".join(map(str, torch.cuda.nccl.version())),
                          "torch": torch.__version__, "gpu": torch.cuda.get_device_name(0),
                          "result": result}), flush=True)
    if arguments.what == "death":
        os._exit(0)  # the communicator is broken: there is nothing to close in order
    for group in ranks.groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
