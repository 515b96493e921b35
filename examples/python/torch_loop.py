"""Trains a small network on a folder of images: forebay.Loader in the place of a DataLoader."""

import sys

import torch
from small_network import loss_of, make_network, open_loader


def main() -> None:
    loader = open_loader(sys.argv[1], batch_size=16, tail="all")
    network = make_network(len(loader.class_names))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for epoch in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
        losses = []
        for batch in loader:
            loss = loss_of(network, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f} of {len(losses)} batches")
    stats = loader.stats()
    print(f"waited {stats['consumer_wait_seconds']:.3f} s for data")


if __name__ == "__main__":
    main()
