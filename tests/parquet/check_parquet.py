"""Compares rows of parquet files as Forebay and as pyarrow read them, value by value.

usage: check_parquet.py PARQUET_ROWS ours|dlio|real [REAL_DATA_FOLDER]
Exit status: 0 equal, 1 different, 77 when there is nothing to compare with.

A row is the bytes of its values, leaf column after leaf column: numbers in their width, little
endian; strings, decimals and other byte strings as the file holds them. A null is zeros in a column
that has one value of fixed width per row, and nothing elsewhere.
"""

import decimal
import os
import resource
import struct
import subprocess
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Files of parquet-testing that pyarrow refuses, with its reason. Forebay reads the first of them:
# a row is its leaves, so a map that is not one does not matter.
PYARROW_REFUSES = {
    "incorrect_map_schema.parquet": "Map keys must be annotated as required",
    "rle-dict-uncompressed-corrupt-checksum.parquet": "CRC checksum verification failed",
    "large_string_map.brotli.parquet": "more than 2 GiB in one column",
}
# ... and what Forebay says about those that it refuses too.
FOREBAY_REFUSES = {
    "rle-dict-uncompressed-corrupt-checksum.parquet": "CRC checksum verification failed",
}
# Rows whose value pyarrow cannot hold: Spark wrote the year 290000 (see the .md beside it).
TOO_LARGE_FOR_PYARROW = {("int96_from_spark.parquet", 5): "0060b9c76ee2ffffa8abb0f9"}
ARROW_BYTES = {
    pa.int8(): "b", pa.uint8(): "B", pa.int16(): "h", pa.uint16(): "H", pa.int32(): "i",
    pa.uint32(): "I", pa.int64(): "q", pa.uint64(): "Q", pa.float32(): "f", pa.float64(): "d",
    pa.float16(): "e", pa.bool_(): "?"}


def main():
    program, what = sys.argv[1:3]
    failures = []
    if what == "real":
        real = os.environ.get("FOREBAY_REAL_DATA", sys.argv[3])
        folder = os.path.join(real, "parquet-testing", "data")
        if not os.path.isdir(folder):
            print(f"skipped: no {folder} (FOREBAY_REAL_DATA)")
            return 77
        names = sorted(name for name in os.listdir(folder) if name.endswith(".parquet"))
        for name in names:
            failures += compare_real(program, folder, name)
        count = len(names)
    else:
        with tempfile.TemporaryDirectory() as folder:
            names = {"ours": write_ours, "dlio": write_as_dlio}[what](program, folder)
            for name in names:
                failures += compare(program, folder, name)
            failures += compare_columns(program, folder, names[0])
        count = len(names)
    for failure in failures:
        print(failure)
    print(f"{count} files, {len(failures)} differences, pyarrow {pa.__version__}")
    return 1 if failures or count == 0 else 0


def rows_of(program, folder, name, *columns):
    """Forebay's rows as hex, or the error."""
    done = subprocess.run([program, "rows", folder, name, *columns], capture_output=True, text=True,
                          preexec_fn=limit_memory)
    if done.returncode not in (0, 1):
        return None, f"{name}: ended with {done.returncode}: {done.stderr[-500:]}"
    lines = done.stdout.splitlines()
    if done.returncode == 1:
        return None, lines[-1]
    return lines, None


def limit_memory():
    if "ASAN_OPTIONS" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def compare_real(program, folder, name):
    rows, error = rows_of(program, folder, name)
    if name in FOREBAY_REFUSES:
        if error is None or FOREBAY_REFUSES[name] not in error or name not in error:
            return [f"{name}: should be refused: {error}"]
        return []
    if name in PYARROW_REFUSES:
        print(f"{name}: pyarrow refuses it ({PYARROW_REFUSES[name]}); "
              f"Forebay: {error or str(len(rows)) + ' rows'}")
        return []
    return compare(program, folder, name)


