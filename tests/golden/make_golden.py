#!/usr/bin/env python3
"""Makes the golden files of the formats with the reference libraries (see README.md for versions).

Usage: /usr/bin/python3 tests/golden/make_golden.py
Every file is small; expected pixels and arrays are stored beside it as .raw (C order, little-endian).
"""
import bz2
import csv
import gzip
import io
import lzma
import pathlib
import struct
import zipfile
import zlib

import h5py
import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent


def out(name):
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def expect(name, array):
    """NAME.raw holds the array in C order and little-endian, NAME.txt its type and shape."""
    little = array.astype(array.dtype.newbyteorder("<"))
    out(name + ".raw").write_bytes(little.tobytes("C"))
    shape = " ".join(str(n) for n in array.shape)
    out(name + ".txt").write_text(f"{array.dtype.name} {shape}".rstrip() + "\n")


def make_npy():
    base = np.arange(24).reshape(2, 3, 4)
    arrays = {
        "c_u1": base.astype("u1"), "c_i2": base.astype("<i2"), "c_u4": base.astype("<u4"),
        "c_i8": (base - 7).astype("<i8"), "c_f2": base.astype("<f2"), "c_f8": base.astype("<f8"),
        "big_i4": base.astype(">i4"), "big_f8": base.astype(">f8"), "big_c16": base.astype(">c16"),
        "c_c8": (base * 1j).astype("<c8"), "c_bool": base % 2 == 0,
        "fortran_i4": np.asfortranarray(base.astype("<i4")),
        "fortran_big_u2": np.asfortranarray(base.astype(">u2")),
        "scalar": np.array(42, "<i4"), "vector": np.arange(5, dtype="<f4"),
        "empty": np.zeros((0, 3), "<f4"),
    }
    for name, array in arrays.items():
        np.save(out(f"npy/{name}.npy"), array)
        expect(f"npy/{name}", array)
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(out(f"npy/version_{version[0]}.npy"), "wb") as f:
            np.lib.format.write_array(f, base.astype("<i4"), version=version)
        expect(f"npy/version_{version[0]}", base.astype("<i4"))
    np.save(out("npy/refused_object.npy"), np.array([{}, 1], object), allow_pickle=True)
    np.save(out("npy/refused_struct.npy"), np.zeros(2, [("a", "<i4"), ("b", "<f4")]))
    np.save(out("npy/refused_string.npy"), np.array(["a", "bc"]))


