#!/usr/bin/python3
"""Runs over several processes under mpirun, on this machine and over network namespaces.

hosts_test.py --forebay PROGRAM CASE     exit code 77: skipped, with the reason on stdout
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77

# 64 samples; the compute time is short, so that figures other than AU are what is checked.
WORKLOAD = """
model: {name: tiny}
framework: pytorch
workflow: {generate_data: False, train: True, checkpoint: False}
dataset: {data_folder: data, format: npz, num_files_train: 64, num_samples_per_file: 1,
          record_length_bytes: 20000}
reader: {batch_size: 2, read_threads: 1}
train: {epochs: 2, computation_time: 0.01}
metric: {au: 0.01}
"""


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Bench:
    """A folder with the workload and, once made, its data."""

    def __init__(self, forebay, folder):
        self.forebay = forebay
        self.folder = pathlib.Path(folder)
        (self.folder / "tiny.yaml").write_text(WORKLOAD)
        self.launcher = ["mpirun", "--oversubscribe", "--bind-to", "none"]

    def environment(self):
        environment = dict(os.environ, NO_COLOR="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=str(self.folder))
        environment.pop("FOREBAY_MODULE_FOLDER", None)
        return environment

    def words(self, size, *arguments):
        return [*self.launcher, "-np", str(size), self.forebay, *arguments]

    def start(self, words):
        return subprocess.Popen(words, cwd=self.folder, env=self.environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process, limit=60):
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
            raise AssertionError(f"still running after {limit} s: {out}\n{err}") from None
        process.out, process.err = out, err
        return process

    def run(self, words, code=0, limit=60):
        process = self.finish(self.start(words), limit)
        check(process.returncode == code,
              f"exit code {process.returncode}, not {code}: {process.out}\n{process.err}")
        return process

    def generate(self, size=1):
        return self.run(self.words(size, "generate", "tiny.yaml", "--data", "data"))

    def run_words(self, size, *more):
        return self.words(size, "run", "tiny.yaml", "--data", "data", "--quiet", "--out", "out",
                          *more)

    def result(self):
        return json.loads((self.folder / "out/result.json").read_text())

    def pid_of(self, rank):
        """Of the process that mpirun started as `rank` in this folder."""
        for _ in range(100):
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    program = os.readlink(entry / "exe")
                except (OSError, ValueError):
                    continue
                if (f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment
                        and f"TMPDIR={self.folder}".encode() in environment
                        and program == os.path.realpath(self.forebay)):
                    return int(entry.name)
            time.sleep(0.1)
        raise AssertionError(f"no process of rank {rank}")


def check_whole(bench, processes, each):
    """What must hold whatever the number of processes."""
    result = bench.result()
    accelerators = processes * each
    steps = 64 // (2 * accelerators)
    check(result["options"]["accelerators"] == accelerators, "accelerators")
    check(result["options"]["processes"] == processes, "processes")
    check(result["steps_per_epoch"] == steps, f"{result['steps_per_epoch']} steps, not {steps}")
    check(len(result["epochs"]) == 2, "epochs")
    for epoch in result["epochs"]:
        check(epoch["steps"] == steps and epoch["is_complete"], "steps of an epoch")
        check(epoch["samples"] == steps * accelerators * 2, f"{epoch['samples']} samples")
        check(len(epoch["accelerators"]) == accelerators, "accelerators of an epoch")
        for one in epoch["accelerators"]:
            check(sum(len(b["load_seconds"]) for b in one["blocks"]) == steps, "steps of a block")
        check(sum(h["file_bytes"] for h in epoch["hosts"]) == epoch["file_bytes"], "bytes of hosts")
        check(epoch["read_latency"]["count"] >= epoch["samples"], "reads of all processes")
        whole = sum(epoch["time_seconds"].values())
        wall = epoch["end_seconds"] - epoch["start_seconds"]
        check(whole <= wall * 1.01, f"time split {whole} of {wall}")
    check(sum(len(h["processes"]) for h in result["hosts"]) == processes, "processes of hosts")
    check(sum(h["accelerators"] for h in result["hosts"]) == accelerators, "accelerators of hosts")
    check(abs(sum(h["cpu_seconds"] for h in result["hosts"]) - result["summary"]["cpu_seconds"])
          < 1e-6, "CPU of hosts")
    for rank in range(accelerators):
        check((bench.folder / f"out/{rank}_output.json").exists(), f"{rank}_output.json")
    return result


# --- cases ---

def case_two_processes(bench):
    made = bench.generate(2)
    check("64 files" in made.err and "by 2 processes" in made.err, made.err)
    check(len(list((bench.folder / "data/train").iterdir())) == 64, "files")
    again = bench.generate(2)
    check("64 kept from before" in again.err, again.err)
    done = bench.run(bench.run_words(2, "--accelerators", "2"))
    check(done.out.count("verdict") == 1, "one process talks: " + done.out)
    check_whole(bench, 2, 2)


def case_generation_is_the_same_by_any_number(bench):
    bench.generate(3)
    shutil.move(bench.folder / "data", bench.folder / "by3")
    bench.generate(1)
    for file in sorted((bench.folder / "data/train").iterdir()):
        other = bench.folder / "by3/train" / file.name
        check(file.read_bytes() == other.read_bytes(), f"{file.name} differs")


def case_generating_differently_is_refused(bench):
    """By processes that were started differently, before the first byte."""
    first = bench.words(1, "generate", "tiny.yaml", "--data", "data")
    for override, item in (("dataset.file_prefix=zz", "dataset.file_prefix is zz"),
                           ("dataset.num_files_train=65", "dataset.num_files_train is 65"),
                           ("--compat=mlps-v2.0", "--compat is mlps-v2.0")):
        second = bench.words(1, "generate", "tiny.yaml", *override.split("=", 1)) \
            if override.startswith("--") else bench.words(1, "generate", "tiny.yaml", override)
        done = bench.run([*first, ":", *second[len(bench.launcher):], "--data", "data"], code=2)
        check("rank 1 on " in done.err and item in done.err, done.err)
        check(done.err.count("forebay:") == 1, "said once: " + done.err)
        check(not list((bench.folder / "data").rglob("*.*")) if (bench.folder / "data").exists()
              else True, "something was written")


def case_three_processes(bench):
    bench.generate()
    bench.run(bench.run_words(3, "--accelerators", "3"))
    result = check_whole(bench, 3, 3)
    check(result["samples_left_out_per_epoch"] == 10, "left out")


def case_sixteen_processes(bench):
    bench.generate()
    began = time.monotonic()
    bench.run(bench.run_words(16), limit=120)
    check_whole(bench, 16, 1)
    print(f"16 processes: {time.monotonic() - began:.1f} s")


def case_a_slow_end_is_no_failure(bench):
    """Process 0 is stopped while it writes what all have measured."""
    bench.generate()
    running = bench.start(bench.run_words(2, "--accelerators", "4"))
    first = bench.pid_of(0)
    written = bench.folder / "out/result.json"
    while not written.exists() and running.poll() is None:
        time.sleep(0.001)
    try:
        os.kill(first, signal.SIGSTOP)
        time.sleep(6)
        os.kill(first, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it was quicker
    bench.finish(running)
    check(running.returncode == 0, f"exit code {running.returncode}: {running.err}")


def case_uneven_accelerators(bench):
    bench.generate()
    first = bench.run_words(1, "--accelerators", "1")
    second = bench.run_words(1, "--accelerators", "3")[len(bench.launcher):]
    bench.run([*first, ":", *second])
    result = bench.result()
    check(result["options"]["accelerators"] == 4, "accelerators")
    check(any("1, 3" in warning for warning in result["warnings"]), result["warnings"])
    check(all(epoch["samples"] == 64 for epoch in result["epochs"]), "samples")


def case_checkpoints_and_evaluation(bench):
    bench.generate()
    bench.run(bench.words(2, "generate", "tiny.yaml", "--data", "data", "dataset.num_files_eval=9"))
    bench.run(bench.run_words(2, "--accelerators", "2", "workflow.checkpoint=True",
                              "workflow.evaluation=True", "dataset.num_files_eval=9",
                              "reader.batch_size_eval=1", "evaluation.eval_time=0.001",
                              "model.model_size=1000000", "checkpoint.steps_between_checkpoints=4",
                              f"checkpoint.checkpoint_folder={bench.folder}/saves"))
    result = bench.result()
    check(len(result["checkpoints"]) == 4, f"{len(result['checkpoints'])} checkpoints")
    evaluations = [e for e in result["epochs"] if e["phase"] == "evaluation"]
    check([e["samples"] for e in evaluations] == [9, 9], "samples of evaluations")


SMALL_MODEL = (
    "model.num_layers=3", "model.parallelism.zero_stage=1", "model.parallelism.pipeline=2",
    "model.transformer.hidden_size=64", "model.transformer.vocab_size=1000",
    "model.transformer.num_attention_heads=8", "model.transformer.num_kv_heads=2",
    "model.transformer.ffn_hidden_size=96", "checkpoint.time_between_checkpoints=0",
    "checkpoint.checkpoint_folder=saves")


def checkpoint_words(bench, size, *more):
    return bench.words(size, "run", "llama_8b_zero3", "--quiet", "--out", "out", *SMALL_MODEL,
                       *more)


def saves_in(bench, place="saves"):
    """What forebay itself finds there, newest first."""
    listed = subprocess.run([bench.forebay, "checkpoint", "list", place, "--json"], text=True,
                            cwd=bench.folder, capture_output=True, check=True)
    return json.loads(listed.stdout)


def check_saves_are_whole(bench, place="saves"):
    done = subprocess.run([bench.forebay, "checkpoint", "verify", place, "--all"], text=True,
                          cwd=bench.folder, capture_output=True)
    check(done.returncode == 0, f"verify: {done.stdout}{done.stderr}")


def data_bytes(file):
    """Of a safetensors file: what follows its header."""
    length = int.from_bytes(file.read_bytes()[:8], "little")
    return file.stat().st_size - 8 - length


def case_checkpoints_of_a_model_over_ranks(bench):
    """4 ranks in a tensor x pipeline x data grid; sizes worked out here, by another hand."""
    bench.run(checkpoint_words(bench, 4, "checkpoint.num_checkpoints_write=2",
                               "checkpoint.num_checkpoints_read=2",
                               "checkpoint.recovery_rank_shift=true"))
    result = bench.result()
    h, kv, ffn, vocab, layers = 64, 16, 96, 1000, 3
    layer = 2 * h + h * (h + 2 * kv) + h * h + 3 * h * ffn
    parameters = 2 * vocab * h + h + layers * layer
    optimizer = 4 * (3 * (parameters // 4) + 15 * h)
    stages = {"layer_0-model_0": vocab * h, "layer_1-model_0": layer, "layer_2-model_0": layer,
              "layer_3-model_1": layer, "layer_4-model_1": vocab * h, "layer_5-model_1": h}
    expected = {f"{name}_model_states.safetensors": 2 * size for name, size in stages.items()}
    for rank in range(4):
        name = f"zero_pp_rank_{rank // 2}_mp_rank_{rank % 2}_optim_states"
        expected[name + ".safetensors"] = optimizer
    check(len(result["checkpoints"]) == 2 and len(result["restores"]) == 2, "saves and restores")
    for save in result["checkpoints"]:
        folder = bench.folder / "saves" / save["path"]
        found = {f.name: data_bytes(f) for f in folder.iterdir() if f.suffix == ".safetensors"}
        check(found == expected, f"{found}, not {expected}")
        check(save["bytes"] == sum(expected.values()), f"{save['bytes']} bytes")
    check(result["state"]["parameters"] == parameters, "parameters")
    check_saves_are_whole(bench)
    saved = [rank["bytes"] for rank in result["checkpoints"][0]["ranks"]]
    for restore in result["restores"]:
        check(restore["rank_shift"] == 1, "shift on one host")
        read = [rank["bytes"] for rank in restore["ranks"]]  # with headers of 4 KiB each
        for rank in range(4):
            above = read[rank] - saved[(rank + 1) % 4]
            check(0 < above <= 4 * 4096, f"rank {rank} read {read[rank]}, saved are {saved}")
    summary = json.loads((bench.folder / "out/summary.json").read_text())["metric"]
    for kind in ("save", "load"):
        for figure in ("io_mean_GB_per_second", "io_stdev_GB_per_second", "duration_mean_seconds",
                       "duration_stdev_seconds"):
            check(summary[f"{kind}_checkpoint_{figure}"] >= 0, f"{kind} {figure}")
    check(abs(summary["checkpoint_size_GB"] * 2**30 - sum(expected.values())) < 1, "size")
    for rank in range(4):
        stats = json.loads((bench.folder / f"out/{rank}_per_epoch_stats.json").read_text())["1"]
        check(list(stats) == ["save_ckpt1", "save_ckpt2", "load_ckpt1", "load_ckpt2"], str(stats))
        check(stats["save_ckpt2"]["duration"] > 0, "duration of a save")
        check(stats["load_ckpt2"]["throughput"] > 0, "throughput of a restore")


def case_a_killed_rank_leaves_the_checkpoint_before(bench):
    save = ("model.parallelism.pipeline=1", "checkpoint.num_checkpoints_write=1")
    bench.run(checkpoint_words(bench, 3, *save, "checkpoint.num_checkpoints_read=0"))
    (before,) = saves_in(bench)["checkpoints"]
    # Slow enough that the save is under way when one of its ranks dies.
    running = bench.start(checkpoint_words(bench, 3, *save, "checkpoint.num_checkpoints_read=0",
                                           "--storage", "slow:bandwidth=50KB,latency=0s"))
    victim = bench.pid_of(2)
    for _ in range(600):
        if list((bench.folder / "saves").glob("saving-*")):
            break
        time.sleep(0.1)
    check(list((bench.folder / "saves").glob("saving-*")), "the save has not begun")
    os.kill(victim, signal.SIGKILL)
    bench.finish(running, 30)
    check(running.returncode != 0, "exit code 0")
    check_killed(running.err, socket.gethostname())
    left = [save["folder"] for save in saves_in(bench)["checkpoints"]]
    check(left == [before["folder"]], f"{left}, not {before['folder']}")
    check_saves_are_whole(bench)
    bench.run(checkpoint_words(bench, 3, *save, "checkpoint.num_checkpoints_read=1"))
    check(len(saves_in(bench)["checkpoints"]) == 1, "the new one took the place of the old one")


def case_find_max(bench):
    bench.generate()
    bench.run(bench.run_words(2, "--find-max-accelerators", "--max-accelerators", "2",
                              "metric.au=0.001"))
    found = json.loads((bench.folder / "out/maximum.json").read_text())
    check([a["accelerators"] for a in found["attempts"]] == [2, 4], found)
    check(found["accelerators_max"] == 4, found)


def stalls(bench, processes, *more):
    bench.run(bench.run_words(processes, "--accelerators", "2", "--stalls", "--repeats", "2",
                              "--stall-steps", "4", *more), limit=120)
    return json.loads((bench.folder / "out/stalls.json").read_text())


def case_stalls(bench):
    bench.generate()
    found = stalls(bench, 2)
    check((found["accelerators"], found["hosts"], found["repeats"]) == (4, 1, 2), found)
    check("one host" in found["stalls"]["network"]["reason"], found["stalls"]["network"])
    for kind in ("T1", "T2", "T4"):
        check(found["runs"][kind]["ms"] > 9.9, found["runs"][kind])
    check(found["stalls"]["prep"]["is"] == "T4 - T2", found["stalls"]["prep"])


def case_another_configuration_is_refused(bench):
    bench.generate()
    for override, item in (("train.epochs=5", "train.epochs is 5"),
                           ("--payload=bytes", "--payload is bytes")):
        second = bench.run_words(1, *override.split("=", 1)) if override.startswith("--") else \
            bench.run_words(1, override)
        done = bench.run([*bench.run_words(1), ":", *second[len(bench.launcher):]], code=2)
        check("rank 1 on " in done.err and item in done.err, done.err)
        check(done.err.count("forebay:") == 1, "said once: " + done.err)
    check(not (bench.folder / "out").exists(), "an empty result folder is left")


def case_an_option_of_one_rank_alone_is_refused(bench):
    """Every flag that changes the run counts: one rank would search while the other runs once."""
    bench.generate()
    for flags, item in ((["--find-max-accelerators"], "--find-max-accelerators is on"),
                        (["--max-accelerators", "2"], "--max-accelerators is 2"),
                        (["--dry-run"], "--dry-run is on"),
                        (["--errors-max", "3"], "--errors-max is 3, but not given to rank 0"),
                        (["--rules", "mlperf-v2.0"], "--rules is mlperf-v2.0, but not given")):
        second = bench.run_words(1, *flags)[len(bench.launcher):]
        done = bench.run([*bench.run_words(1), ":", *second], code=2)
        check("rank 1 on " in done.err and item in done.err, done.err)
    second = bench.words(1, "generate", "tiny.yaml", "--data", "data")[len(bench.launcher):]
    done = bench.run([*bench.run_words(1), ":", *second], code=2)
    check("the command is forebay generate" in done.err, done.err)


def case_a_dry_run_prints_once(bench):
    for command in ("run", "generate"):
        done = bench.run(bench.words(3, command, "tiny.yaml", "--data", "data", "--dry-run"))
        check(done.out.count("# Resolved workload") == 1, done.out)


def case_processes_that_never_join_are_waited_for_aloud(bench):
    """Whose first rank waits inside MPI_Init, where no stop request reaches it."""
    bench.generate()
    words = [*bench.run_words(1), ":", "-np", "1", "sleep", "60"]
    running = bench.start(words)
    waiting = bench.pid_of(0)
    time.sleep(6.5)
    began = time.monotonic()
    os.kill(waiting, signal.SIGINT)
    bench.finish(running, 10)
    check(time.monotonic() - began < 5, "a Ctrl-C was held up")
    check("rank 0 has been waiting 5 s for the other processes to call MPI_Init (2 announced by "
          "Open MPI's mpirun)" in running.err, running.err)
    check("stopped while waiting for the other processes" in running.err, running.err)


def case_other_data_is_refused(bench):
    bench.generate()
    shutil.copytree(bench.folder / "data", bench.folder / "other")
    victim = bench.folder / "other/train/img_17_of_64.npz"
    second = [word if word != "data" else "other" for word in bench.run_words(1)]
    words = [*bench.run_words(1), ":", *second[len(bench.launcher):]]
    whole = victim.read_bytes()
    victim.unlink()
    done = bench.run(words, code=1)
    check("rank 1 on " in done.err and "63" in done.err, done.err)
    # As many files, one of another size.
    comment = bytearray(whole)  # a longer archive comment: the file is whole, and longer
    comment[-2:] = (10).to_bytes(2, "little")
    victim.write_bytes(bytes(comment) + b"0123456789")
    done = bench.run(words, code=1)
    check("rank 1 on " in done.err and "img_17_of_64.npz has" in done.err, done.err)


def case_an_error_names_the_rank(bench):
    bench.generate()
    victim = bench.folder / "data/train/img_20_of_64.npz"
    damaged = bytearray(victim.read_bytes())
    damaged[9000] ^= 1
    victim.write_bytes(damaged)
    began = time.monotonic()
    done = bench.run(bench.run_words(3, "train.epochs=50"), code=1)
    check(time.monotonic() - began < 15, "it took too long")
    check("rank " in done.out and "img_20_of_64.npz" in done.out, done.out)
    result = bench.result()
    check(result["error"].startswith("rank ") and "CRC" in result["error"], result["error"])
    done = bench.run(bench.run_words(3, "train.epochs=2", "--on-error", "skip"), code=3)
    check(bench.result()["bad_record_count"] == 2, "bad records of all processes")


def check_killed(text, *names):
    """Rank, host and cause in one sentence."""
    hosts = "|".join(re.escape(name) for name in names)
    check(re.search(rf"\brank 2\b[^\n]* on (node )?({hosts})\b[^\n]*signal 9\b", text), text)


def case_a_killed_rank_ends_the_run(bench):
    bench.generate()
    running = bench.start(bench.run_words(3, "train.epochs=1000"))
    victim = bench.pid_of(2)
    time.sleep(2)  # some epochs
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    bench.finish(running, 10)
    print(f"ended {time.monotonic() - began:.1f} s after the kill")
    check(running.returncode != 0, "exit code 0")
    check_killed(running.err, socket.gethostname())
    if (bench.folder / "out/result.json").exists():
        print("a partial result was written")
        check(bench.result()["is_interrupted"], "is_interrupted")
        check(f"rank 2 on {socket.gethostname()}" in bench.result()["stopped_because"],
              bench.result()["stopped_because"])


def case_an_interrupt_keeps_what_was_measured(bench):
    bench.generate()
    running = bench.start(bench.run_words(3, "train.epochs=1000"))
    bench.pid_of(2)
    time.sleep(2)
    running.send_signal(signal.SIGTERM)
    bench.finish(running, 10)
    result = bench.result()
    check(result["is_interrupted"] and len(result["epochs"]) > 1, "the partial result")
    check(result["verdict"]["outcome"] == "incomplete", result["verdict"])
    check("asked to stop" in result["stopped_because"], result["stopped_because"])


def case_a_rank_that_hangs_is_named(bench):
    bench.generate()
    running = bench.start(bench.run_words(2, "train.epochs=100000"))
    victim = bench.pid_of(1)
    time.sleep(2)
    os.kill(victim, signal.SIGSTOP)
    time.sleep(12.5)
    os.kill(victim, signal.SIGCONT)
    time.sleep(0.5)
    running.send_signal(signal.SIGTERM)
    bench.finish(running, 10)
    check("has been waiting 10 s for rank 1 on" in running.err, running.err)


def case_without_the_module(bench):
    """The program itself needs no MPI; under mpirun it says what is missing."""
    needed = subprocess.run(["ldd", bench.forebay], capture_output=True, text=True, check=True)
    check("mpi" not in needed.stdout.lower().replace(str(bench.folder), ""), needed.stdout)
    program = bench.folder / "bin/forebay"
    program.parent.mkdir()
    shutil.copy(bench.forebay, program)  # no modules beside it
    bench.forebay = str(program)
    alone = bench.run([str(program), "generate", "tiny.yaml", "--data", "data"])
    check("64 files" in alone.err, alone.err)
    bench.run([str(program), "run", "tiny.yaml", "--data", "data", "--quiet", "--out", "out"])
    bench.run(bench.words(1, "run", "tiny.yaml", "--data", "data", "--quiet", "--out", "out"))
    done = bench.run(bench.run_words(2), code=2)
    check("forebay_mpi" in done.err or "no module mpi" in done.err, done.err)
    check("run the whole job" in done.err, done.err)


class Hosts:
    """Three hosts in network namespaces on links of 200 Mbit/s."""

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            skip("network namespaces need root and iproute2")
        subprocess.run([HERE / "netns", "down", "3"], check=False)
        made = subprocess.run([HERE / "netns", "up", "3", "200mbit"], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            subprocess.run([HERE / "netns", "down", "3"], check=False)
            skip("no network namespaces here: " + made.stderr.strip())
        return self

    def __exit__(self, *_):
        subprocess.run([HERE / "netns", "down", "3"], check=False)

    @staticmethod
    def launcher():
        return ["ip", "netns", "exec", "fbt0", "unshare", "--uts", "sh", "-c",
                'hostname host0; exec "$@"', "sh", "mpirun", "--oversubscribe", "--bind-to", "none",
                "--host", "10.79.0.1:2,10.79.0.2:2,10.79.0.3:2", "--map-by", "node",
                "--mca", "plm_rsh_agent", str(HERE / "agent"), "--mca", "pml", "ob1",
                "--mca", "btl", "self,vader,tcp", "--mca", "oob_tcp_if_include", "eth0",
                "--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
                "-x", "TMPDIR"]


def check_cache_share(host):
    """Of what a host read: its own device's bytes tell, or why nothing can is said."""
    if host["device_bytes"] is None:
        check(host["cached_share"] is None and host["cached_share_reason"], f"no reason: {host}")
        return
    share = 1 - min(1, host["device_bytes"] / host["file_bytes"])
    check(abs(host["cached_share"] - share) < 1e-6, f"{host['cached_share']}, not {share}")


