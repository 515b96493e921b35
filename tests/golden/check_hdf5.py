#!/usr/bin/env python3
"""Reads HDF5 files that Forebay wrote with h5py, as DLIO's readers do. Usage: check_hdf5.py FOLDER

FOLDER holds NAME.hdf5 with NAME.raw (samples one after the other as Forebay reads them back) and NAME.txt:
data sets, type, superblock version, compression or "none", chunks or "none", then the shape of a data set.
"""
import pathlib
import sys

import h5py
import numpy as np

count = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.hdf5")):
    names, kind, version, compression, chunks, *shape = path.with_suffix(".txt").read_text().split()
    shape = tuple(int(n) for n in shape)
    names = names.split(",")
    with h5py.File(path, "r") as file:
        assert sorted(file) == sorted(names + ["labels"]), (path, list(file))
        assert path.read_bytes()[8] == int(version), path
        labels = file["labels"]
        assert labels.dtype == np.int64 and labels.shape == shape[:1] and not labels[()].any(), path
        parts = []
        for name in names:
            data = file[name]
            assert data.shape == shape and data.dtype.name == kind, (path, data)
            assert str(data.compression).lower() == compression.lower(), (path, data.compression)
            assert str(data.chunks).replace(" ", "") == chunks.capitalize(), (path, data.chunks)
            parts.append(data[()].reshape(shape[0], -1))
            one = data[shape[0] - 1]  # DLIO's way: one sample
            assert one.shape == shape[1:], path
        samples = np.concatenate(parts, axis=1)
        assert samples.tobytes() == path.with_suffix(".raw").read_bytes(), path
        assert len(np.unique(samples)) > 1, path  # contents, not fill values
    count += 1
print(count, "files read")
