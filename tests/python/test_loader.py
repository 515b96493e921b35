"""forebay.Loader as a training loop sees it: batches, epochs, state, options, errors."""

import copy
import decimal
import fractions
import gc
import gzip
import io
import json
import os
import pickle
import random
import re
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import warnings

import numpy

import forebay as fb
import forebay.launch
import support
from support import DataTest, run_program, write_arrays, write_many_formats

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def values(batch):
    """The number that each sample of a batch is full of."""
    return [int(array.flat[0]) for array in next(iter(batch.values()))]


def epoch(loader):
    return [value for batch in loader for value in values(batch)]


class Batches(DataTest):
    def test_a_batch_is_a_dict_of_arrays_and_lists(self):
        batch = next(iter(self.open(self.arrays())))
        self.assertIs(type(batch), dict)
        array = next(iter(batch.values()))
        self.assertEqual(array.shape, (4, 8, 8, 3))
        self.assertEqual(array.dtype, numpy.uint8)
        self.assertEqual([type(key) for key in batch["__key__"]], [str] * 4)
        self.assertEqual(values(batch), [0, 1, 2, 3])

    def test_arrays_outlive_batch_and_loader_and_may_be_written(self):
        loader = self.open(self.arrays())
        arrays = [next(iter(batch.values())) for batch in loader]
        loader.close()
        del loader
        gc.collect()
        self.assertEqual([int(a[0].flat[0]) for a in arrays], list(range(0, 40, 4)))
        arrays[0][:] = 77
        self.assertTrue((arrays[0] == 77).all())
        self.assertEqual(int(arrays[1].flat[0]), 4)

    def test_arrays_are_views_without_a_copy(self):
        array = next(iter(next(iter(self.open(self.arrays()))).values()))
        self.assertFalse(array.flags.owndata)
        self.assertTrue(array.flags.c_contiguous)
        again = numpy.from_dlpack(array)
        self.assertEqual(again.ctypes.data, array.ctypes.data)
        self.assertEqual(memoryview(array).nbytes, array.nbytes)

    def test_samples_of_several_shapes_are_a_list(self):
        folder = self.arrays(2)
        numpy.save(os.path.join(folder, "img_00002.npy"), numpy.full((5, 4), 2, numpy.uint8))
        numpy.save(os.path.join(folder, "img_00003.npy"), numpy.full((7,), 3, numpy.uint8))
        with self.assertRaisesRegex(fb.Unsupported, "ragged"):
            next(iter(self.open(folder)))
        batch = next(iter(self.open(folder, ops=[fb.ragged("data")])))
        arrays = batch["data"]
        self.assertIs(type(arrays), list)
        self.assertEqual([a.shape for a in arrays], [(8, 8, 3), (8, 8, 3), (5, 4), (7,)])

    def test_the_mask_of_a_padded_batch_tells_what_is_real(self):
        loader = self.open(self.arrays(10), batch_size=4, tail="pad")
        masks = [batch["__valid__"] for batch in loader]
        self.assertEqual([mask.dtype for mask in masks], [numpy.bool_] * 3)
        self.assertEqual([mask.tolist() for mask in masks],
                         [[True] * 4, [True] * 4, [True, True, False, False]])