def case_three_hosts(bench):
    bench.generate()
    with Hosts() as hosts:
        bench.launcher = hosts.launcher()
        bench.run(bench.run_words(6, "--accelerators", "2", "reader.batch_size=1",
                                  "train.epochs=2"), limit=90)
        result = bench.result()
        check([h["name"] for h in result["hosts"]] == ["host0", "host1", "host2"], "names")
        check([h["processes"] for h in result["hosts"]] == [[0, 3], [1, 4], [2, 5]], "processes")
        check(result["steps_per_epoch"] == 5, "steps")
        for host in result["hosts"]:
            check(host["network_received_bytes"] > 0 and host["network_sent_bytes"] > 0, "network")
            check(host["memory_bytes"] > 0 and host["cpu_count"] > 0, "the machine")
            check(host["peak_resident_bytes"] > 2 << 20, "memory of its processes")
            check(host["cpu_seconds"] > 0, "CPU time")
            check_cache_share(host)
            # The namespaces share one clock.
            for moment in ("", "_at_end"):
                offset = host["clock_offset_seconds" + moment]
                uncertainty = host["clock_uncertainty_seconds" + moment]
                check(abs(offset) <= uncertainty + 1e-6, f"offset {offset} +- {uncertainty}")
                is_first = host["name"] == "host0"
                check((uncertainty == 0) == is_first, f"{host['name']}: +- {uncertainty} s")
        for epoch in result["epochs"]:
            check([h["name"] for h in epoch["hosts"]] == ["host0", "host1", "host2"], "names")
            for host in epoch["hosts"]:
                check(host["cpu_seconds"] > 0 and host["file_bytes"] > 0, "a host's epoch")
                check_cache_share(host)
        for rank in range(12):  # processes 0, 3 on host0; 1, 4 on host1; 2, 5 on host2
            text = (bench.folder / f"out/{rank}_output.json").read_text()
            check(json.loads(text)["hostname"] == f"host{rank // 2 % 3}", f"host of {rank}")
        sent = [h["network_sent_bytes"] for h in result["hosts"]]
        print("network bytes sent by host:", sent)


