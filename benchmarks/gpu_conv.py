"""Convolutions on a GPU beside cuDNN, TVM's dlight and im2col + GEMM, layer by layer.

In halves, since compiling needs TVM and measuring needs the GPU::

    python benchmarks/gpu_conv.py build DIR --dtypes float32 --candidates 16
    python benchmarks/gpu_conv.py measure DIR --json FILE      (CuPy and PyTorch, no TVM)
    python benchmarks/gpu_conv.py record FILE                  (into the tuning file that ships)

The layer is computed as it is said, directly, and beside that, where the target's rules and cost
model find a cheaper form, in this *chosen* one. ``predicted`` is the mapping that the model likes
best, ``tuned`` the one in the tuning files, both as whole programs held against float64; ``best``
is the fastest of the candidates, timed on random data. Every time is that of CUDA graphs over
several inputs at addresses of their own, a median; cuDNN runs in benchmark mode, in the better of
NCHW and NHWC. The ceiling is the larger of the arithmetic's and the memory's time at the profile's
rates. Extra memory is what a program holds
beside operands and result.

With ``--target opencl:nvidia-h200`` our own CUDA is measured too, with the mappings tuned for it
and with the ones that OpenCL takes. OpenCL has no graphs: its times are those of kernels waiting in
a queue, so that the device goes from one to the next by itself, as in a graph; ``host`` is the time
per run of a queue that the host fills meanwhile.

What cannot be built or run is noted, and left out of the table; the exit status then says so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from _conv_layers import LAYERS, Layer, channels_last, direct, dlight, im2col
from _notes import Notes
from _packs import pack, restore_program, save_program, told_of, unpacked
from _table import show
from _torch import LAYOUTS, exact, graph_microseconds, memory_format

SEEDS = (11, 12, 13)
INSIDE = 21
"""Runs in one graph, a multiple of the input sets."""
CUDA = "cuda:sm_90"


@dataclass(frozen=True)
class Case:
    """A layer that was built, and where."""

    folder: Path
    layer: Layer
    batch: int
    dtype: str
    name: str


def arrays(layer: Layer, batch: int, seed: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """NCHW images and filters; tf32 is how float32 is multiplied."""
    return layer.arrays(batch, seed, "float32" if dtype == "tf32" else dtype)


def label(layer: Layer, batch: int, dtype: str) -> str:
    return f"{layer.name}-b{batch}-{dtype}"


# --- build ----------------------------------------------------------------------------------------


def build(options: Any) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    if (options.folder / "packed.tar.xz").exists():
        raise SystemExit(f"{options.folder} is packed already: choose another folder")
    notes = Notes()
    for layer in LAYERS:
        if options.layers and layer.name not in options.layers:
            continue
        for batch in options.batches:
            for dtype in options.dtypes:
                with notes.of(label(layer, batch, dtype)):
                    _build(layer, batch, dtype, options)
    if options.pack:
        pack(options.folder)
    notes.end()


def _build(layer: Layer, batch: int, dtype: str, options: Any) -> None:
    from glenside.codegen.gpu.mapping.tuning import chooser, key_of
    from glenside.hw_targets import find_target

    name = label(layer, batch, dtype)
    target: Any = find_target(options.target + (":tf32" if dtype == "tf32" else ""))
    if options.warps:  # As devices without warpgroups multiply.
        name_of = f"{target.limits.name}:warps"
        target.limits = replace(target.limits, name=name_of, warpgroups=False)
    choose = chooser(target.limits)
    _, filters = arrays(layer, batch, 0, dtype)
    halves = dtype in ("float16", "tf32")
    last = halves and layer.groups == 1 and target.dialect == "cuda"
    if last:
        # As matrix units are fed: channels innermost, which cuDNN may have as well.
        filters = np.ascontiguousarray(filters.transpose(0, 2, 3, 1))
        term = channels_last(layer, batch, str(filters.dtype))
    else:
        term = direct(layer, batch, dtype)
    space = _candidates(target, term, filters, options, name)
    folder = options.folder / f"{name}-predicted"
    _program(target, [term], {"w": filters}, folder, last=last)
    if choose(space, target.limits) is not None:
        folder = options.folder / f"{name}-tuned"
        _program(target, [term], {"w": filters}, folder, choose, last)
    chosen = _chosen(target, term)
    if chosen is not term:
        space = _candidates(target, chosen, filters, options, f"{name}-chosen")
        for kind, choice in (("predicted", None), ("tuned", choose)):
            folder = options.folder / f"{name}-chosen-{kind}"
            if choice is None or choice(space, target.limits) is not None:
                _program(target, [chosen], {"w": filters}, folder, choice, last)
    if options.peers and target.dialect == "opencl":
        _in_cuda(target, term, {"w": filters}, options.folder / name, choose)
    peers = options.peers and target.dialect == "cuda"
    if dtype == "float32" and layer.groups == 1 and peers:
        matrix, product = im2col(layer, batch, dtype)
        flat = {"w": filters.reshape(layer.k, -1)}
        _program(target, [matrix], {}, options.folder / f"{name}-matrix")
        _program(target, [product], flat, options.folder / f"{name}-gemm", choose)
        if batch == 1:
            _dlight(target, layer, options.folder, name)
    print(f"{name}: space {key_of(space.key())}", flush=True)


def _chosen(target: Any, term: Any) -> Any:
    """The layer as the target's rules and cost model have it; itself where nothing is cheaper."""
    from glenside.extraction import extract
    from glenside.rewrites import saturate

    explored = saturate([term], target.rules())
    found = extract(explored.egraph, target.cost_model(), original=[term], constants={"w"})
    # Moves that come to the same are no other form.
    saved = found.original_cost[0] - found.cost[0]
    return found.terms[0] if saved > 1e-9 else term


