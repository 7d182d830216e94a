"""Reads saved programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from glenside.codegen.cpu.library import KernelLibrary
from glenside.codegen.cpu.threads import one_thread, threads_of
from glenside.codegen.device.executable import DeviceExecutable, load_device_program
from glenside.codegen.launch import Executable
from glenside.codegen.plan import LIBRARY, PARAMETERS, PLAN, Plan, file_hash, read_parameters
from glenside.codegen.plan_check import check_plan
from glenside.errors import InputError, TargetError
from glenside.language.shape import BFLOAT16, AccessType


def read_plan(source: Path) -> Plan:
    """The plan in a folder, every number of it held against its buffers.

    :raises TargetError: another version wrote it, or something that it needs is missing.
    :raises Exception: of any other kind: it is damaged.
    """
    plan = Plan.from_json((source / PLAN).read_text(encoding="utf-8"))
    if BFLOAT16.name != "bfloat16" and any(slot.dtype == "bfloat16" for slot in plan.slots):
        raise TargetError("the program has values of bfloat16: pip install ml-dtypes")
    check_plan(plan, (source / PARAMETERS).stat().st_size)
    return plan


def load(
    directory: str | Path, inputs: Mapping[str, AccessType] | None = None
) -> Executable | DeviceExecutable:
    """A saved program, ready to run, on the processor or on the device it was compiled for.

    Its library is loaded, which runs code, once all else has been checked.

    :param inputs: what the program is said to take.
    :raises InputError: there is none.
    :raises TargetError: another version wrote it, or something that the program needs is missing.
    :raises Exception: of any other kind: the files are damaged.
    """
    source = Path(directory).resolve()
    if not (source / PLAN).is_file():
        raise InputError(f"{source} holds no saved program ({PLAN} is missing)")
    plan = read_plan(source)
    if inputs is not None and plan.taken() != dict(inputs):
        raise ValueError("the plan has other inputs than the program")
    parameters = read_parameters(plan, source)
    if plan.device is not None:
        return load_device_program(plan, parameters, source)
    library, threads = None, one_thread()
    if plan.library is not None:
        path = source / LIBRARY.format(plan.library)
        if file_hash(path) != plan.library:
            raise ValueError(f"{path.name} is not the file that was written")
        threads = threads_of(source)
        library = KernelLibrary(path, threads)
    return Executable(plan, parameters, library, threads)
