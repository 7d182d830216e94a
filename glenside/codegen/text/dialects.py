"""What differs between the languages that kernels are printed in: a table for each.

A language is a :class:`Dialect`; nothing else of the printer knows any by name. The functions of
``compute`` are called as their declarations say
(:attr:`glenside.language.functions.Function.spelled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from glenside.errors import TargetError
from glenside.language.functions import FUNCTIONS

_C99 = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
}
_OPENCL = {
    "bool": "bool",
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
}
_CUDA = _OPENCL | {
    "int8": "signed char",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}

AFTER_EARLIER = "after_earlier_kernels"
"""The function of CUDA's texts that waits for the kernels launched before."""
COPY, COPIES_BEGUN, COPIES_DONE = "copy_async_{}", "copies_begun", "copies_done_{}"
"""The functions of CUDA's texts that copy so many bytes to local memory in the background, say that
what was begun so far belongs together, and wait until all but so many of these are done."""

INSIDE = "inside"
"""The function of checked texts that looks at a position before it is accessed."""
OUTSIDE = "outside"
"""The parameter of checked kernels that takes the number of an access that was out of bounds."""


@dataclass(frozen=True)
class Dialect:
    """How a language says what kernels are made of."""

    name: str
    title: str
    """What it is called in messages."""
    passes: str
    """The kind of TVM's target for which its passes lower kernels."""
    types: Mapping[str, str]
    """By dtype."""
    head: str
    """Of a kernel: ``{name}``, ``{parameters}`` and the size of its groups, ``{x}``, ``{y}``,
    ``{z}`` and ``{threads}``."""
    pointer: str
    """A parameter: ``{const}``, ``{type}``, ``{restrict}`` and ``{name}``."""
    array: str
    """An array: ``{shared}``, ``{type}``, ``{name}``, ``{size}``, ``{aligned}`` in bytes."""
    shared: str = ""
    """What stands before an array of local memory."""
    spaces: Mapping[str, str] = field(default_factory=dict)
    """What stands before the type that a pointer into a scope of memory points to."""
    positions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By TVM's name of a thread's or a group's position: how kernels call it, and what it is."""
    barrier: str = ""
    unroll: str = ""
    """What is said before a loop that is to be written out; without it, TVM writes it out."""
    restrict: str = "restrict "
    reads_once: bool = True
    """Whether what kernels read through a pointer may be taken never to change."""
    literals: Mapping[str, str] = field(
        default_factory=lambda: {"float32": "f", "uint32": "u", "int64": "LL", "uint64": "ULL"}
    )
    """What is appended to numbers of a dtype."""
    infinity: str = "INFINITY"
    nan: str = "NAN"
    """Both as float32."""
    bits: str = "as_{target}({value})"
    """The bits of a number as another dtype of its size: ``{source}``, ``{target}`` are types."""
    bits_of: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Likewise by (from dtype, to dtype), where it is not what :attr:`bits` says."""
    suffix: str = "f"
    """What is appended to the name of a function of float32."""
    vector: str = "{type}{lanes}"
    """The type of a vector; none, then loops of lanes are ordinary loops."""
    vector_of: str = "({vector})({values})"
    """A vector of values."""
    lane: str = "{vector}.s{lane:x}"
    helpers: Mapping[str, str] = field(default_factory=dict)
    """Definitions by name; a text has those that it calls, and those of the types in it."""
    begins: str = ""
    """The helper that kernels call first of all, unless they call it somewhere else."""
    dynamic: str = ""
    """Declares local memory whose size the launch says, as ``unsigned char {name}[]``."""
    most_array: int | None = None
    """Bytes of the largest array that a kernel declares; it is given larger ones."""
    checked: bool = False
    """Whether every access is looked at first, see :func:`checked`."""

    def type_of(self, dtype: str) -> str:
        """The type of a number, or of a vector.

        :raises TargetError: there is none.
        """
        element, _, lanes = dtype.partition("x")
        if element not in self.types:
            known = ", ".join(self.types)
            raise TargetError(f"{self.title} has no type for {element}: it has {known}")
        kind = self.types[element]
        return self.vector.format(type=kind, lanes=lanes) if lanes else kind

    def function(self, name: str, dtype: str) -> str:
        """What a function of C's library is called for a dtype."""
        for function in FUNCTIONS.values():
            if function.libm == name and self.name in function.spelled:
                return function.spelled[self.name]
        if name.startswith("__"):
            return name  # One of the language's own, for any dtype.
        return name + self.suffix * (dtype == "float32")


_INSIDE = """
// The position where it lies inside; else 0, and the access is told of.
static {on}{kind} {name}({kind} at, {kind} size, {space}int* {outside}, int access) {{
  if (at >= 0 && at < size) return at;
  *{outside} = access;
  return 0;
}}
"""


def _inside(kind: str = "int", space: str = "", on: str = "") -> str:
    return _INSIDE.format(kind=kind, name=INSIDE, space=space, outside=OUTSIDE, on=on)


C = Dialect(
    name="c",
    title="C source",
    passes="c",
    types=_C99,
    head="static void {name}({parameters})",
    pointer="{const}{type} *{restrict}{name}",
    array="{type} {name}[{size}]",
    bits="((union {{ {source} from; {target} to; }}){{{value}}}).to",
    vector="",
    most_array=1 << 10,
    helpers={
        INSIDE: _inside("int32_t"),
    },
)

