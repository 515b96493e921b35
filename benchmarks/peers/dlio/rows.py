"""The workloads that both programs run, as DLIO's own arguments."""

import dataclasses

COMMON = [
    "workload=default", "++workload.framework=pytorch", "++workload.reader.data_loader=pytorch",
    "++workload.workflow.evaluation=False", "++workload.workflow.profiling=False",
    "++workload.dataset.num_files_eval=0", "++workload.dataset.num_subfolders_train=0",
    "++workload.dataset.num_subfolders_eval=0", "++workload.train.computation_time=0",
]


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    about: str
    dataset: dict
    reader: dict
    epochs: tuple  # few, many: CPU per sample is the slope between them
    smoke_files: int
    cpu_target: dict  # payload -> how many times less CPU per sample
    seeds: bool = False  # shuffled files and samples

    def arguments(self, files=None):
        dataset = dict(self.dataset)
        if files:
            dataset["num_files_train"] = files
        reader = dict(self.reader)
        if files:
            reader["batch_size"] = min(reader["batch_size"], max(1, files // 4))
        if self.seeds:
            reader["file_shuffle"] = reader["sample_shuffle"] = "seed"
        words = list(COMMON) + [f"++workload.model.name={self.name}"]
        words += [f"++workload.dataset.{key}={value}" for key, value in dataset.items()]
        words += [f"++workload.reader.{key}={value}" for key, value in reader.items()]
        return words

    def samples(self, files=None):
        return files or self.dataset["num_files_train"]


def data(kind, files, bytes_, **more):
    return {"format": kind, "num_files_train": files, "num_samples_per_file": 1,
            "record_length_bytes": bytes_, **more}


ROWS = [
    Row("unet3d", "14 npz files, 163 MB",
        data("npz", 14, 146600628, record_length_bytes_stdev=68341808,
             record_length_bytes_resize=2097152),
        {"batch_size": 7, "read_threads": 4}, (1, 3), 2, {"decode": 4, "bytes": 6}, True),
    Row("cosmoflow", "256 npz files, 2.8 MB",
        data("npz", 256, 2828486, record_length_bytes_stdev=71311),
        {"batch_size": 1, "read_threads": 4}, (1, 4), 16, {"decode": 4, "bytes": 10}, True),
    Row("jpeg", "800 jpeg files, 65 kB",
        data("jpeg", 800, 114660, record_length_bytes_resize=150528),
        {"batch_size": 400, "read_threads": 8}, (1, 4), 32, {"decode": 2.5, "bytes": 10}),
    Row("small", "4,096 npz files, 4.6 kB",
        data("npz", 4096, 4096), {"batch_size": 64, "read_threads": 4}, (1, 4), 64,
        {"decode": 20, "bytes": 20}),
    Row("hdf5", "256 hdf5 files, 1 MB",
        data("hdf5", 256, 1048576), {"batch_size": 8, "read_threads": 4}, (1, 4), 16,
        {"decode": 4, "bytes": 10}),
    Row("csv", "24 csv files, 65,536 values",
        data("csv", 24, 65536), {"batch_size": 8, "read_threads": 4}, (1, 3), 8,
        {"decode": 4, "bytes": 10}),
]
