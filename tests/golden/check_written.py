#!/usr/bin/env python3
"""Reads files that Forebay wrote with the reference libraries. Usage: check_written.py FOLDER

FOLDER holds x.raw (the payload), and a.npz, z.npz, a.npy, a.tfrecord, z.tfrecord, a.csv (plain, by
DLIO's version 2, and compressed), a.indexed_binary, a.mmap_indexed_binary, a.jpeg, a.png made from the
same spec: records of 32 x 30, two to a file.
"""
import bz2
import csv
import gzip
import io
import lzma
import pathlib
import struct
import sys
import zipfile

import numpy as np
from PIL import Image

folder = pathlib.Path(sys.argv[1])
payload = (folder / "x.raw").read_bytes()
expected = np.frombuffer(payload, "u1").reshape(32, 30, 2)

for name in ("a.npz", "z.npz"):
    with np.load(folder / name) as file:
        assert sorted(file.files) == ["x", "y"], file.files
        np.testing.assert_array_equal(file["x"], expected)
        assert file["y"].dtype == np.int64 and file["y"].tolist() == [0, 0]
        assert file.zip.testzip() is None
        assert all(i.date_time == (1980, 1, 1, 0, 0, 0) for i in file.zip.infolist())
# Stored files are numpy's own, byte for byte.
np.savez(folder / "numpy.npz", x=expected, y=np.zeros(2, "<i8"))
assert (folder / "numpy.npz").read_bytes() == (folder / "a.npz").read_bytes()
assert (folder / "z.npz").read_bytes()[8] == 8  # deflated
np.testing.assert_array_equal(np.load(folder / "a.npy"), expected)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of a protobuf message of length-delimited and varint fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            length = varint()
            yield tag >> 3, message[at:at + length]
            assert at + length <= len(message)
            at += length


def images(data):
    at = 0
    while at < len(data):
        head = data[at:at + 8]
        (length,) = struct.unpack("<Q", head)
        assert struct.unpack("<I", data[at + 8:at + 12])[0] == masked(head)
        body = data[at + 12:at + 12 + length]
        assert struct.unpack("<I", data[at + 12 + length:at + 16 + length])[0] == masked(body)
        at += 16 + length
        (features,) = [value for number, value in fields(body) if number == 1]
        entries = {}
        for number, entry in fields(features):
            assert number == 1
            pair = dict(fields(entry))
            entries[pair[1]] = dict(fields(pair[2]))
        image = dict(fields(entries[b"image"][1]))[1]
        assert set(entries) == {b"image", b"size"}
        size = dict(fields(entries[b"size"][3]))[1]
        assert int.from_bytes(size, "little") & 0x7F | (size[1] << 7) == len(image) == 960
        yield image


assert b"".join(images((folder / "a.tfrecord").read_bytes())) == payload
assert b"".join(images(gzip.decompress((folder / "z.tfrecord").read_bytes()))) == payload

rows = [list(payload[:960]), list(payload[960:])]


def read_csv(text):
    return [[int(field) for field in row] for row in csv.reader(io.StringIO(text))]


plain = (folder / "a.csv").read_text()
assert read_csv(plain) == rows
np.testing.assert_array_equal(np.loadtxt(folder / "a.csv", delimiter=",", dtype="u1"), rows)
with open(folder / "v2.csv", newline="") as file:
    header, *lines = csv.reader(file)
assert header == [""] + [str(i) for i in range(960)]
assert [[int(field) for field in line] for line in lines] == [[i] + row for i, row in enumerate(rows)]
assert gzip.decompress((folder / "a.csv.gz").read_bytes()).decode() == plain
assert bz2.decompress((folder / "a.csv.bz2").read_bytes()).decode() == plain
assert lzma.decompress((folder / "a.csv.xz").read_bytes()).decode() == plain
with zipfile.ZipFile(folder / "a.csv.zip") as file:
    assert file.namelist() == ["a.csv"] and file.testzip() is None
    assert file.read("a.csv").decode() == plain

for name in ("a.indexed_binary", "a.mmap_indexed_binary"):
    offsets = np.fromfile(folder / (name + ".off.idx"), "<u8")
    sizes = np.fromfile(folder / (name + ".sz.idx"), "<u8")
    assert offsets.tolist() == [0, 960] and sizes.tolist() == [960, 960]
    mapped = np.memmap(folder / name, "u1", "r")
    with open(folder / name, "rb") as file:
        for i, row in enumerate(rows):
            file.seek(offsets[i])
            assert list(file.read(sizes[i])) == row
            assert mapped[int(offsets[i]):int(offsets[i] + sizes[i])].tolist() == row

for name in ("a.jpeg", "a.png"):
    image = Image.open(folder / name)
    image.load()
    assert image.mode == "L" and image.size == (30, 32), (name, image.mode, image.size)
    assert np.asarray(image).std() > 40  # noise
print("all read")