class Epochs(DataTest):
    def test_each_loop_is_an_epoch(self):
        loader = self.open(self.arrays(), shuffle="full", seed=3)
        first, second = epoch(loader), epoch(loader)
        self.assertEqual(sorted(first), list(range(40)))
        self.assertEqual(sorted(second), list(range(40)))
        self.assertNotEqual(first, second)
        self.assertEqual(len(loader), 10)
        self.assertEqual(loader.epoch, 2)

    def test_a_loop_broken_off_is_followed_by_the_next_epoch(self):
        loader = self.open(self.arrays(), shuffle="full")
        other = self.open(self.arrays(), shuffle="full")
        epoch(other)
        for _ in loader:
            break
        self.assertEqual(epoch(loader), epoch(other))

    def test_next_goes_through_epochs(self):
        loader = self.open(self.arrays(8))
        self.assertEqual(values(next(loader)), [0, 1, 2, 3])
        self.assertEqual(values(next(loader)), [4, 5, 6, 7])
        self.assertRaises(StopIteration, next, loader)
        self.assertEqual(values(next(loader)), [0, 1, 2, 3])

    def test_an_iterator_that_ended_stays_at_its_end(self):
        iterator = iter(self.open(self.arrays(8)))
        self.assertEqual(len(list(iterator)), 2)
        self.assertRaises(StopIteration, next, iterator)
        self.assertRaises(StopIteration, next, iterator)

    def test_two_loops_at_once_are_refused(self):
        loader = self.open(self.arrays())
        first = iter(loader)
        next(first)
        next(iter(loader))
        with self.assertRaisesRegex(fb.Error, "two loaders"):
            next(first)

    def test_threads_that_share_an_iterator_get_each_sample_of_one_epoch_once(self):
        for _ in range(20):
            loader = self.open(self.arrays(), shuffle="full")
            iterator = iter(loader)
            given = []
            threads = [threading.Thread(target=lambda: given.extend(
                value for batch in iterator for value in values(batch))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(given), list(range(40)))
            loader.close()

    def test_set_epoch_goes_there(self):
        loader, other = (self.open(self.arrays(), shuffle="full") for _ in range(2))
        epochs = [epoch(loader) for _ in range(3)]
        other.set_epoch(2)
        self.assertEqual(epoch(other), epochs[2])

    def test_ranks_share_an_epoch(self):
        parts = [epoch(self.open(self.arrays(), rank=rank, world_size=2, shuffle="full"))
                 for rank in range(2)]
        self.assertEqual(sorted(parts[0] + parts[1]), list(range(40)))

    def test_drop_last(self):
        folder = self.arrays(10)
        self.assertEqual(len(self.open(folder, drop_last=True)), 2)
        self.assertEqual(len(self.open(folder, drop_last=False)), 3)
        self.assertRaises(fb.ConfigError, self.open, folder, drop_last=False, tail="all")


class State(DataTest):
    def test_it_goes_through_json_and_resumes_to_the_byte(self):
        loader = self.open(self.arrays(), shuffle="full", seed=9)
        wanted = epoch(loader)
        for given in range(0, 10):
            first = self.open(self.arrays(), shuffle="full", seed=9)
            iterator = iter(first)
            head = [value for _ in range(given) for value in values(next(iterator))]
            state = json.loads(json.dumps(first.state_dict()))
            second = self.open(self.arrays(), shuffle="full", seed=9)
            second.load_state_dict(state)
            self.assertEqual(head + epoch(second), wanted, given)

    def test_after_the_last_batch_it_is_the_next_epoch(self):
        loader = self.open(self.arrays(), shuffle="full")
        iterator = iter(loader)
        for _ in range(len(loader)):
            next(iterator)
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["position"]), (1, 0))
        other = self.open(self.arrays(), shuffle="full")
        other.load_state_dict(state)
        self.assertEqual(other.epoch, 1)
        self.assertEqual(next(iterator, None), None)
        self.assertEqual(epoch(other), epoch(loader))

    def test_another_number_of_ranks_goes_on_exactly(self):
        loaders = [self.open(self.arrays(), 2, rank=rank, world_size=2, shuffle="full")
                   for rank in range(2)]
        seen = []
        for iterator in map(iter, loaders):
            for _ in range(3):
                seen += values(next(iterator))
        state = loaders[0].state_dict()
        self.assertEqual(state, loaders[1].state_dict())
        rest = []
        for rank in range(4):
            loader = self.open(self.arrays(), 1, rank=rank, world_size=4, shuffle="full")
            loader.load_state_dict(state)
            rest += epoch(loader)
        self.assertEqual(sorted(seen + rest), list(range(40)))

    def test_a_position_beyond_the_epoch_is_refused(self):
        loader = self.open(self.arrays(8))
        state = {**loader.state_dict(), "position": 10 ** 9}
        with self.assertRaisesRegex(fb.ConfigError, "1000000000 .* which has 8 samples"):
            loader.load_state_dict(state)
        self.assertEqual(epoch(loader), list(range(8)), "it stands where it stood")

    def test_a_batch_that_ctrl_c_kept_from_the_loop_comes_again(self):
        loader = self.open(self.arrays(16))
        loop = iter(loader)
        self.assertEqual(values(next(loop)), [0, 1, 2, 3])
        take = loader._next

        def interrupted():
            take()
            raise KeyboardInterrupt  # as Python itself does once the call has returned

        for take_one in (loop.__next__, loader.__next__):
            loader._next = interrupted
            self.assertRaises(KeyboardInterrupt, take_one)
            loader._next = take
            self.assertEqual(loader.state_dict()["position"], 4)
        self.assertEqual([values(batch)[0] for batch in loop], [4, 8, 12])
        loop = iter(loader)
        for _ in range(4):
            next(loop)
        loader._next = interrupted  # at the end of an epoch
        self.assertRaises(KeyboardInterrupt, next, loop)
        loader._next = take
        self.assertEqual((loader.epoch, list(loop), loader.epoch), (1, [], 2))

    def test_ctrl_c_at_any_moment_loses_no_batch(self):
        class Alarm(BaseException):
            pass

        def ring(*_):
            raise Alarm

        delays = random.Random(5)
        loader = self.open(self.arrays(64), 1, prefetch_batches=1)
        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for _ in range(8):
            loop, seen, batch, is_over = iter(loader), [], None, False
            while not is_over:
                try:
                    signal.setitimer(signal.ITIMER_REAL, delays.uniform(1e-5, 3e-3))
                    for batch in loop:
                        seen.append(batch)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    is_over = True
                except Alarm:
                    # Between the loop's taking it and the list's.
                    if batch is not None and (not seen or seen[-1] is not batch):
                        seen.append(batch)
            self.assertEqual([values(one)[0] for one in seen], list(range(64)))

    def test_ctrl_c_in_a_function_leaves_the_batch_to_the_next_call(self):
        calls = []

        def interrupt(batch):
            calls.append(values(batch)[0])
            if len(calls) == 2:
                raise KeyboardInterrupt

        loader = self.open(self.arrays(16), ops=[fb.python(interrupt)])
        loop = iter(loader)
        next(loop)
        self.assertRaises(KeyboardInterrupt, next, loop)
        self.assertEqual(loader.state_dict()["position"], 4)
        self.assertEqual([values(batch)[0] for batch in loop], [4, 8, 12])
        self.assertEqual(calls, [0, 4, 4, 8, 12])

    def test_a_state_of_another_kind_is_refused(self):
        loader = self.open(self.arrays(), seed=1)
        state = loader.state_dict()
        other = self.open(write_arrays(os.path.join(self.folder, "others"), 12), seed=1)
        self.assertRaises(fb.ConfigError, other.load_state_dict, state)
        self.assertRaises(fb.ConfigError, self.open(self.arrays(), seed=2).load_state_dict, state)
        self.assertRaises(fb.ConfigError, loader.load_state_dict, {"epoch": 1})
        with self.assertRaisesRegex(fb.ConfigError, "position"):
            loader.load_state_dict({k: v for k, v in state.items() if k != "position"})
        with self.assertRaisesRegex(fb.ConfigError, "epoch='x'"):
            loader.load_state_dict({**state, "epoch": "x"})

    def test_a_loop_that_was_running_ends_when_a_state_is_set(self):
        loader = self.open(self.arrays())
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        loader.load_state_dict(state)
        self.assertRaises(fb.Error, next, iterator)
        self.assertEqual(len(epoch(loader)), 36)


