"""Ctrl-C is held back inside a step and acts between steps."""

import os
import signal
import threading
import time

import pytest

from glenside import interrupt
from glenside.deadline import Deadline, TimeIsUp, within
from glenside.interrupt import between_steps, in_background, left_behind


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def default_handler():
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_it_acts_at_the_next_check():
    reached = []
    with pytest.raises(KeyboardInterrupt), between_steps() as check:
        press_ctrl_c()
        reached.append("the step is finished")
        check()
        reached.append("the next step began")
    assert reached == ["the step is finished"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_acts_at_the_end_when_nothing_checks():
    with pytest.raises(KeyboardInterrupt), between_steps():
        press_ctrl_c()


def test_a_second_one_acts_at_once():
    reached = []
    with pytest.raises(KeyboardInterrupt), between_steps():
        press_ctrl_c()
        press_ctrl_c()
        reached.append("after the second")
    assert reached == []


def test_without_one_nothing_happens():
    with between_steps() as check:
        check()


def test_an_error_in_the_body_is_not_replaced():
    with pytest.raises(ValueError, match="mine"), between_steps():
        press_ctrl_c()
        raise ValueError("mine")


def test_another_handler_is_left_in_place():
    pressed = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    with between_steps() as check:
        press_ctrl_c()
        check()
    assert pressed == [signal.SIGINT]


def test_other_threads_are_left_alone():
    failures = []

    def work():
        try:
            with between_steps() as check:
                check()
        except Exception as problem:
            failures.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []


# --- long calls of foreign libraries --------------------------------------------------------------


@pytest.fixture
def long_call():
    """A call that only ends when the test does; it presses Ctrl-C where it is asked to."""
    over = threading.Event()

    def call(press=False):
        if press:
            press_ctrl_c()
        over.wait()

    yield call
    over.set()
    while left_behind():
        time.sleep(0.01)


def test_a_call_gives_its_result_and_raises_its_errors():
    assert in_background(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        in_background(divmod, 7, 0)
    assert not left_behind()


def test_ctrl_c_ends_the_wait_for_a_call(long_call):
    with pytest.raises(KeyboardInterrupt):
        in_background(long_call, True)
    assert left_behind()


def test_one_that_is_held_back_does_after_a_grace(long_call, monkeypatch):
    monkeypatch.setattr(interrupt, "_GRACE", 0.1)
    with pytest.raises(KeyboardInterrupt), between_steps():
        in_background(long_call, True)


def test_a_call_that_ends_within_the_grace_is_not_left():
    reached = []
    with pytest.raises(KeyboardInterrupt), between_steps() as check:
        in_background(press_ctrl_c)
        reached.append("the call is over")
        check()
        reached.append("the next step")
    assert reached == ["the call is over"]
    assert not left_behind()


def test_the_end_of_the_time_ends_the_wait_too(long_call):
    with pytest.raises(TimeIsUp), within(Deadline(-10.0)):
        in_background(long_call)


def test_other_threads_call_as_they_are():
    names = []
    thread = threading.Thread(
        target=lambda: names.append(in_background(lambda: threading.current_thread().name)),
        name="another",
    )
    thread.start()
    thread.join()
    assert names == ["another"]
