"""The convolutions of the GPU benchmark, as terms, as NumPy and as TVM's default schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LEVELS = 8


@dataclass(frozen=True)
class Layer:
    """NCHW images of size ``h`` x ``w``, ``k`` filters of ``r`` x ``r``, padded on all sides."""

    name: str
    c: int
    h: int
    k: int
    r: int = 3
    stride: int = 1
    pad: int = 1
    groups: int = 1

    def out(self) -> int:
        return (self.h + 2 * self.pad - self.r) // self.stride + 1

    def operations(self, batch: int) -> int:
        per_group = self.c // self.groups
        return 2 * batch * self.k * self.out() ** 2 * per_group * self.r**2

    def bytes(self, batch: int, itemsize: int) -> int:
        """Operands and result, each once."""
        image, result = self.c * self.h**2, self.k * self.out() ** 2
        weights = self.k * (self.c // self.groups) * self.r**2
        return itemsize * (batch * (image + result) + weights)

    def arrays(self, batch: int, seed: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Images and filters; the filters have few values, so that files of them are small."""
        rng = np.random.default_rng(1000)
        shape = (self.k, self.c // self.groups, self.r, self.r)
        steps = np.linspace(-1.5, 1.5, LEVELS, dtype=np.float32)
        scale = np.float32(np.sqrt(1 / np.prod(shape[1:])))
        weights = (steps * scale)[rng.integers(0, LEVELS, shape)]
        rng = np.random.default_rng(seed)
        images = rng.standard_normal((batch, self.c, self.h, self.h), np.float32)
        return images.astype(dtype), weights.astype(dtype)


LAYERS = (
    Layer("vgg1_1", 3, 224, 64),
    Layer("vgg1_2", 64, 224, 64),
    Layer("vgg2_1", 64, 112, 128),
    Layer("vgg2_2", 128, 112, 128),
    Layer("vgg3_1", 128, 56, 256),
    Layer("vgg3_2", 256, 56, 256),
    Layer("vgg4_1", 256, 28, 512),
    Layer("vgg4_2", 512, 28, 512),
    Layer("vgg5_1", 512, 14, 512),
    Layer("rn_c1", 3, 224, 64, 7, 2, 3),
    Layer("rn_2b", 64, 56, 64),
    Layer("rn_2c", 64, 56, 256, 1, 1, 0),
    Layer("rn_3b", 128, 28, 128),
    Layer("rn_4b", 256, 14, 256),
    Layer("rn_5b", 512, 7, 512),
    Layer("mb_dw", 32, 112, 32, 3, 1, 1, 32),
    Layer("mb_pw", 32, 112, 64, 1, 1, 0),
)
"""Those of VGG and ResNet, and two of MobileNet, at 224 x 224."""


def channels_last(layer: Layer, batch: int, dtype: str) -> Any:
    """The convolution of NHWC images ``x`` by filters ``w`` that lie likewise, as a term."""
    from glenside.language import builders as b

    x = b.tensor("x", (batch, layer.h, layer.h, layer.c), dtype)
    w = b.tensor("w", (layer.k, layer.r, layer.r, layer.c), dtype)
    padded = x
    for axis in (1, 2):
        if layer.pad:
            padded = b.pad(b.access(padded, 1), axis, layer.pad, layer.pad)
    window, step = (layer.r, layer.r, layer.c), (layer.stride, layer.stride, 1)
    seen = b.squeeze(b.windows(b.access(padded, 1), window, step), 3)
    return b.outer_only(b.compute("dot", b.cart_prod(seen, b.access(w, 1))))


def direct(layer: Layer, batch: int, dtype: str) -> Any:
    """The convolution of ``x`` and ``w`` as a term, in the paper's form."""
    from glenside.language import builders as b

    x = b.tensor("x", (batch, layer.c, layer.h, layer.h), dtype)
    per_group = layer.c // layer.groups
    w = b.tensor("w", (layer.k, per_group, layer.r, layer.r), dtype)
    padded = x
    for axis in (2, 3):
        if layer.pad:
            padded = b.pad(b.access(padded, 1), axis, layer.pad, layer.pad)
    window, step = (per_group, layer.r, layer.r), (1, layer.stride, layer.stride)
    if layer.groups == 1:
        seen = b.squeeze(b.windows(b.access(padded, 1), window, step), 1)
        product = b.compute("dot", b.cart_prod(b.access(w, 1), seen))
        return b.outer_only(b.transpose(product, (1, 0, 2, 3)))
    groups = layer.groups
    size = padded.shape[2]
    data = b.reshape(b.outer_only(padded), (batch, groups, per_group, size, size))
    data = b.access(b.transpose(data, (1, 0, 2, 3, 4)), 2)
    seen = b.squeeze(b.windows(data, window, step), 2)
    filters = b.access(b.reshape(w, (groups, layer.k // groups, *w.shape[1:])), 2)
    product = b.transpose(b.compute("dot", b.cart_prod(filters, seen, 1)), (2, 0, 1, 3, 4))
    return b.reshape(product, (batch, layer.k, layer.out(), layer.out()))


def im2col(layer: Layer, batch: int, dtype: str) -> tuple[Any, Any]:
    """The same in two programs: the matrix of windows, and the product with that matrix ``m``."""
    from glenside.language import builders as b

    x = b.tensor("x", (batch, layer.c, layer.h, layer.h), dtype)
    padded = x
    for axis in (2, 3):
        if layer.pad:
            padded = b.pad(b.access(padded, 1), axis, layer.pad, layer.pad)
    window = (layer.c, layer.r, layer.r)
    step = (1, layer.stride, layer.stride)
    seen = b.squeeze(b.windows(b.access(padded, 1), window, step), 1)
    rows, depth = batch * layer.out() ** 2, layer.c * layer.r**2
    matrix = b.outer_only(b.reshape(seen, (rows,), (depth,)))
    m, w = b.tensor("m", (rows, depth), dtype), b.tensor("w", (layer.k, depth), dtype)
    return matrix, b.compute("dot", b.cart_prod(b.access(w, 1), b.access(m, 1)))


def dlight(layer: Layer, rule: str, name: str) -> tuple[str, dict[str, Any]]:
    """TVM's default schedule of the float32 layer at batch 1: CUDA C and its launch.

    ``rule`` is ``Matmul`` (on the canonical GEMM form) or ``Fallback`` (on the direct form).
    """
    import tvm
    from tvm import te, tirx
    from tvm.s_tir import dlight as dl

    k, c, r, size, out = layer.k, layer.c, layer.r, layer.h, layer.out()
    x, w = te.placeholder((1, c, size, size), name="x"), te.placeholder((k, c, r, r), name="w")

    def padded(i: Any, y: Any, z: Any) -> Any:
        inside = tirx.all(
            y >= layer.pad, y < size + layer.pad, z >= layer.pad, z < size + layer.pad
        )
        return tirx.if_then_else(inside, x[0, i, y - layer.pad, z - layer.pad], 0.0)

    s = layer.stride
    if rule == "Matmul":
        n, depth = out * out, c * r * r
        lhs = te.compute(
            (1, n, depth),
            lambda b, p, q: padded(
                q // (r * r), p // out * s + q % (r * r) // r, p % out * s + q % r
            ),
            name="lhs",
        )
        rhs = te.compute(
            (1, k, depth),
            lambda b, f, q: w[f, q // (r * r), q % (r * r) // r, q % r],
            name="rhs",
        )
        q = te.reduce_axis((0, depth), name="q")
        acc = te.compute(
            (1, n, k), lambda b, p, f: te.sum(lhs[b, p, q] * rhs[b, f, q], q), name="acc"
        )
        y = te.compute((1, k, out, out), lambda b, f, i, j: acc[0, i * out + j, f], name="y")
    else:
        p = te.compute((c, size + 2 * layer.pad, size + 2 * layer.pad), padded, name="p")
        i, u, v = (te.reduce_axis((0, n), name=m) for n, m in ((c, "i"), (r, "u"), (r, "v")))
        y = te.compute(
            (1, k, out, out),
            lambda b, f, g, h: te.sum(p[i, g * s + u, h * s + v] * w[f, i, u, v], [i, u, v]),
            name="y",
        )
    function = te.create_prim_func([x, w, y]).with_attr("global_symbol", name)
    limits = {"max_shared_memory_per_block": 48 << 10, "max_threads_per_block": 1024}
    options = {"kind": "cuda", "arch": "sm_90", "thread_warp_size": 32, **limits}
    target = tvm.target.Target(options)
    chosen = {"Matmul": [dl.gpu.Matmul(), dl.gpu.Fallback()], "Fallback": [dl.gpu.Fallback()]}[rule]
    with target:
        module = dl.ApplyDefaultSchedule(*chosen)(tvm.IRModule({name: function}))
    return _source(module, target, name)


def _source(module: Any, target: Any, name: str) -> tuple[str, dict[str, Any]]:
    """CUDA C of a scheduled module, and each kernel's launch in order."""
    import tvm
    import tvm_ffi
    from tvm import tirx
    from tvm.tirx.build import split_host_device_mods

    target = target.with_host("llvm")
    module = tirx.transform.BindTarget(target)(module)
    pipeline, _, finalize = tirx.get_default_tir_pipeline(target)
    launches: list[dict[str, Any]] = []

    @tvm.ir.instrument.pass_instrument
    class Launches:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if not info.name.endswith("SplitHostDevice"):
                return
            kernels = {
                str(f.attrs["global_symbol"]): f
                for f in module.functions.values()
                if f.attrs and "tirx.kernel_launch_params" in f.attrs.keys()  # noqa: SIM118
            }

            def visit(call: Any) -> None:
                if getattr(call.op, "name", "") != "tirx.call_ffi_kernel":
                    return
                first = call.args[0]
                kernel = str(getattr(first, "value", first))
                function = kernels[kernel]
                tags = [str(tag) for tag in call.attrs.launch_params]
                values = [int(v) for v in call.args[1 + len(function.params) :]]
                sizes = dict(zip(tags, values, strict=True))
                launches.append(
                    {
                        "kernel": kernel,
                        "arguments": [str(p.name).removesuffix("_ptr") for p in function.params],
                        "grid": [sizes.get(f"blockIdx.{axis}", 1) for axis in "xyz"],
                        "block": [sizes.get(f"threadIdx.{axis}", 1) for axis in "xyz"],
                        "local_bytes": sizes.get("tirx.use_dyn_shared_memory", 0),
                    }
                )

            for function in module.functions.values():
                if str(function.attrs["global_symbol"]) not in kernels:
                    tvm_ffi.structural_walk(function.body, [(tvm.ir.Call, visit)])

    with tvm.transform.PassContext(opt_level=3, instruments=[Launches()]):
        module = pipeline(module)
    _, devices = split_host_device_mods(module)
    ((found, device),) = devices.items()
    device = finalize()(device)
    text = str(tvm.get_global_func("target.build.cuda")(device, found).inspect_source())
    return text, {"launches": launches}
