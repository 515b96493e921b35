"""With Accelerate: it prepares network and optimizer; the loader knows its rank by itself."""

import sys

import torch
from accelerate import Accelerator
from small_network import loss_of, make_network, open_loader


def main() -> None:
    accelerator = Accelerator(cpu=True)
    loader = open_loader(sys.argv[1], batch_size=16, rank=accelerator.process_index,
                         world_size=accelerator.num_processes)
    network = make_network(len(loader.class_names))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    network, optimizer = accelerator.prepare(network, optimizer)
    steps = 0
    for _ in range(3):
        for batch in loader:
            loss = loss_of(network, batch)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            steps += 1
    print(f"{steps} steps of {3 * len(loader)}, last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
