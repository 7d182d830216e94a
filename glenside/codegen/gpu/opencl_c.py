"""OpenCL C as TVM prints it, made into what drivers compile well.

Vectors are loaded and stored through pointers to vectors: ``vload4`` and ``vstore4`` promise the
alignment of one element only, and NVIDIA's compiler makes four accesses of each. Kernels say the
size of their groups, which are launched with no other: without it a compiler leaves registers for
the largest group that the device allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from glenside.codegen.gpu.launching import UNROLL
from glenside.language.functions import FUNCTIONS

_SCALAR = re.compile(r"\(*convert_[a-z]+\(")
"""How a condition of one element begins; that of a vector has a number behind the type."""
_COMPARES = re.compile(r" (?:[<>]=?|[!=]=|&&|\|\|) ")
_KERNEL = re.compile(r"^__kernel void (\w+)\(", re.MULTILINE)
_DEFINITION = re.compile(r"^__kernel [^\n]*\) \{\n.*?^\}$", re.DOTALL | re.MULTILINE)
_POINTER = re.compile(r"(__global |__local )(\w+)\* (?:restrict )?(\w+)")
_ARRAY = re.compile(r"^ *(__local )?(\w+) (\w+)\[\d+\];$", re.MULTILINE)
_ACCESS = re.compile(r"\bv(load|store)(2|4|8|16)\(")
"""Not of three: ``vload3`` reads three elements, a pointer to a vector of three reads four."""
_SIZES = {"char": 1, "short": 2, "half": 2, "int": 4, "float": 4, "long": 8, "double": 8}
_SIZES |= {f"u{kind}": size for kind, size in _SIZES.items()}
"""Bytes of the types that there are vectors of."""


def repaired(text: str, blocks: Mapping[str, tuple[int, int, int]]) -> str:
    """The text of kernels, the threads of whose groups are given by name."""
    # OpenCL C overloads the functions that the C library names by type.
    library = "|".join(sorted({f.libm for f in FUNCTIONS.values() if f.libm}))
    text = re.sub(rf"\b({library})f\(", r"\1(", text)
    text = _comparisons(_conditionals(text))
    text = re.sub(rf"^( *)(for \(int {UNROLL}\w* = 0)", r"\1#pragma unroll\n\1\2", text,
                  flags=re.MULTILINE)  # fmt: skip
    text = _DEFINITION.sub(lambda match: _vectors(match[0]), text)
    return _KERNEL.sub(lambda match: _sized(match[1], blocks), text)


def _sized(name: str, blocks: Mapping[str, tuple[int, int, int]]) -> str:
    x, y, z = blocks[name]
    return f"__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void {name}("


def _conditionals(text: str) -> str:
    """``select`` of scalars as ``?:``: arithmetic on narrow integers gives int, and a call with
    operands of several types would be ambiguous."""
    at = text.find("select(")
    while at >= 0:
        parts, end = _arguments(text, at + len("select("))
        if len(parts) == 3 and _SCALAR.match(parts[2]):
            otherwise, chosen, condition = parts
            made = f"(({condition}) ? ({chosen}) : ({otherwise}))"
            text = text[:at] + made + text[end:]
            at = text.find("select(", at)  # Operands may hold others.
        else:
            at = text.find("select(", at + 1)
    return text


def _comparisons(text: str) -> str:
    """What compares or joins comparisons is 0 or 1, and needs no conversion to bool."""
    at = text.find("((bool)(")
    while at >= 0:
        start = at + len("((bool)")
        (inside, *_), end = _arguments(text, start + 1)
        if text[end] == ")" and _COMPARES.search(_outermost(inside)):
            text = text[:at] + text[start:end] + text[end + 1 :]
        at = text.find("((bool)(", at + 1)
    return text


def _outermost(text: str) -> str:
    """An expression without what stands in its parentheses and brackets."""
    depth, kept = 0, ""
    for letter in text:
        depth -= letter in ")]"
        kept += letter if not depth else ""
        depth += letter in "(["
    return kept


def _vectors(kernel: str) -> str:
    """One kernel with pointers to vectors; what lies at a place of unknown type stays a call.

    TVM makes vectors of loads whose place it proves to be a multiple of their length, and we of
    stores; buffers begin at multiples of more than any vector's size.
    """
    arrays = {name: (space, kind) for space, kind, name in _ARRAY.findall(kernel)}
    places = {name: (space, kind) for space, kind, name in _POINTER.findall(kernel)} | arrays
    widest: dict[str, int] = {}
    at = 0
    while (match := _ACCESS.search(kernel, at)) is not None:
        parts, end = _arguments(kernel, match.end())
        stores = match[1] == "store"
        (name,) = re.findall(r"^\w*", parts[-1])
        space, kind = places.get(name, ("", ""))
        at = match.end()
        if len(parts) != 2 + stores or parts[-2] != "0" or kind not in _SIZES:
            continue
        widest[name] = max(widest.get(name, 0), _SIZES[kind] * int(match[2]))
        place = f"*({space}{kind}{match[2]}*)({parts[-1]})"
        made = f"{place} = {parts[0]}" if stores else place
        kernel = kernel[: match.start()] + made + kernel[end:]
        at = match.start() + len(place) * (not stores)  # What is stored may be loaded.

    def aligned(match: re.Match[str]) -> str:
        if match[3] not in widest:
            return match[0]
        return f"{match[0][:-1]} __attribute__((aligned({widest[match[3]]})));"

    return _ARRAY.sub(aligned, kernel)


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call, from behind its parenthesis on, and where it ends."""
    parts, depth, at, begun = [], 0, start, start
    while depth >= 0:
        letter = text[at]
        depth += (letter in "([") - (letter in ")]")
        if depth < 0 or (letter == "," and not depth):
            parts.append(text[begun:at].strip())
            begun = at + 1
        at += 1
    return parts, at
