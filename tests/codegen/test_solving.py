"""Searches give the same answers, and end with the time or with Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest
from ortools.sat.python import cp_model

from glenside.codegen.solving import solve, solver
from glenside.deadline import Deadline, TimeIsUp, within
from glenside.interrupt import between_steps, left_behind


def pigeons(count: int) -> Any:
    """``count`` numbers that must all differ, and one value too few for them: a long proof."""
    model = cp_model.CpModel()
    sits = [[model.new_bool_var("") for _ in range(count - 1)] for _ in range(count)]
    for row in sits:
        model.add_bool_or(row)
    for hole in zip(*sits, strict=True):
        for i, one in enumerate(hole):
            for other in hole[:i]:
                model.add_bool_or([one.negated(), other.negated()])
    return model


def endless() -> tuple[Any, Any]:
    """A solver that enumerates, and a model with 2**60 solutions."""
    model, searching = cp_model.CpModel(), solver(1e6)
    for _ in range(60):
        model.new_bool_var("")
    searching.parameters.enumerate_all_solutions = True
    return searching, model


def test_a_search_is_finished_within_its_budget():
    assert solve(solver(20.0), pigeons(4)) == cp_model.INFEASIBLE
    assert solve(solver(1e-4), pigeons(14)) == cp_model.UNKNOWN


def test_a_search_ends_with_the_time():
    with within(Deadline(-1.0)), pytest.raises(TimeIsUp):
        solve(solver(20.0), pigeons(4))
    with within(Deadline(0.05)), pytest.raises(TimeIsUp):
        solve(*endless())


def test_a_search_ends_with_ctrl_c():
    def press() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt), between_steps():
        solve(*endless())
    timer.join()
    for _ in range(600):  # The search was told to end: nobody waits for its budget.
        if not left_behind():
            break
        time.sleep(0.1)
    assert not left_behind()
