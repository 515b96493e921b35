#!/usr/bin/env python3
"""Makes the golden files of formats whose samples have several parts (see README.md for versions).

Usage: PYTHON tests/golden/make_samples.py, with numpy, webdataset and protobuf installed
NAME.samples says what the reference library reads: a line per part, "SAMPLE PART HEX", in the order of
the samples and sorted by part.
"""
import gzip
import io
import json
import pathlib
import struct
import tarfile

import numpy as np
import webdataset
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HERE = pathlib.Path(__file__).resolve().parent


def out(name):
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def say(name, samples):
    lines = []
    for number, parts in enumerate(samples):
        for part in sorted(parts):
            lines.append(f"{number} {part} {parts[part].hex()}\n")
    out(name + ".samples").write_text("".join(lines))


def read_by_webdataset(path):
    """Every sample as the library groups it, parts undecoded."""
    data = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
    samples = []
    for sample in data:
        parts = {key: value for key, value in sample.items() if not key.startswith("__")}
        for key in parts:
            if key.endswith("npy"):
                parts[key] = np.load(io.BytesIO(parts[key])).tobytes()
        parts["__key__"] = sample["__key__"].encode()
        samples.append(parts)
    return samples


def make_webdataset():
    rng = np.random.default_rng(3)

    def member(tar, name, data, **fields):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        info.uid = info.gid = 0
        for field, value in fields.items():
            setattr(info, field, value)
        tar.addfile(info, io.BytesIO(data))

    def other(tar, name, kind, **fields):
        info = tarfile.TarInfo(name)
        info.type = kind
        for field, value in fields.items():
            setattr(info, field, value)
        tar.addfile(info)

    def array(value):
        stream = io.BytesIO()
        np.save(stream, value)
        return stream.getvalue()

    def fill(tar):
        for i in range(3):
            member(tar, f"train/{i:04}.bin", rng.bytes(600 + i))
            member(tar, f"train/{i:04}.CLS", str(i * 7).encode())
            member(tar, f"train/{i:04}.meta.json", json.dumps({"i": i}).encode())
        member(tar, "train/0003.seg.npy", array(np.arange(6, dtype="<i4").reshape(2, 3)))
        member(tar, "train/0003.cls", b" 12\n")
        member(tar, "train/0003.bin", b"")
        other(tar, "train/more", tarfile.DIRTYPE)
        member(tar, "train/more/0004.bin", b"x" * 512)
        member(tar, "train/more/0004.txt", "gr\u00fc\u00dfe".encode())

    def long_names(tar):
        long = "folder/" * 20 + "n" * 70
        member(tar, long + ".bin", b"long")
        member(tar, long + ".cls", b"5")
        member(tar, "n" * 98 + ".bin", b"three more than fit")
        member(tar, "n" * 98 + ".cls", b"6")

    def strays(tar):
        member(tar, "__meta__.json", b"{}")
        member(tar, "README", b"no part")
        member(tar, "a.bin", b"1")
        other(tar, "a.link", tarfile.SYMTYPE, linkname="a.bin")
        member(tar, "a.cls", b"1")
        member(tar, ".hidden.bin", b"2")
        other(tar, "hard.bin", tarfile.LNKTYPE, linkname="a.bin")
        other(tar, "pipe.bin", tarfile.FIFOTYPE)
        member(tar, "b.bin", b"3")
        member(tar, "b.cls", b"2")
        member(tar, "c.bin", b"4")

    kinds = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
    for name, kind in kinds.items():
        for what, write in (("plain", fill), ("long", long_names), ("strays", strays)):
            if name == "ustar" and what == "long":
                def write(tar):  # prefix and name are all it has
                    member(tar, "folder/" * 20 + "n" * 70 + ".bin", b"long")
            rng = np.random.default_rng(3)
            path = out(f"webdataset/{what}_{name}.tar")
            with tarfile.open(path, "w", format=kind, encoding="utf-8") as tar:
                write(tar)
            say(f"webdataset/{what}_{name}", read_by_webdataset(path))
    # A member whose size only its PAX record tells rightly.
    with tarfile.open(out("webdataset/size_pax.tar"), "w", format=tarfile.PAX_FORMAT) as tar:
        member(tar, "a.bin", b"y" * 700, pax_headers={"size": "700", "comment": "said twice"})
        member(tar, "a.cls", b"3", pax_headers={"path": "a.cls"})
    say("webdataset/size_pax", read_by_webdataset(out("webdataset/size_pax.tar")))
    packed = gzip.compress(out("webdataset/plain_gnu.tar").read_bytes(), mtime=0)
    out("webdataset/packed.tar.gz").write_bytes(packed)
    say("webdataset/packed", read_by_webdataset(out("webdataset/packed.tar.gz")))