def _program(
    target: Any, outputs: Any, params: Any, folder: Path, choose: Any = None, last: bool = False
) -> None:
    from glenside.codegen.device.compile import compile_for_device
    from glenside.language import topological_order

    types = {
        t["name"]: t.type
        for t in topological_order(outputs)
        if t.op == "tensor" and t["name"] not in params
    }
    made = compile_for_device(
        outputs,
        types,
        params,
        target.limits,
        target.dialect,
        choose=choose or (lambda space, limits: None),
        build=target.builder(),
    )
    save_program(made, folder, filters=params["w"].shape if params else None, last=last)


def _in_cuda(target: Any, term: Any, params: Any, path: Path, choose: Any) -> None:
    """The layer in CUDA, as tuned for it and by the mapping that OpenCL takes."""
    from glenside.codegen.gpu.mapping.choose import best_mapping
    from glenside.codegen.gpu.mapping.tuning import chooser
    from glenside.hw_targets import find_target

    cuda: Any = find_target(CUDA)

    def same(space: Any, limits: Any) -> Any:
        return choose(space, target.limits) or best_mapping(space, target.limits)

    _program(cuda, [term], params, path.with_name(f"{path.name}-cuda"), chooser(cuda.limits))
    _program(cuda, [term], params, path.with_name(f"{path.name}-cuda-same"), same)


def _candidates(target: Any, term: Any, filters: Any, options: Any, name: str) -> Any:
    """Saves the mappings to be measured; returns the product's space."""
    from glenside.codegen.device.trials import make_trials
    from glenside.codegen.gpu.dispatch import space_of
    from glenside.codegen.gpu.interface import make_builder
    from glenside.codegen.gpu.mapping import tuning
    from glenside.codegen.gpu.mapping.choose import best_mappings
    from glenside.codegen.gpu.mapping.reading import read_mapping
    from glenside.codegen.program.cut import cut_program
    from glenside.codegen.program.record import Kernel
    from glenside.language import topological_order

    (x,) = (t for t in topological_order([term]) if t.op == "tensor" and t["name"] == "x")
    cut = cut_program([term], {"x": x.type}, {"w": filters}, plain=True)
    builder = make_builder(cut)
    for number, step in enumerate(cut.steps):
        builder.at_step(number)
        space = space_of(builder, step, target.limits) if isinstance(step, Kernel) else None
        if space is None:
            continue
        if options.candidates:
            mappings = best_mappings(space, target.limits, options.candidates)
            elsewhere = tuning.read(tuning.SHIPPED / "h200.json", CUDA).get(
                tuning.key_of(space.key())
            )
            if target.dialect == "opencl" and elsewhere is not None:
                mappings = [*mappings, read_mapping(elsewhere.mapping)]
            make_trials(
                cut,
                number,
                space.key(),
                target.limits,
                target.dialect,
                mappings,
                target.builder(),
                reference=False,
            ).save(options.folder, f"{name}-trials")
        return space
    raise ValueError(f"{name}: the layer has no product")


