#!/usr/bin/env python3
"""Decodes images with Pillow for comparison: reads paths from stdin, writes OUT/<n>.txt and .raw.

<n>.txt holds "uint8 HEIGHT WIDTH CHANNELS", or "error: REASON"; orientation is applied. Channels are
those of docs/formats/images.md: colour keys and palette transparency become an alpha channel.
"""
import pathlib
import sys
import warnings

import numpy as np
from PIL import Image, ImageOps

warnings.simplefilter("ignore")


def pixels(path):
    image = Image.open(path)
    image.load()
    has_key = "transparency" in image.info
    mode = image.mode
    image = ImageOps.exif_transpose(image)
    if mode.startswith("I"):  # 16-bit grey: its high byte
        array = np.asarray(image).astype("u4") >> 8
        return array.astype("u1")[..., None]
    if mode == "P":
        image = image.convert("RGBA" if has_key else "RGB")
    elif mode == "1":
        image = image.convert("L")
    elif has_key and mode == "RGB":
        image = image.convert("RGBA")
    array = np.asarray(image)
    return array if array.ndim == 3 else array[..., None]


def main():
    out = pathlib.Path(sys.argv[1])
    for n, path in enumerate(sys.stdin.read().splitlines()):
        try:
            array = np.ascontiguousarray(pixels(path))
            (out / f"{n}.raw").write_bytes(array.tobytes())
            text = "uint8 " + " ".join(str(s) for s in array.shape)
        except Exception as error:  # whatever Pillow throws is the answer
            text = f"error: {type(error).__name__}: {error}"
        (out / f"{n}.txt").write_text(text + "\n")


main()
