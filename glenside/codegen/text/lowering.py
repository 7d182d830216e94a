"""The passes of TVM that kernels go through before they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glenside.codegen.text.dialects import Dialect


def lowered(
    functions: Mapping[str, Any], dialect: Dialect, options: Mapping[str, Any]
) -> dict[str, Any]:
    """TIR functions over flat buffers by name: simplified, with vectors in place of loops of lanes
    and barriers where they are needed, and without operators that C lacks.

    :param options: of TVM's target, beside its kind.
    """
    import tvm
    from tvm import s_tir, tirx

    target = tvm.target.Target({"kind": dialect.passes, **options}).with_host("llvm")
    passes = [
        tirx.transform.BindTarget(target),
        tirx.transform.StmtSimplify(),
        tirx.transform.VectorizeLoop(bool(dialect.vector)),
        tirx.transform.StorageRewrite(),
        s_tir.transform.HoistIfThenElse(),
        tirx.transform.UnrollLoop(),
        s_tir.transform.RenormalizeSplitPattern(),
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        s_tir.transform.ThreadSync("shared"),
        s_tir.transform.ThreadSync("shared.dyn"),
        s_tir.transform.MergeSharedMemoryAllocations(),
        tirx.transform.StmtSimplify(),
        tirx.transform.LowerIntrin(),
    ]
    # Where a language has a word for it, loops that are to be written out stay loops: the device's
    # compiler unrolls them faster than TVM does, and the text stays readable.
    config = {"tirx.UnrollLoop": {"explicit_unroll": not dialect.unroll, "auto_max_step": 0}}
    module = tvm.IRModule(
        {name: each.with_attr("global_symbol", name) for name, each in functions.items()}
    )
    with tvm.transform.PassContext(opt_level=3, config=config):
        done = tvm.ir.transform.Sequential(passes)(module).functions
    return {str(variable.name_hint): function for variable, function in done.items()}
