"""Searches for mappings by OR-tools CP-SAT: reproducible, and ended by Ctrl-C and by the clock."""

from __future__ import annotations

import math
from typing import Any

from glenside.deadline import check_time, time_left
from glenside.interrupt import in_background


def solver(budget: float) -> Any:
    """A ``CpSolver`` that gives the same answer every time.

    :param budget: in the solver's deterministic seconds.
    """
    from ortools.sat.python import cp_model

    made = cp_model.CpSolver()
    made.parameters.num_workers = 1
    made.parameters.max_deterministic_time = budget
    made.parameters.random_seed = 0
    # No linear programs: all that counts here is how fast solutions are propagated.
    made.parameters.linearization_level = 0
    # It would handle Ctrl-C itself, and end as if it had found all there is.
    made.parameters.catch_sigint_signal = False
    return made


def solve(searching: Any, model: Any, *callback: Any) -> Any:
    """The solver's status.

    :param callback: is told each solution.
    :raises TimeIsUp: the time for the present work was over before the search was.
    """
    check_time()
    if time_left() < math.inf:
        searching.parameters.max_time_in_seconds = time_left()
    try:
        status = in_background(searching.solve, model, *callback)
    except BaseException:
        searching.stop_search()  # Else Python would wait for it when it exits.
        raise
    check_time()
    return status
