"""The ops of forebay, a function for each: what docs/ops.md describes, as arguments of Python.

Written by tools/python_ops from the table of the binding.
"""

from __future__ import annotations

from typing import Optional, Sequence, Union

from forebay.op import Op, without_defaults

__all__ = [
    "cast", "center_crop", "colour_jitter", "decode_image", "drop", "flip", "layout",
    "normalize", "one_hot", "pad", "parse_json", "ragged", "random_crop", "random_resized_crop",
    "rename", "resize", "select", "tokens",
]


def cast(type: str, field: Union[str, Sequence[str]] = "image") -> Op:
    """Another element type.

    type: uint8 (u8), float16 (f16), bfloat16 (bf16), float32 (f32), int64 and the rest;
        integers are clamped, fractions cut off
    field: the fields it is done to
    """
    return without_defaults("cast", ("type", type, None), ("field", field, "image"))


def center_crop(size: Union[float, Sequence[float]],
                field: Union[str, Sequence[str]] = "image") -> Op:
    """The middle of the image.

    size: height and width, or one number for both; zeros surround a smaller image
    field: the images; several get the same random numbers
    """
    return without_defaults("center_crop", ("size", size, None), ("field", field, "image"))


def colour_jitter(brightness: Union[float, Sequence[float]] = 0.0,
                  contrast: Union[float, Sequence[float]] = 0.0,
                  saturation: Union[float, Sequence[float]] = 0.0,
                  hue: Union[float, Sequence[float]] = 0.0,
                  field: Union[str, Sequence[str]] = "image") -> Op:
    """Random brightness, contrast, saturation and hue, in random order: torchvision's
    ColorJitter. Random: depends on seed, epoch and sample only.

    brightness: n: a factor of 1 - n to 1 + n; or low, high
    contrast: the same
    saturation: the same
    hue: n: -n to n of a whole turn, at most 0.5; or low, high
    field: the images; several get the same random numbers
    """
    return without_defaults("colour_jitter", ("brightness", brightness, 0.0),
                            ("contrast", contrast, 0.0), ("saturation", saturation, 0.0),
                            ("hue", hue, 0.0), ("field", field, "image"))


def decode_image(part: str = "", to: str = "image", mode: str = "RGB", orientation: bool = True,
                 keep_16_bit: bool = False, oversampling: float = 2.0) -> Op:
    """An encoded part becomes pixels, height x width x channels.

    part: the part that holds it; several alternatives with ';' between them (jpg;png);
        empty: the first part that is a JPEG or PNG by its content
    to: name of the field
    mode: RGB, L (grey), RGBA, as Image.convert of Pillow makes them, or as_stored
    orientation: turn and mirror as EXIF says
    keep_16_bit: PNG of 16 bits as uint16; else their high byte as uint8
    oversampling: a JPEG that is made smaller is decoded at 4/8, 2/8 or 1/8 of its size
        where at least this many pixels remain for each one wanted, along each side; >= 1,
        or 0: always at full size
    """
    return without_defaults("decode_image", ("part", part, ""), ("to", to, "image"),
                            ("mode", mode, "RGB"), ("orientation", orientation, True),
                            ("keep_16_bit", keep_16_bit, False),
                            ("oversampling", oversampling, 2.0))


def drop(fields: Union[str, Sequence[str]]) -> Op:
    """All fields but some.

    fields: those that go, where they are there
    """
    return without_defaults("drop", ("fields", fields, None))


def flip(p: float = 0.5, vertical: bool = False, field: Union[str, Sequence[str]] = "image") -> Op:
    """Mirrors the image with a probability. Random: depends on seed, epoch and sample only.

    p: probability, 0 to 1
    vertical: upside down instead of left to right
    field: the images; several get the same random numbers
    """
    return without_defaults("flip", ("p", p, 0.5), ("vertical", vertical, False),
                            ("field", field, "image"))


def layout(order: str, from_: str = "HWC", field: Union[str, Sequence[str]] = "image") -> Op:
    """Channels first or last.

    order: CHW or HWC, in the batch; ops see HWC before and after
    from_: CHW or HWC: how an array that is no image lies in its file
    field: the fields it is done to
    """
    return without_defaults("layout", ("order", order, None), ("from", from_, "HWC"),
                            ("field", field, "image"))


def normalize(mean: Union[float, Sequence[float]], std: Union[float, Sequence[float]],
              scale: bool = True, layout: str = "CHW", type: str = "float32",
              field: Union[str, Sequence[str]] = "image") -> Op:
    """(value / 255 - mean) / std: torchvision's ToTensor and Normalize.

    mean: one, or one per channel, of values divided as below
    std: the same; none is 0
    scale: divide uint8 by 255 and uint16 by 65535 first
    layout: CHW or HWC: of images, in the batch; other arrays stay as they are
    type: float16, bfloat16, float32 or float64
    field: the fields it is done to
    """
    return without_defaults("normalize", ("mean", mean, None), ("std", std, None),
                            ("scale", scale, True), ("layout", layout, "CHW"),
                            ("type", type, "float32"), ("field", field, "image"))


def one_hot(classes: int, field: str = "label", type: str = "float32",
            smoothing: float = 0.0) -> Op:
    """Class numbers become vectors.

    classes: how many there are; a label beyond is an error
    field: integers of any shape; the classes become a last axis
    type: of the result
    smoothing: 0 to 1: share spread evenly over all classes (label smoothing)
    """
    return without_defaults("one_hot", ("classes", classes, None), ("field", field, "label"),
                            ("type", type, "float32"), ("smoothing", smoothing, 0.0))


