#!/usr/bin/python3
"""Records one of examples/sick, has it explained, and demands the right diagnosis.

Each program has one planted illness and a clock of its own. It is recorded twice: with privileges
(eBPF; left out by name where this user or kernel has none) and without (as nobody when this is
root, so that nothing privileged can creep in). Both times the first advice must be the illness, and
each part of the breakdown within 5 % of the time of what the program's own clock says.

Both are shares of one and the same run: what a crowded machine stretches, both see stretched. No
figure is compared with another run's or with a constant. Where the kernel says that the training
thread was ready without a core for 3 % of the time and more, the machine has an illness of its own:
"few-cores" may then come before the planted one, or in place of "healthy". --tries repeats a run
that was disturbed; a wrong diagnosis stays wrong.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
NOBODY = 65534
TOLERANCE = 0.05

# The rule that must come first.
EXPECTED = {
    "slow_disk": "slow-disk",
    "small_files": "small-files",
    "python_decode": "python-decode",
    "slow_worker": "slow-worker",
    "lock_contention": "lock-contention",
    "slow_second_epoch": "slow-later-epochs",
    "checkpoint_every_k": "checkpoint",
    "uneven_rank": "uneven-rank",
    "memory_thrash": "memory-thrash",
    "slow_network": "slow-network",
    "page_cache_only": "page-cache-only",
    "healthy": "healthy",
}
# Part of a program's clock: parts of an explanation.
PARTS = {"compute": ["compute", "copy"], "fetch": ["fetch_stall"], "prep": ["prep_stall"],
         "sync": ["sync_stall"], "checkpoint": ["checkpoint"], "idle": ["idle", "other"]}
# The program's clock counts being ready as part of what it does, mostly computing.
READY = "ready, without a core"
CROWDED = 0.03  # below the rule's own 5 %: the kernel counts the moments after waking, too
# Without privileges nobody sees page faults: such a wait is a wait, its kind is not known; and the
# kernel's work on the fault cannot be told from the program's.
UNSEEN = {"memory_thrash": [["fetch", "idle"]]}


def own_shares(truth):
    spent = {part: truth[f"{part}_s"] for part in PARTS}
    total = sum(spent.values())
    return {part: seconds / total for part, seconds in spent.items()}


def found_shares(explanation):
    shown = explanation["steps"] if explanation["iterations"]["is_found"] else explanation["whole"]
    total = max(1, shown["total"])
    shares = {part: sum(shown[name] for name in names) / total for part, names in PARTS.items()}
    ready = sum(cause["ns"] for cause in explanation["causes"]
                if (cause["part"], cause["what"]) == ("other", READY)) / total
    shares["compute"] += ready
    shares["idle"] -= ready
    return shares


def is_crowded(truth):
    total = sum(truth[f"{part}_s"] for part in PARTS)
    return truth.get("ready_s", 0.0) > CROWDED * total


def first_illness(applying, truth):
    """The first advice, without what is the machine's own illness."""
    if is_crowded(truth):
        others = [advice for advice in applying if advice["id"] != "few-cores"]
        if len(others) < len(applying):
            applying = others or [{"id": "healthy"}]
    return applying[0]["id"] if applying else "none"


def together(shares, groups):
    shares = dict(shares)
    for first, *others in groups:
        shares[first] += sum(shares.pop(other) for other in others)
    return shares


def judge(program, explanation, truth, is_privileged, is_exact=True):
    """What is wrong, as lines; and a line to print."""
    wrong = []
    groups = [] if is_privileged else UNSEEN.get(program, [])
    if groups:
        moved = truth.get("fetch_cpu_s", 0.0)
        truth = {**truth, "fetch_s": truth["fetch_s"] - moved,
                 "compute_s": truth["compute_s"] + moved}
    own = together(own_shares(truth), groups)
    found = together(found_shares(explanation), groups)
    for part in own:
        if is_exact and abs(own[part] - found[part]) > TOLERANCE:
            wrong.append(f"{part}: {100 * found[part]:.1f} % found, {100 * own[part]:.1f} % by its "
                         "own clock")
    applying = [advice for advice in explanation["advice"] if advice["state"] == "applies"]
    first = first_illness(applying, truth)
    if first != EXPECTED[program]:
        wrong.append(f"first advice is {first}, not {EXPECTED[program]}")
    shares = "  ".join(f"{part} {100 * found[part]:.1f}/{100 * own[part]:.1f}" for part in own
                       if max(found[part], own[part]) >= 0.001)
    advice = ", ".join(f"{a['id']} {100 * a['gain_share']:.0f} %" for a in applying[:4])
    iterations = explanation["iterations"]
    return wrong, (f"{shares} %   steps {iterations['count']}/{truth['steps']} "
                   f"({iterations['method'] or iterations['reason']})   advice {advice}")


