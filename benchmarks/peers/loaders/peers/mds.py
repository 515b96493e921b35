"""MosaicML Streaming: the same samples as MDS shards, made when first asked for."""

import pathlib

SETTINGS = {"jpeg": [{"workers": w} for w in (1, 2, 3)], "npz": [{"workers": w} for w in (1, 2)]}


def version():
    import streaming
    return streaming.__version__


def shards(folder, name, columns, samples):
    from streaming import MDSWriter

    out = pathlib.Path(folder, f"mds-{name}")
    if not (out / "index.json").exists():
        with MDSWriter(out=str(out), columns=columns) as writer:
            for sample in samples():
                writer.write(sample)
    return str(out)


def loader(dataset, batch, workers):
    import torch
    torch.set_num_threads(1)
    made = torch.utils.data.DataLoader(dataset, batch_size=batch, num_workers=workers,
                                       drop_last=True, persistent_workers=workers > 0)
    return lambda: iter(made)


def jpeg(folder, batch, workers):
    import io

    from PIL import Image
    from streaming import StreamingDataset
    from torchvision import transforms

    change = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    def samples():
        for number, path in enumerate(sorted(pathlib.Path(folder).glob("images/*/*.jpg"))):
            yield {"image": path.read_bytes(), "label": number % 10}

    class Images(StreamingDataset):
        def __getitem__(self, number):
            sample = super().__getitem__(number)
            picture = Image.open(io.BytesIO(sample["image"])).convert("RGB")
            return change(picture), sample["label"]

    local = shards(folder, "jpeg", {"image": "bytes", "label": "int"}, samples)
    return loader(Images(local=local, shuffle=True, batch_size=batch), batch, workers)


def npz(folder, batch, workers):
    import numpy
    from streaming import StreamingDataset

    def samples():
        for path in sorted(pathlib.Path(folder).glob("arrays/*.npz")):
            with numpy.load(path) as arrays:
                yield {"x": arrays["x"]}

    local = shards(folder, "npz", {"x": "ndarray:float32:3,224,224"}, samples)
    return loader(StreamingDataset(local=local, shuffle=True, batch_size=batch), batch, workers)


CASES = {"jpeg": jpeg, "npz": npz}
