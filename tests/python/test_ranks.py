"""Ranks that are processes, as torchrun starts them: they save one state together, any number of
them restores it, and one that dies takes nothing with it but itself."""

import os
import signal
import socket
import tempfile
import unittest

import forebay
from forebay.checkpoint import Checkpointer

from support import run_program

SAVES = """
    import os, signal, sys
    import numpy
    import forebay
    from forebay.checkpoint import Checkpointer, Part
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    whole = numpy.arange(24 * 10, dtype=numpy.int64).reshape(24, 10)
    rows = 24 // size
    mine = whole[rank * rows:(rank + 1) * rows]
"""


class RanksTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="forebay-ranks-")
        self.addCleanup(self._folder.cleanup)
        self.place = os.path.join(self._folder.name, "checkpoints")

    def start(self, size, program):
        """(exit code, stdout, stderr) of each rank."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = min(free.getsockname()[1], 65000)
        launch = {"WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
                  "TORCHELASTIC_RUN_ID": self.place, "FOREBAY_QUIET": "1"}
        children = [run_program(SAVES + program, self.place, wait=False,
                                environment={**launch, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                    for rank in range(size)]
        results = []
        try:
            for child in children:
                out, err = child.communicate(timeout=120)
                results.append((child.returncode, out, err))
        finally:
            for child in children:
                child.kill()
                child.communicate()
        return results

    def test_four_ranks_save_and_three_restore(self):
        for code, _, err in self.start(4, """
    with Checkpointer([sys.argv[1], sys.argv[1] + "-far"]) as saver:
        state = {"w": Part(mine, whole.shape, (rank * rows, 0)), "same": numpy.ones(5), "epoch": 3}
        if rank:
            state["own"] = {str(rank): numpy.full(2, rank)}
        saver.save(7, state).wait_drained()
    with Checkpointer(sys.argv[1]) as saver:  # a second meeting of the same ranks
        assert saver.restore().step == 7
"""):
            self.assertEqual((code, err), (0, ""))
        for place in (self.place, self.place + "-far"):
            for code, _, err in self.start(3, f"""
    with Checkpointer({place!r}) as saver:
        restored = saver.restore(parts={{"w": ((rank * rows, 2), (rows, 5))}})
    assert restored.state["epoch"] == 3, restored.state
    assert numpy.array_equal(restored.state["w"], mine[:, 2:7]), restored.state
    assert numpy.array_equal(restored.state["same"], numpy.ones(5))
    assert sorted(restored.others) == ["own.1", "own.2", "own.3"], restored.others
    assert restored.others["own.2"].tolist() == [2, 2]
"""):
                self.assertEqual((code, err), (0, ""))
        with Checkpointer(self.place, rank=0, world_size=1) as saver:
            restored = saver.restore()
        self.assertEqual(restored.state["w"].reshape(-1).tolist(), list(range(240)))

    def test_a_rank_that_dies_is_named_and_the_checkpoint_before_stays(self):
        results = self.start(4, """
    saver = Checkpointer(sys.argv[1])
    saver.save(1, {"w": Part(mine, whole.shape, (rank * rows, 0))}).wait_durable()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        saver.save(2, {"w": Part(-mine, whole.shape, (rank * rows, 0))}).wait_durable()
        sys.exit("saved without rank 2")
    except forebay.Error as error:
        print(error)
""")
        for rank, (code, out, err) in enumerate(results):
            if rank == 2:
                self.assertEqual(code, -signal.SIGKILL)
                continue
            self.assertEqual((code, err), (0, ""))
            self.assertIn("rank 2 (127.0.0.1) is gone", out.replace("::1", "127.0.0.1"))
        with Checkpointer(self.place, rank=0, world_size=1) as saver:
            restored = saver.restore()
        self.assertEqual(restored.step, 1)
        self.assertEqual(restored.state["w"].reshape(-1).tolist(), list(range(240)))

    def test_ranks_that_cannot_find_each_other_are_told_what_to_set(self):
        with self.assertRaisesRegex(forebay.ConfigError, "MASTER_ADDR"):
            Checkpointer(self.place, rank=1, world_size=2)


if __name__ == "__main__":
    unittest.main()
