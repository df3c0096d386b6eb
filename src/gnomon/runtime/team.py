"""Threads that run one kernel together: what each takes, and how they wait for each other."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from gnomon.vectors.compiling import kernel
from gnomon.vectors.emitter import INT32, INT64, Emitter, cgutils, emits

_SPINS = 2000  # turns before a waiting thread offers its processor to others


@emits(types.void(types.int64, types.int64), lanes=1)
def wait(emit: Emitter, counter: Any, target: Any) -> None:
    """Add one to the int64 at the address `counter` and wait until it is `target`: threads wait for each other."""
    builder = emit.builder
    place = builder.inttoptr(counter, INT64.as_pointer())
    builder.atomic_rmw("add", place, ir.Constant(INT64, 1), "acq_rel")
    waiting, spin, over = (builder.append_basic_block(name) for name in ("waiting", "spin", "over"))
    spins = cgutils.alloca_once(builder, INT64)
    builder.store(ir.Constant(INT64, 0), spins)
    builder.branch(waiting)
    builder.position_at_end(waiting)
    met = builder.icmp_signed(">=", builder.load_atomic(place, "acquire", 8), target)
    builder.cbranch(met, over, spin)
    builder.position_at_end(spin)
    turns = builder.add(builder.load(spins), ir.Constant(INT64, 1))
    builder.store(turns, spins)
    emit.called("llvm.x86.sse2.pause", ir.VoidType())
    if os.name == "posix":
        with builder.if_then(builder.icmp_signed(">", turns, ir.Constant(INT64, _SPINS)), likely=False):
            emit.called("sched_yield", INT32)
    builder.branch(waiting)
    builder.position_at_end(over)


class Team(NamedTuple):
    """The threads of a call: which one this is, of how many, and the address of the int64 they count their meetings in,
    which is 0 before the call."""

    thread: int
    threads: int
    counter: int


@kernel
def share(total: Any, team: Any) -> Any:
    """The part of `total` things that is this thread's: first and last."""
    return total * team.thread // team.threads, total * (team.thread + 1) // team.threads


@kernel
def meet(team: Any, meetings: Any) -> Any:
    """Wait for the other threads; the number of meetings there were."""
    if team.threads > 1:
        wait(team.counter, (meetings + 1) * team.threads)
    return meetings + 1
