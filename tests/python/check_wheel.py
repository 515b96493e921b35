"""pip builds a wheel from a fresh checkout, installs it into an environment of its own, and a loop
runs from there. 77 where pip cannot reach what building needs.

    check_wheel.py SOURCE
"""

import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """
import glob, os, sys
import numpy
import forebay as fb
assert fb.__file__.startswith(sys.prefix), fb.__file__
os.mkdir("data")
for i in range(8):
    numpy.save(f"data/{i}.npy", numpy.full((3, 2), i, numpy.float32))
with fb.Loader("data", 4, rank=0, world_size=1) as loader:
    batches = list(loader)
assert [len(batch["__key__"]) for batch in batches] == [4, 4]
with fb.mark("step"):
    pass
from forebay.checkpoint import Checkpointer
with Checkpointer(["kept"]) as checkpoints:
    checkpoints.save(1, {"w": numpy.arange(6.0), "step": 1}).wait_durable()
    state = checkpoints.restore().state
assert state["step"] == 1 and state["w"].tolist() == list(range(6)), state
print("works")
"""


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **more)


def main():
    source = os.path.realpath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="forebay-wheel-") as folder:
        checkout, environment = os.path.join(folder, "checkout"), os.path.join(folder, "python")
        os.mkdir(checkout)
        names = run("git", "-C", source, "ls-files", "-z", "--cached", "--others",
                    "--exclude-standard").stdout.split("\0")
        for name in filter(None, names):
            if os.path.isfile(os.path.join(source, name)):
                target = os.path.join(checkout, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(os.path.join(source, name), target)
        run(sys.executable, "-m", "venv", environment, check=True)
        python = os.path.join(environment, "bin", "python")
        ready = run(python, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder,
                    "scikit-build-core", "pybind11")
        if ready.returncode:
            print(f"pip reaches no index:\n{ready.stdout}")
            sys.exit(77)
        variables = {**os.environ, "CCACHE_BASEDIR": checkout, "CCACHE_NOHASHDIR": "1"}
        variables.pop("PYTHONPATH", None)
        built = run(python, "-m", "pip", "install", checkout, env=variables)
        if built.returncode:
            sys.exit(built.stdout[-6000:])
        shutil.rmtree(checkout)  # the wheel must not need it
        answer = run(python, "-c", PROGRAM, cwd=folder, env=variables)
        print(answer.stdout)
        sys.exit(0 if answer.returncode == 0 and "works" in answer.stdout else 1)


if __name__ == "__main__":
    main()
