"""One way of saving and loading a state on PyTorch, in a process of its own; a line of JSON.

  keep.py KEEPER save FOLDER BYTES     "stall_s": until training may change its tensors,
                                       "durable_s": until the state survives power loss
  keep.py KEEPER load FOLDER BYTES     "load_s", of the state that `save` left in FOLDER

BYTES of float32 in tensors of 16 MiB, as a model and an optimizer have them. Saving is done twice
and the second counts: buffers that a keeper reuses are there then, as in every save but a job's
first.
"""

import json
import os
import pathlib
import resource
import shutil
import sys
import time

import torch

TENSOR_BYTES = 16 << 20


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def sync_all(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        sync(path)
    sync(folder)


class Blocking:
    """A keeper that returns once it has written; syncing is up to its user."""

    def save(self, state, folder):
        begun = time.perf_counter()
        self.write(state, folder)
        sync_all(folder)
        spent = time.perf_counter() - begun
        return spent, spent


class TorchSave(Blocking):
    version = torch.__version__

    def write(self, state, folder):
        torch.save(state, f"{folder}/state.pt")

    def load(self, _empty, folder):
        return torch.load(f"{folder}/state.pt", weights_only=True)


class Safetensors(Blocking):
    def __init__(self):
        import safetensors.torch
        self.version, self.module = safetensors.__version__, safetensors.torch

    def write(self, state, folder):
        self.module.save_file(state, f"{folder}/state.safetensors")

    def load(self, _empty, folder):
        return self.module.load_file(f"{folder}/state.safetensors")


class Distributed(Blocking):
    version = torch.__version__

    def __init__(self):
        import torch.distributed.checkpoint as checkpoint
        self.checkpoint = checkpoint

    def write(self, state, folder):
        # Its writer syncs each file itself.
        self.checkpoint.save(state, checkpoint_id=folder, no_dist=True)

    def load(self, empty, folder):
        self.checkpoint.load(empty, checkpoint_id=folder, no_dist=True)
        return empty


class DistributedAsync(Distributed):
    def __init__(self):
        super().__init__()
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
        store = torch.distributed.TCPStore("127.0.0.1", 0, 1, True)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)

    def save(self, state, folder):
        begun = time.perf_counter()
        under_way = self.checkpoint.async_save(state, checkpoint_id=folder)
        stall = time.perf_counter() - begun
        under_way.result()
        sync_all(folder)
        return stall, time.perf_counter() - begun

    def load(self, empty, folder):
        self.checkpoint.load(empty, checkpoint_id=folder)
        return empty


class Forebay:
    def __init__(self, **options):
        import forebay
        from forebay.checkpoint import Checkpointer
        self.version, self.make, self.options = forebay.__version__, Checkpointer, options
        self.kept = {}

    def of(self, folder):
        if folder not in self.kept:
            self.kept[folder] = self.make([self.tier(folder)], keep=1)
        return self.kept[folder]

    def tier(self, folder):
        from forebay.checkpoint import Tier
        return Tier(folder, **self.options)

    def save(self, state, folder):
        saved = self.of(folder).save(1, state)
        saved.wait_durable()
        times = saved.times()
        return times["stalled"], times["durable"]

    def load(self, _empty, folder):
        return self.of(folder).restore().state


KEEPERS = {
    "forebay": Forebay,
    "forebay_direct": lambda: Forebay(storage="direct"),
    "torch_save": TorchSave,
    "safetensors": Safetensors,
    "dcp": Distributed,
    "dcp_async": DistributedAsync,
}


def state_of(count, fill):
    generator = torch.Generator().manual_seed(1)
    size = (TENSOR_BYTES // 4,)
    return {f"layer{i}.weight": torch.randn(size, generator=generator) if fill else
            torch.empty(size) for i in range(count)}


def main():
    name, action, folder, count_bytes = sys.argv[1:]
    keeper = KEEPERS[name]()
    count = max(1, int(count_bytes) // TENSOR_BYTES)
    state = state_of(count, True)
    out = {"keeper": name, "version": keeper.version, "bytes": count * TENSOR_BYTES}
    if action == "save":
        for _ in range(2):
            if not name.startswith("forebay"):
                shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder, exist_ok=True)
            out["stall_s"], out["durable_s"] = keeper.save(state, folder)
    else:
        empty = {key: torch.zeros_like(value) for key, value in state.items()}
        begun = time.perf_counter()
        loaded = keeper.load(empty, folder)
        # Files that are only mapped are read by whoever uses them.
        for value in loaded.values():
            value.view(torch.uint8)[::4096].sum()
        out["load_s"] = time.perf_counter() - begun
        if not all(torch.equal(loaded[key], value) for key, value in state.items()):
            sys.exit(f"{name}: what was loaded is not what was saved")
    out["resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(json.dumps(out))


if __name__ == "__main__":
    main()
