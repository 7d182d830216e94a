"""Images: resized, sampled at computed places, cut into regions; against loops in NumPy."""

import math

import numpy as np
import pytest

from glenside.errors import ModelError
from tests.frontends.relay.conftest import draw

X = draw(1, 2, 4, 5)


def places(new, old, mode):
    i, scale = np.arange(new), old / new
    return {
        "half_pixel": (i + 0.5) * scale - 0.5,
        "pytorch_half_pixel": (i + 0.5) * scale - 0.5 if new > 1 else np.zeros(1),
        "align_corners": i * ((old - 1) / (new - 1)) if new > 1 else np.zeros(1),
        "asymmetric": i * scale,
        "tf_half_pixel_for_nn": (i + 0.5) * scale,
    }[mode]


def along(x, new, mode, method, rounding, a=-0.5):
    """The last axis resized, one place after the other."""
    old = x.shape[-1]
    columns = []
    for at in places(new, old, mode):
        if method == "nearest_neighbor":
            near = {
                "floor": math.floor(at + 1e-5),
                "ceil": math.ceil(at - 1e-5),
                "round": np.rint(at),
                "round_prefer_floor": math.ceil(at - 0.5),
                "round_prefer_ceil": math.floor(at + 0.5),
            }[rounding]
            columns.append(x[..., int(min(max(near, 0), old - 1))])
            continue
        low = math.floor(at)
        t = at - low
        reach = range(2) if method == "linear" else range(-1, 3)
        total = 0
        for k in reach:
            d = abs(k - t)
            if method == "linear":
                weight = 1 - d
            elif d <= 1:
                weight = (a + 2) * d**3 - (a + 3) * d**2 + 1
            else:
                weight = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            total = total + weight * x[..., min(max(low + k, 0), old - 1)]
        columns.append(total)
    return np.stack(columns, -1)


def resized(x, size, *how):
    for axis, new in enumerate(size, 2):
        x = np.moveaxis(along(np.moveaxis(x, axis, -1), new, *how), -1, axis)
    return x


@pytest.mark.parametrize("mode", ["half_pixel", "pytorch_half_pixel", "align_corners",
                                  "asymmetric", "tf_half_pixel_for_nn"])  # fmt: skip
@pytest.mark.parametrize("size", [(8, 3), (1, 10), (4, 5)])
def test_resize2d(check, mode, size):
    given = f'size={list(size)}, coordinate_transformation_mode="{mode}"'
    for method in ("linear", "cubic"):
        body = f'image.resize2d(%x, {given}, method="{method}")'
        check(body, resized(X, size, mode, method, ""), x=X)
    for rounding in ("floor", "ceil", "round", "round_prefer_floor", "round_prefer_ceil"):
        body = (
            f'image.resize2d(%x, {given}, method="nearest_neighbor", rounding_method="{rounding}")'
        )
        check(body, resized(X, size, mode, "nearest_neighbor", rounding), x=X)


def test_resize_of_lines_volumes_and_other_layouts(check):
    line, cube = X[:, :, 0], draw(1, 2, 2, 3, 2)
    wanted = resized(line, (7,), "half_pixel", "linear", "")
    check("image.resize1d(%x, size=[7])", wanted, x=line)
    wanted = resized(cube, (3, 2, 4), "half_pixel", "linear", "")
    check("image.resize3d(%x, size=[3, 2, 4])", wanted, x=cube)
    wanted = resized(X, (6, 3), "half_pixel", "linear", "").transpose(0, 2, 3, 1)
    body = 'image.resize2d(%x, size=[6, 3], layout="NHWC")'
    check(body, wanted, x=X.transpose(0, 2, 3, 1))
    size = "concatenate((reshape(6, newshape=[1]), reshape(3, newshape=[1])))"
    body = f'dyn.image.resize2d(%x, {size}, zeros(shape=[4], dtype="float32"))'
    check(body, resized(X, (6, 3), "half_pixel", "linear", ""), x=X)


def test_resize_of_a_part(check):
    # From the second row to beyond the last: what is outside is the extrapolation value.
    body = (
        "image.resize2d(%x, size=[3, 5], roi=[0.333333f, 0f, 1.333333f, 1f], "
        'coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9f)'
    )
    rows = np.array([1, 2.5, 4])
    inside = np.stack([X[:, :, 1], (X[:, :, 2] + X[:, :, 3]) / 2, np.full((1, 2, 5), 9)], 2)
    assert rows[2] > 3
    check(body, inside, x=X, tolerance=1e-4)
    with pytest.raises(ModelError, match="roi"):
        check('image.resize2d(%x, size=[3, 5], '
              'coordinate_transformation_mode="tf_crop_and_resize")', x=X)  # fmt: skip