class Unseekable(io.RawIOBase):
    """Makes zipfile write data descriptors."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)

    def close(self):
        self.file.close()
        super().close()


def make_npz():
    x = np.arange(600, dtype="<i4").reshape(20, 30)
    y = np.zeros(1, "<i8")
    np.savez(out("npz/stored.npz"), x=x, y=y)
    np.savez_compressed(out("npz/deflated.npz"), x=x, y=y)
    with Unseekable(out("npz/descriptor.npz")) as f:
        np.savez_compressed(f, x=x, y=y)
    with Unseekable(out("npz/stored_descriptor.npz")) as f:
        np.savez(f, x=x, y=y)
    np.savez(out("npz/fortran_big.npz"), x=np.asfortranarray(x.astype(">i4")), y=y)
    for name in ("stored", "deflated", "descriptor", "stored_descriptor", "fortran_big"):
        expect(f"npz/{name}", x)
    many = np.arange(5 * 4 * 3, dtype="u1").reshape(5, 4, 3)
    np.savez(out("npz/three_samples.npz"), x=many, y=np.zeros(3, "<i8"))
    for i in range(3):
        expect(f"npz/three_samples_{i}", many[..., i])
    with zipfile.ZipFile(out("npz/bzip2.npz"), "w", zipfile.ZIP_BZIP2) as z:
        z.writestr("x.npy", b"x" * 100)


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


def frame(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def make_tfrecord():
    records = [b"", b"one", bytes(range(256)), b"x" * 1000]
    plain = b"".join(frame(r) for r in records)
    out("tfrecord/plain.tfrecord").write_bytes(plain)
    out("tfrecord/gzip.tfrecord").write_bytes(gzip.compress(plain, mtime=0))
    out("tfrecord/zlib.tfrecord").write_bytes(zlib.compress(plain))
    for i, record in enumerate(records):
        out(f"tfrecord/record_{i}.raw").write_bytes(record)


def make_csv():
    """The layouts of DLIO's writers (pandas with and without its defaults), and of other tools."""
    rows = np.array([[7, 0, 255, 10], [99, 100, 1, 254], [3, 200, 42, 5]], "<i8")
    lines = [",".join(str(n) for n in row) for row in rows]
    plain = "".join(line + "\n" for line in lines)
    header = "," + ",".join(str(n) for n in range(rows.shape[1])) + "\n"
    out("csv/main.csv").write_text(plain)
    out("csv/v2.csv").write_text(
        header + "".join(f"{i},{line}\n" for i, line in enumerate(lines)))
    out("csv/named.csv").write_text("a,b,c,d\n" + plain)
    with open(out("csv/module.csv"), "w", newline="") as f:
        csv.writer(f).writerows(rows.tolist())
    data = plain.encode()
    out("csv/gzip.csv.gz").write_bytes(gzip.compress(data, mtime=0))
    out("csv/bzip2.csv.bz2").write_bytes(bz2.compress(data[:10]) + bz2.compress(data[10:]))
    out("csv/xz.csv.xz").write_bytes(lzma.compress(data))
    with zipfile.ZipFile(out("csv/zip.csv.zip"), "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("zip.csv"), data, zipfile.ZIP_DEFLATED)
    for name in ("main", "v2", "named", "module", "gzip.csv", "bzip2.csv", "xz.csv", "zip.csv"):
        expect(f"csv/{name}", rows)
    for i in range(3):
        expect(f"csv/line_{i}", rows[i])
    floats = np.array([[0.1, -2.5e-300, 3], [np.inf, 1e22, 1 / 3]], "<f8")
    np.savetxt(out("csv/floats.csv"), floats, delimiter=",")
    expect("csv/floats", floats)
    large = np.array([[0, 2**64 - 1]], "<u8")
    np.savetxt(out("csv/large.csv"), large, fmt="%d", delimiter=",")
    expect("csv/large", large[0])


def make_indexed():
    """Three samples of five bytes, with the offsets of DLIO's writers (docs/formats/indexed_binary.md)."""
    data = bytes(range(15))
    offsets = {"right": [0, 5, 10], "buffers": [0, 5, 0], "collective": [0, 5, 0]}
    for name, values in offsets.items():
        # A collective write fills its buffer: two samples at a time, so one too many.
        is_padded = name == "collective"
        path = out(f"indexed/{name}.indexed_binary")
        path.write_bytes(data + (b"extra" if is_padded else b""))
        values = values + [5] if is_padded else values
        np.array(values, "<u8").tofile(f"{path}.off.idx")
        np.array([5] * len(values), "<u8").tofile(f"{path}.sz.idx")


def picture(mode, size=(23, 17)):
    """A gradient with some structure, the same every time."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 11 % 256, y * 15 % 256, (x * y) % 256, (x + 2 * y) * 5 % 256]
    count = {"L": 1, "RGB": 3, "CMYK": 4, "RGBA": 4, "LA": 2}[mode]
    array = np.stack(planes[:count], axis=-1).astype("u1")
    return Image.fromarray(array[..., 0] if count == 1 else array, mode)


def make_images():
    def jpeg(name, image, **options):
        image.save(out(f"jpeg/{name}.jpg"), quality=90, **options)
        array = np.asarray(Image.open(out(f"jpeg/{name}.jpg")))
        expect(f"jpeg/{name}", array if array.ndim == 3 else array[..., None])

    jpeg("grey", picture("L"))
    jpeg("rgb_420", picture("RGB"), subsampling=2)
    jpeg("rgb_444", picture("RGB"), subsampling=0)
    jpeg("progressive", picture("RGB"), progressive=True)
    jpeg("cmyk", picture("CMYK"))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture("RGB").save(out(f"jpeg/orientation_{orientation}.jpg"), exif=exif)

    def png(name, image, array, **options):
        image.save(out(f"png/{name}.png"), **options)
        expect(f"png/{name}", array)

    for mode in ("L", "LA", "RGB", "RGBA"):
        array = np.asarray(picture(mode))
        png(mode.lower(), picture(mode), array if array.ndim == 3 else array[..., None])
    ramp = (np.arange(16 * 16, dtype="u4") * 257).astype("<u2").reshape(16, 16)
    png("grey16", Image.fromarray(ramp), ramp[..., None])
    palette = picture("RGB").quantize(13)
    png("palette", palette, np.asarray(palette.convert("RGB")))
    bits = picture("L").convert("1")
    png("bit", bits, np.asarray(bits.convert("L"))[..., None])


def make_hdf5():
    """Expected is what a loader delivers: rows of the first axis, several data sets side by side."""
    rng = np.random.default_rng(5)
    grid = np.arange(5 * 7 * 6).reshape(5, 7, 6)
    noise = rng.integers(0, 256, (5, 7, 6), "u1")

    def make(name, expected, fill, **options):
        with h5py.File(out(f"hdf5/{name}.h5"), "w", **options) as file:
            fill(file)
        if isinstance(expected, str):
            out(f"hdf5/{name}.txt").write_text(f"error: {expected}\n")
        else:
            expect(f"hdf5/{name}", expected)

    def one(name, array, key="records_0", libver="latest", **options):
        def fill(file):
            file.create_dataset(key, data=array, **options)
            file.create_dataset("labels", data=np.zeros(len(array), "i8"))
        make(name, array, fill, libver=libver)

    one("main", noise)
    one("v2", noise, key="records", libver=None)
    one("main_gzip", grid.astype("u1"), compression="gzip", compression_opts=4)
    one("main_chunks", noise, chunks=(2, 3, 4))
    one("whole_sample_chunks", noise, chunks=(2, 7, 6))
    one("v2_gzip_chunks", grid.astype("u1"), "records", None, chunks=(1, 4, 4), compression="gzip")
    one("gzip_shuffle_fletcher32", grid.astype("<i4"), chunks=(2, 3, 4), compression="gzip",
        shuffle=True, fletcher32=True)
    one("fletcher32", grid.astype("<i2"), chunks=(2, 3, 5), fletcher32=True)
    one("shuffle", grid.astype("<f8"), chunks=(3, 7, 6), shuffle=True)
    one("lzf", (grid // 9).astype("<f4"), chunks=(2, 4, 6), compression="lzf", shuffle=True)
    one("lzf_of_noise", noise, chunks=(1, 7, 6), compression="lzf")
    one("lzf_fletcher32_v2", (grid // 50).astype("<u8"), "records", None, chunks=(2, 2, 6),
        compression="lzf", fletcher32=True)
    one("big_gzip", (grid * 1.5).astype(">f8"), chunks=(2, 5, 6), compression="gzip", shuffle=True)
    one("big_contiguous", grid.astype(">i2"))
    for code in ("f2", "f4", "f8", "c8", "c16", "i1", "u2", "i8"):
        one("type_" + code, (grid - 50).astype("<" + code)[:, :2])
    one("type_bool", grid % 3 == 0)
    one("rank_1", np.arange(9, dtype="<i4"))
    one("rank_5", np.arange(3 * 2 * 3 * 2 * 4).reshape(3, 2, 3, 2, 4).astype("<i2"),
        chunks=(2, 1, 2, 2, 3), compression="gzip")
    one("one_unlimited", noise, chunks=(2, 3, 4), maxshape=(None, 7, 6))
    one("two_unlimited", noise, chunks=(2, 3, 4), maxshape=(None, None, 6), compression="gzip")
    one("unlimited_v2", noise, "records", None, chunks=(8, 3, 4), maxshape=(None, 7, 6))
    one("many_chunks", np.arange(40 * 30).reshape(40, 30).astype("<u2"), chunks=(1, 4))

    def three(file, **options):
        for i in range(3):
            file.create_dataset(f"records_{i}", data=noise[:, 2 * i:2 * i + 2], **options)
        file.create_dataset("labels", data=np.zeros(5, "i8"))
    make("three_sets", noise[:, :6], three, libver="latest")
    make("three_sets_gzip", noise[:, :6], libver="latest",
         fill=lambda file: three(file, chunks=(2, 1, 4), compression="gzip"))

    def unlike_chunks(file):
        file.create_dataset("records_0", data=noise[:, :3], chunks=(2, 3, 6), compression="gzip")
        file.create_dataset("records_1", data=noise[:, 3:5])
        file.create_dataset("records_2", data=noise[:, 5:], chunks=(3, 1, 4))
    make("sets_of_unlike_chunks", noise, unlike_chunks, libver="latest")

    def sparse(**options):
        array = np.full((6, 5), 7, "<i4")
        array[2, 1:4] = 3

        def fill(file):
            data = file.create_dataset("records", array.shape, "<i4", fillvalue=7, **options)
            if "chunks" in options:
                data[2, 1:4] = 3
        return (array if "chunks" in options else np.full((6, 5), 7, "<i4")), fill
    make("sparse", *sparse(chunks=(2, 2)))
    make("sparse_gzip", *sparse(chunks=(2, 2), compression="gzip"), libver="latest")
    make("never_written", *sparse())

    def others(file):
        file["a/small"] = np.zeros(3, "u1")
        file["b/c/large"] = noise
        file["text"] = ["x" * 20] * 9
    make("largest_of_others", noise, others)
    make("user_block", noise, lambda file: file.create_dataset("records", data=noise),
         userblock_size=512)

    def low_level(change, shape=(4, 3), kind=h5py.h5t.STD_I32LE):
        def fill(file):
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            change(creation)
            space = h5py.h5s.create_simple(shape)
            h5py.h5d.create(file.id, b"records", kind, space, creation)
        return fill

    def refuse(name, reason, fill):
        make("refused_" + name, reason, fill)
    refuse("compact", "compact storage",
           low_level(lambda c: c.set_layout(h5py.h5d.COMPACT)))
    refuse("external", "external storage",
           low_level(lambda c: c.set_external(b"elsewhere.raw", 0, 48)))
    layout = h5py.VirtualLayout((4, 3), "<i4")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "data", (4, 3))
    make("refused_virtual", "virtual", lambda file: file.create_virtual_dataset("records", layout),
         libver="latest")
    refuse("scaleoffset", "filter 6 (scaleoffset)",
           lambda file: file.create_dataset("records", data=grid, scaleoffset=0))
    refuse("string", "variable-length string", lambda file: file.create_dataset("records", data=["a", "b"]))
    refuse("compound", "compound",
           lambda file: file.create_dataset("records", data=np.zeros(3, [("a", "i4"), ("b", "f4")])))
    refuse("vlen", "variable-length sequence",
           lambda file: file.create_dataset("records", (3,), h5py.vlen_dtype("i4")))
    refuse("scalar", "a single value", lambda file: file.create_dataset("records", data=5))
    refuse("no_elements", "no elements: shape 0 x 3",
           lambda file: file.create_dataset("records", (0, 3), "i4"))
    refuse("no_data_sets", "no data sets", lambda file: file.create_group("a"))

    def unlike_types(file):
        file["records_0"] = noise
        file["records_1"] = grid
    refuse("unlike_types", "differ in type or shape", unlike_types)
    refuse("external_link", "cannot open records", lambda file: file.__setitem__(
        "records", h5py.ExternalLink("main.h5", "records_0")))


make_npy()
make_npz()
make_hdf5()
make_tfrecord()
make_csv()
make_indexed()
make_images()