def _dlight(target: Any, layer: Layer, folder: Path, name: str) -> None:
    from glenside.codegen.device.trials import Trial, Trials
    from glenside.codegen.plan import Entry

    sizes = {
        "x": (0, layer.c * layer.h**2),
        "w": (1, layer.k * layer.c * layer.r**2),
        "y": (2, layer.k * layer.out() ** 2),
    }
    for rule in ("Matmul", "Fallback"):
        text, made = dlight(layer, rule, f"dlight_{rule}")
        trial = Trial({"rule": rule}, [])
        entries = {}
        for launch in made["launches"]:
            entries[launch["kernel"]] = Entry(
                launch["grid"], launch["block"], launch["local_bytes"]
            )
            numbers = [sizes[argument][0] for argument in launch["arguments"]]
            trial.launches.append((launch["kernel"], numbers))
        buffers = {number: ("float32", size) for number, size in sizes.values()}
        code = target.builder()(text)
        Trials("", code, entries, buffers, 2, [trial]).save(folder, f"{name}-dlight-{rule}")


# --- measure --------------------------------------------------------------------------------------


def measure(options: Any) -> None:
    from glenside.codegen.device.executable import open_device
    from glenside.codegen.device.limits import cuda_limits, opencl_limits

    folder = unpacked(options.folder, options.unpack)
    opencl = any(folder.glob("*-predicted/*.cl"))
    device = open_device("opencl" if opencl else "cuda")
    limits = opencl_limits() if opencl else cuda_limits()
    layers = {layer.name: layer for layer in LAYERS}
    rows: list[dict[str, Any]] = []
    best: dict[str, Any] = {}
    notes = Notes()
    for path in sorted(folder.glob("*-predicted")):
        name = path.name.removesuffix("-predicted")
        if name.endswith("-chosen"):
            continue
        with notes.of(name):
            layer_name, batch_text, dtype = name.split("-")
            case = Case(folder, layers[layer_name], int(batch_text[1:]), dtype, name)
            rows.append(_row(case, device, limits, options, best, notes))
            print(json.dumps(rows[-1]), flush=True)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    show("GPU convolutions", [{k: row.get(k, "") for k in keys} for row in rows])
    for dtype in dict.fromkeys(row["layer"].rsplit("-", 1)[1] for row in rows):
        _means(dtype, [row for row in rows if row["layer"].endswith(dtype)])
    if options.json:
        record = {"device": device.name, "limits": limits.name, "rows": rows, "best": best}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    notes.end()


