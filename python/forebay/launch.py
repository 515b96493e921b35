"""Which rank of how many this process is, as its launcher says in the environment."""

from __future__ import annotations

import os
import re
import sys
from typing import Mapping, Optional, Set, Tuple

from forebay.errors import ConfigError

_printed: Set[Tuple[int, int]] = set()


def _number(environment: Mapping[str, str], name: str) -> Optional[int]:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,10}", text):  # int() takes far more than launchers write
        raise ConfigError(f"the environment's {name} is {_shown(text)}, not a number; give rank "
                          "and world_size to the loader instead")
    return int(text)


def _shown(text: str) -> str:
    return repr(text) if len(text) < 40 else repr(text[:36]) + "..."


def _checked(rank: int, world: int, source: str) -> Tuple[int, int, str]:
    if rank >= world:
        raise ConfigError(f"the environment says rank {rank} of {world} ({source}), which cannot "
                          "be; give rank and world_size to the loader instead")
    return rank, world, source


def find_rank(environment: Mapping[str, str]) -> Tuple[int, int, str]:
    """(rank, world size, what said so): torchrun's variables, else those of Slurm's srun, else one
    process alone."""
    rank, world = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if rank is not None and world is not None:
        return _checked(rank, world, "from RANK and WORLD_SIZE of torchrun")
    half = ("" if rank is world else "RANK without WORLD_SIZE says nothing" if world is None
            else "WORLD_SIZE without RANK says nothing")
    rank = _number(environment, "SLURM_PROCID")
    step_tasks = _number(environment, "SLURM_STEP_NUM_TASKS")
    world = step_tasks if step_tasks is not None else _number(environment, "SLURM_NTASKS")
    if rank is not None and world is not None:
        name = "SLURM_NTASKS" if step_tasks is None else "SLURM_STEP_NUM_TASKS"
        hint = ""
        # The shell of sbatch and salloc has these as well, and the program may be alone in it.
        if "SLURM_STEP_ID" not in environment and world > 1:
            hint = "; not started by srun? then give rank=0, world_size=1"
        return _checked(rank, world, f"from SLURM_PROCID and {name} of Slurm{hint}")
    return 0, 1, half


def rank_of_process(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """What was given, else what the environment says: that is printed once, on stderr, unless
    FOREBAY_QUIET is set."""
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            given, other = ("rank", "world_size") if world_size is None else ("world_size", "rank")
            raise ConfigError(f"{given} without {other}: give both, or neither to take them from "
                              "the launcher's environment")
        return rank, world_size
    rank, world_size, source = find_rank(os.environ)
    if source and (rank, world_size) not in _printed and not os.environ.get("FOREBAY_QUIET"):
        _printed.add((rank, world_size))
        print(f"forebay: rank {rank} of {world_size} ({source})", file=sys.stderr, flush=True)
    return rank, world_size
