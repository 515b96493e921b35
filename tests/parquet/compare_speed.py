"""How fast rows of parquet files are decoded, beside pyarrow in one thread on the same bytes.

usage: compare_speed.py PARQUET_ROWS
Files like those of flux (lists of float32) and dlrm (200 scalar columns) are made as pyarrow makes
them by default. CPU time, passes in alternation, median and median absolute deviation.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq

FLUX_LISTS = (524328, 409, 8232, 8232, 7)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        write_flux(os.path.join(folder, "flux"), rows=36)
        write_dlrm(os.path.join(folder, "dlrm"), rows=4 * 6144)
        compare(program, folder, "flux", [])
        compare(program, folder, "dlrm", [f"c{i}" for i in range(3, 200, 4)])
        compare(program, folder, "dlrm", [])


def random_values(kind, count):
    values = os.urandom(count * kind.bit_width // 8)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])


def write_flux(path, rows):
    lists = {f"l{i}": pa.FixedSizeListArray.from_arrays(random_values(pa.float32(), rows * n), n)
             for i, n in enumerate(FLUX_LISTS)}
    pq.write_table(pa.table(lists), path, row_group_size=rows)


def write_dlrm(path, rows):
    kinds = (pa.float32(), pa.int64(), pa.int32(), pa.float64())
    columns = {f"c{i}": random_values(kinds[i % 4], rows) for i in range(200)}
    pq.write_table(pa.table(columns), path, row_group_size=6144, compression="none")


def compare(program, folder, name, columns):
    ours, theirs = [], []
    for _ in range(2):
        ours += seconds_of_forebay(program, folder, name, columns)
        theirs += seconds_of_pyarrow(os.path.join(folder, name), columns)
    rows = pq.read_metadata(os.path.join(folder, name)).num_rows
    print(f"{name}, {len(columns) or 'all'} columns: Forebay {rate(rows, ours)}, "
          f"pyarrow {pa.__version__} {rate(rows, theirs)}, "
          f"ratio {statistics.median(theirs) / statistics.median(ours):.2f}")


def rate(rows, seconds):
    median = statistics.median(seconds)
    spread = statistics.median(abs(s - median) for s in seconds) / median
    return f"{rows / median:,.0f} rows/s (MAD {100 * spread:.1f} %, n {len(seconds)})"


def seconds_of_forebay(program, folder, name, columns):
    done = subprocess.run([program, "time", folder, name, *columns], capture_output=True, text=True,
                          check=True)
    return [float(line.split()[0]) for line in done.stdout.splitlines()]


def seconds_of_pyarrow(path, columns):
    with open(path, "rb") as file:
        reader = pq.ParquetFile(pa.BufferReader(file.read()), pre_buffer=False)
    seconds = []
    for _ in range(9):
        begin = time.process_time()
        for group in range(reader.num_row_groups):
            reader.read_row_group(group, columns=columns or None, use_threads=False)
        seconds.append(time.process_time() - begin)
    return seconds


if __name__ == "__main__":
    main()
