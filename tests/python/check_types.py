"""The package and its examples under mypy --strict; the stubs against the package itself.

Needs mypy (build/python of ./dev setup); 77 without it.
"""

import importlib.util
import os
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
HERE = os.path.join(SOURCE, "tests", "python")


def run(*arguments):
    answer = subprocess.run([sys.executable, "-m", *arguments], cwd=HERE, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={**os.environ, "MYPYPATH": os.path.join(SOURCE, "python")})
    print(answer.stdout)
    return answer.returncode, answer.stdout


def main():
    if not importlib.util.find_spec("mypy"):
        print("mypy is not installed (./dev setup)")
        sys.exit(77)
    failed = 0
    config = ("--config-file", "mypy.ini", "--cache-dir", os.devnull)
    examples = os.path.join(SOURCE, "examples", "python")
    files = [os.path.join(examples, name) for name in sorted(os.listdir(examples))
             if name.endswith(".py")]
    failed |= run("mypy", *config, os.path.join(SOURCE, "python", "forebay"))[0]
    failed |= run("mypy", *config, "typed_use.py")[0]
    if importlib.util.find_spec("torch"):
        failed |= run("mypy", *config, *files)[0]
    # What the checks are worth: a wrong use has to be noticed, each by its line.
    code, said = run("mypy", *config, "typed_misuse.py")
    with open(os.path.join(HERE, "typed_misuse.py"), encoding="utf-8") as file:
        wrong = [number for number, line in enumerate(file, 1) if "# wrong" in line]
    missed = [number for number in wrong if f"typed_misuse.py:{number}: error" not in said]
    if code == 0 or not wrong or missed:
        print(f"typed_misuse.py: no error in lines {missed or wrong}")
        failed = 1
    failed |= run("mypy.stubtest", "forebay", "--mypy-config-file", "mypy.ini", "--allowlist",
                  "stubtest_allowed.txt", "--ignore-unused-allowlist")[0]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
