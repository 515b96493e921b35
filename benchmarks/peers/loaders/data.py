"""The data of the comparison, made once per folder: the same bytes on every machine and run.

  images/CLASS/N.jpg        500 x 375 and the like, about 100 KB: 1/f noise and discs, quality 94
  shards/N.tar              the same images with their class, 100 a shard (WebDataset)
  arrays/N.npz              float32 3 x 224 x 224, 600 KB, member "x"
  small/N.bin               10 KB each
  tokens.bin, tokens.idx    Megatron's, uint16
  tokens.npy                the same tokens, for peers that read arrays
"""

import io
import json
import pathlib
import struct
import tarfile

import numpy

CLASSES = 10
SHARD_IMAGES = 100
TOKENS_PER_SAMPLE = 2048
SIZES = ((500, 375), (375, 500), (500, 333), (500, 400))  # width, height; ImageNet's most frequent


def noise(rng, width, height):
    """An image whose spectrum falls as 1/f, as photographs' do."""
    fy = numpy.fft.fftfreq(height)[:, None]
    fx = numpy.fft.rfftfreq(width)[None, :]
    frequency = numpy.sqrt(fy * fy + fx * fx)
    frequency[0, 0] = 1
    planes = []
    for _ in range(3):
        phase = rng.uniform(0, 2 * numpy.pi, frequency.shape)
        plane = numpy.fft.irfft2(numpy.exp(1j * phase) / frequency, s=(height, width))
        planes.append((plane - plane.min()) / (numpy.ptp(plane) + 1e-9))
    return numpy.stack(planes, axis=-1)


def image(rng, number):
    from PIL import Image, ImageDraw

    width, height = SIZES[number % len(SIZES)]
    pixels = noise(rng, width, height) * 200 + rng.normal(0, 6, (height, width, 3)) + 25
    picture = Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(6):
        x, y, r = rng.integers(0, width), rng.integers(0, height), rng.integers(10, 80)
        draw.ellipse((x - r, y - r, x + r, y + r), fill=tuple(rng.integers(0, 255, 3).tolist()))
    packed = io.BytesIO()
    picture.save(packed, "JPEG", quality=94)
    return packed.getvalue()


def make_images(folder, count):
    rng = numpy.random.default_rng(1)
    shard = None
    for number in range(count):
        label = number % CLASSES
        path = folder / f"images/class{label}/{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = image(rng, number)
        path.write_bytes(packed)
        if number % SHARD_IMAGES == 0:
            if shard:
                shard.close()
            (folder / "shards").mkdir(exist_ok=True)
            shard = tarfile.open(folder / f"shards/{number // SHARD_IMAGES:05}.tar", "w")
        for suffix, content in (("jpg", packed), ("cls", str(label).encode())):
            member = tarfile.TarInfo(f"{number:06}.{suffix}")
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))
    shard.close()


def make_arrays(folder, count):
    rng = numpy.random.default_rng(2)
    (folder / "arrays").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        values = rng.standard_normal((3, 224, 224), dtype=numpy.float32)
        numpy.savez(folder / f"arrays/{number:06}.npz", x=values)


def make_small(folder, count):
    rng = numpy.random.default_rng(3)
    (folder / "small").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"small/{number:06}.bin").write_bytes(rng.bytes(10_240))


def make_tokens(folder, samples):
    """An .idx as Megatron writes it: magic, version, type, counts, sizes, offsets, documents."""
    rng = numpy.random.default_rng(4)
    folder.mkdir(parents=True, exist_ok=True)
    tokens = rng.integers(0, 50_000, samples * TOKENS_PER_SAMPLE, dtype=numpy.uint16)
    tokens.tofile(folder / "tokens.bin")
    numpy.save(folder / "tokens.npy", tokens)
    lengths, left = [], len(tokens)
    while left:
        lengths.append(min(left, int(rng.integers(200, 6000))))
        left -= lengths[-1]
    sizes = numpy.array(lengths, dtype=numpy.int32)
    starts = numpy.concatenate(([0], numpy.cumsum(sizes[:-1], dtype=numpy.int64))) * 2
    with open(folder / "tokens.idx", "wb") as index:
        index.write(b"MMIDIDX\x00\x00")
        index.write(struct.pack("<QBQQ", 1, 8, len(sizes), len(sizes) + 1))
        index.write(sizes.tobytes())
        index.write(starts.astype(numpy.int64).tobytes())
        index.write(numpy.arange(len(sizes) + 1, dtype=numpy.int64).tobytes())


PARTS = {"images": make_images, "arrays": make_arrays, "small": make_small, "tokens": make_tokens}
COUNTS = {"images": 1000, "arrays": 400, "small": 8000, "tokens": 40_000}


def prepare(folder, scale=1.0):
    """Makes what is missing; a part is whole when its mark is there."""
    folder = pathlib.Path(folder)
    for part, make in PARTS.items():
        count = max(16, int(COUNTS[part] * scale))
        mark = folder / f".{part}.json"
        if mark.exists() and json.loads(mark.read_text()) == count:
            continue
        make(folder, count)
        mark.write_text(json.dumps(count))
    return folder
