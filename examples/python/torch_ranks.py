"""Several ranks train one network; rank and world size come from torchrun.

    python3 -m torch.distributed.run --standalone --nproc_per_node 2 torch_ranks.py IMAGES [LOG]

Every rank sees the same number of batches, so none waits for another that has ended.
"""

import sys

import torch
import torch.distributed
from small_network import loss_of, make_network, open_loader
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    loader = open_loader(sys.argv[1], batch_size=8, tail="even")
    network = DistributedDataParallel(make_network(len(loader.class_names)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    keys = []
    for epoch in range(2):
        for batch in loader:
            loss = loss_of(network, batch)
            optimizer.zero_grad()
            loss.backward()  # averages the gradients of all ranks
            optimizer.step()
            if epoch == 0:
                keys += batch["__key__"]
    total = sum(parameter.sum().item() for parameter in network.parameters())
    print(f"rank {loader.rank}: {len(keys)} samples an epoch, parameters sum up to {total:.6f}")
    if len(sys.argv) > 2:
        with open(f"{sys.argv[2]}.{loader.rank}", "w", encoding="utf-8") as file:
            file.write("\n".join(keys))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