def example_class():
    """tf.train.Example, built from its published definition."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, (label, kind, type_name, field_name) in fields:
            made.field.add(name=field_name, number=number, label=label, type=kind, type_name=type_name)
        return made

    many, one = field.LABEL_REPEATED, field.LABEL_OPTIONAL
    message("BytesList", (1, (many, field.TYPE_BYTES, None, "value")))
    message("FloatList", (1, (many, field.TYPE_FLOAT, None, "value")))
    message("Int64List", (1, (many, field.TYPE_INT64, None, "value")))
    feature = message("Feature", (1, (one, field.TYPE_MESSAGE, ".t.BytesList", "bytes_list")),
                      (2, (one, field.TYPE_MESSAGE, ".t.FloatList", "float_list")),
                      (3, (one, field.TYPE_MESSAGE, ".t.Int64List", "int64_list")))
    feature.oneof_decl.add(name="kind")
    for made in feature.field:
        made.oneof_index = 0
    features = message("Features", (1, (many, field.TYPE_MESSAGE, ".t.Features.FeatureEntry", "feature")))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=one, type=field.TYPE_STRING)
    entry.field.add(name="value", number=2, label=one, type=field.TYPE_MESSAGE, type_name=".t.Feature")
    message("Example", (1, (one, field.TYPE_MESSAGE, ".t.Features", "features")))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def frame(data):
    def masked(part):
        crc = crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def make_examples():
    Example = example_class()
    samples, records = [], []
    for i in range(4):
        example = Example()
        feature = example.features.feature
        feature["image"].bytes_list.value.append(b"\xff\xd8\xff" + bytes([i]) * 40)
        feature["label"].int64_list.value.append(-i * 10**12)
        feature["box"].float_list.value.extend([0.5, -1.25, 3e30, float(i)])
        feature["ids"].int64_list.value.extend(range(-2, i + 3))
        feature["names"].bytes_list.value.extend([b"one", b"", b"three"])
        feature["none"].int64_list.SetInParent()
        feature["gr\u00fc\u00dfe"].float_list.value.append(float(i) / 3)
        records.append(example.SerializeToString(deterministic=True))
        samples.append({
            "image": feature["image"].bytes_list.value[0],
            "label": np.int64(-i * 10**12).tobytes(),
            "box": np.array(feature["box"].float_list.value, "<f4").tobytes(),
            "ids": np.arange(-2, i + 3, dtype="<i8").tobytes(),
            "names/0": b"one", "names/1": b"", "names/2": b"three", "none": b"",
            "gr\u00fc\u00dfe": np.float32(i / 3).tobytes()})
    plain = b"".join(frame(record) for record in records)
    out("examples/all.tfrecord").write_bytes(plain)
    out("examples/packed.tfrecord").write_bytes(gzip.compress(plain, mtime=0))
    say("examples/all", samples)
    say("examples/packed", samples)


def make_lines():
    rows = [json.dumps({"id": i, "text": "x" * i + "\u00e9"}, ensure_ascii=False) for i in range(5)]
    texts = {
        "unix.jsonl": "\n".join(rows) + "\n",
        "windows.jsonl": "\r\n".join(rows) + "\r\n",
        "no_end.ndjson": "\n".join(rows),
        "gaps.jsonl": "\n\n" + rows[0] + "\n  \n" + "\n\n\n".join(rows[1:]) + "\n\n",
        "marked.txt": "\ufeff" + "\n".join(rows) + "\n",
    }
    for name, text in texts.items():
        data = text.encode()
        out(f"lines/{name}").write_bytes(data)
        # What Python's text mode makes of it, empty lines left out.
        with open(out(f"lines/{name}"), encoding="utf-8-sig") as file:
            lines = [line.rstrip("\n").encode() for line in file if line.strip()]
        part = "text" if name.endswith(".txt") else "json"
        say(f"lines/{name}", [{part: line} for line in lines])
    out("lines/packed.jsonl.gz").write_bytes(gzip.compress(texts["gaps.jsonl"].encode(), mtime=0))
    say("lines/packed.jsonl.gz", [{"json": row.encode()} for row in rows])


def make_tokens():
    """The layout of Megatron's indexed data sets (docs/formats/tokens.md)."""
    codes = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "f8": 6, "f4": 7, "u2": 8}
    lengths = [5, 0, 7, 1, 12]
    for kind, code in codes.items():
        stream = (np.arange(sum(lengths)) * 3 % 250 - (0 if kind[0] == "u" else 50)).astype("<" + kind)
        out(f"tokens/{kind}.bin").write_bytes(stream.tobytes())
        ends = np.cumsum(lengths)
        pointers = (ends - lengths) * stream.itemsize
        index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(lengths), 3)
        index += np.array(lengths, "<i4").tobytes() + pointers.astype("<i8").tobytes()
        index += np.array([0, 2, 5], "<i8").tobytes()
        out(f"tokens/{kind}.idx").write_bytes(index)
        say(f"tokens/{kind}_windows", [{"tokens": stream[i:i + 4].tobytes()} for i in range(0, 24, 4)])
        parts = [stream[end - n:end].tobytes() for end, n in zip(ends, lengths) if n]
        say(f"tokens/{kind}_sequences", [{"tokens": part} for part in parts])


