#!/usr/bin/env python3
"""Changes an image with Pillow for comparison: reads lines from stdin, writes OUT/<n>.raw.

Each line is one of
  resize FILE HEIGHT WIDTH CHANNELS  NEW_HEIGHT NEW_WIDTH  FILTER
  point FILE HEIGHT WIDTH CHANNELS  NEW_HEIGHT NEW_WIDTH     (bilinear without antialias)
  colour FILE HEIGHT WIDTH CHANNELS  CHANGE AMOUNT
  convert FILE MODE                                          (an encoded image, orientation applied)
where FILE holds the pixels as bytes.
"""
import pathlib
import sys

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

FILTERS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR,
           "area": Image.Resampling.BOX, "bicubic": Image.Resampling.BICUBIC,
           "lanczos": Image.Resampling.LANCZOS}


def load(path, height, width, channels):
    array = np.fromfile(path, "u1").reshape(int(height), int(width), int(channels))
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def colour(image, change, amount):
    if change == "brightness":
        return ImageEnhance.Brightness(image).enhance(amount)
    if change == "contrast":
        return ImageEnhance.Contrast(image).enhance(amount)
    if change == "saturation":
        return ImageEnhance.Color(image).enhance(amount)
    hue, saturation, value = image.convert("HSV").split()
    shifted = np.asarray(hue).astype("i4") + int(amount * 255)
    hue = Image.fromarray((shifted % 256).astype("u1"))
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def run(words):
    if words[0] == "convert":
        return ImageOps.exif_transpose(Image.open(words[1])).convert(words[2])
    image = load(*words[1:5])
    if words[0] == "resize":
        return image.resize((int(words[6]), int(words[5])), FILTERS[words[7]])
    if words[0] == "point":
        box = (0, 0, image.width, image.height)
        return image.transform((int(words[6]), int(words[5])), Image.Transform.EXTENT, box,
                               Image.Resampling.BILINEAR)
    return colour(image, words[5], float(words[6]))


out = pathlib.Path(sys.argv[1])
for n, line in enumerate(sys.stdin.read().splitlines()):
    (out / f"{n}.raw").write_bytes(np.asarray(run(line.split())).tobytes())