def test_integers_are_cut_off(check):
    x = np.array([[[[0, 3]]]], "int8")
    check("image.resize2d(%x, size=[1, 4])", np.array([[[[0, 0, 2, 3]]]], "int8"), x=x)


def test_upsampling(check):
    double = X.repeat(2, 2).repeat(3, 3)
    check("nn.upsampling(%x, scale_h=2f, scale_w=3f)", double, x=X)
    check("dyn.nn.upsampling(%x, 2f, 3f)", double, x=X)
    body = 'nn.upsampling(%x, scale_h=2f, scale_w=2f, layout="NHWC")'
    check(body, X.repeat(2, 2).repeat(2, 3).transpose(0, 2, 3, 1), x=X.transpose(0, 2, 3, 1))
    for corners, mode in ((True, "align_corners"), (False, "asymmetric")):
        body = (
            f'nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bilinear", align_corners={corners})'
        )
        check(body, resized(X, (8, 10), mode, "linear", ""), x=X)
    body = 'nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bicubic", align_corners=True)'
    check(body, resized(X, (8, 10), "align_corners", "cubic", "", -0.75), x=X)
    cube = draw(1, 2, 2, 3, 2)
    wanted = cube.repeat(2, 2).repeat(2, 3).repeat(2, 4)
    mode = 'coordinate_transformation_mode="asymmetric"'
    check(f"nn.upsampling3d(%x, scale_d=2f, scale_h=2f, scale_w=2f, {mode})", wanted, x=cube)
    check(f"dyn.nn.upsampling3d(%x, 2f, 2f, 2f, {mode})", wanted, x=cube)
    # By default the centres of pixels count, rounded down.
    wanted = resized(cube, (4, 3, 2), "half_pixel", "nearest_neighbor", "floor")
    check("nn.upsampling3d(%x, scale_d=2f)", wanted, x=cube)
    body = 'nn.upsampling3d(%x, scale_d=2f, scale_h=1f, scale_w=2f, method="trilinear")'
    check(body, resized(cube, (4, 3, 4), "half_pixel", "linear", ""), x=cube)


def bilinear(image, y, x, outside=0.0):
    """Pixels beyond the border count as ``outside``."""
    total = 0.0
    for i in (math.floor(y), math.floor(y) + 1):
        for j in (math.floor(x), math.floor(x) + 1):
            inside = 0 <= i < image.shape[0] and 0 <= j < image.shape[1]
            share = (1 - abs(y - i)) * (1 - abs(x - j))
            total += share * (image[i, j] if inside else outside)
    return total


def test_grid_sample_and_affine_grid(check):
    turn = np.array([[[0.5, 0.25, 0.1], [-0.3, 0.8, 0.2]]], "float32")
    y, x = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 2), indexing="ij")
    grid = np.einsum("bij,jhw->bihw", turn, np.stack([x, y, np.ones_like(x)]))
    check("image.affine_grid(%t, target_shape=[3, 2])", grid, t=turn)
    grid = (grid * 1.5).astype("float32")
    wanted = np.empty((1, 2, 3, 2))
    for c, i, j in np.ndindex(2, 3, 2):
        at = (grid[0, 1, i, j] + 1) * 3 / 2, (grid[0, 0, i, j] + 1) * 4 / 2
        wanted[0, c, i, j] = bilinear(X[0, c], *at)
    check("image.grid_sample(%x, %g)", wanted, x=X, g=grid)
    near = np.empty((1, 2, 3, 2))
    for c, i, j in np.ndindex(2, 3, 2):
        at = (grid[0, 1, i, j] + 1) * 4 / 2 - 0.5, (grid[0, 0, i, j] + 1) * 5 / 2 - 0.5
        row, column = (min(max(round(a), 0), n - 1) for a, n in zip(at, (4, 5), strict=True))
        near[0, c, i, j] = X[0, c, row, column]
    body = 'image.grid_sample(%x, %g, method="nearest", padding_mode="border", align_corners=False)'
    check(body, near, x=X, g=grid)


def test_crop_and_resize(check):
    x = draw(2, 1, 4, 5)
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 1.3, 0.6]], "float32")
    which = np.array([1, 0], "int32")
    wanted = np.empty((2, 1, 3, 2))
    nearest = np.empty((2, 1, 3, 2))
    for b, i, j in np.ndindex(2, 3, 2):
        top, left, bottom, right = boxes[b]
        y, z = (top + (bottom - top) * i / 2) * 3, (left + (right - left) * j) * 4
        image = x[which[b], 0]
        outside = not (0 <= y <= 3 and 0 <= z <= 4)
        wanted[b, 0, i, j] = 7 if outside else bilinear(image, y, z)
        nearest[b, 0, i, j] = 7 if outside else image[int(np.rint(y)), int(np.rint(z))]
    given = "crop_size=[3, 2], extrapolation_value=7f"
    check(f"image.crop_and_resize(%x, %b, %i, {given})", wanted, x=x, b=boxes, i=which)
    body = f'image.crop_and_resize(%x, %b, %i, {given}, method="nearest_neighbor")'
    check(body, nearest, x=x, b=boxes, i=which)


