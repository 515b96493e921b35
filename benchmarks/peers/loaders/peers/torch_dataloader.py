"""PyTorch's DataLoader as its documentation shows it: worker processes and torchvision."""

import pathlib
import time

import numpy
import torch

SETTINGS = {
    "jpeg": [{"workers": w} for w in (1, 2, 3, 4)],
    "npz": [{"workers": w} for w in (0, 1, 2, 4)],
    "delayed": [{"workers": 4}],
    "tokens": [{"workers": w} for w in (0, 1, 2)],
}
DELAY_S = 0.05


def version():
    return torch.__version__


class Files(torch.utils.data.Dataset):
    def __init__(self, folder, pattern, read):
        self.paths, self.read = sorted(pathlib.Path(folder).glob(pattern)), read

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        return self.read(self.paths[number])


class Windows(torch.utils.data.Dataset):
    def __init__(self, path, length):
        self.tokens, self.length = numpy.load(path, mmap_mode="r"), length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, number):
        at = number * self.length
        return torch.from_numpy(self.tokens[at:at + self.length].astype(numpy.int64))


def loader(dataset, batch, workers):
    torch.set_num_threads(1)
    made = torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=workers,
                                       drop_last=True, persistent_workers=workers > 0)
    return lambda: iter(made)


def jpeg(folder, batch, workers):
    from PIL import Image
    from torchvision import transforms

    change = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    folders = sorted(pathlib.Path(folder, "images").iterdir())
    names = {path.name: i for i, path in enumerate(folders)}

    def read(path):
        with Image.open(path) as picture:
            return change(picture.convert("RGB")), names[path.parent.name]
    return loader(Files(folder, "images/*/*.jpg", read), batch, workers)


def npz(folder, batch, workers):
    def read(path):
        with numpy.load(path) as arrays:
            return torch.from_numpy(arrays["x"])
    return loader(Files(folder, "arrays/*.npz", read), batch, workers)


def delayed(folder, batch, workers):
    def read(path):
        time.sleep(DELAY_S)
        return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    return loader(Files(folder, "small/*.bin", read), batch, workers)


def tokens(folder, batch, workers):
    return loader(Windows(pathlib.Path(folder, "tokens.npy"), 2048), batch, workers)


CASES = {"jpeg": jpeg, "npz": npz, "delayed": delayed, "tokens": tokens}
