"""Where the files of this project are, and how a check reports what it found."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CXX_FOLDERS = ("include", "src", "tests", "fuzz", "benchmarks", "examples", "python")
_NOT_OURS = {"node_modules", "build", "results", ".git", "__pycache__", "golden", "corpus"}


def files(suffixes, folders=("",), root=ROOT):
    """Paths below `folders`, relative to `root`, sorted; build output and sample data left out."""
    found = []
    for folder in folders:
        for where, names, leaves in os.walk(os.path.join(root, folder)):
            names[:] = sorted(n for n in names if n not in _NOT_OURS)
            found += [os.path.relpath(os.path.join(where, leaf), root) for leaf in leaves
                      if leaf.endswith(suffixes)]
    return sorted(found)


def cxx_files(root=ROOT):
    return files((".h", ".cc"), CXX_FOLDERS, root)


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def finish(name, offences):
    """Prints the offences and ends the process: 1 when there are any."""
    for offence in offences:
        print(offence)
    print(f"{name}: {len(offences)} offence{'' if len(offences) == 1 else 's'}" if offences
          else f"{name}: ok", file=sys.stderr)
    sys.exit(1 if offences else 0)