def _row(
    case: Case, device: Any, limits: Any, options: Any, best: dict[str, Any], notes: Notes
) -> dict[str, Any]:
    """All that is measured of a layer; what fails of it is noted, and lacks."""
    folder, name, repeat = case.folder, case.name, options.repeat
    layer, batch, dtype = case.layer, case.batch, case.dtype
    row: dict[str, Any] = {"layer": name}
    row |= _ours(case, name, ("predicted", "tuned", "cuda", "cuda-same"), repeat, notes)
    form = f"{name}-chosen"
    for each in (name, form):
        if (folder / f"{each}-trials.json").is_file():
            with notes.of(f"{each}-trials"):
                best[each] = _trials(folder, f"{each}-trials", device, repeat)
    if name in best:
        row["best us"] = best[name]["seconds"] * 1e6
    row |= _form(case, repeat, row, best.get(form), notes)
    if options.cudnn:
        row["cuDNN us"], row["layout"] = cudnn(layer, batch, dtype, repeat)
    for rule in ("Matmul", "Fallback"):
        if (folder / f"{name}-dlight-{rule}.json").is_file():
            with notes.of(f"{name}-dlight-{rule}"):
                found = _trials(folder, f"{name}-dlight-{rule}", device, repeat)
                row[f"dlight {rule} us"] = found["seconds"] * 1e6
    if (folder / f"{name}-gemm").is_dir():
        with notes.of(f"{name}-gemm"):
            row |= _im2col(folder, layer, batch, dtype, name, repeat)
    peaks = limits.tensor_peak if dtype in ("float16", "tf32") else limits.peak
    itemsize = np.dtype("float32" if dtype == "tf32" else dtype).itemsize
    floor = max(
        layer.operations(batch) / peaks[dtype],
        layer.bytes(batch, itemsize) / limits.bandwidth,
    )
    kinds = [key for key in ("predicted us", "tuned us", "best us") if key in row]
    ours = min(row[key] for kind in kinds for key in (kind, f"chosen {kind}") if key in row)
    row["ours us"] = ours
    row["of ceiling"] = floor * 1e6 / ours
    if options.cudnn:
        if "predicted us" in row:
            row["cuDNN / predicted"] = row["cuDNN us"] / row["predicted us"]
        row["cuDNN / best"] = row["cuDNN us"] / ours
    if "cuda us" in row:
        row["CUDA / best"] = row["cuda us"] / min(row[kind] for kind in kinds)
    return row


def _means(dtype: str, rows: list[dict[str, Any]]) -> None:
    print(f"{dtype}: geometric means over {len(rows)} layers")
    for what, over, under in (
        ("cuDNN / predicted", "cuDNN us", "predicted us"),
        ("cuDNN / tuned", "cuDNN us", "tuned us"),
        ("cuDNN / best candidate", "cuDNN us", "best us"),
        ("cuDNN / predicted, chosen form", "cuDNN us", "chosen predicted us"),
        ("cuDNN / tuned, chosen form", "cuDNN us", "chosen tuned us"),
        ("cuDNN / best of all", "cuDNN us", "ours us"),
        ("our CUDA / predicted", "cuda us", "predicted us"),
        ("our CUDA / tuned", "cuda us", "tuned us"),
        ("our CUDA by the same mapping / tuned", "cuda-same us", "tuned us"),
        ("our CUDA / best candidate", "cuda us", "best us"),
        ("dlight's better rule / predicted", "dlight us", "predicted us"),
        ("dlight's fallback / predicted", "dlight Fallback us", "predicted us"),
        ("im2col + GEMM / predicted, time", "im2col us", "predicted us"),
        ("im2col + GEMM / predicted, extra memory where both have some", "im2col extra MB",
         "extra MB"),
    ):  # fmt: skip
        for row in rows:
            if "dlight Matmul us" in row:
                row["dlight us"] = min(row["dlight Matmul us"], row["dlight Fallback us"])
        ratios = [r[over] / r[under] for r in rows if r.get(over) and r.get(under)]
        if ratios:
            least = min(ratios)
            print(
                f"  {what}: {geometric_mean(ratios):.2f}, least {least:.2f}, {len(ratios)} layers"
            )
    both = [(row["im2col extra MB"], row["extra MB"]) for row in rows if "im2col extra MB" in row]
    if both:
        theirs, ours = (sum(each) for each in zip(*both, strict=True))
        none = sum(not extra for _, extra in both)
        print(
            f"  extra memory of {len(both)} layers: im2col + GEMM {theirs:.0f} MB, predicted "
            f"{ours:.0f} MB, none at all in {none} of them"
        )


def _load(folder: Path, filters: np.ndarray) -> Any:
    """A saved program with its filters, which lie as it was given them."""
    from glenside.codegen.load import load

    told = told_of(folder)
    if told["last"]:
        filters = filters.transpose(0, 2, 3, 1)
    shape = told["filters"]
    restore_program(folder, {} if shape is None else {"w": filters.reshape(shape)})
    return load(folder)