class Ops(DataTest):
    MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def pictures(self):
        from PIL import Image
        for name in ("cat", "dog"):
            os.makedirs(os.path.join(self.folder, "pictures", name))
            for index in range(4):
                Image.new("RGB", (40, 30), (index * 20, 100, 200)).save(
                    os.path.join(self.folder, "pictures", name, f"{index}.png"))
        return os.path.join(self.folder, "pictures")

    def test_pictures_become_arrays_and_folders_labels(self):
        loader = self.open(self.pictures(), 8, ops=[
            fb.decode_image(), fb.random_resized_crop(16), fb.flip(),
            fb.normalize(self.MEAN, self.STD)])
        batch = next(iter(loader))
        self.assertEqual(batch["image"].shape, (8, 3, 16, 16))
        self.assertEqual(batch["image"].dtype, numpy.float32)
        self.assertEqual(loader.class_names, ["cat", "dog"])
        names = [key.replace(".png", "").split("/") for key in batch["__key__"]]
        self.assertEqual(batch["label"].tolist(), [name == "dog" for name, _ in names])
        red = numpy.array([20 * int(index) for _, index in names])
        wanted = (red / 255 - self.MEAN[0]) / self.STD[0]
        numpy.testing.assert_allclose(batch["image"][:, 0, 5, 5], wanted, atol=0.02)

    def test_large_pictures_stay_within_the_memory_or_are_bad_and_named(self):
        from PIL import Image
        pixels = numpy.random.default_rng(0).integers(0, 255, (200, 200, 3), numpy.uint8)
        large = Image.fromarray(pixels).resize((5000, 5000))
        kinds = {"baseline": ("jpg", {}), "progressive": ("jpg", {"progressive": True}),
                 "whole": ("png", {"compress_level": 1})}
        for kind, (suffix, how) in kinds.items():
            folder = os.path.join(self.folder, kind)
            os.makedirs(folder)
            for index in range(6):
                large.resize((1000, 800)).save(os.path.join(folder, f"{index}.jpg"))
            large.save(os.path.join(folder, f"large.{suffix}"), **how)
            for memory in (64, 128, 512):
                code, out, err = run_program("""
import json, re, sys
import forebay as fb, numpy
def peak():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1]) << 10
before = peak()
loader = fb.Loader(sys.argv[1], batch_size=2, memory=sys.argv[2], tail="all", on_error="skip",
                   rank=0, world_size=1, ops=[fb.decode_image(), fb.random_resized_crop(224)])
keys = [key for _ in range(3) for batch in loader for key in batch["__key__"]]
stats = loader.stats()
print(json.dumps([len(keys), stats["bad_records"], stats["bad"], stats["memory_bytes_bound"],
                  peak() - before]))
""", folder, f"{memory}MiB")
                self.assertEqual(code, 0, err)
                count, bad_count, bad, bound, grown = json.loads(out)
                with self.subTest(kind=kind, memory=memory):
                    self.assertEqual(count + bad_count, 21)
                    self.assertLessEqual(bound, memory << 20)
                    self.assertLess(grown, (memory + 16) << 20)  # the package's own code, stacks
                    is_bad = memory < 512 and kind != "baseline"
                    self.assertEqual(bad_count, 3 if is_bad else 0, bad)
                    if is_bad:  # in each epoch, and listed once
                        self.assertEqual(len(bad), 1)
                        self.assertRegex(bad[0], r"large.*needs [0-9.]+ MiB to decode|one piece")

    def test_packed_files_stay_within_the_memory_though_the_first_is_small(self):
        # What each thread unpacked, and made samples of, was in no plan; nor were larger files.
        line = json.dumps({"text": "word " * 40}) + "\n"
        folder = os.path.join(self.folder, "packed")
        os.makedirs(folder)
        for index in range(7):
            with gzip.open(f"{folder}/{index}.jsonl.gz", "wt", compresslevel=1) as file:
                for turn in range(50 if index else 2):
                    file.write(line * 1000 + str(turn) + "\n")
        code, out, err = run_program("""
import json, re, sys
import forebay as fb, numpy
def peak():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1]) << 10
before = peak()
loader = fb.Loader(sys.argv[1], batch_size=500, memory="80MB", decode_threads=6, tail="all",
                   rank=0, world_size=1)
count = sum(len(batch["__key__"]) for batch in loader)
print(json.dumps([count, loader.stats()["memory_bytes_bound"], peak() - before]))
""", folder)
        self.assertEqual(code, 0, err)
        count, bound, grown = json.loads(out)
        self.assertEqual(count, 302 * 1001)
        self.assertLessEqual(bound, 80_000_000)
        self.assertLess(grown, bound + (16 << 20))  # the package's own code, stacks

    def test_bfloat16_comes_as_its_bits_or_as_ml_dtypes(self):
        loader = self.open(self.pictures(), 8, ops=[
            fb.decode_image(), fb.normalize(self.MEAN, self.STD, type="bfloat16")])
        array = next(iter(loader))["image"]
        self.assertIn(array.dtype.name, ("uint16", "bfloat16"))
        wide = array.view(numpy.uint16).astype(numpy.uint32) << 16
        value = (100 / 255 - self.MEAN[1]) / self.STD[1]
        numpy.testing.assert_allclose(wide.view(numpy.float32)[:, 1], value, rtol=0.01)

    def test_a_function_that_lets_stop_iteration_out_ends_no_epoch(self):
        loader = self.open(self.arrays(), ops=[fb.python(lambda batch: next(iter(())))])
        self.assertRaisesRegex(RuntimeError, "raised StopIteration", list, loader)

    def test_functions_names_and_configurations_say_the_same(self):
        folder = self.pictures()
        states = []
        for ops in ([fb.decode_image(), fb.random_resized_crop(16, scale=[0.5, 1])],
                    [fb.decode_image(to="image"),
                     fb.random_resized_crop(size=(16,), scale=(0.5, 1))],
                    ["decode_image", {"random_resized_crop": {"size": 16, "scale": [0.5, 1]}}],
                    [fb.Op("decode_image"),
                     fb.Op("random_resized_crop", size=numpy.int64(16),
                           scale=numpy.array([0.5, 1.0]))]):
            loader = self.open(folder, 4, ops=ops)
            states.append((loader.state_dict()["ops"], next(iter(loader))["image"].tobytes()))
        self.assertEqual(states, [states[0]] * 4)

    def test_a_loader_that_may_prepare_nothing_is_refused(self):
        with self.assertRaisesRegex(fb.ConfigError, "prefetch_batches is not within 1 and"):
            self.open(self.arrays(8), prefetch_batches=0)

    def test_a_conversion_that_ops_would_pass_over_is_refused(self):
        with self.assertRaisesRegex(fb.ConfigError, "convert_to_rgb is for a loader without ops"):
            self.open(self.pictures(), ops=[fb.decode_image(mode="L")], convert_to_rgb=True)

    def test_what_an_op_does_not_know_is_named(self):
        for wrong, message in ((fb.Op("decode_imag"), "decode_image"),
                               (fb.Op("flip", probability=1), "flip"),
                               (fb.Op("resize"), "size"), (fb.resize("big"), "resize"),
                               (fb.flip(p=7), "p")):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(fb.ConfigError, message):
                self.open(self.pictures() if not os.path.exists(f"{self.folder}/pictures")
                          else f"{self.folder}/pictures", ops=["decode_image", wrong])

    def test_a_state_of_other_ops_is_refused(self):
        folder = self.pictures()
        state = self.open(folder, ops=[fb.decode_image()]).state_dict()
        with self.assertRaisesRegex(fb.ConfigError, "ops"):
            self.open(folder, ops=[fb.decode_image(), fb.flip()]).load_state_dict(state)


