"""One rank of PyTorch over NCCL: collectives at many sizes, checked, or some steps of training.

Started by gpu_check.py, which gives rank, network and daemon in the environment.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist

SIZES = [8 << shift for shift in range(0, 26, 2)] + [256 << 20]
FLOAT_BYTES = 4
STEPS = 20
BATCH = 16
CLASSES = 10
PASSES = 5


def value(rank, elements):
    """Small integers: every sum is exact, whatever its order."""
    return ((torch.arange(elements, device="cuda") + rank * 7) % 64).float()


def all_reduce(rank, ranks, elements):
    data = value(rank, elements)
    dist.all_reduce(data)
    return data, sum(value(r, elements) for r in range(ranks))


def all_gather(rank, ranks, elements):
    out = torch.empty(ranks * elements, device="cuda")
    dist.all_gather_into_tensor(out, value(rank, elements))
    return out, torch.cat([value(r, elements) for r in range(ranks)])


def reduce_scatter(rank, ranks, elements):
    out = torch.empty(elements, device="cuda")
    dist.reduce_scatter_tensor(out, value(rank, ranks * elements))
    whole = sum(value(r, ranks * elements) for r in range(ranks))
    return out, whole[rank * elements:(rank + 1) * elements]


def broadcast(rank, _ranks, elements):
    data = value(rank, elements)
    dist.broadcast(data, src=0)
    return data, value(0, elements)


def send_recv(rank, ranks, elements):
    out = torch.empty(elements, device="cuda")
    before = (rank - 1) % ranks
    ops = [dist.P2POp(dist.isend, value(rank, elements), (rank + 1) % ranks),
           dist.P2POp(dist.irecv, out, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return out, value(before, elements)


def all_to_all(rank, ranks, elements):
    out = torch.empty(ranks * elements, device="cuda")
    dist.all_to_all_single(out, value(rank, ranks * elements))
    parts = [value(r, ranks * elements)[rank * elements:(rank + 1) * elements]
             for r in range(ranks)]
    return out, torch.cat(parts)


COLLECTIVES = [all_reduce, all_gather, reduce_scatter, broadcast, send_recv, all_to_all]


def sweep(rank, ranks):
    rows = []
    for collective in COLLECTIVES:
        for size in SIZES:
            elements = max(size // FLOAT_BYTES // (ranks if collective is all_to_all else 1), 1)
            out, expected = collective(rank, ranks, elements)
            if not torch.equal(out, expected):
                raise SystemExit(f"{collective.__name__} of {size} bytes: wrong result")
            del out, expected
            torch.cuda.synchronize()
            dist.barrier()
            began = time.perf_counter()
            for _ in range(PASSES):
                collective(rank, ranks, elements)
            torch.cuda.synchronize()
            rows.append({"collective": collective.__name__, "bytes": size,
                         "seconds": (time.perf_counter() - began) / PASSES})
    return rows


def train(rank, _ranks):
    """A small ResNet under DistributedDataParallel; the losses must not depend on the network."""
    import torchvision

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torchvision.models.resnet18(num_classes=CLASSES).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        images = torch.randn(BATCH, 3, 64, 64, device="cuda")
        labels = torch.randint(CLASSES, (BATCH,), device="cuda")
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["sweep", "train"])
    arguments = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    result = {"sweep": sweep, "train": train}[arguments.what](rank, ranks)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"nccl": ".".join(map(str, torch.cuda.nccl.version())),
                          "torch": torch.__version__, "gpu": torch.cuda.get_device_name(0),
                          arguments.what: result}), flush=True)


if __name__ == "__main__":
    main()