class Bench:
    """Where a program is recorded: a folder, and who runs it."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.server = None

    def command(self, *more):
        path = self.options.program
        start = [sys.executable, path] if path.endswith(".py") else [path]
        return [*start, "--data", f"{self.folder}/data", *more]

    def environment(self):
        return {**os.environ, "PYTHONPATH": self.options.python, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, command, user, **more):
        try:
            return subprocess.run(command, user=user, env=self.environment(), text=True, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                                  cwd=self.folder, **more).stdout
        except subprocess.CalledProcessError as failure:
            sys.exit(f"{' '.join(command)}: exit {failure.returncode}\n{failure.stdout}"
                     f"{failure.stderr}")

    def prepare(self, user):
        os.makedirs(f"{self.folder}/data", exist_ok=True)
        os.chmod(f"{self.folder}/data", 0o777)
        self.run(self.command("--make-data"), user)

    def program_arguments(self):
        if self.options.name != "slow_network":
            return []
        if self.server is None:
            # Not a child of the recorded program: the network's other end is elsewhere.
            self.server = subprocess.Popen(self.command("--serve", "0"), stdout=subprocess.PIPE,
                                           text=True)
            self.port = self.server.stdout.readline().split()[-1]
        return ["--server", f"127.0.0.1:{self.port}"]

    def record(self, path, user):
        recording = f"{self.folder}/{path}"
        command = [self.options.forebay, "record", "--out", recording, "--quiet", "--",
                   *self.command("--seconds", str(self.options.seconds), *self.program_arguments())]
        truth = json.loads(self.run(command, user).splitlines()[-1])
        explain = [self.options.forebay, "explain", recording, "--json"]
        explanation = json.loads(self.run(explain, None))
        if self.options.keep:
            kept = f"{self.options.keep}/{self.options.name}-{path}"
            shutil.copytree(recording, kept, dirs_exist_ok=True)
            with open(f"{kept}.json", "w") as out:
                json.dump({"truth": truth, "explanation": explanation}, out)
        return truth, explanation

    def close(self):
        if self.server is not None:
            self.server.terminate()
            self.server.wait()


def backend_of_io(explanation):
    return explanation["recording"]["facts"].get("collector.io", "none")


def has_kernel_program(options):
    choices = json.loads(subprocess.run([options.forebay, "record", "--list", "--json"], check=True,
                                        stdout=subprocess.PIPE).stdout)
    return any((choice["collector"], choice["backend"]) == ("io", "ebpf") and choice["is_available"]
               for choice in choices)


def can_be_reached(user, path):
    return subprocess.run(["test", "-x", path], user=user, check=False).returncode == 0


def check_path(bench, path, user, is_privileged):
    bench.prepare(user)
    wrong = []
    for _ in range(bench.options.tries):
        truth, explanation = bench.record(path, user)
        wrong, line = judge(bench.options.name, explanation, truth, is_privileged,
                            bench.options.exact)
        if ("ebpf" in backend_of_io(explanation)) != is_privileged:
            wrong.append(f"io was seen by {backend_of_io(explanation)}")
        print(f"{bench.options.name} {path}: {'WRONG' if wrong else 'right'}   {line}", flush=True)
        for text in wrong:
            print(f"  {text}", flush=True)
        if not wrong:
            break
        shutil.rmtree(f"{bench.folder}/{path}")
    return not wrong


def self_test():
    """A wrong part, a wrong first advice and a right diagnosis, each told as what it is."""
    truth = {"steps": 9, "compute_s": 1.0, "fetch_s": 2.0, "prep_s": 1.0, "sync_s": 0.0,
             "checkpoint_s": 0.0, "idle_s": 0.0}
    steps = {"compute": 25, "fetch_stall": 50, "prep_stall": 25, "sync_stall": 0, "copy": 0,
             "checkpoint": 0, "idle": 0, "other": 0, "total": 100}

    causes = []

    def explanation(first, **parts):
        return {"iterations": {"is_found": True, "count": 9, "method": "marks", "reason": ""},
                "steps": {**steps, **parts}, "whole": steps, "causes": causes,
                "advice": [{"id": first, "state": "applies", "gain_share": 0.5},
                           {"id": "healthy", "state": "not needed", "gain_share": 0.0}]}

    cases = [(explanation("slow-disk"), 0), (explanation("small-files"), 1),
             (explanation("slow-disk", fetch_stall=44, idle=6), 2),
             (explanation("slow-disk", fetch_stall=46, idle=4), 0)]
    for case, wrong in cases:
        found, line = judge("slow_disk", case, truth, True)
        if len(found) != wrong:
            sys.exit(f"{len(found)} faults found, not {wrong}: {line}")

    # A crowded machine: only where the kernel says so, and nothing else is excused.
    causes = [{"part": "other", "what": READY, "ns": 15}]
    crowded = {**truth, "ready_s": 0.6}
    for program, first, of, wrong in [("slow_disk", "few-cores", crowded, 1),
                                      ("healthy", "few-cores", crowded, 0),
                                      ("healthy", "few-cores", truth, 1),
                                      ("healthy", "slow-disk", crowded, 1)]:
        found, line = judge(program, explanation(first, compute=10, other=15), of, True)
        if len(found) != wrong:
            sys.exit(f"crowded: {len(found)} faults found, not {wrong}: {line}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forebay", required=True)
    parser.add_argument("--program", required=True, help="program, or script of Python")
    parser.add_argument("--python", default="", help="folder of the package forebay")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--exact", action="store_true",
                        help="the parts too must be right, which wants an idle machine")
    parser.add_argument("--path", choices=["privileged", "unprivileged", "both"], default="both")
    parser.add_argument("--keep", help="folder for the recordings and what was said of them")
    options = parser.parse_args()
    options.program, options.forebay = map(os.path.abspath, (options.program, options.forebay))
    options.name = os.path.splitext(os.path.basename(options.program))[0].replace("sick_", "")
    is_root = os.geteuid() == 0
    results = []
    with tempfile.TemporaryDirectory(prefix="sick-") as folder:
        os.chmod(folder, 0o777)
        bench = Bench(options, folder)
        try:
            if options.path != "privileged":
                user = NOBODY if is_root else None
                if is_root and not can_be_reached(NOBODY, options.forebay):
                    print(f"skipped: {options.name} unprivileged: nobody cannot reach "
                          f"{options.forebay}")
                else:
                    results.append(check_path(bench, "unprivileged", user, False))
            if options.path != "unprivileged":
                if has_kernel_program(options):
                    results.append(check_path(bench, "privileged", None, True))
                else:
                    print(f"skipped: {options.name} privileged: no eBPF for this user on this "
                          "kernel")
        finally:
            bench.close()
    if not results:
        return SKIPPED
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
