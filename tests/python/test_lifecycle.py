"""What must not hang or leak: Ctrl-C, the end of the interpreter, fork, threads, many loaders.

A slow store makes loops wait at a known place; each program is a child, with a limit of time.
"""

import gc
import inspect
import os
import signal
import socket
import threading
import time
import unittest

import forebay as fb
from support import QUICK, DataTest, count_files, count_threads, memory_bytes, run_program

HEAD = """
import os, signal, sys, threading, time
import forebay as fb
MORE = {}
def open_loader(**more): return fb.Loader(sys.argv[1], **{**QUICK, **more})
def open_slow(): return open_loader(storage="slow:latency=30s,over=local")
""".replace("QUICK", repr(QUICK)) + inspect.getsource(count_threads)


class Interrupts(DataTest):
    def interrupt(self, program, expected=-signal.SIGINT, after=0.3):
        """Starts it, sends Ctrl-C once it says "ready"; how long it took to end, what it said."""
        child = run_program(HEAD + program, self.arrays(), wait=False)
        self.assertEqual(child.stdout.readline(), "ready\n", child.stderr.read
                         if child.poll() is not None else "")
        time.sleep(after)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        try:
            out, err = child.communicate(timeout=20)
        except Exception:
            child.kill()
            child.communicate()
            raise AssertionError("Ctrl-C does not end it")
        self.assertEqual(child.returncode, expected, err)
        return time.monotonic() - begin, out, err

    def test_ctrl_c_ends_a_wait_for_a_batch(self):
        seconds, _, err = self.interrupt("""
loader = open_loader(storage="slow:latency=2s,over=local")
print("ready", flush=True)
for batch in loader: pass
""")
        self.assertIn("KeyboardInterrupt", err)
        self.assertLess(seconds, 8)

    def test_ctrl_c_is_seen_within_a_moment_and_the_loop_can_go_on(self):
        _, out, _ = self.interrupt("""
loader = open_loader(storage="slow:latency=1500ms,over=local", batch_size=2)
iterator = iter(loader)
print("ready", flush=True)
begin = time.monotonic()
try:
    next(iterator)
except KeyboardInterrupt:
    print("seen after", time.monotonic() - begin)
print(next(iterator)["__key__"])
loader.close()
""", expected=0)
        self.assertLess(float(out.split("seen after ")[1].split()[0]), 1.2)
        self.assertIn("['img_00000", out)

    def test_ctrl_c_ends_a_long_listing(self):
        _, _, err = self.interrupt("""
print("ready", flush=True)
open_loader(storage="slow:latency=1s,over=local", samples_per_file=0)
""")
        self.assertIn("KeyboardInterrupt", err)

    def ends_opening_at_once(self, arguments, **more):
        _, out, _ = self.interrupt(f"""
signal.signal(signal.SIGINT, lambda *_: globals().update(begin=time.monotonic())
              or signal.default_int_handler(*_))
threads = count_threads()
print("ready", flush=True)
try:
    {arguments}
except KeyboardInterrupt:
    print("seen after", time.monotonic() - begin)
print("left", count_threads() - threads)
""", expected=0, **more)
        self.assertLess(float(out.split("seen after ")[1].split()[0]), 0.5)
        self.assertIn("left 0", out)

    def test_ctrl_c_ends_the_waits_of_opening(self):
        # One operation each of listing, looking for samples, and reading the first.
        for after in (0.3, 1.2, 2.0, 2.8):
            with self.subTest(after=after):
                self.ends_opening_at_once(
                    'open_loader(storage="slow:latency=800ms", samples_per_file=1)\n'
                    '    open_loader(storage="slow:latency=60s")', after=after)

    def test_ctrl_c_ends_the_wait_for_a_server_that_never_answers(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
            self.ends_opening_at_once(
                f'fb.Loader("s3://bucket/data", storage="s3:endpoint={endpoint},anonymous=true")')

    def test_closing_does_not_wait_for_reads_that_are_under_way(self):
        code, out, err = run_program(HEAD + """
loader = open_loader(storage="slow:latency=1500ms,over=local")
next(loader)
begin = time.monotonic()
loader.close()
print(time.monotonic() - begin)
""", self.arrays())
        self.assertEqual(code, 0, err)
        self.assertLess(float(out), 0.7)

    def test_a_handler_of_ones_own_runs_during_a_wait(self):
        child = run_program(HEAD + """
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic() - begin))
loader = open_loader(storage="slow:latency=1s,over=local")
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
begin = time.monotonic()
next(iter(loader))
print(seen[0])
""", self.arrays())
        self.assertEqual(child[0], 0, child[2])
        self.assertLess(float(child[1]), 0.7)


class Ends(DataTest):
    def ends_well(self, program, code=0, **more):
        begin = time.monotonic()
        answer = run_program(HEAD + program, self.arrays(), timeout=40, **more)
        self.assertEqual(answer[0], code, answer[2])
        self.assertNotIn("terminate", answer[2])
        self.assertLess(time.monotonic() - begin, 30)
        return answer

    def test_the_interpreter_ends_with_loaders_alive(self):
        self.ends_well("""
kept = [open_loader() for _ in range(5)]
iterators = [iter(loader) for loader in kept]
batches = [next(iterator) for iterator in iterators]
""")

    def test_it_ends_while_a_loader_waits_for_a_batch(self):
        self.ends_well("""
loader = open_loader(storage="slow:latency=1s,over=local")
threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()
time.sleep(0.3)
""")

    def test_an_exception_in_the_loop_ends_the_program(self):
        answer = self.ends_well("""
for batch in open_loader():
    raise RuntimeError("mine")
""", code=1)
        self.assertIn("mine", answer[2])

    def test_arrays_are_used_after_everything_else_is_gone(self):
        self.ends_well("""
import atexit
loader = open_loader()
batch = next(iter(loader))
array = next(iter(batch.values()))
atexit.register(lambda: print(array.sum()))
del loader
""")

    def test_loaders_in_reference_cycles_end(self):
        self.ends_well("""
class Trainer: pass
for _ in range(5):
    trainer = Trainer()
    trainer.loader = open_loader()
    trainer.iterator = iter(trainer.loader)
    trainer.self = trainer
    next(trainer.iterator)
""")

    def test_sys_exit_in_a_handler_of_sigterm(self):
        self.ends_well("""
loader = open_loader(storage="slow:latency=1s,over=local")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
for batch in loader: pass
""", code=7)


class Forks(DataTest):
    def test_a_child_is_told_and_the_parent_goes_on(self):
        answer = run_program(HEAD + """
loader = open_loader()
iterator = iter(loader)
batch = next(iterator)
child = os.fork()
if child == 0:
    for use in (lambda: next(iterator), loader.state_dict, loader.stats, lambda: len(loader)):
        try:
            use()
            os._exit(3)
        except fb.Unsupported as error:
            assert "fork" in str(error), error
    loader.close()
    own = open_loader()
    assert len(list(own)) == 10
    sys.exit(0)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), 1 + len(list(iterator)))
""", self.arrays())
        self.assertEqual(answer[:2], (0, "0 10\n"), answer[2])

    def test_children_forked_at_any_moment_end(self):
        # Engine threads hold their locks now and then; a child that touches one would hang.
        answer = run_program(HEAD + """
loader = open_loader(batch_size=1)
codes = []
for turn in range(40):
    batch = next(loader, None)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a child that hangs ends with a code of its own
        del batch, loader
        import gc
        gc.collect()
        sys.exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(set(codes))
""", self.arrays(), timeout=300)
        self.assertEqual(answer[:2], (0, "{0}\n"), answer[2])

    def test_workers_of_multiprocessing_run_beside_a_loader(self):
        answer = run_program(HEAD + """
import multiprocessing
loader = open_loader()
next(iter(loader))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, range(-3, 0)), len(list(loader)))
""", self.arrays())
        self.assertEqual(answer[:2], (0, "[3, 2, 1] 10\n"), answer[2])


class Threads(DataTest):
    def test_several_share_a_loader_and_get_each_batch_once(self):
        loader = self.open(self.arrays(200), batch_size=2)
        keys, failures = [], []

        def work():
            try:
                while True:
                    keys.extend(next(loader)["__key__"])
            except StopIteration:
                pass
            except Exception as error:  # shown below
                failures.append(error)

        # Each thread may see the end; what the next epoch gave by then is not of interest.
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
            thread.join(0)
        for thread in threads:
            thread.join(30)
        self.assertFalse(any(thread.is_alive() for thread in threads))
        self.assertEqual(failures, [])
        self.assertEqual(len(set(keys[:200])), len(keys[:200]))

    def test_closing_ends_a_wait_in_another_thread(self):
        loader = self.open(self.arrays(), storage="slow:latency=2s,over=local")
        seen = []

        def work():
            try:
                next(loader)
            except fb.Closed as error:
                seen.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.2)
        loader.close()
        thread.join(10)
        self.assertFalse(thread.is_alive())
        self.assertEqual(len(seen), 1)

    def test_figures_are_told_while_another_thread_waits(self):
        loader = self.open(self.arrays(), storage="slow:latency=1s,over=local")
        thread = threading.Thread(target=lambda: next(loader))
        thread.start()
        time.sleep(0.2)
        begin = time.monotonic()
        loader.stats()
        self.assertLess(time.monotonic() - begin, 0.5)
        thread.join(20)


