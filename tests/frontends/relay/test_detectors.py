"""Detectors as TVM exported them, small but of true structure: imported, run right, offloaded."""

import numpy as np
import pytest

import glenside
from glenside.frontends.relay import import_relay
from glenside.language import evaluate
from tests.frontends.relay.conftest import draw


def conv(x, w, stride=1, pad=0):
    """By loops over the positions of the kernel."""
    k = w.shape[2]
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)]).astype("float64")
    high, wide = ((n - k) // stride + 1 for n in x.shape[2:])
    total = np.zeros((x.shape[0], w.shape[0], high, wide))
    for i, j in np.ndindex(k, k):
        look = x[:, :, i : i + high * stride : stride, j : j + wide * stride : stride]
        total += np.einsum("nchw,oc->nohw", look[:, :, :high, :wide], w[:, :, i, j])
    return total


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# --- YOLOv3: Darknet's residual blocks, a route through an upsampling, two heads ------------------

YOLO = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 3, 16, 16), float32], {weights}) {{
  %0 = nn.conv2d(%data, %w0, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %1 = nn.batch_norm(%0, %g0, %b0, %m0, %v0);
  %2 = nn.leaky_relu(%1.0, alpha=0.1f);
  %3 = nn.conv2d(%2, %w1, strides=[2, 2], padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %4 = nn.batch_norm(%3, %g1, %b1, %m1, %v1);
  %5 = nn.leaky_relu(%4.0, alpha=0.1f);
  %6 = nn.conv2d(%5, %w2, channels=4, kernel_size=[1, 1]);
  %7 = nn.leaky_relu(%6, alpha=0.1f);
  %8 = nn.conv2d(%7, %w3, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %9 = add(%5, nn.leaky_relu(%8, alpha=0.1f));
  %10 = nn.conv2d(%9, %w4, strides=[2, 2], padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %11 = nn.leaky_relu(%10, alpha=0.1f);
  %12 = nn.bias_add(nn.conv2d(%11, %w5, channels=14, kernel_size=[1, 1]), %bias5);
  %13 = nn.upsampling(%11, scale_h=2f, scale_w=2f);
  %14 = (%13, %9);
  %15 = concatenate(%14, axis=1);
  %16 = nn.bias_add(nn.conv2d(%15, %w6, channels=14, kernel_size=[1, 1]), %bias6);
  %17 = reshape(%12, newshape=[1, 2, 7, 4, 4]);
  %18 = split(%17, indices_or_sections=[2, 4], axis=2);
  %19 = (sigmoid(%18.0), %18.1, sigmoid(%18.2));
  %20 = reshape(concatenate(%19, axis=2), newshape=[1, 14, 4, 4]);
  %21 = reshape(%16, newshape=[1, 2, 7, 8, 8]);
  %22 = split(%21, indices_or_sections=[2, 4], axis=2);
  %23 = (sigmoid(%22.0), %22.1, sigmoid(%22.2));
  (%20, reshape(concatenate(%23, axis=2), newshape=[1, 14, 8, 8]))
}}"""
YOLO_SHAPES = {
    "w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "w2": (4, 8, 1, 1), "w3": (8, 4, 3, 3),
    "w4": (8, 8, 3, 3), "w5": (14, 8, 1, 1), "w6": (14, 16, 1, 1), "bias5": (14,), "bias6": (14,),
    **{f"{name}{i}": (8,) for i in (0, 1) for name in "gbmv"},
}  # fmt: skip


def parameters_of(shapes):
    return ", ".join(
        f"%{name}: Tensor[({', '.join(map(str, shape))}), float32]"
        for name, shape in shapes.items()
    )


def yolo_reference(x, p):
    def leaky(x):
        return np.where(x > 0, x, 0.1 * x)

    def normal(x, i):
        g, b, m, v = (p[f"{name}{i}"].astype("float64")[:, None, None] for name in "gbmv")
        return (x - m) / np.sqrt(v + 1e-5) * g + b

    def head(x, bias):
        n, c, h, w = x.shape
        boxes = (x + bias[:, None, None]).reshape(n, 2, 7, h, w)
        boxes[:, :, :2], boxes[:, :, 4:] = sigmoid(boxes[:, :, :2]), sigmoid(boxes[:, :, 4:])
        return boxes.reshape(n, c, h, w)

    first = leaky(normal(conv(x, p["w0"], 1, 1), 0))
    down = leaky(normal(conv(first, p["w1"], 2, 1), 1))
    inner = leaky(conv(down, p["w2"]))
    block = down + leaky(conv(inner, p["w3"], 1, 1))
    deep = leaky(conv(block, p["w4"], 2, 1))
    route = np.concatenate([deep.repeat(2, 2).repeat(2, 3), block], 1)
    return head(conv(deep, p["w5"]), p["bias5"]), head(conv(route, p["w6"]), p["bias6"])


@pytest.fixture(scope="module")
def yolo():
    arrays = {
        name: draw(*shape, seed=i) * np.float32(0.3 if name[0] == "w" else 1)
        for i, (name, shape) in enumerate(YOLO_SHAPES.items())
    }
    for name in ("v0", "v1"):
        arrays[name] = np.abs(arrays[name]) + np.float32(0.5)
    return YOLO.format(weights=parameters_of(YOLO_SHAPES)), arrays, draw(1, 3, 16, 16)


@pytest.mark.parametrize(("target", "calls"), [("vta", 7), ("systolic-array:4x4", 7)])
def test_yolo_runs_right_and_every_convolution_is_offloaded(yolo, target, calls):
    text, arrays, x = yolo
    program = glenside.optimize(text, target=target, params=arrays)
    assert sum(program.report.offloads.values()) == calls
    for got, wanted in zip(program(x), yolo_reference(x, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


# --- SSD: two feature maps, anchors, decoded boxes, suppression -----------------------------------

SSD = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 3, 8, 8), float32], {weights}) {{
  %0 = nn.relu(nn.conv2d(%data, %w0, strides=[2, 2], padding=[1, 1, 1, 1], kernel_size=[3, 3]));
  %1 = nn.relu(nn.conv2d(%0, %w1, strides=[2, 2], padding=[1, 1, 1, 1], kernel_size=[3, 3]));
  %2 = nn.conv2d(%0, %c0, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
  %3 = nn.batch_flatten(transpose(%2, axes=[0, 2, 3, 1]));
  %4 = nn.conv2d(%1, %c1, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
  %5 = nn.batch_flatten(transpose(%4, axes=[0, 2, 3, 1]));
  %6 = nn.conv2d(%0, %l0, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
  %7 = nn.batch_flatten(transpose(%6, axes=[0, 2, 3, 1]));
  %8 = nn.conv2d(%1, %l1, padding=[1, 1, 1, 1], kernel_size=[3, 3]);
  %9 = nn.batch_flatten(transpose(%8, axes=[0, 2, 3, 1]));
  %10 = reshape(concatenate((%3, %5), axis=1), newshape=[0, -1, 3]);
  %11 = nn.softmax(transpose(%10, axes=[0, 2, 1]), axis=1);
  %12 = concatenate((%7, %9), axis=1);
  %13 = vision.multibox_prior(%0, sizes=[0.3f], ratios=[1f, 2f]);
  %14 = vision.multibox_prior(%1, sizes=[0.6f], ratios=[1f, 2f], clip=True);
  %15 = concatenate((%13, %14), axis=1);
  %16 = vision.multibox_transform_loc(%11, %12, %15, threshold=0.35f);
  vision.non_max_suppression(%16.0, %16.1, %16.1, -1, 0.1f, top_k=6, return_indices=False)
}}"""
SSD = SSD.replace("%16.0, %16.1, %16.1,", '%16.0, %16.1, zeros(shape=[1, 40], dtype="int32"),')
SSD_SHAPES = {
    "w0": (4, 3, 3, 3), "w1": (4, 4, 3, 3), "c0": (6, 4, 3, 3), "c1": (6, 4, 3, 3),
    "l0": (8, 4, 3, 3), "l1": (8, 4, 3, 3),
}  # fmt: skip


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / union if union > 0 else 0.0


def anchors(side, size, clip):
    rows = []
    for i in range(side):
        for j in range(side):
            for ratio in (1, 2):
                w, h = size * ratio**0.5 / 2, size / ratio**0.5 / 2
                y, x = (i + 0.5) / side, (j + 0.5) / side
                rows.append([x - w, y - h, x + w, y + h])
    return np.clip(rows, 0, 1) if clip else np.array(rows)


def ssd_reference(x, p):
    first = np.maximum(conv(x, p["w0"], 2, 1), 0)
    second = np.maximum(conv(first, p["w1"], 2, 1), 0)
    scores, moves = (
        np.concatenate(
            [conv(f, p[k], 1, 1).transpose(0, 2, 3, 1).reshape(1, -1)
             for f, k in ((first, names[0]), (second, names[1]))], 1)
        for names in (("c0", "c1"), ("l0", "l1"))
    )  # fmt: skip
    scores = np.exp(scores.reshape(-1, 3))
    scores /= scores.sum(1, keepdims=True)
    prior = np.concatenate([anchors(4, 0.3, False), anchors(2, 0.6, True)])
    found = []
    for score, move, box in zip(scores, moves.reshape(-1, 4), prior, strict=True):
        kind = int(score[1:].argmax())
        if score[1 + kind] < 0.35:
            continue
        wide, high = box[2:] - box[:2]
        cx = move[0] * 0.1 * wide + (box[0] + box[2]) / 2
        cy = move[1] * 0.1 * high + (box[1] + box[3]) / 2
        w, h = np.exp(move[2:] * 0.2) * (wide, high) / 2
        corners = np.clip([cx - w, cy - h, cx + w, cy + h], 0, 1)
        found.append([kind, score[1 + kind], *corners])
    best = sorted(found, key=lambda row: -row[1])[:6]
    result = np.full((1, 40, 6), -1.0)
    for place, row in enumerate(best):
        kept = [r for r in result[0, :place] if r[0] == row[0]]
        if all(overlap(r[2:], row[2:]) < 0.1 for r in kept):
            result[0, place] = row
    return result


@pytest.mark.parametrize(("target", "calls"), [("cpu", 0), ("vta", 6)])
def test_ssd_runs_right_and_every_convolution_is_offloaded(target, calls):
    arrays = {
        name: draw(*shape, seed=i + 4) * np.float32(0.5)
        for i, (name, shape) in enumerate(SSD_SHAPES.items())
    }
    text, x = SSD.format(weights=parameters_of(SSD_SHAPES)), draw(1, 3, 8, 8)
    wanted = ssd_reference(x, arrays)
    # Some boxes are dropped, by overlap and by the limit, and some stay.
    assert 2 <= (wanted[0, :6, 0] >= 0).sum() < 6
    model = import_relay(text, params=arrays)
    (got,) = evaluate(model.roots, {**model.params, "data": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    program = glenside.optimize(text, target=target, params=arrays)
    assert sum(program.report.offloads.values()) == calls
    np.testing.assert_allclose(program(x), wanted, rtol=1e-4, atol=1e-4)