def _ours(case: Case, form: str, kinds: Sequence[str], repeat: int, notes: Notes) -> dict[str, Any]:
    """Time, error and memory of the programs of a layer's form that were built."""
    row: dict[str, Any] = {}
    for kind in kinds:
        if (case.folder / f"{form}-{kind}").is_dir():
            with notes.of(f"{form}-{kind}"):
                row |= _program_row(case, case.folder / f"{form}-{kind}", kind, repeat)
    return row


def _program_row(case: Case, path: Path, kind: str, repeat: int) -> dict[str, Any]:
    layer, batch, dtype = case.layer, case.batch, case.dtype
    program = _load(path, arrays(layer, batch, 0, dtype)[1])
    images, filters = arrays(layer, batch, SEEDS[0], dtype)
    (got,) = program.run({"x": _laid_out(program, images)})
    right = reference(layer, images, filters)
    if _is_last(program, images):
        right = right.transpose(0, 2, 3, 1)
    error = float(np.linalg.norm((got - right).ravel()) / np.linalg.norm(right.ravel()))
    sets = [{"x": _laid_out(program, arrays(layer, batch, seed, dtype)[0])} for seed in SEEDS]
    row = {f"{kind} us": median(program.run_seconds(sets, repeat, INSIDE)) * 1e6}
    if program.plan.device == "opencl":
        times = program.run_seconds(sets, repeat, INSIDE, host=True)
        row[f"{kind} host us"] = median(times) * 1e6
    row[f"{kind} error"] = error if np.isfinite(error) else np.inf
    if kind in ("predicted", "tuned"):
        row["extra MB" if kind == "predicted" else "tuned extra MB"] = _extra(program)
    return row


def _form(
    case: Case,
    repeat: int,
    direct: dict[str, Any],
    trials: dict[str, Any] | None,
    notes: Notes,
) -> dict[str, Any]:
    """The same of the chosen form; what is known of the direct one where that was chosen.

    Its best is the program with the predicted mapping, the fastest product in place of that one's.
    """
    kinds = [f"{kind} {what}" for kind in ("predicted", "tuned") for what in ("us", "error")]
    found = {key: direct[key] for key in (*kinds, "best us", "extra MB") if key in direct}
    if (case.folder / f"{case.name}-chosen-predicted").is_dir():
        found = _ours(case, f"{case.name}-chosen", ("predicted", "tuned"), repeat, notes)
        first = None if trials is None else trials["times"][0]
        if trials is not None and first is not None and "predicted us" in found:
            rest = found["predicted us"] - first * 1e6
            found["best us"] = rest + trials["seconds"] * 1e6
    return {f"chosen {key}": value for key, value in found.items()}


def _is_last(program: Any, images: np.ndarray) -> bool:
    """Whether a program takes NHWC images (of so many channels that it shows)."""
    outer, item, _ = program.plan.input_types["x"]
    return (*outer, *item) != images.shape


def _laid_out(program: Any, images: np.ndarray) -> np.ndarray:
    last = _is_last(program, images)
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)) if last else images


def _extra(program: Any) -> float:
    """Megabytes of the arena beyond inputs and outputs."""
    plan = program.plan
    own = {place.buffer for place in [*plan.inputs.values(), *plan.outputs]}
    sizes = [np.dtype(plan.slots[k].dtype).itemsize * plan.slots[k].size for k in own]
    return max(plan.arena - sum(sizes), 0) / 1e6


def _im2col(
    folder: Path, layer: Layer, batch: int, dtype: str, name: str, repeat: int
) -> dict[str, Any]:
    images, filters = arrays(layer, batch, SEEDS[0], dtype)
    first = _load(folder / f"{name}-matrix", filters)
    second = _load(folder / f"{name}-gemm", filters)
    (matrix,) = first.run({"x": images})
    (product,) = second.run({"m": matrix})
    right = reference(layer, images, filters)
    shape = (layer.k, batch, layer.out(), layer.out())
    got = product.reshape(shape).transpose(1, 0, 2, 3)
    error = float(np.linalg.norm((got - right).ravel()) / np.linalg.norm(right.ravel()))
    times = [
        median(first.run_seconds([{"x": images}], repeat, INSIDE)),
        median(second.run_seconds([{"m": matrix}], repeat, INSIDE)),
    ]
    return {
        "im2col us": sum(times) * 1e6,
        "im2col error": error,
        "im2col extra MB": matrix.nbytes / 1e6 + _extra(second),
    }