def make_arrays():
    rng = np.random.default_rng(9)
    arrays = {"x": rng.random((3, 4)).astype("<f4"), "y": np.int64(7), "mask": rng.random(5) > 0.5,
              "grid": np.asfortranarray(rng.integers(0, 99, (2, 3)).astype("<i2"))}
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        path = out(f"arrays/{name}.npz")
        save(path, **arrays)
        with np.load(path) as loaded:
            say(f"arrays/{name}", [{key: loaded[key].tobytes("A") for key in loaded.files}])
    try:
        import h5py
    except ImportError:
        return
    images, labels = rng.integers(0, 255, (6, 4, 3)).astype("u1"), rng.integers(0, 9, 6).astype("<i8")
    for name, options in (("plain", {}), ("gzip", {"compression": "gzip", "chunks": True})):
        with h5py.File(out(f"arrays/{name}.h5"), "w") as file:
            file.create_dataset("images", data=images, **options)
            file.create_dataset("set/labels", data=labels, **options)
        with h5py.File(out(f"arrays/{name}.h5")) as file:
            say(f"arrays/{name}", [{"images": file["images"][i].tobytes(),
                                    "set/labels": file["set/labels"][i].tobytes()} for i in range(6)])
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return
    table = pyarrow.table({
        "image": pyarrow.array([b"\xff\xd8\xff" + bytes([i]) for i in range(5)]),
        "caption": pyarrow.array([f"gr\u00fc\u00dfe {i}" for i in range(5)]),
        "label": pyarrow.array(range(5), pyarrow.int64()),
        "box": pyarrow.array([[i / 2] * i for i in range(5)], pyarrow.list_(pyarrow.float32()))})
    for name, columns in (("mixed", table.column_names), ("even", ["label"])):
        pyarrow.parquet.write_table(table.select(columns), out(f"arrays/{name}.parquet"), row_group_size=3)
        rows = pyarrow.parquet.read_table(out(f"arrays/{name}.parquet")).to_pylist()
        say(f"arrays/{name}", [{key: value if isinstance(value, bytes) else
                                value.encode() if isinstance(value, str) else
                                np.array(value, "<f4" if key == "box" else "<i8").tobytes()
                                for key, value in row.items()} for row in rows])


make_webdataset()
make_examples()
make_lines()
make_tokens()
make_arrays()
