#!/usr/bin/env python3
"""Dumps every data set of HDF5 files with h5py. Usage: dump_hdf5.py FOLDER < list of files

FOLDER gets N.raw (elements in C order, little-endian) and the file `list`: a line for each data set with
N, type and shape (or "error:" and why h5py has no numbers for it), file and name, separated by tabs.
"""
import pathlib
import sys

import h5py
import numpy as np

folder = pathlib.Path(sys.argv[1])
lines = []


def dump(path, name, data):
    number = len(lines)
    try:
        array = np.asarray(data[()])
        if array.dtype.kind not in "biufc" or array.dtype.names:
            raise TypeError(f"{array.dtype} is no number")
        little = array.astype(array.dtype.newbyteorder("<"))
        (folder / f"{number}.raw").write_bytes(little.tobytes("C"))
        told = " ".join([array.dtype.name] + [str(n) for n in array.shape])
    except Exception as error:  # whatever h5py says is the line
        told = "error: " + " ".join(str(error).split())
    lines.append(f"{number}\t{told}\t{path}\t{name}\n")


for path in sys.stdin.read().splitlines():
    with h5py.File(path, "r") as file:
        found = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in found:
            dump(path, name, file[name])
(folder / "list").write_text("".join(lines))
