#!/usr/bin/python3
"""The command line against an object store.

usage: suite.py --forebay PROGRAM --server fake|s3rver|rgw [--node FOLDER]
  fake    tests/s3/fake_s3.py: checks signatures, misbehaves on request
  s3rver  a server from npm, installed below --node by `./dev setup`
  rgw     Ceph's gateway, from Debian's packages (`./dev test --realistic`); as root
Exit codes: 0 passed, 1 failed, 77 the server is not installed here.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
REALISTIC = os.path.join(os.path.dirname(HERE), "realistic")
DEADLINE_SECONDS = 120


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Failure(text)


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise Failure(f"waited {seconds} s for {what}")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- Servers ---

class Fake:
    key, secret, region = "AKTEST", "secret/TEST+key", "us-east-1"
    checks_signatures = True

    def __init__(self, work, _node):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "fake_s3.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def faults(self, faults):
        request = urllib.request.Request(self.endpoint + "/_faults", method="PUT",
                                         data=json.dumps(faults).encode())
        urllib.request.urlopen(request, timeout=30).read()

    def log(self):
        with urllib.request.urlopen(self.endpoint + "/_log", timeout=30) as answer:
            return answer.read().decode().splitlines()

    def freeze(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    stop = kill


class S3rver:
    key, secret, region = "S3RVER", "S3RVER", "us-east-1"
    checks_signatures = False

    def __init__(self, work, node):
        program = os.path.join(node or "", "node_modules/.bin/s3rver")
        if not node or not os.path.exists(program) or not shutil.which("node"):
            raise Skip("s3rver is not installed (./dev setup installs it where npm is)")
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        os.mkdir(os.path.join(work, "s3rver"))
        # Without the legacy provider every listing of more than one page is an error 500.
        self.process = subprocess.Popen(
            ["node", program, "-d", os.path.join(work, "s3rver"), "-a", "127.0.0.1", "-p",
             str(port), "-s", "--configure-bucket", "data"],
            env=dict(os.environ, NODE_OPTIONS="--openssl-legacy-provider"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(port), 60, "s3rver")

    freeze = Fake.freeze
    kill = stop = Fake.kill


class Rgw:
    key, secret, region = "AK", "SK", "us-east-1"
    checks_signatures = True

    def __init__(self, work, _node):
        if not shutil.which("radosgw"):
            raise Skip("radosgw is not installed (./dev test --realistic installs it)")
        if os.geteuid() != 0:
            raise Skip("Ceph's daemons want to be started as root")
        self.folder = os.path.join(work, "ceph")
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        subprocess.run(["bash", os.path.join(REALISTIC, "rgw_up.sh"), self.folder, str(port)],
                       check=True, timeout=400)
        import boto3
        import botocore.config
        self.boto = boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id=self.key,
            aws_secret_access_key=self.secret, region_name=self.region,
            config=botocore.config.Config(s3={"addressing_style": "path"}))
        self.boto.create_bucket(Bucket="data")

    def pid(self):
        with open(os.path.join(self.folder, "run/client.rgw.pid")) as file:
            return int(file.read())

    def freeze(self, seconds):
        os.kill(self.pid(), signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid(), signal.SIGCONT)

    def kill(self):
        os.kill(self.pid(), signal.SIGKILL)

    def restart(self):
        subprocess.run(["radosgw", "-n", "client.rgw"], check=True,
                       env=dict(os.environ, CEPH_CONF=os.path.join(self.folder, "ceph.conf")),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        subprocess.run(["bash", os.path.join(REALISTIC, "rgw_down.sh"), self.folder], check=False)


# --- Cases ---

class Suite:
    def __init__(self, forebay, server, work):
        self.forebay, self.server, self.work = forebay, server, work
        self.texts = []

    def environment(self, **changes):
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env.update(HOME=self.work, AWS_ACCESS_KEY_ID=self.server.key,
                   AWS_SECRET_ACCESS_KEY=self.server.secret,
                   AWS_ENDPOINT_URL=self.server.endpoint)
        env.update(changes)
        return {name: value for name, value in env.items() if value is not None}

    def start(self, *words, **changes):
        return subprocess.Popen([self.forebay, *words], cwd=self.work, text=True,
                                env=self.environment(**changes), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, process):
        text, _ = process.communicate(timeout=DEADLINE_SECONDS)
        self.texts.append(text)
        return process.returncode, text

    def call(self, *words, **changes):
        return self.end(self.start(*words, **changes))

    def good(self, *words, **changes):
        code, text = self.call(*words, **changes)
        need(code == 0, f"{' '.join(words)}: exit {code}: {text}")
        return text

    def refused(self, wanted, *words, seconds=20, **changes):
        start = time.monotonic()
        code, text = self.call(*words, **changes)
        need(code in (1, 2), f"{' '.join(words)}: exit {code}, not 1 or 2: {text}")
        for part in wanted:
            need(part in text, f"{' '.join(words)}: no '{part}' in: {text}")
        need(time.monotonic() - start < seconds, f"{' '.join(words)}: took too long to fail")

    def result(self, folder):
        with open(os.path.join(self.work, folder, "result.json")) as file:
            return json.load(file)

    DEMO = ("dataset.num_files_train=12", "dataset.record_length_bytes=200000")
    QUICK = ("train.computation_time=0.001", "metric.au=0.00001", "train.epochs=2")

    def case_generated_data_is_what_a_folder_would_hold(self):
        self.good("generate", "demo", *self.DEMO, "--data", "s3://data/gen", "--quiet")
        again = self.good("generate", "demo", *self.DEMO, "--data", "s3://data/gen")
        need("12 kept from before" in again, again)
        text = self.good("inspect", "s3://data/gen", "--check")
        need("12" in text, text)
        self.good("generate", "demo", *self.DEMO, "--data", "local", "--quiet")
        local = self.good("inspect", "local", "--check", "--json")
        remote = self.good("inspect", "s3://data/gen", "--check", "--json")
        for key in ("files", "samples", "bytes", "format"):
            need(json.loads(local)[key] == json.loads(remote)[key], f"{key} differs")
        self.good("inspect", "s3://data/gen/train/img_00_of_12.npz")

    def case_a_run_reads_and_saves(self):
        self.good("run", "demo", *self.DEMO, *self.QUICK, "--data", "s3://data/gen", "--out", "r1",
                  "workflow.checkpoint=true", "checkpoint.checkpoint_folder=s3://data/saves",
                  "model.model_size_bytes=20000000", "reader.read_threads=8", "--quiet")
        options = self.result("r1")["options"]
        need(self.server.endpoint in options["store"], f"no endpoint in {options}")
        saves = self.result("r1")["checkpoints"]
        need(len(saves) == 2 and saves[0]["bytes"] == 20000000, f"{saves}")
        # Of each save a shard and its manifest, and the name of the newest.
        self.refused(["5 files of other kinds, e.g. latest"], "inspect",
                     "s3://data/saves", "--format", "raw")
        self.good("run", "demo", *self.DEMO, *self.QUICK, "--data", "s3://data/gen", "--out", "r2",
                  "--storage", "slow:latency=1ms", "--quiet")

    # Formats whose files are read in parts, by blocks, with side files, or from their end.
    FORMATS = {
        "hdf5": ("dataset.compression=gzip", "dataset.hdf5.chunk_dims=[1,100,100]"),
        "csv": (),
        "csv.gz": ("dataset.compression=gzip",),
        "indexed_binary": ("dataset.num_samples_per_file=4",),
        "parquet": ("dataset.num_samples_per_file=8",),
    }

    def case_other_formats_are_made_and_read(self):
        for name, more in self.FORMATS.items():
            keys = (f"dataset.format={name.split('.')[0]}", "dataset.num_files_train=8",
                    "dataset.record_length_bytes=40000", *more)
            place = f"s3://data/formats/{name}"
            code, text = self.call("generate", "demo", *keys, "--data", name, "--quiet")
            if name == "parquet" and code != 0 and "module" in text:
                print(f"        parquet left out: {text.strip()}", flush=True)
                continue
            need(code == 0, f"{name}: exit {code}: {text}")
            self.good("generate", "demo", *keys, "--data", place, "--quiet")
            local = json.loads(self.good("inspect", name, "--check", "--json"))
            remote = json.loads(self.good("inspect", place, "--check", "--json"))
            for key in ("files", "samples", "bytes", "format", "first_sample"):
                need(local[key] == remote[key], f"{name}: {key}: {remote[key]}, not {local[key]}")
            need(remote["files"] == 8 and remote["bad_count"] == 0, f"{name}: {remote}")
            self.good("run", "demo", *keys, *self.QUICK, "--data", place, "--out", f"f-{name}",
                      "--quiet")
            for epoch in self.result(f"f-{name}")["epochs"]:
                need(epoch["samples"] == remote["samples"], f"{name}: {epoch['samples']} samples")
                need(2 * epoch["file_bytes"] > remote["bytes"], f"{name}: too few bytes")

    def case_a_run_as_mlperf_storage_v3_reads_the_bucket(self):
        text = self.good("run", "demo", *self.DEMO, *self.QUICK, "--data", "s3://data/gen", "--out",
                         "v3", "--compat", "mlps-v3.0")
        need("cache as-is" in text and f"storage s3 at {self.server.endpoint}" in text, text)

    def case_a_workload_says_where_and_with_which_key(self):
        with open(os.path.join(self.work, "w.yaml"), "w") as file:
            file.write(f"""
