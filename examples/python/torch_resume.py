"""Saves network, optimizer and loader together; killed and started again, it goes on exactly there.

    torch_resume.py IMAGES CHECKPOINT [STEPS]      prints "step, keys of the batch" a line
"""

import os
import sys

import torch
from small_network import loss_of, make_network, open_loader


def main() -> None:
    folder, path = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    torch.manual_seed(0)
    loader = open_loader(folder, batch_size=8, seed=1)
    network = make_network(len(loader.class_names))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    step = 0
    if os.path.exists(path):
        saved = torch.load(path)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    while step < steps:
        for batch in loader:
            loss = loss_of(network, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(step, ",".join(batch["__key__"]), f"{loss.item():.6f}", flush=True)
            torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(),
                        "loader": loader.state_dict(), "step": step}, path + ".new")
            os.replace(path + ".new", path)
            if step == steps:
                break


if __name__ == "__main__":
    main()
