"""A network small enough for a test, and the loader that all examples here train it with."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import forebay as fb


def open_loader(folder: str, **more: Any) -> fb.Loader:
    return fb.Loader(
        folder,
        shuffle="full",
        ops=[
            fb.decode_image(),
            fb.random_resized_crop(32),
            fb.flip(),
            fb.normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ],
        **more,
    )


def make_network(classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))


def loss_of(network: nn.Module, batch: Any) -> torch.Tensor:
    images = torch.from_numpy(batch["image"])
    labels = torch.from_numpy(batch["label"])
    return nn.functional.cross_entropy(network(images), labels)
