"""Ctrl-C is held back inside a step and acts between steps."""

import os
import signal
import threading

import pytest

from glenside.interrupt import between_steps


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