def case_stalls_of_three_hosts(bench):
    bench.generate()
    with Hosts() as hosts:
        bench.launcher = hosts.launcher()
        found = stalls(bench, 3)
    check((found["accelerators"], found["hosts"]) == (6, 3), found)
    check(len(found["runs"]["T5"]["repeats_ms"]) == 2, found["runs"]["T5"])
    check(found["stalls"]["network"]["ms"] is not None, found["stalls"]["network"])
    check(found["stalls"]["prep"]["is"] == "T4 - T5", found["stalls"]["prep"])
    check(found["is_real_data_on_hosts"], found)


def case_a_host_without_the_data(bench):
    bench.generate()
    with Hosts() as hosts:
        bench.launcher = hosts.launcher()
        shutil.copytree(bench.folder / "data", bench.folder / "data-host1")
        (bench.folder / "data-host1/train/img_05_of_64.npz").unlink()
        # Each host has a folder of its own name, as if a mount were stale.
        script = bench.folder / "on_host"
        script.write_text('#!/bin/sh\nexec "$0.forebay" "$@" --data "data$(test "$(hostname)" = '
                          'host1 && echo -host1)"\n')
        script.chmod(0o755)
        os.symlink(bench.forebay, bench.folder / "on_host.forebay")
        bench.forebay = str(script)
        done = bench.run(bench.words(3, "run", "tiny.yaml", "--quiet", "--out", "out"), code=1)
        check("rank 1 on host1" in done.err and "63" in done.err, done.err)


def case_a_killed_rank_on_another_host(bench):
    bench.generate()
    with Hosts() as hosts:
        bench.launcher = hosts.launcher()
        running = bench.start(bench.run_words(3, "train.epochs=1000"))
        victim = bench.pid_of(2)
        time.sleep(3)
        os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        bench.finish(running, 10)
        print(f"ended {time.monotonic() - began:.1f} s after the kill")
        check(running.returncode != 0, "exit code 0")
        check_killed(running.err, "host2", "10.79.0.3")  # by name, or as the launcher was told it


CASES = {name[len("case_"):]: case for name, case in globals().items() if name.startswith("case_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forebay")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("case", nargs="?", choices=CASES)
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CASES))
        return
    if not shutil.which("mpirun"):
        skip("no mpirun: install openmpi-bin")
    # Open MPI keeps sockets below it, whose paths must be short.
    with tempfile.TemporaryDirectory(prefix="fbh-", dir="/tmp") as folder:
        CASES[arguments.case](Bench(os.path.abspath(arguments.forebay), folder))


if __name__ == "__main__":
    main()
