"""Runs fuzz cases in processes of their own, so that none can harm the others.

A worker is a process that has imported everything; it forks once a case. The child has a limit on
memory and an alarm that ends it wherever it hangs. Each case is made from its number alone, which
names it: the same number is the same file, the same inputs, the same verdict.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import queue
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 20
"""Of processor time: a case that takes more hangs, for the files are small."""
PATIENCE = 6
"""So many times as long it may take by the clock, on a machine that does other things too."""
MEMORY = 3 * 2**30
"""Bytes of address space that a case may add to what the worker has."""


def fuzz(
    seed: int, count: int, workers: int = 1, compile_every: int = 50
) -> Iterator[dict[str, Any]]:
    """Runs cases ``seed`` to ``seed + count - 1``; gives for each, in whatever order they end,
    ``number``, ``word``, ``detail``, ``compiled``, ``origin`` and ``done``, what the mutations did.
    """
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.fuzz.runner", f"--first={seed + each}"),
                *(f"--count={len(range(each, count, workers))}", f"--step={workers}"),
                f"--compile-every={compile_every}",
            ],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        for each in range(min(workers, count))
    ]
    results: queue.SimpleQueue[dict[str, Any] | int] = queue.SimpleQueue()

    def collect(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            results.put(json.loads(line))
        results.put(process.wait())

    try:
        for process in started:
            threading.Thread(target=collect, args=[process], daemon=True).start()
        running = len(started)
        while running:
            result = results.get()
            if isinstance(result, dict):
                yield result
                continue
            running -= 1
            if result != 0:
                raise RuntimeError(f"a fuzz worker ended with {result}")
    finally:
        for process in started:
            process.kill()
            process.wait()


def make(number: int) -> tuple[str, bytes, list[str], random.Random]:
    """Case ``number``: the model it comes from, the file, what was done, and its random numbers."""
    from tests.fuzz.corpus import corpus
    from tests.fuzz.mutations import mutate

    rng = random.Random(number)
    groups = [*corpus().values()]
    (group,) = rng.choices(groups, (15, 75, 10))
    origin, data = rng.choice(group)
    changed, done = mutate(data, [data for _, data in groups[1]], rng)
    return origin, changed, done, rng


def work(first: int, count: int, step: int, compile_every: int) -> None:
    """Runs cases and prints a line of JSON for each."""
    # Imported and warm before the first fork.
    import egglog  # noqa: F401
    import onnxruntime  # noqa: F401
    import tvm  # noqa: F401

    from tests.fuzz.judging import ANSWERED

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        for number in range(first, first + count * step, step):
            origin, data, done, rng = make(number)
            path.write_bytes(data)
            compiled = bool(compile_every) and number % compile_every == 0
            outcome = judge_apart(path, rng, compiled)
            result = {
                "number": number,
                "word": outcome.word,
                "detail": outcome.detail,
                "compiled": compiled and outcome.word in ANSWERED,
                "origin": origin,
                "done": done,
            }
            print(json.dumps(result), flush=True)


def judge_apart(path: Path, rng: random.Random, compiled: bool) -> Any:
    """The outcome of one case, judged in a fork of this process."""
    from tests.fuzz.judging import ALONE, CRASHED, HUNG, Outcome, judge

    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # onnxruntime starts a thread when it is imported, which sleeps.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _limit()

            def note(outcome: Outcome) -> None:
                line = json.dumps([outcome.word, outcome.detail[:2000]])
                os.write(writing, line.encode() + b"\n")
                _set_alarms()

            note(judge(path, rng, compiled, note))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and not lines:
        ended = signal.Signals(os.WTERMSIG(status))
        hung = ended in (signal.SIGALRM, signal.SIGPROF)
        return Outcome(HUNG if hung else CRASHED, ended.name)
    if not lines:
        return Outcome(CRASHED, f"no verdict, status {os.waitstatus_to_exitcode(status)}")
    word, detail = json.loads(lines[-1])
    if word == ALONE and os.WIFSIGNALED(status):
        detail = f"onnxruntime ends by {signal.Signals(os.WTERMSIG(status)).name}"
    return Outcome(word, detail)


def _set_alarms() -> None:
    """Both end the process, even inside code that Python does not see."""
    for each in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(each, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS * PATIENCE)


def _limit() -> None:
    faulthandler.disable()
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _set_alarms()
    # What compilers and runtimes print about a broken model is of no use here.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--compile-every", type=int, default=50)
    options = parser.parse_args()
    work(options.first, options.count, options.step, options.compile_every)