framework: pytorch
workflow: {{generate_data: True, train: True}}
dataset: {{data_folder: by/workload, format: npz, num_files_train: 8, record_length_bytes: 5000}}
reader: {{data_loader: pytorch, batch_size: 2, read_threads: 2}}
train: {{epochs: 1, computation_time: 0.001}}
metric: {{au: 0.00001}}
storage:
  storage_type: s3
  storage_root: data
  storage_options:
    access_key_id: {self.server.key}
    secret_access_key: {self.server.secret}
    endpoint_url: {self.server.endpoint}
    region: {self.server.region}
    s3_force_path_style: "true"
    s3_max_attempts: 3
""")
        nothing = dict(AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None, AWS_ENDPOINT_URL=None)
        self.good("run", "w.yaml", "--out", "r3", "--quiet", **nothing)
        need(self.result("r3")["options"]["data"] == "s3://data/by/workload", "another place")
        secret = f"storage.storage_options.secret_access_key={self.server.secret}"
        self.good("run", "w.yaml", secret, "storage.storage_type=aistore", "--out", "r4", "--quiet",
                  **nothing)
        command = self.result("r4")["command"]
        need("secret_access_key=***" in command, f"the key is not masked: {command}")

    # check_secrets looks at all that these calls leave behind.
    def case_dlio_benchmark_shows_no_key(self):
        nothing = dict(AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None, AWS_ENDPOINT_URL=None)
        folder = os.path.join(self.work, "dlio-workloads")
        os.makedirs(os.path.join(folder, "workload"), exist_ok=True)
        shutil.copy(os.path.join(self.work, "w.yaml"),
                    os.path.join(folder, "workload/keyed.yaml"))
        self.dlio("workload=keyed", f"--config-dir={folder}", "++hydra.run.dir=d1", **nothing)
        self.dlio("workload=keyed", f"--config-dir={folder}", "--cfg", "all", **nothing)
        options = "++workload.storage.storage_options"
        plain = f"{options}.secret_access_key={self.server.secret}"
        quoted = f"{options}.secret_access_key='{self.server.secret}'"
        whole = (f"{options}={{access_key_id: {self.server.key}, "
                 f"secret_access_key: '{self.server.secret}'}}")
        for number, word in enumerate((plain, quoted, whole)):
            out = f"d{number + 2}"
            self.dlio("workload=keyed", f"--config-dir={folder}", f"++hydra.run.dir={out}", word,
                      **nothing)
            need("***" in self.result(out)["command"], "the key is not masked")
            for name in ("config", "overrides", "hydra"):
                with open(os.path.join(self.work, out, f".hydra/{name}.yaml")) as file:
                    need("***" in file.read(), f"{name}.yaml of {word}")

    def dlio(self, *words, **changes):
        program = os.path.join(os.path.dirname(self.forebay), "dlio_benchmark")
        done = subprocess.run([program, *words], cwd=self.work, text=True, check=False,
                              env=self.environment(**changes), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE_SECONDS)
        self.texts.append(done.stdout)
        need(done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}: {done.stdout}")

    def case_profiles_are_read(self):
        os.makedirs(os.path.join(self.work, ".aws"), exist_ok=True)
        with open(os.path.join(self.work, ".aws/credentials"), "w") as file:
            file.write(f"[lab]\naws_access_key_id = {self.server.key}\n"
                       f"aws_secret_access_key = {self.server.secret}\n")
        with open(os.path.join(self.work, ".aws/config"), "w") as file:
            file.write(f"[profile lab]\nendpoint_url = {self.server.endpoint}\n")
        nothing = dict(AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None, AWS_ENDPOINT_URL=None)
        self.good("inspect", "s3://data/gen", AWS_PROFILE="lab", **nothing)
        self.refused(["no credentials", ".aws/credentials"], "inspect", "s3://data/gen", **nothing)

    def case_two_thousand_keys_are_listed(self):
        self.good("generate", "demo", "dataset.num_files_train=2000",
                  "dataset.record_length_bytes=300", "--data", "s3://data/many", "--threads", "16",
                  "--quiet")
        found = json.loads(self.good("inspect", "s3://data/many", "--json"))
        need(found["files"] == 2000, f"{found['files']} files")

    def case_large_files_go_up_in_parts(self):
        size = ("dataset.num_files_train=2", "dataset.record_length_bytes=30000000")
        self.good("generate", "demo", *size, "--data", "s3://data/large", "--quiet")
        self.good("inspect", "s3://data/large", "--check")
        if not hasattr(self.server, "boto"):
            return
        boto = self.server.boto
        self.good("generate", "demo", *size, "--data", "large", "--quiet")
        for path in glob.glob(os.path.join(self.work, "large/train/*")):
            key = "large/train/" + os.path.basename(path)
            head = boto.head_object(Bucket="data", Key=key)
            need("-" in head["ETag"], f"{key} was not sent in parts: {head['ETag']}")
            body = boto.get_object(Bucket="data", Key=key)["Body"].read()
            with open(path, "rb") as file:
                need(body == file.read(), f"{key} differs from the file")
        process = self.start("generate", "demo", "dataset.num_files_train=40",
                             "dataset.record_length_bytes=30000000", "--data", "s3://data/stopped")
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        self.end(process)
        left = boto.list_multipart_uploads(Bucket="data").get("Uploads", [])
        need(not left, f"uploads left behind: {left}")

    def case_uploads_are_given_up_though_the_server_takes_its_time(self):
        if not hasattr(self.server, "log"):
            return
        self.server.faults([{"method": "DELETE", "query": "uploadId", "kind": "delay",
                             "seconds": 0.5, "times": 1000}])
        process = self.start("generate", "demo", "dataset.num_files_train=40", "--data",
                             "s3://data/slow-stop", "dataset.record_length_bytes=30000000")
        wait_until(lambda: any("partNumber" in line for line in self.server.log()), 30, "a part")
        process.send_signal(signal.SIGINT)
        self.end(process)
        log = self.server.log()
        self.server.faults([])

        def count(method, query):
            return sum(line.startswith(method) and query in line for line in log)
        begun, ended = count("POST", "?uploads"), count("POST", "uploadId=")
        need(begun > ended, f"nothing was under way: {log}")
        need(begun == ended + count("DELETE", "uploadId="), f"uploads were left: {log}")

    def case_what_others_put_is_read(self):
        if not hasattr(self.server, "boto"):
            return
        boto = self.server.boto
        for path in sorted(glob.glob(os.path.join(self.work, "local/train/*"))):
            name = os.path.basename(path).replace("img_", "ü b+c%=&'(x)~ ")
            boto.upload_file(path, "data", "others/odd name/" + name)
        boto.put_object(Bucket="data", Key="others/odd name/", Body=b"")
        found = json.loads(self.good("inspect", "s3://data/others/odd name", "--check", "--json"))
        need(found["files"] == 12, f"{found}")

    def case_wrong_names_and_keys_are_named(self):
        self.refused(["NoSuchBucket", "s3://missing"], "inspect", "s3://missing/x")
        self.refused(["NoSuchBucket", "s3://missing"], "checkpoint", "list", "s3://missing/x")
        self.refused(["names no bucket"], "inspect", "s3://")
        self.refused(["is written s3://data/gen"], "inspect", "s3:/data/gen")
        self.refused(["is written s3://data/new"], "generate", "demo", "--data", "s3:/data/new")
        need(not os.path.exists(os.path.join(self.work, "s3:")), "a folder s3: was made")
        self.good("inspect", "S3://data//gen/")
        self.refused(["names no bucket"], "run", "demo", "--data", "s3://")
        self.refused(["did you mean 's3'"], "run", "demo", "--storage", "s33", "--data",
                     "s3://data")
        self.refused(["is a secret"], "run", "demo", "--data", "s3://data/gen", "--storage",
                     "s3:secret_access_key=hunter2hunter2")
        self.refused(["page cache"], "run", "demo", "--data", "s3://data/gen", "--cache", "cold")
        self.refused(["create the bucket"], "run", "demo", "--data", "s3://missing/x")
        self.refused(["--storage local: s3://data/gen is an object store"], "run", "demo",
                     "--data", "s3://data/gen", "--storage", "local")
        if not self.server.checks_signatures:
            return
        self.refused(["SignatureDoesNotMatch", "secret key right"], "inspect", "s3://data/gen",
                     AWS_SECRET_ACCESS_KEY="hunter2hunter2")
        self.refused(["InvalidAccessKeyId"], "inspect", "s3://data/gen",
                     AWS_ACCESS_KEY_ID="AKNOBODY")
        self.refused(["SignatureDoesNotMatch"], "generate", "demo", "--data", "s3://data/no",
                     AWS_SECRET_ACCESS_KEY="hunter2hunter2")
        self.refused(["denied"], "run", "demo", *self.QUICK, "--data", "s3://data/gen",
                     "--storage", "s3:anonymous=true")

    def case_a_server_that_pauses_costs_retries(self):
        process = self.start("run", "demo", *self.DEMO, "train.epochs=3", "metric.au=0.00001",
                             "train.computation_time=0.3", "reader.batch_size=2", "--data",
                             "s3://data/gen", "--out", "paused", "--storage",
                             "s3:stall_timeout=1s,backoff=100ms,max_attempts=20", "--quiet")
        time.sleep(2)
        self.server.freeze(4)
        code, text = self.end(process)
        need(code == 0, f"exit {code}: {text}")
        need(self.result("paused")["read_retries"] > 0, f"no retries: {text}")

    def case_a_server_that_comes_back_is_waited_for(self):
        if not hasattr(self.server, "restart"):
            return
        process = self.start("run", "demo", *self.DEMO, "train.epochs=3", "metric.au=0.00001",
                             "train.computation_time=0.3", "reader.batch_size=2", "--data",
                             "s3://data/gen", "--out", "back", "--storage",
                             "s3:backoff=1s,max_attempts=20", "--quiet")
        time.sleep(2)
        self.server.kill()
        time.sleep(1)
        self.server.restart()
        code, text = self.end(process)
        need(code == 0, f"exit {code}: {text}")
        need(self.result("back")["read_retries"] > 0, f"no retries: {text}")

    def case_the_first_ctrl_c_ends_the_wait_for_a_result_folder(self):
        run = ("run", "demo", *self.DEMO, "metric.au=0.00001", "train.epochs=1",
               "reader.batch_size=2", "--data", "local", "--quiet")
        for out, steps, freeze_after, stop_after in (
                ("s3://data/out-start", "train.computation_time=0.001", None, 1.5),
                ("s3://data/out-end", "train.computation_time=0.5", 1.5, 5)):
            if freeze_after is None:  # before it begins: the folder itself cannot be made
                frozen = threading.Thread(target=self.server.freeze, args=(6,))
                frozen.start()
                time.sleep(0.3)
            process = self.start(*run, steps, "--out", out)
            if freeze_after is not None:  # in mid-run: the result cannot be written
                time.sleep(freeze_after)
                frozen = threading.Thread(target=self.server.freeze, args=(8,))
                frozen.start()
            time.sleep(stop_after)
            need(process.poll() is None, f"{out}: it did not wait for the server")
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            code, text = self.end(process)
            seconds = time.monotonic() - start
            frozen.join()
            need(code == 130, f"{out}: exit {code}: {text}")
            need("the storage did not answer" in text, f"{out}: not said: {text}")
            need(seconds < 2, f"{out}: ended {seconds:.1f} s after the first signal")

    # The last case: nothing answers after it.
    def case_z_a_server_that_dies_ends_the_run_by_name(self):
        run = ("run", "demo", *self.DEMO, "train.epochs=50", "metric.au=0.00001",
               "train.computation_time=0.1", "reader.batch_size=2", "--quiet")
        saves = ("workflow.checkpoint=true", "checkpoint.checkpoint_folder=s3://data/saves")
        process = self.start(*run, "--data", "s3://data/gen", "--out", "dead")
        # The data is at hand; when the epoch ends, the place for the checkpoint is not.
        saving = self.start("run", "demo", *self.DEMO, *self.QUICK, "--data", "local", *saves,
                            "reader.batch_size=2", "train.computation_time=1", "--out", "end")
        time.sleep(2)
        self.server.kill()
        start = time.monotonic()
        code, text = self.end(process)
        need(code == 1, f"exit {code}: {text}")
        need(self.server.endpoint in text and "tried 5 times" in text, f"not named: {text}")
        need(time.monotonic() - start < 60, "took too long to give up")
        need(self.result("dead")["error"], "no error in the result")
        self.refused(["is the server up"], "inspect", "s3://data/gen")
        self.refused(["is the server up"], *run, "--data", "s3://data/gen", "--out", "start")
        # A place for checkpoints that is not there is said before the first step.
        self.refused(["checkpoint", "is the server up"], "run", "demo", *self.DEMO, *self.QUICK,
                     "--data", "local", *saves, "--out", "unsaved")
        code, text = self.end(saving)
        need(code == 1 and self.server.endpoint in text and "checkpoint" in text, f"{code}: {text}")
        need(self.result("end")["epochs"], "the epoch before the end is lost")

    # After all others: whatever was written or said.
    def check_secrets(self):
        secrets = [self.server.secret] if len(self.server.secret) > 4 and \
            self.server.secret != self.server.key else []
        secrets += ["hunter2hunter2"]
        texts = list(self.texts)
        ours = ("w.yaml", "dlio-workloads", "ceph", "s3rver", ".aws")
        for folder, _, names in os.walk(self.work):  # .hydra too
            inside = os.path.relpath(folder, self.work).split(os.sep)[0]
            for name in names:
                path = os.path.join(folder, name)
                if name in ours or inside in ours:
                    continue
                with open(path, "rb") as file:
                    texts.append(file.read().decode(errors="replace"))
        for text in texts:
            for secret in secrets:
                need(secret not in text, f"a secret stands in: {text[:300]}")

    def run(self):
        failures = 0
        names = sorted(n for n in dir(self) if n.startswith("case_"))
        ordered = ["case_generated_data_is_what_a_folder_would_hold"]
        ordered += [n for n in names if n not in ordered]
        for name in ordered + ["check_secrets"]:
            start = time.monotonic()
            try:
                getattr(self, name)()
                print(f"ok      {name.removeprefix('case_')}  {time.monotonic() - start:.1f} s",
                      flush=True)
            except (Failure, subprocess.TimeoutExpired, OSError) as failure:
                failures += 1
                print(f"FAILED  {name.removeprefix('case_')}: {failure}", flush=True)
        return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--forebay", required=True)
    parser.add_argument("--server", required=True, choices=["fake", "s3rver", "rgw"])
    parser.add_argument("--node", default="")
    arguments = parser.parse_args()
    kind = {"fake": Fake, "s3rver": S3rver, "rgw": Rgw}[arguments.server]
    with tempfile.TemporaryDirectory(prefix="forebay-s3-") as work:
        try:
            server = kind(work, arguments.node)
        except Skip as why:
            print(f"skipped: {why}")
            return 77
        try:
            return 1 if Suite(os.path.abspath(arguments.forebay), server, work).run() else 0
        finally:
            server.stop()


sys.exit(main())