def cell(number, extent, start, length):
    """The pixels of one cell of a region."""
    edges = math.floor(number * extent), math.ceil((number + 1) * extent)
    return slice(*(int(min(max(edge + start, 0), length)) for edge in edges))


def test_regions(check):
    rois = np.array([[0, 0.5, 1, 6.2, 7], [0, 2, 0, 9.5, 3]], "float32")
    aligned, pooled = np.empty((2, 2, 2, 2)), np.empty((2, 2, 2, 2))
    for r, c, i, j in np.ndindex(2, 2, 2, 2):
        left, top, right, bottom = rois[r, 1:] * 0.5
        high, wide = max(bottom - top, 1) / 2, max(right - left, 1) / 2
        total = 0.0
        for p, q in np.ndindex(2, 2):
            y, x = top + (i + (p + 0.5) / 2) * high, left + (j + (q + 0.5) / 2) * wide
            if -1 <= y <= 4 and -1 <= x <= 5:
                total += bilinear(X[0, c], min(max(y, 0), 3), min(max(x, 0), 4)) / 4
        aligned[r, c, i, j] = total
        left, top, right, bottom = np.floor(rois[r, 1:] * 0.5 + 0.5)
        high, wide = max(bottom - top + 1, 1) / 2, max(right - left + 1, 1) / 2
        rows = cell(i, high, top, 4)
        columns = cell(j, wide, left, 5)
        look = X[0, c, rows, columns]
        pooled[r, c, i, j] = look.max() if look.size else 0
    given = "pooled_size=[2, 2], spatial_scale=0.5f"
    check(f"vision.roi_align(%x, %r, {given}, sample_ratio=2)", aligned, x=X, r=rois)
    check(f"vision.roi_pool(%x, %r, {given})", pooled, x=X, r=rois)


def test_deformable_conv2d(check):
    w, offset = draw(3, 2, 2, 2, seed=1), draw(1, 8, 3, 4, seed=2)
    wanted = np.zeros((1, 3, 3, 4))
    for o, c, i, j, k, m in np.ndindex(3, 2, 3, 4, 2, 2):
        dy, dx = offset[0, 2 * (2 * k + m) : 2 * (2 * k + m) + 2, i, j]
        y, x = i + k + dy, j + m + dx
        if 0 <= y < 4 and 0 <= x < 5:
            wanted[0, o, i, j] += w[o, c, k, m] * bilinear(X[0, c], y, x)
    body = "nn.deformable_conv2d(%x, %o, %w, kernel_size=[2, 2], channels=3)"
    check(body, wanted, x=X, o=offset, w=w, tolerance=1e-4)


def test_dilation_correlation_and_dilate(check):
    w = draw(2, 2, 3, seed=1)
    looks = np.lib.stride_tricks.sliding_window_view(X, (2, 3), (2, 3))
    check("image.dilation2d(%x, %w)", (looks + w[:, None, None]).max((4, 5)), x=X, w=w)
    y = draw(1, 2, 4, 5, seed=7)
    a, b = (np.pad(each, [(0, 0), (0, 0), (1, 1), (1, 1)]) for each in (X, y))
    shifted = [
        (a[:, :, 1:5, 1:6] * b[:, :, 1 + i : 5 + i, 1 + j : 6 + j]).mean(1)
        for i in (-1, 0, 1) for j in (-1, 0, 1)
    ]  # fmt: skip
    body = "nn.correlation(%x, %y, kernel_size=1, max_displacement=1, padding=[1, 1])"
    check(body, np.stack(shifted, 1), x=X, y=y)
    wide = np.full((1, 2, 7, 5), 3, "float32")
    wide[:, :, ::2] = X
    check("nn.dilate(%x, strides=[1, 1, 2, 1], dilation_value=3f)", wide, x=X)


def test_yolo_reorg(check):
    x = draw(1, 4, 4, 6)
    flat = x.reshape(-1)
    wanted = np.empty(x.size, "float32")
    for at, (k, j, i) in enumerate(np.ndindex(4, 4, 6)):
        offset = k // 1
        column, row = i * 2 + offset % 2, j * 2 + offset // 2
        wanted[at] = flat[column + 12 * row]
    check("vision.yolo_reorg(%x, stride=2)", wanted.reshape(1, 16, 2, 3), x=x)