def compare(program, folder, name):
    rows, error = rows_of(program, folder, name)
    if error is not None:
        return [error]
    expected = [row.hex() for row in pyarrow_rows(os.path.join(folder, name))]
    if len(rows) != len(expected):
        return [f"{name}: {len(rows)} rows, pyarrow has {len(expected)}"]
    for i, (ours, theirs) in enumerate(zip(rows, expected)):
        if ours != TOO_LARGE_FOR_PYARROW.get((name, i), theirs):
            return [f"{name}: row {i}: {ours[:200]}, pyarrow has {theirs[:200]}"]
    return []


def compare_columns(program, folder, name):
    """A projection is what is left of each row."""
    path = os.path.join(folder, name)
    fields = pq.read_schema(path).names
    chosen = fields[1::2] or fields
    rows, error = rows_of(program, folder, name, *chosen)
    if error is not None:
        return [error]
    expected = [row.hex() for row in pyarrow_rows(path, chosen)]
    failures = [] if rows == expected else [f"{name}: columns {chosen} differ"]
    _, error = rows_of(program, folder, name, chosen[0] + "x")
    if error is None or f"did you mean '{chosen[0]}'" not in error:
        failures.append(f"{name}: an unknown column gave {error}")
    return failures


def pyarrow_rows(path, columns=None):
    file = pq.ParquetFile(path, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    table = file.read(columns, use_threads=False)
    physical = [pq.read_metadata(path).schema.column(i)
                for i in range(pq.read_metadata(path).num_columns)]
    if columns is not None:
        physical = [c for c in physical if c.path.split(".")[0] in columns]
    rows = [b""] * table.num_rows
    at = 0
    for name, column in zip(table.column_names, table.columns):
        leaves = leaf_count(column.type)
        for i, value in enumerate(values_of(column)):
            parts = [[] for _ in range(leaves)]
            collect(value, column.type, parts, 0, physical[at:at + leaves], False)
            rows[i] += b"".join(b"".join(part) for part in parts)
        at += leaves
    return rows


def values_of(column):
    """Python values; times as the integers that they are."""
    for chunk in column.chunks:
        yield from (scalar for scalar in chunk)


def leaf_count(kind):
    if pa.types.is_struct(kind):
        return sum(leaf_count(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        return leaf_count(kind.key_type) + leaf_count(kind.item_type)
    if is_list(kind):
        return leaf_count(kind.value_type)
    return 1


def is_list(kind):
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind) or
            pa.types.is_fixed_size_list(kind))


def collect(scalar, kind, parts, at, physical, is_repeated):
    """Appends the bytes of every leaf value of one row to parts[at ...]."""
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            field = kind.field(i)
            value = scalar[i] if scalar is not None and scalar.is_valid else None
            collect(value, field.type, parts, at, physical, is_repeated)
            at += leaf_count(field.type)
    elif pa.types.is_map(kind):
        if scalar is None or not scalar.is_valid:
            return
        for entry in scalar.values or []:
            collect(entry[0], kind.key_type, parts, at, physical, True)
            collect(entry[1], kind.item_type, parts, at + leaf_count(kind.key_type), physical, True)
    elif is_list(kind):
        if scalar is None or not scalar.is_valid:
            return
        for value in scalar.values:
            collect(value, kind.value_type, parts, at, physical, True)
    else:
        parts[at].append(leaf_bytes(scalar, kind, physical[at], is_repeated))


def leaf_bytes(scalar, kind, column, is_repeated):
    if scalar is None or not scalar.is_valid:
        return b"" if is_repeated else bytes(null_bytes(kind, column))
    if kind == pa.float16():  # through Python's own floats, NaNs would lose their bits
        return pa.array([scalar], kind).buffers()[1].to_pybytes()[:2]
    if kind in ARROW_BYTES:
        return struct.pack("<" + ARROW_BYTES[kind], scalar.as_py())
    if pa.types.is_decimal(kind):
        return decimal_bytes(scalar.as_py(), kind, column)
    if column.physical_type == "INT96":
        days, microseconds = divmod(scalar.value, 86400 * 10 ** 6)
        return struct.pack("<QI", microseconds * 1000, (days + 2440588) % 2 ** 32)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return struct.pack("<q", scalar.value)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return struct.pack("<i", scalar.value)
    value = scalar.as_py()
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def decimal_bytes(value, kind, column):
    number = int(value.scaleb(kind.scale, decimal.Context(prec=80)))
    if column.physical_type in ("INT32", "INT64"):
        return struct.pack("<i" if column.physical_type == "INT32" else "<q", number)
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return number.to_bytes(column.length, "big", signed=True)
    size = max(1, (number if number >= 0 else ~number).bit_length() // 8 + 1)
    return number.to_bytes(size, "big", signed=True)


def null_bytes(kind, column):
    if kind in ARROW_BYTES:
        return struct.calcsize(ARROW_BYTES[kind])
    sizes = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8,
             "FIXED_LEN_BYTE_ARRAY": column.length, "BYTE_ARRAY": 0}
    return sizes[column.physical_type]


def write_ours(program, folder):
    subprocess.run([program, "write", folder, "ours.parquet"], check=True)
    schema = pq.read_schema(os.path.join(folder, "ours.parquet"))
    for name in schema.names:  # the types that were asked for, not only the bytes
        kind = schema.field(name).type
        if name.endswith("s"):
            if not pa.types.is_fixed_size_list(kind) or kind.list_size != 9:
                raise SystemExit(f"{name}: {kind}")
            name, kind = name[:-1], kind.value_type
        names = {"bool": "bool", "float16": "halffloat", "float32": "float", "float64": "double"}
        if str(kind) != names.get(name, name):
            raise SystemExit(f"{name}: {kind}")
    return ["ours.parquet"]


def write_as_dlio(program, folder):
    """Tables as DLIO's third variant writes them, smaller: flux (lists), dlrm (scalars), `data`."""
    import random
    numbers = random.Random(3)
    floats = lambda n: pa.array([numbers.random() for _ in range(n)], pa.float32())
    rows = 37
    flux = {f"list{i}": pa.FixedSizeListArray.from_arrays(floats(rows * n), n)
            for i, n in enumerate((5243, 409, 823, 823, 7))}
    pq.write_table(pa.table(flux), os.path.join(folder, "flux.parquet"), row_group_size=16)
    kinds = [pa.float32(), pa.int64(), pa.int32(), pa.uint8(), pa.float64(), pa.bool_()]
    dlrm = {}
    for i in range(60):
        kind = kinds[i % len(kinds)]
        values = [numbers.randrange(2 if kind == pa.bool_() else 200) for _ in range(1000)]
        dlrm[f"feature_{i}"] = pa.array(values).cast(kind)
    pq.write_table(pa.table(dlrm), os.path.join(folder, "dlrm.parquet"), row_group_size=300)
    data = [bytes(numbers.randrange(256) for _ in range(900)) for _ in range(20)]
    pq.write_table(pa.table({"data": pa.array([list(d) for d in data], pa.list_(pa.uint8()))}),
                   os.path.join(folder, "data.parquet"), row_group_size=8)
    for codec in ("gzip", "snappy", "zstd", "lz4", "brotli"):
        pq.write_table(pa.table(dlrm), os.path.join(folder, codec + ".parquet"), compression=codec,
                       data_page_version="2.0", write_page_checksum=True)
    mixed = {"text": pa.array(["a", None, "ccc", ""] * 5), "number": pa.array([1, None, 3, 4] * 5),
             "some": pa.array([[1, 2], None, [], [None, 5]] * 5, pa.list_(pa.int16())),
             "odd": pa.array([[1], [2], [3, 4], []] * 5, pa.list_(pa.int32()))}
    pq.write_table(pa.table(mixed), os.path.join(folder, "mixed.parquet"), row_group_size=7)
    pq.write_table(pa.table({"odd": mixed["odd"]}), os.path.join(folder, "odd.parquet"))
    return sorted(os.listdir(folder))


if __name__ == "__main__":
    sys.exit(main())
