"""WebDataset: tar shards through its own pipeline and WebLoader."""

import webdataset

SETTINGS = {"tar": [{"workers": w} for w in (1, 2, 3)],
            "tar_raw": [{"workers": w} for w in (0, 1, 2)]}


def version():
    return webdataset.__version__


def shards(folder):
    import pathlib
    return [str(path) for path in sorted(pathlib.Path(folder, "shards").glob("*.tar"))]


def loader(pipeline, batch, workers):
    import torch
    torch.set_num_threads(1)
    made = webdataset.WebLoader(pipeline.batched(batch, partial=False), batch_size=None,
                                num_workers=workers, persistent_workers=workers > 0)
    return lambda: iter(made)


def tar(folder, batch, workers):
    from torchvision import transforms
    change = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    pipeline = (webdataset.WebDataset(shards(folder), shardshuffle=100, empty_check=False)
                .shuffle(1000).decode("pil").to_tuple("jpg", "cls").map_tuple(change, lambda x: x))
    return loader(pipeline, batch, workers)


def tar_raw(folder, batch, workers):
    pipeline = webdataset.WebDataset(shards(folder), shardshuffle=False,
                                     empty_check=False).to_tuple("jpg")
    return loader(pipeline, batch, workers)


CASES = {"tar": tar, "tar_raw": tar_raw}