def _trials(folder: Path, name: str, device: Any, repeat: int) -> dict[str, Any]:
    """The fastest way of a set, with all times in the order of the prediction."""
    from glenside.codegen.device.trials import Trials
    from glenside.codegen.device.trials import measure as measure_trials
    from glenside.errors import TargetError

    trials = Trials.load(folder, name)
    times = measure_trials(trials, device, repeat)
    known = [(seconds, k) for k, seconds in enumerate(times) if seconds is not None]
    if not known:
        raise TargetError(f"{name}: none of {len(times)} ways runs and is right")
    seconds, number = min(known)
    return {
        "space": trials.space,
        "mapping": trials.trials[number].mapping,
        "seconds": seconds,
        "place": number,
        "times": times,
    }


def reference(layer: Layer, images: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The convolution in float64."""
    import torch

    x, w = (torch.from_numpy(a.astype("float64")).cuda() for a in (images, filters))
    y = torch.nn.functional.conv2d(x, w, None, layer.stride, layer.pad, 1, layer.groups)
    return np.asarray(y.cpu().numpy())


def cudnn(layer: Layer, batch: int, dtype: str, repeat: int) -> tuple[float, str]:
    """Microseconds of cuDNN's convolution in the better layout."""
    import torch

    exact(tf32=dtype == "tf32")
    found = []
    for layout in LAYOUTS:
        form = memory_format(layout)
        sets = []
        for seed in SEEDS:
            pair = arrays(layer, batch, seed, dtype)
            sets.append([torch.from_numpy(a).cuda().to(memory_format=form) for a in pair])

        def convolve(x: Any, w: Any) -> Any:
            return torch.nn.functional.conv2d(x, w, None, layer.stride, layer.pad, 1, layer.groups)

        found.append((graph_microseconds(convolve, sets, INSIDE, repeat), layout))
    return min(found)


# --- record ---------------------------------------------------------------------------------------


def record(options: Any) -> None:
    from glenside.codegen.gpu.mapping import tuning

    measured = json.loads(options.results.read_text())
    path = options.file or tuning.SHIPPED / "h200.json"
    for suffix in ("", ":tf32"):
        entries = {
            tuning.key_of(each["space"]): tuning.Tuned(
                each["space"], each["mapping"], each["seconds"], len(each["times"])
            )
            for name, each in measured["best"].items()
            if ("-tf32" in name) == bool(suffix)
        }
        if entries:
            tuning.record(path, measured["limits"] + suffix, entries)
            print(f"{len(entries)} mappings of {measured['limits']}{suffix} to {path}")
    path.with_name(path.name + ".lock").unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb")
    first = verbs.add_parser("build")
    first.add_argument("folder", type=Path)
    first.add_argument("--layers", nargs="*", help="names (default: all)")
    first.add_argument("--dtypes", nargs="*", default=["float32"])
    first.add_argument("--batches", nargs="*", type=int, default=[1])
    first.add_argument("--candidates", type=int, default=16, help="mappings to measure")
    first.add_argument("--target", default=CUDA)
    first.add_argument("--no-peers", dest="peers", action="store_false", help="ours alone")
    first.add_argument("--warps", action="store_true", help="matrix units as before Hopper")
    first.add_argument("--pack", action="store_true", help="into one compressed file")
    second = verbs.add_parser("measure")
    second.add_argument("folder", type=Path)
    second.add_argument("--json", type=Path, help="where the figures go")
    second.add_argument("--repeat", type=int, default=7)
    second.add_argument("--no-cudnn", dest="cudnn", action="store_false")
    second.add_argument("--unpack", default="/tmp/glenside-convolutions")
    third = verbs.add_parser("record")
    third.add_argument("results", type=Path)
    third.add_argument("--file", type=Path, help="the tuning file (default: the one that ships)")
    options = parser.parse_args()
    if options.verb is None:
        print("built on one machine, measured on one with a GPU: see --help")
        return
    {"build": build, "measure": measure, "record": record}[options.verb](options)


if __name__ == "__main__":
    main()