OPENCL = Dialect(
    name="opencl",
    title="OpenCL C",
    passes="opencl",
    types=_OPENCL,
    # Groups are launched with this size and no other: without it a compiler leaves registers for
    # the largest group that the device allows.
    head="__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void {name}({parameters})",
    pointer="__global {const}{type}* {restrict}{name}",
    array="{shared}{type} {name}[{size}] __attribute__((aligned({aligned})))",
    shared="__local ",
    spaces={"global": "__global ", "shared": "__local "},
    positions={
        f"{tag}Idx.{axis}": (f"{kind}_{axis}", f"(int)get_{kind}_id({number})")
        for tag, kind in (("block", "group"), ("thread", "local"))
        for number, axis in enumerate("xyz")
    },
    barrier="barrier(CLK_LOCAL_MEM_FENCE)",
    unroll="#pragma unroll",
    literals={"float32": "f", "uint32": "u", "int64": "L", "uint64": "UL"},
    suffix="",  # OpenCL C overloads the functions that the C library names by type.
    helpers={
        "half": "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n",
        "double": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
        INSIDE: _inside(space="__global "),
    },
)

_WAIT = f"""
// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int {AFTER_EARLIER}() {{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}}
"""
_COPY = """
// Copies to shared memory in the background; zeros where there is nothing to copy.
static __device__ __forceinline__ int {copy}(void* to, const void* from, int there) {{
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.{kind}.shared.global [%0], [%1], {width}, %2;" ::
               "r"(place), "l"(from), "r"(there ? {width} : 0) : "memory");
  return 0;
}}
"""
_BEGUN = f"""
static __device__ __forceinline__ int {COPIES_BEGUN}() {{
  asm volatile("cp.async.commit_group;" ::: "memory");
  return 0;
}}
"""
_DONE = """
static __device__ __forceinline__ int {done}() {{
  asm volatile("cp.async.wait_group {count};" ::: "memory");
  return 0;
}}
"""
_LANES = """
// Neighbours in memory, loaded and stored at once.
template <typename Number, int COUNT>
struct alignas(COUNT & (COUNT - 1) ? alignof(Number) : sizeof(Number) * COUNT) lanes {
  Number at[COUNT];
};
"""

CUDA = Dialect(
    name="cuda",
    title="CUDA C++",
    passes="cuda",
    types=_CUDA,
    head='extern "C" __global__ void __launch_bounds__({threads}) {name}({parameters})',
    pointer="{const}{type}* {restrict}{name}",
    array="{shared}alignas({aligned}) {type} {name}[{size}]",
    shared="__shared__ ",
    positions={
        f"{tag}Idx.{axis}": (f"{kind}_{axis}", f"(int){tag}Idx.{axis}")
        for tag, kind in (("block", "group"), ("thread", "local"))
        for axis in "xyz"
    },
    barrier="__syncthreads()",
    unroll="#pragma unroll",
    restrict="__restrict__ ",
    # A kernel launched early waits for the ones before it: what it reads changes until then, which
    # a compiler that is told that no other pointer leads there need not expect.
    reads_once=False,
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fffffff)",
    bits="({target})({value})",  # Of integers.
    bits_of={
        ("float32", "int32"): "__float_as_int({value})",
        ("float32", "uint32"): "__float_as_uint({value})",
        ("int32", "float32"): "__int_as_float({value})",
        ("uint32", "float32"): "__uint_as_float({value})",
        ("float64", "int64"): "__double_as_longlong({value})",
        ("float64", "uint64"): "(unsigned long long)__double_as_longlong({value})",
        ("int64", "float64"): "__longlong_as_double({value})",
        ("uint64", "float64"): "__longlong_as_double({value})",
        ("float16", "int16"): "__half_as_short({value})",
        ("float16", "uint16"): "__half_as_ushort({value})",
        ("int16", "float16"): "__short_as_half({value})",
        ("uint16", "float16"): "__ushort_as_half({value})",
    },
    vector="lanes<{type}, {lanes}>",
    vector_of="{vector}{{{values}}}",
    lane="{vector}.at[{lane}]",
    helpers={
        "half": "#include <cuda_fp16.h>\n",
        "lanes": _LANES,
        AFTER_EARLIER: _WAIT,
        **{
            COPY.format(width): _COPY.format(
                copy=COPY.format(width), width=width, kind="cg" if width == 16 else "ca"
            )
            for width in (4, 8, 16)
        },
        COPIES_BEGUN: _BEGUN,
        **{
            COPIES_DONE.format(count): _DONE.format(done=COPIES_DONE.format(count), count=count)
            for count in range(3)
        },
        INSIDE: _inside(on="__device__ "),
    },
    begins=AFTER_EARLIER,
    dynamic="extern __shared__ __align__(128) unsigned char {name}[]",
)

DIALECTS = {dialect.name: dialect for dialect in (C, OPENCL, CUDA)}
"""By name."""


def checked(dialect: Dialect) -> Dialect:
    """The same language with every access looked at before it is made.

    Kernels take one parameter more, the last, ``int* outside``: an access out of its buffer's
    bounds leaves its number there and is made at the buffer's beginning instead. That tells of
    reads too, which leave no trace in memory.
    """
    return replace(dialect, checked=True)
