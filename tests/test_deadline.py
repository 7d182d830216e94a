"""A limit of time, told by a clock of the tests' own."""

import math

import pytest

from glenside.deadline import Deadline, TimeIsUp, check_time, time_left, within


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_it_counts_down_and_shares_what_is_left():
    clock = Clock()
    deadline = Deadline(10.0, clock)
    assert deadline.left() == 10.0
    clock.now += 4
    assert (deadline.left(), deadline.share(0.5).left()) == (6.0, 3.0)
    clock.now += 8
    assert (deadline.left(), deadline.share(0.5).left()) == (-2.0, 0.0)


def test_without_a_limit_there_is_no_end():
    assert Deadline(None).left() == Deadline(None).share(0.1).left() == math.inf
    with within(Deadline(None)):
        check_time()


def test_what_is_late_raises():
    clock = Clock()
    with within(Deadline(1.0, clock)):
        clock.now += 1
        check_time()
        clock.now += 1
        with pytest.raises(TimeIsUp):
            check_time()
    check_time()


def test_the_earlier_of_two_holds():
    clock = Clock()
    with within(Deadline(5.0, clock)):
        with within(Deadline(9.0, clock)):
            assert time_left() == 5.0
        with within(Deadline(2.0, clock)):
            assert time_left() == 2.0
        assert time_left() == 5.0
    assert time_left() == math.inf
