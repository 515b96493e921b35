"""Forebay, with its defaults: nothing is set by hand but what the case itself says."""

import pathlib

import forebay

SETTINGS = {case: [{}] for case in ("jpeg", "npz", "delayed", "tar", "tar_raw", "tokens")}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def version():
    return forebay.__version__


def epochs(*words, **options):
    made = forebay.Loader(*words, shuffle=options.pop("shuffle", "full"), tail="drop", seed=1,
                          rank=0, world_size=1, **options)
    return lambda: iter(made)


def ops():
    return [forebay.decode_image(), forebay.random_resized_crop(224), forebay.flip(),
            forebay.normalize(MEAN, STD)]


def jpeg(folder, batch):
    return epochs(f"{folder}/images", batch_size=batch, ops=ops())


def npz(folder, batch):
    return epochs(f"{folder}/arrays", batch_size=batch)


def delayed(folder, batch):
    return epochs(f"{folder}/small", batch_size=batch, format="raw", storage="slow:latency=50ms")


def shards(folder):
    return str(pathlib.Path(folder, "shards/*.tar"))


def tar(folder, batch):
    return epochs(shards(folder), batch_size=batch, shuffle="windowed", ops=ops())


def tar_raw(folder, batch):
    return epochs(shards(folder), batch_size=batch, shuffle="off", parts=["jpg"],
                  ops=[forebay.select("jpg")])


def tokens(folder, batch):
    return epochs(f"{folder}/tokens.bin", batch_size=batch, format="tokens", tokens_per_sample=2048)


CASES = {"jpeg": jpeg, "npz": npz, "delayed": delayed, "tar": tar, "tar_raw": tar_raw,
         "tokens": tokens}
