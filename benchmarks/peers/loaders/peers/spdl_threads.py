"""SPDL: its thread pipeline, and its decoder for images."""

import pathlib
import random
import time

import numpy
import spdl.io
from spdl.pipeline import PipelineBuilder

SETTINGS = {"jpeg": [{"threads": n} for n in (2, 4)], "npz": [{"threads": n} for n in (2, 4)],
            "delayed": [{"threads": n} for n in (64, 256)]}


def version():
    import importlib.metadata
    return importlib.metadata.version("spdl")


def pipeline(paths, batch, threads, read, stack):
    def epoch():
        order = list(paths)
        random.shuffle(order)
        made = (PipelineBuilder().add_source(order).pipe(read, concurrency=threads)
                .aggregate(batch, drop_last=True).pipe(stack).add_sink(3)
                .build(num_threads=threads + 1))
        with made.auto_stop():
            yield from made.get_iterator()
    return epoch


def crop_of(width, height):
    """torchvision's RandomResizedCrop: ten tries, then the middle."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = numpy.exp(random.uniform(numpy.log(3 / 4), numpy.log(4 / 3)))
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def jpeg(folder, batch, threads):
    mean = numpy.array((0.485, 0.456, 0.406), numpy.float32).reshape(3, 1, 1)
    std = numpy.array((0.229, 0.224, 0.225), numpy.float32).reshape(3, 1, 1)

    def read(path):
        packets = spdl.io.demux_image(str(path))
        width, height = packets.codec.width, packets.codec.height
        x, y, w, h = crop_of(width, height)
        flip = ",hflip" if random.random() < 0.5 else ""
        steps = f"crop={w}:{h}:{x}:{y},scale=224:224{flip},format=pix_fmts=rgb24"
        frames = spdl.io.decode_packets(packets, filter_desc=steps)
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def stack(samples):
        pixels = numpy.stack(samples).transpose(0, 3, 1, 2).astype(numpy.float32) / 255
        return (pixels - mean) / std
    paths = sorted(pathlib.Path(folder).glob("images/*/*.jpg"))
    return pipeline(paths, batch, threads, read, stack)


def npz(folder, batch, threads):
    def read(path):
        return spdl.io.load_npz(path.read_bytes())["x"]
    return pipeline(sorted(pathlib.Path(folder).glob("arrays/*.npz")), batch, threads, read,
                    numpy.stack)


def delayed(folder, batch, threads):
    def read(path):
        time.sleep(0.05)
        return numpy.fromfile(path, numpy.uint8)
    return pipeline(sorted(pathlib.Path(folder).glob("small/*.bin")), batch, threads, read,
                    numpy.stack)


CASES = {"jpeg": jpeg, "npz": npz, "delayed": delayed}