def pad(field: str, size: Union[float, Sequence[float]], value: float = 0.0, mask: str = "",
        truncate: bool = False, center: bool = False) -> Op:
    """Makes a field as large as all others.

    field: a sequence, an array or an image
    size: length of a sequence; of more dimensions the first so many; height and width
    value: of what is added, behind and below what is there
    mask: name of a new bool field: true where the sequence is real; empty: none
    truncate: cut off what is longer; else it is an error
    center: half of what is added goes before and above
    """
    return without_defaults("pad", ("field", field, None), ("size", size, None),
                            ("value", value, 0.0), ("mask", mask, ""),
                            ("truncate", truncate, False), ("center", center, False))


def parse_json(keys: Union[str, Sequence[str]] = (), part: str = "",
               types: Union[str, Sequence[str]] = (), keep: bool = False) -> Op:
    """Values of a JSON document become fields.

    keys: values that become fields of these names; a.b is b of a; a missing one is an
        error. Empty: the whole document (a number, a list, a text) under the part's name
    part: the part it is in; empty: the first that is JSON
    types: one for each key: a number type, text (any value), or '' for as it comes: int64,
        float64, bool, text. A key that is 1 in one sample and 1.5 in another needs one
    keep: the part stays a field, too
    """
    return without_defaults("parse_json", ("keys", keys, ()), ("part", part, ""),
                            ("types", types, ()), ("keep", keep, False))


def ragged(fields: Union[str, Sequence[str]]) -> Op:
    """Fields whose shape may differ from sample to sample.

    fields: by their names at the end of the list; each is one array per sample, never
        stacked
    """
    return without_defaults("ragged", ("fields", fields, None))


def random_crop(size: Union[float, Sequence[float]], padding: int = 0, pad_if_needed: bool = False,
                value: float = 0.0, field: Union[str, Sequence[str]] = "image") -> Op:
    """A random part of fixed size. Random: depends on seed, epoch and sample only.

    size: height and width, or one number for both
    padding: pixels added on every side before
    pad_if_needed: add what a smaller image lacks, on both sides; else it is an error
    value: of added pixels
    field: the images; several get the same random numbers
    """
    return without_defaults("random_crop", ("size", size, None), ("padding", padding, 0),
                            ("pad_if_needed", pad_if_needed, False), ("value", value, 0.0),
                            ("field", field, "image"))


def random_resized_crop(size: Union[float, Sequence[float]],
                        scale: Union[float, Sequence[float]] = (0.08, 1.0),
                        ratio: Union[float, Sequence[float]] = (0.75, 1.3333333333333333),
                        filter: str = "bilinear", antialias: bool = True,
                        field: Union[str, Sequence[str]] = "image") -> Op:
    """A random part of the image, resized: torchvision's RandomResizedCrop. Random: depends
    on seed, epoch and sample only.

    size: height and width of the result, or one number for both
    scale: share of the area that the crop has: low, high
    ratio: width / height of the crop: low, high
    filter: nearest, bilinear, area, bicubic, lanczos: those of Pillow, where area is BOX
    antialias: each pixel sees all those it stands for, as in Pillow; false: only the
        nearest ones
    field: the images; several get the same random numbers
    """
    return without_defaults("random_resized_crop", ("size", size, None),
                            ("scale", scale, (0.08, 1.0)),
                            ("ratio", ratio, (0.75, 1.3333333333333333)),
                            ("filter", filter, "bilinear"), ("antialias", antialias, True),
                            ("field", field, "image"))


def rename(from_: Union[str, Sequence[str]], to: Union[str, Sequence[str]]) -> Op:
    """Other names for fields.

    from_: names of fields
    to: as many new names
    """
    return without_defaults("rename", ("from", from_, None), ("to", to, None))


def resize(size: Union[float, Sequence[float]], filter: str = "bilinear", antialias: bool = True,
           field: Union[str, Sequence[str]] = "image") -> Op:
    """Makes an image larger or smaller.

    size: height and width, or one number: the length of the shorter side
    filter: nearest, bilinear, area, bicubic, lanczos: those of Pillow, where area is BOX
    antialias: each pixel sees all those it stands for, as in Pillow; false: only the
        nearest ones
    field: the images; several get the same random numbers
    """
    return without_defaults("resize", ("size", size, None), ("filter", filter, "bilinear"),
                            ("antialias", antialias, True), ("field", field, "image"))


def select(fields: Union[str, Sequence[str]]) -> Op:
    """Only some fields.

    fields: those that remain, in this order; each must be there
    """
    return without_defaults("select", ("fields", fields, None))


def tokens(field: str = "", type: str = "int64", shift: bool = True, inputs: str = "inputs",
           labels: str = "labels") -> Op:
    """Tokens of a language model, and what comes next.

    field: empty: the first part that is a row of numbers
    type: of the result
    shift: make inputs (all but the last) and labels (all but the first) of them
    inputs: name of the field
    labels: name of the field
    """
    return without_defaults("tokens", ("field", field, ""), ("type", type, "int64"),
                            ("shift", shift, True), ("inputs", inputs, "inputs"),
                            ("labels", labels, "labels"))
