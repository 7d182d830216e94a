"""Selection and suppression of boxes, one box after the other."""

import numpy as np
import pytest

from glenside.errors import ModelError
from tests.frontends.relay.test_detectors import overlap


def boxes_of(count, seed=0):
    rng = np.random.default_rng(seed)
    corner = rng.random((2, count, 2))
    rows = [rng.integers(-1, 2, (2, count, 1)), rng.uniform(-0.2, 1, (2, count, 1)), corner,
            corner + rng.uniform(0.4, 0.9, (2, count, 2))]  # fmt: skip
    return np.concatenate(rows, 2).astype("float32")


def test_get_valid_counts(check):
    x = boxes_of(7)
    rows, places = np.full(x.shape, -1, "float32"), np.full((2, 7), -1, "int32")
    counts = np.zeros(2, "int32")
    for b, i in np.ndindex(2, 7):
        if x[b, i, 1] > 0.3 and x[b, i, 0] >= 0:
            rows[b, counts[b]], places[b, counts[b]] = x[b, i], i
            counts[b] += 1
    assert 0 < counts.min() < 7
    check("vision.get_valid_counts(%x, 0.3f)", counts, rows, places, x=x)
    check("vision.get_valid_counts(%x, score_threshold=0.3f)", counts, rows, places, x=x)


def suppressed(x, counts, threshold, top_k, most, any_class):
    """Rows in order, the dropped ones -1, and where the others stood."""
    out, kept_at = np.full(x.shape, -1, "float32"), []
    for b, count in enumerate(counts):
        order = np.argsort(-x[b, :count, 1], kind="stable")[: top_k if top_k > 0 else None]
        kept, places, positive = [], [], 0
        for at, i in enumerate(order):
            row = x[b, i]
            if positive == most:
                continue
            if row[1] > 0:
                rivals = [
                    k for k in kept if k[1] > 0 and k[0] >= 0 and (any_class or k[0] == row[0])
                ]
                if any(overlap(k[2:], row[2:]) >= threshold for k in rivals):
                    continue
                positive += 1
            kept.append(row)
            places.append(i)
            out[b, at] = row
        kept_at.append(places)
    return out, kept_at


@pytest.mark.parametrize(
    ("attributes", "top_k", "most", "any_class"),
    [
        ("", -1, -1, False),
        ("top_k=5, ", 5, -1, False),
        ("force_suppress=True, ", -1, -1, True),
        ("", -1, 3, False),
    ],
)
def test_non_max_suppression(check, attributes, top_k, most, any_class):
    x, counts = boxes_of(9, seed=3), np.array([9, 6], "int32")
    i = np.broadcast_to(np.arange(9, dtype="int32") * 10, (2, 9)).copy()
    wanted, places = suppressed(x, counts, 0.2, top_k, most, any_class)
    assert any(len(each) < 6 for each in places)
    call = f"vision.non_max_suppression(%x, %c, %i, {most}, 0.2f, {attributes}"
    check(call + "return_indices=False)", wanted, x=x, c=counts, i=i)
    numbers = np.full((2, 9), -1, "int32")
    for b, each in enumerate(places):
        numbers[b, : len(each)] = np.array(each) * 10
    totals = np.array([[len(each)] for each in places], "int32")
    check(call + "return_indices=True)", numbers, totals, x=x, c=counts, i=i)
    moved = np.full_like(wanted, -1)
    for b in range(2):
        rows = wanted[b][wanted[b, :, 0] >= 0]
        moved[b, : len(rows)] = rows
    body = call + "return_indices=False, invalid_to_bottom=True)"
    check(body, moved, x=x, c=counts, i=i)


def test_all_class_non_max_suppression(check):
    x = boxes_of(6, seed=5)[..., 2:]
    scores = np.random.default_rng(2).random((2, 3, 6)).astype("float32")
    rows = []
    for b, c in np.ndindex(2, 3):
        kept = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            close = any(overlap(x[b, k], x[b, i]) >= 0.3 for k in kept)
            if scores[b, c, i] > 0.25 and not close and len(kept) < 2:
                kept.append(i)
        rows += [[b, c, i] for i in kept]
    wanted = np.zeros((36, 3), "int64")
    wanted[: len(rows)] = rows
    call = "vision.all_class_non_max_suppression(%x, %s, 2, 0.3f, 0.25f)"
    check(call, wanted, np.array([len(rows)]), x=x, s=scores)


def test_too_many_boxes_name_what_bounds_them(check):
    x = np.zeros((1, 1100, 6), "float32")
    i = np.zeros((1, 1100), "int32")
    with pytest.raises(ModelError, match=r"1100 boxes are too many .* top_k bounds them"):
        check("vision.non_max_suppression(%x, %c, %i)", x=x, c=np.array([3], "int32"), i=i)
