"""A Trainer of Lightning takes the loader as it is: it is an iterable with a length."""

import sys
from typing import Any

import pytorch_lightning as lightning
import torch
from small_network import loss_of, make_network, open_loader


class Classifier(lightning.LightningModule):
    def __init__(self, classes: int):
        super().__init__()
        self.network = make_network(classes)
        self.losses: list[float] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = loss_of(self.network, batch)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    loader = open_loader(sys.argv[1], batch_size=16)
    model = Classifier(len(loader.class_names))
    trainer = lightning.Trainer(max_epochs=3, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, accelerator="cpu", devices=1)
    trainer.fit(model, loader)
    print(f"{len(model.losses)} steps of {3 * len(loader)}, last loss {model.losses[-1]:.3f}")


if __name__ == "__main__":
    main()