class Leaks(DataTest):
    def settle(self):
        gc.collect()
        return count_threads(), count_files()

    def test_loaders_made_and_dropped_leave_nothing(self):
        folder = self.arrays(60)

        def one(turn):
            loader = fb.Loader(folder, **QUICK)
            iterator = iter(loader)
            for _ in range(turn % 5):
                next(iterator)
            if turn % 3 == 0:
                loader.close()

        for turn in range(20):
            one(turn)
        before, memory = self.settle(), memory_bytes()
        for turn in range(150):
            one(turn)
        self.assertEqual(self.settle(), before)
        self.assertLess(memory_bytes() - memory, 8 << 20)

    def test_loaders_that_fail_to_open_leave_nothing(self):
        folder = self.arrays(4)
        before = None
        for turn in range(30):
            for wrong in (dict(batch_size=0), dict(storage="urng"), dict(rank=2)):
                try:
                    fb.Loader(folder, **{**QUICK, **wrong})
                except fb.Error:
                    pass
            if turn == 5:
                before = self.settle()
        self.assertEqual(self.settle(), before)

    def test_long_loops_keep_their_memory(self):
        loader = self.open(self.arrays(60, shape=(64, 64, 3)))
        for _ in range(10):
            list(loader)
        memory = memory_bytes()
        for _ in range(60):
            for batch in loader:
                pass
        self.assertLess(memory_bytes() - memory, 8 << 20)

    def test_a_dropped_loader_frees_what_only_it_held(self):
        loader = self.open(self.arrays())
        batch = next(iter(loader))
        threads = count_threads()
        loader.close()
        self.assertLess(count_threads(), threads)
        self.assertEqual(int(next(iter(batch.values()))[3].flat[0]), 3)


if __name__ == "__main__":
    unittest.main()
