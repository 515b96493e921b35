"""NVIDIA DALI on the CPU alone (device_id=None)."""

import pathlib

SETTINGS = {"jpeg": [{"threads": n} for n in (1, 2, 4)], "tar": [{"threads": n} for n in (1, 2)]}


def version():
    import nvidia.dali
    return nvidia.dali.__version__


def build(batch, threads, read, count):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=1,
                  prefetch_queue_depth=2)
    def train():
        packed = read(fn)
        pixels = fn.decoders.image_random_crop(packed, device="cpu", output_type=types.RGB)
        pixels = fn.resize(pixels, size=(224, 224), antialias=True)
        return fn.crop_mirror_normalize(
            pixels, mirror=fn.random.coin_flip(), output_layout="CHW", dtype=types.FLOAT,
            mean=[255 * m for m in (0.485, 0.456, 0.406)],
            std=[255 * s for s in (0.229, 0.224, 0.225)])

    made = train()
    made.build()

    def epoch():
        for _ in range(count // batch):
            yield made.run()[0].as_array()
    return epoch


def jpeg(folder, batch, threads):
    files = sorted(str(path) for path in pathlib.Path(folder).glob("images/*/*.jpg"))
    return build(batch, threads,
                 lambda fn: fn.readers.file(files=files, random_shuffle=True, name="files")[0],
                 len(files))


def tar(folder, batch, threads):
    shards = sorted(str(path) for path in pathlib.Path(folder).glob("shards/*.tar"))
    count = len(list(pathlib.Path(folder).glob("images/*/*.jpg")))
    return build(batch, threads,
                 lambda fn: fn.readers.webdataset(paths=shards, ext=["jpg"], random_shuffle=True,
                                                  name="shards"), count)


CASES = {"jpeg": jpeg, "tar": tar}