class Sources(DataTest):
    def test_a_mixture_has_its_shares(self):
        folders = [write_arrays(os.path.join(self.folder, name), 60) for name in "ab"]
        loader = self.open([fb.Source(folders[0], weight=0.75), fb.Source(folders[1], weight=0.25)],
                           4, shuffle="full")
        keys = [key for batch in loader for key in batch["__key__"]]
        share = sum("a/" in key or key.startswith("a") for key in keys) / len(keys)
        self.assertAlmostEqual(share, 0.75, delta=0.05)

    def test_patterns_choose_files(self):
        folder = self.arrays(20)
        loader = self.open(os.path.join(folder, "img_0000{0..7}.npy"), 4)
        self.assertEqual(loader.sample_count, 8)

    def test_records_have_type_and_shape(self):
        path = os.path.join(self.folder, "numbers.raw")
        numpy.arange(60, dtype=numpy.int16).tofile(path)
        loader = self.open(fb.Source(path, format="raw", record_bytes=12, record_type="int16",
                                     record_shape=(2, 3)), 5)
        arrays = [next(iter(batch.values())) for batch in loader]
        self.assertEqual([a.shape for a in arrays], [(5, 2, 3)] * 2)
        self.assertEqual(numpy.concatenate(arrays).ravel().tolist(), list(range(60)))

    def test_types_of_records_have_all_of_numpys_names(self):
        path = os.path.join(self.folder, "r.bin")
        numpy.arange(6, dtype=">u2").tofile(path)
        for name in (">u2", numpy.dtype(">u2")):
            batch = next(self.open(fb.Source(path, record_type=name, record_shape=[3]), 2))
            self.assertEqual(batch["data"].tolist(), [[0, 1, 2], [3, 4, 5]])
        for name in ("u2", "uint16", numpy.uint16, numpy.dtype("<u2")):
            batch = next(self.open(path, 2, record_type=name, record_shape=(3,)))
            self.assertEqual(batch["data"].dtype, numpy.uint16)
        for name in ("u3", "O", "datetime64", object, 5):
            with self.assertRaisesRegex(fb.ConfigError, "record_type"):
                self.open(path, record_type=name, record_shape=(3,))

    def test_lines_in_class_folders_have_their_folders_label(self):
        for name, text in (("neg/a.txt", "bad\nworse\n"), ("pos/b.txt", "good\n")):
            path = os.path.join(self.folder, "reviews", name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        loader = self.open(os.path.join(self.folder, "reviews"), 3)
        self.assertEqual(loader.class_names, ["neg", "pos"])
        self.assertEqual(next(loader)["label"].tolist(), [0, 0, 1])

    @unittest.skipUnless(support.h5py, "needs h5py")
    def test_labels_of_hdf5_are_a_part_to_be_asked_for(self):
        path = os.path.join(self.folder, "a.h5")
        with support.h5py.File(path, "w") as file:
            file["images"] = numpy.arange(8, dtype="u1").reshape(4, 2)
            file["labels"] = numpy.arange(4)  # of more bytes
        self.assertEqual(next(self.open(path))["images"].tolist(), [[0, 1], [2, 3], [4, 5], [6, 7]])
        batch = next(self.open(path, parts=["images", "labels"]))
        self.assertEqual(batch["labels"].tolist(), [0, 1, 2, 3])
        self.assertEqual(batch["images"].shape, (4, 2))

    def test_lines_are_text(self):
        path = os.path.join(self.folder, "texts.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"zeile {i} ä\n" for i in range(8)))
        batch = next(iter(self.open(path, 4)))
        texts = next(value for name, value in batch.items() if name != "__key__")
        self.assertEqual(texts, [f"zeile {i} ä" for i in range(4)])


class Functions(DataTest):
    def test_they_get_each_batch_and_their_cost_is_told(self):
        def double(batch):
            return {**batch, "twice": [2 * value for value in values(batch)]}

        def in_place(batch):
            batch["seen"] = True

        loader = self.open(self.arrays(), ops=[fb.python(double), fb.python(in_place, name="mark")])
        batches = list(loader)
        self.assertEqual(batches[1]["twice"], [8, 10, 12, 14])
        self.assertTrue(batches[1]["seen"])
        costs = loader.stats()["python"]
        self.assertEqual([(c["name"].split(".")[-1], c["calls"]) for c in costs],
                         [("double", 10), ("mark", 10)])
        self.assertGreater(costs[0]["seconds"], 0)

    def test_what_they_raise_comes_through_and_the_loop_goes_on(self):
        def fail(batch):
            if values(batch)[0] == 4:
                raise KeyError("mine")

        iterator = iter(self.open(self.arrays(), ops=[fb.python(fail)]))
        next(iterator)
        self.assertRaises(KeyError, next, iterator)
        self.assertEqual(values(next(iterator)), [8, 9, 10, 11])

    def test_only_functions_and_ops_are_ops(self):
        for wrong in ([print], [7], [{"a": {}, "b": {}}], [{"resize": 3}], ["no_such_op"],
                      [fb.python(print), "flip"]):
            with self.subTest(wrong=wrong), self.assertRaises(fb.ConfigError):
                self.open(self.arrays(), ops=wrong)


class Options(DataTest):
    def test_every_option_of_the_header_has_an_argument(self):
        with open(os.path.join(SOURCE, "include/forebay/loader.h"), encoding="utf-8") as file:
            header = file.read()
        arguments = fb.Loader.__init__.__annotations__
        for struct, also in (("DataSource", {"weight"}), ("LoaderOptions", {"sources"})):
            body = re.search(rf"struct {struct} {{(.*?)\n}};", header, re.DOTALL).group(1)
            code = re.sub(r"//.*", "", body)
            fields = re.findall(r"(\w+)(?: = [^,;]*)?[,;]", code)
            self.assertGreater(len(fields), 8)
            for field in fields:
                if field not in also:
                    self.assertIn({"memory_bytes": "memory"}.get(field, field), arguments, struct)

    def test_wrong_values_are_named(self):
        folder = self.arrays(4)
        for wrong, message in (
                (dict(batch_size=-1), "batch_size=-1"), (dict(batch_size=0), "batch_size"),
                (dict(tail="half"), "drop, even, all, pad"),
                (dict(shuffle="some"), "shuffle='some'"),
                (dict(memory="4 XB"), "memory='4 XB'"), (dict(errors_max="x"), "errors_max='x'"),
                (dict(seed=None), "seed=None"), (dict(rank=1), "world_size"),
                (dict(rank=3, world_size=2), "rank"), (dict(storage="urng"), "urng"),
                (dict(format="jpg2"), "jpg2"), (dict(data=[]), "empty"),
                (dict(data=[3]), "no path"), (dict(data={"path": "x"}), "path")):
            with self.subTest(wrong=wrong):
                arguments = {"data": folder, "rank": 0, "world_size": 1, **wrong}
                if "rank" in wrong and "world_size" not in wrong:
                    del arguments["world_size"]
                with self.assertRaisesRegex(fb.ConfigError, re.escape(message)):
                    fb.Loader(**arguments)

    def test_numbers_are_taken_as_they_are_or_not_at_all(self):
        # A fraction was cut off, whatever is not empty was true, and 2^63 batches were one.
        folder = self.arrays(4)
        half = numpy.float32(1.5)
        for name in ("batch_size", "prefetch_batches", "seed", "decode_threads", "errors_max"):
            for value in (half, decimal.Decimal(2), fractions.Fraction(3, 2), True, 2.0):
                with self.subTest(name=name, value=value):
                    with self.assertRaisesRegex(fb.ConfigError, name):
                        self.open(folder, **{name: value})
        for name in ("as_ready", "change_each_epoch", "drop_last"):
            for value in ("no", 2, float("nan"), [0]):
                with self.subTest(name=name, value=value):
                    with self.assertRaisesRegex(fb.ConfigError, name):
                        self.open(folder, **{name: value})
        for name, value in (("prefetch_batches", 2**63), ("prefetch_batches", 2**64 - 1),
                            ("decode_threads", 2**31 - 1), ("fetch_depth", 2**31 - 1),
                            ("world_size", 2**63), ("memory", "\udc80")):
            with self.subTest(name=name, value=value):
                with self.assertRaisesRegex(fb.ConfigError, name):
                    self.open(folder, **{name: value})
        with self.open(folder, numpy.uint8(2), seed=numpy.int64(7), shuffle=numpy.bool_(True),
                       as_ready=0) as loader:
            self.assertEqual(len(list(loader)), 2)

    def test_what_is_said_of_raw_records_is_refused_for_other_files(self):
        for more in (dict(record_bytes=64), dict(record_type="u1", record_shape=[64])):
            with self.assertRaisesRegex(fb.ConfigError, "record_bytes.*raw files.*npy"):
                self.open(self.arrays(4), **more)

    def test_parts_are_refused_where_a_sample_has_only_one(self):
        # They were passed over in silence.
        with self.assertRaisesRegex(fb.ConfigError, "parts are chosen of .*npz.* these are npy"):
            self.open(self.arrays(4), parts=["jpg"])

    def test_lists_may_be_arrays(self):
        path = os.path.join(self.folder, "a.raw")
        numpy.arange(60, dtype=numpy.uint16).tofile(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            batch = next(self.open(path, 2, record_type=numpy.uint16,
                                   record_shape=numpy.array([2, 3])))
        self.assertEqual(batch["data"].shape, (2, 2, 3))

    def test_an_unknown_format_is_told_which_there_are(self):
        with self.assertRaisesRegex(fb.ConfigError, "did you mean 'webdataset'.*npz"):
            self.open(self.arrays(4), format="webdaset")

    def test_too_little_memory_is_a_wrong_argument(self):
        for memory in ("1KB", 1000, "1 MiB"):
            with self.assertRaisesRegex(fb.ConfigError, "memory"):
                self.open(self.arrays(), memory=memory)

    def test_sizes_are_numbers_or_text(self):
        self.open(self.arrays(4), read_ahead_bytes="64 MB", memory="1GiB")

    def test_unknown_arguments_are_pythons_own_error(self):
        self.assertRaises(TypeError, self.open, self.arrays(4), batchsize=3)

    def test_a_configuration_is_a_dict_or_a_file(self):
        folder = self.arrays(12)
        path = os.path.join(self.folder, "loader.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"data: '{folder}'\nbatch_size: 3\nshuffle: full\nseed: 5\n"
                       "rank: 0\nworld_size: 1\n")
        with fb.Loader.from_config(path) as one, self.open(
                folder, 3, shuffle="full", seed=5) as two, fb.Loader.from_config(
                    {"data": folder, "batch_size": 2}, batch_size=3, shuffle="full", seed=5, rank=0,
                    world_size=1) as three:
            wanted = epoch(two)
            self.assertEqual(epoch(one), wanted)
            self.assertEqual(epoch(three), wanted)

    def test_a_wrong_configuration_is_named(self):
        for text, message in (("data: x\nbatchsize: 3\n", "did you mean 'batch_size'"),
                              ("batch_size: 3\n", "no 'data'"), ("- 3\n", "arguments are due"),
                              ("data: [\n", "wrong.yaml"), ("data: x\ndata: y\n", "twice")):
            path = os.path.join(self.folder, "wrong.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.subTest(text=text), self.assertRaisesRegex(fb.ConfigError, message):
                fb.Loader.from_config(path)
        missing = os.path.join(self.folder, "none.yaml")
        self.assertRaises(fb.NotFound, fb.Loader.from_config, missing)

    def test_scalars_of_yaml_have_their_types(self):
        from forebay import _native
        self.assertEqual(_native.read_yaml("{a: 1, b: 1.5, c: true, d: '1', e: x, f: [1, {g: ~}]}"),
                         {"a": 1, "b": 1.5, "c": True, "d": "1", "e": "x", "f": [1, {"g": None}]})


class Refusals(DataTest):
    def test_arguments_of_another_kind_are_named(self):
        folder = self.arrays(8)
        for more in (dict(tail=1), dict(ops=None), dict(ops=5), dict(index_cache=None)):
            with self.assertRaises(fb.ConfigError, msg=str(more)) as caught:
                self.open(folder, **more)
            self.assertIn(next(iter(more)), str(caught.exception))
        for data in (None, 5, "\0", [None], fb.Source(None)):
            with self.assertRaises(fb.ConfigError, msg=repr(data)) as caught:
                self.open(data)
            self.assertIn("data", str(caught.exception))

    def test_a_damaged_archive_is_an_error_with_its_place_or_a_bad_file(self):
        path = os.path.join(self.folder, "cut.tar")
        with tarfile.open(path, "w") as archive:
            for index in range(10):
                member = tarfile.TarInfo(f"s{index}.bin")
                member.size = 512
                archive.addfile(member, io.BytesIO(b"x" * 512))
        with open(path, "r+b") as file:
            file.seek(5120)
            file.write(bytes(512))
        said = "cut.tar: the header at byte 5120 is a block of zeros"
        with self.assertRaisesRegex(fb.DataError, said) as caught:
            self.open(path)
        error = caught.exception
        self.assertEqual((error.file, error.record, error.offset), ("cut.tar", None, 5120))
        loader = self.open(path, on_error="skip")
        self.assertIn(said, str(loader.explain()))
        self.assertIn(said, loader.stats()["bad"][0])
        self.assertEqual((len(list(self.open(path, 1, on_error="skip"))),
                          loader.stats()["bad_records"]), (5, 1))
        self.assertRaises(fb.ResourceExhausted, self.open, path, on_error="skip", errors_max=0)

    def test_an_index_cache_that_cannot_be_written_is_said_once_whatever_the_format(self):
        in_the_way = os.path.join(self.folder, "no")
        open(in_the_way, "w").close()
        for name, count in write_many_formats(os.path.join(self.folder, "data")):
            for cache in (os.path.join(in_the_way, "cache"), self.folder):
                for sources in ([name], [fb.Source(name, 1.0), fb.Source(name, 1.0)]):
                    with self.subTest(name=name, cache=cache), \
                            self.assertWarnsRegex(RuntimeWarning, "not written") as told:
                        loader = self.open(sources, 1, index_cache=cache)
                    self.assertEqual(told.filename, support.__file__, "it points to the caller")
                    self.assertEqual(len(told.warnings), 1)
                    self.assertIn(cache, str(told.warning))
                    plan = loader.explain()
                    self.assertEqual(plan.index_cache_problem, str(told.warning))
                    self.assertEqual(str(plan).count("index cache"), 1)
                    self.assertEqual(len(list(loader)), count * len(sources))

    def test_data_sets_may_share_an_index_cache(self):
        cache = os.path.join(self.folder, "cache")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for count in (8, 9):
                self.open(self.arrays(count), index_cache=cache)
            with open(cache, "rb") as file:
                both = file.read()
            for count in (8, 9):
                self.open(self.arrays(count), index_cache=cache)
                with open(cache, "rb") as file:
                    self.assertEqual(file.read(), both, "it is known, and nothing is written")
            plan = str(self.open(self.arrays(8), index_cache=cache, samples_per_file=1).explain())
        self.assertIn("no index cache is needed where each file is one sample", plan)


    def test_tokens_given_by_halves_or_of_another_type_name_the_remedy(self):
        tokens = numpy.arange(100, dtype="<u2")
        for name in ("pair", "bare"):
            tokens.tofile(os.path.join(self.folder, name + ".bin"))
        with open(os.path.join(self.folder, "pair.idx"), "wb") as index:
            index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, 100, 0, 0, 1))
        windows = {"tokens_per_sample": 10}
        for data, more, message in (
                ("bare.bin", windows, r"put it beside the tokens, or give record_type \(such as"),
                ("bare.bin", {"format": "tokens"}, "record_type .* and tokens_per_sample"),
                ("bare.bin", {**windows, "record_type": "float64", "record_shape": [3]},
                 "tokens have no record_shape"),
                ("bare", windows, "give .*/bare.bin, or a folder"),
                ("pair.idx", windows, "named by their file, .*/pair.bin"),
                ("pair.bin", {**windows, "record_type": "int32"}, "leave record_type out, or say"),
                ("pair.bin", {"tokens_per_sample": 101}, "give a smaller tokens_per_sample"),
                ("pair.bin", {"batch_size": 2}, "is read as bytes: tokens_per_sample, or format")):
            with self.subTest(data=data, more=more):
                with self.assertRaisesRegex(fb.Error, message):
                    self.open(os.path.join(self.folder, data), **{"batch_size": 1, **more})
        self.assertIn("is read as bytes",
                      str(self.open(os.path.join(self.folder, "pair.bin"), 1).explain()))
        batch = next(iter(self.open(os.path.join(self.folder, "pair.bin"), 2, **windows)))
        self.assertEqual(batch["tokens"].ravel().tolist(), list(range(20)))


class Ranks(unittest.TestCase):
    def test_launchers_are_known_by_their_variables(self):
        find = forebay.launch.find_rank
        self.assertEqual(find({})[:2], (0, 1))
        self.assertEqual(find({"RANK": "3", "WORLD_SIZE": "8"})[:2], (3, 8))
        self.assertEqual(find({"SLURM_PROCID": "1", "SLURM_NTASKS": "4"})[:2], (1, 4))
        self.assertEqual(find({"SLURM_PROCID": "1", "SLURM_NTASKS": "9",
                               "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "0"})[:2], (1, 4))
        # torchrun inside a Slurm job: its own counts.
        self.assertEqual(find({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0",
                               "SLURM_NTASKS": "2"})[:2], (3, 8))
        self.assertIn("srun", find({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"})[2])

    def test_what_launchers_never_say_is_refused_by_name_or_told(self):
        find = forebay.launch.find_rank
        for rank in ("x", "-1", "1.0", "+1", "1_0", "0x1", "\u00b2", "\u0663", "9" * 5000):
            with self.assertRaisesRegex(fb.ConfigError, "RANK is '"):
                find({"RANK": rank, "WORLD_SIZE": "8"})
        for rank, world in (("8", "8"), ("0", "0")):
            with self.assertRaisesRegex(fb.ConfigError, "environment.*WORLD_SIZE of torchrun"):
                find({"RANK": rank, "WORLD_SIZE": world})
            with self.assertRaisesRegex(fb.ConfigError, "environment.*SLURM_NTASKS"):
                find({"SLURM_PROCID": rank, "SLURM_NTASKS": world})
        for one, other in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):
            self.assertEqual(find({one: "4"}), (0, 1, f"{one} without {other} says nothing"))

    def test_it_is_printed_once_and_can_be_silenced(self):
        text = """
            from forebay.launch import rank_of_process
            print(rank_of_process(None, None), rank_of_process(None, None), rank_of_process(0, 1))
        """
        launched = {"RANK": "1", "WORLD_SIZE": "2"}
        code, out, err = run_program(text, environment=launched)
        self.assertEqual((code, out.strip()), (0, "(1, 2) (1, 2) (0, 1)"))
        self.assertEqual(err, "forebay: rank 1 of 2 (from RANK and WORLD_SIZE of torchrun)\n")
        self.assertEqual(run_program(text, environment={**launched, "FOREBAY_QUIET": "1"})[2], "")


class Errors(DataTest):
    def test_each_says_file_record_and_offset(self):
        path = os.path.join(self.folder, "b.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"a": 1}\n{"a": 2}\nno json\n{"a": 4}\n')
        for more in ({}, {"on_error": "skip", "errors_max": 0}):
            loader = self.open(path, ops=[fb.parse_json(["a"], types=["int64"])], **more)
            with self.assertRaises(fb.Error) as caught:
                list(loader)
            error = caught.exception
            self.assertEqual((error.file, error.record, error.offset), ("b.jsonl", 2, 18))

    def test_the_place_is_right_though_many_records_are_bad_in_the_same_words(self):
        path = os.path.join(self.folder, "many.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"a": 1}\nno json!\n' * 300)  # 9 bytes each
        parse = fb.parse_json(["a"], types=["int64"])
        for errors_max, record in ((0, 1), (7, 15), (150, 301)):
            loader = self.open(path, 10, ops=[parse], on_error="skip", errors_max=errors_max)
            with self.assertRaises(fb.ResourceExhausted) as caught:
                list(loader)
            error = caught.exception
            self.assertEqual((error.record, error.offset), (record, 9 * record), error)

    def test_those_of_the_first_sample_say_it_when_the_loader_opens(self):
        path = os.path.join(self.folder, "b.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("no json\n" * 4 + '{"a": 1}\n' * 20)
        parse = fb.parse_json(["a"], types=["int64"])
        self.assertEqual(len(list(self.open(path, ops=[parse], on_error="skip"))), 5)
        with open(path, "w", encoding="utf-8") as file:
            file.write("no json\n" * 40)
        for data, more, place in (
                (path, {"ops": [parse]}, ("b.jsonl", 0, 0)),
                # Unlike shapes: of the first sample that is unlike the one before.
                ([self.arrays(1), self.arrays(3, shape=(2, 2))], {"on_error": "skip"},
                 ("arrays-3/img_00000.npy", 0, None))):
            with self.assertRaises(fb.Error) as caught:
                self.open(data, **more)
            error = caught.exception
            self.assertEqual((error.file, error.record, error.offset), place, error)

    def test_a_wrong_request_has_no_place(self):
        for wrong in (lambda: self.open(self.arrays(), ops=[fb.flip(1.5)]),
                      lambda: self.open(self.arrays(), memory="1 MB"),
                      lambda: self.open(self.arrays(), batch_size=-1)):
            with self.assertRaises(fb.Error) as caught:
                wrong()
            error = caught.exception
            self.assertEqual((error.file, error.record, error.offset), (None, None, None), error)

    def test_they_are_also_what_python_calls_them_and_can_be_pickled(self):
        for kind, also in ((fb.ConfigError, ValueError), (fb.NotFound, FileNotFoundError),
                           (fb.DataError, ValueError), (fb.StorageError, OSError),
                           (fb.Unsupported, NotImplementedError), (fb.Closed, fb.Error),
                           (fb.ResourceExhausted, fb.Error)):
            error = pickle.loads(pickle.dumps(kind("a.npy: record 3: bad", "a.npy", None, 3)))
            self.assertIsInstance(error, (fb.Error))
            self.assertIsInstance(error, also)
            self.assertEqual((str(error), error.record), ("a.npy: record 3: bad", 3))

    def test_a_damaged_file_is_named(self):
        folder = self.arrays(8)
        path = os.path.join(folder, "img_00005.npy")
        with open(path, "r+b") as file:
            file.truncate(100)
        loader = self.open(folder)
        with self.assertRaises(fb.DataError) as caught:
            list(loader)
        self.assertEqual(os.path.basename(caught.exception.file), "img_00005.npy")
        with self.assertRaisesRegex(fb.DataError, "ended by an earlier error: .*img_00005.npy"):
            list(loader)

    def test_an_error_that_ends_the_loader_is_raised_once_in_a_loop(self):
        folder = self.arrays(8)
        with open(os.path.join(folder, "img_00005.npy"), "r+b") as file:
            file.truncate(100)
        loader = self.open(folder)
        loop = iter(loader)
        with self.assertRaises(fb.DataError) as caught:
            for _ in loop:
                pass
        self.assertNotIn("earlier", str(caught.exception))
        self.assertEqual(list(loop), [], "as of a generator that has raised")
        for _ in range(2):
            self.assertRaisesRegex(fb.DataError, "ended by an earlier error", next, loader)

    def test_bad_records_may_be_skipped_or_replaced_and_are_listed(self):
        folder = self.arrays(8)
        with open(os.path.join(folder, "img_00005.npy"), "r+b") as file:
            file.truncate(100)
        for policy, sizes in (("skip", [4, 3]), ("replace", [4, 4])):
            loader = self.open(folder, on_error=policy)
            self.assertEqual([len(values(batch)) for batch in loader], sizes)
            stats = loader.stats()
            # The next epoch is read ahead, and meets it again.
            self.assertIn(stats["bad_records"], (1, 2))
            self.assertIn("img_00005.npy", stats["bad"][0])
        with self.assertRaises(fb.ResourceExhausted):
            list(self.open(folder, on_error="skip", errors_max=0))

    def test_the_allowance_is_over_the_life_and_a_record_is_listed_once(self):
        folder = self.arrays(8)
        with open(os.path.join(folder, "img_00005.npy"), "r+b") as file:
            file.truncate(100)
        loader = self.open(folder, on_error="skip", errors_max=2)
        for count in (1, 2):
            self.assertEqual(len(epoch(loader)), 7)
            self.assertEqual(loader.stats()["bad_records"], count)
            self.assertEqual(len(loader.stats()["bad"]), 1)
        with self.assertRaisesRegex(fb.ResourceExhausted, "more than 2 bad records"):
            list(loader)
        self.assertEqual(len(loader.stats()["bad"]), 1)

    def test_what_is_not_there_is_not_found(self):
        self.assertRaises(FileNotFoundError, self.open, os.path.join(self.folder, "none"))
        os.mkdir(os.path.join(self.folder, "empty"))
        self.assertRaises(fb.NotFound, self.open, os.path.join(self.folder, "empty"))

    def test_a_damaged_record_is_named_though_it_holds_no_text(self):
        """What a message quotes of a file need not be UTF-8."""
        folder = self.arrays(8)
        path = os.path.join(folder, "img_00005.npy")
        with open(path, "r+b") as file:
            file.seek(12)
            file.write(b"\xff")
        with self.assertRaises(fb.Error) as caught:
            list(self.open(folder))
        self.assertIn("img_00005.npy", str(caught.exception))
        loader = self.open(folder, on_error="skip")
        self.assertEqual([len(values(batch)) for batch in loader], [4, 3])
        self.assertIn("img_00005.npy", loader.stats()["bad"][0])
        str(caught.exception).encode()  # and may be printed

    def test_paths_that_are_no_text_are_given_and_come_back_as_python_has_them(self):
        folder = os.path.join(os.fsencode(self.folder), b"\xff-data")
        for name in (b"a", b"b\xfe"):
            os.makedirs(os.path.join(folder, name))
            numpy.save(os.fsdecode(os.path.join(folder, name, b"x.npy")), numpy.zeros(3))
        for given in (folder, os.fsdecode(folder)):
            loader = self.open(given, 1)
            self.assertEqual([os.fsencode(name) for name in loader.class_names], [b"a", b"b\xfe"])
            self.assertEqual(len(list(loader)), 2)
            self.assertIn("loader", repr(loader).lower())

    def test_a_loader_is_not_copied_or_pickled(self):
        # A copy would share the threads, and count its batches by itself.
        loader = self.open(self.arrays(4))
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "make it in the process"):
                make(loader)

    def test_a_closed_loader_says_so(self):
        with self.open(self.arrays()) as loader:
            iterator = iter(loader)
            next(iterator)
        for use in (lambda: next(iterator), loader.stats, loader.state_dict, lambda: len(loader),
                    loader.explain):
            self.assertRaises(fb.Closed, use)
        loader.close()
        self.assertIn("closed", repr(loader))


class Package(unittest.TestCase):
    # In time of the processor: other tests run beside this one.
    def test_importing_is_quick_and_brings_nothing_else(self):
        text = """
            import sys, time
            begin = time.process_time()
            import forebay
            forebay.mark
            seconds = time.process_time() - begin
            assert "numpy" not in sys.modules and "forebay._native" not in sys.modules
            print(seconds)
        """
        self.assertLess(min(float(run_program(text)[1]) for _ in range(5)), 0.1)

    def test_numpy_is_loaded_with_a_loader_not_within_its_loop(self):
        text = """
            import sys, forebay
            forebay.Loader
            assert "numpy" not in sys.modules
            loader = forebay.Loader(sys.argv[1], rank=0, world_size=1)
            print("numpy" in sys.modules)
        """
        with tempfile.TemporaryDirectory() as folder:
            answer = run_program(text, write_arrays(folder, 2))
        self.assertEqual(answer[1], "True\n", answer[2])

    def test_the_loader_too_is_there_quickly(self):
        text = """
            import numpy, time
            begin = time.process_time()
            import forebay
            forebay.Loader
            print(time.process_time() - begin)
        """
        self.assertLess(min(float(run_program(text)[1]) for _ in range(5)), 0.1)

    def test_marks_work_without_the_binary_part(self):
        environment = {"PYTHONPATH": os.path.join(SOURCE, "python"),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        text = "import forebay\nwith forebay.mark('step'): pass\nprint(forebay.mark.steps)"
        answer = subprocess.run([sys.executable, "-S", "-c", text], capture_output=True, text=True,
                                env=environment, timeout=60)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        text = "import forebay\ntry: forebay.Loader\nexcept ImportError as error: print(error)"
        answer = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                                env=environment, timeout=60)
        self.assertIn("pip install", answer.stdout + answer.stderr)

    def test_a_mark_that_is_not_used_warns(self):
        environment = {"PYTHONPATH": os.path.join(SOURCE, "python"),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        used = ("with forebay.mark('a'): pass", "forebay.mark('a').now()",
                "@forebay.mark('a')\ndef f(): pass", "list(forebay.mark.steps([1, 2]))")
        for text, warns in [("forebay.mark('a')", True), *((text, False) for text in used)]:
            answer = subprocess.run([sys.executable, "-c", "import forebay\n" + text],
                                    capture_output=True, text=True, env=environment, timeout=60)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual("forebay.mark('a').now()" in answer.stderr, warns, answer.stderr)

    def test_documents_name_what_there_is(self):
        for page in ("docs/python.md", "docs/migrate-from-dataloader.md", "README.md"):
            with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
                for name in set(re.findall(r"\bfb\.(\w+)", file.read())):
                    self.assertTrue(hasattr(fb, name), f"{page}: fb.{name}")

    def test_every_name_is_there(self):
        for name in fb.__all__:
            self.assertIsNotNone(getattr(fb, name))
        self.assertTrue(set(fb.__all__) <= set(dir(fb)))
        self.assertRaises(AttributeError, getattr, fb, "no_such_name")

    def test_every_file_says_the_same_version(self):
        root = os.path.join(os.path.dirname(__file__), "..", "..")
        for name, pattern in (("CMakeLists.txt", r"project\(forebay VERSION ([0-9.]+)"),
                              ("pyproject.toml", r'^version = "([0-9.]+)"'),
                              ("python/pyproject.toml", r'^version = "([0-9.]+)"')):
            with open(os.path.join(root, name), encoding="utf-8") as file:
                found = re.search(pattern, file.read(), re.MULTILINE)
            self.assertEqual(found.group(1), fb.__version__, name)


if __name__ == "__main__":
    unittest.main()
