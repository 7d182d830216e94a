"""The CUDA text of a product by warps: the description of :class:`UnitNest` for another
template, and the second kernel that adds up parts."""

from __future__ import annotations

import functools
from dataclasses import replace

from glenside.codegen.gpu.interface import DeviceKernel
from glenside.codegen.gpu.partial import PartialSums
from glenside.codegen.gpu.tensor.kernel import (
    KINDS,
    UnitNest,
    digits,
    indented,
    kernel_head,
    primitives,
    template,
)
from glenside.codegen.gpu.tensor.unit import LaneLayout
from glenside.codegen.gpu.warps.tiling import Parts, WarpTiling
from glenside.codegen.kernel.builder import Argument


class WarpNest(UnitNest[WarpTiling]):
    """The kernels of one product by one mapping to warps."""

    def _tiling(self) -> WarpTiling:
        return WarpTiling(self.geometry, self.mapping)

    @property
    def rows_fast(self) -> bool:
        # Sums of parts go to scratch memory, where rows are innermost however results lie.
        return self.mapping.split > 1 or super().rows_fast

    @functools.cached_property
    def parts(self) -> Parts:
        """How the sums of a split product lie."""
        return Parts(self.product, self.mapping.split)

    # --- launches ---------------------------------------------------------------------------------

    def device_kernel(self, name: str) -> DeviceKernel:
        """The launch of the product itself.

        :raises Unprintable: a part of what is computed has no form in the template.
        """
        tiling = self.tiling
        declared, body, arguments = self._entry()
        source = (
            f"{kernel_head(declared, tiling.threads)}{body}"
            f"  shape.start();\n"
            f"  GLENSIDE_LOCAL(local);\n"
            f"  warp_product(shape, local);\n}}\n"
        )
        library = (
            primitives("common"),
            primitives("warps"),
            template("operands"),
            template("results"),
            template("warp_product"),
        )
        return self._launched(
            name, source, arguments, library, writes=self.tail if self.mapping.split == 1 else None
        )

    def kernels(self, name: str) -> list[DeviceKernel]:
        """The product, and for one in parts their sum."""
        made = [self.device_kernel(name)]
        if self.mapping.split > 1:
            sums = PartialSums(self.builder, self.kernel, self.limits, self.parts, self._scratch)
            # Its time is in the product's.
            made.append(replace(sums.device_kernel(f"{name}_sum"), predicted=0.0))
        return made

    @functools.cached_property
    def _scratch(self) -> Argument:
        size = self.parts.elements
        return Argument(self.builder.memory.add(size, "float32"), 0, size)

    def _target(self) -> tuple[str, Argument]:
        if self.mapping.split == 1:
            return super()._target()
        return "float32", self._scratch

    # --- the description --------------------------------------------------------------------------

    def _constants(self) -> dict[str, int]:
        constants, unit = super()._constants(), self.tiling.unit
        return constants | {
            "SPLIT": 1,
            "PARTS": constants["SPLIT"],
            "WARP": unit.threads,
            "PRODUCT_ROWS": unit.rows,
            "PRODUCT_POSITIONS": unit.positions,
            "ROW_WORDS": self.layout.row_words,
            "TOGETHER": self.layout.together,
            "SUMS": self.layout.sums,
        }

    @property
    def layout(self) -> LaneLayout:
        """Which lane of a warp holds what."""
        layout = self.tiling.unit.layout
        assert layout is not None
        return layout

    @property
    def width(self) -> int:
        return 4 if self.mapping.split > 1 else super().width

    @functools.cached_property
    def wide(self) -> bool:
        if self.mapping.split > 1:
            return self.geometry.rows.size % self.width == 0
        return super().wide

    def _multiply(self) -> str:
        layout = self.layout
        places = [
            f"static __device__ __forceinline__ int {name}(int lane, int held = 0) "
            f"{{ return {place.text}; }}\n"
            for name, place in layout.functions().items()
        ]
        return indented([
            *places,
            f"static __device__ __forceinline__ void multiply(float (&sums)[{layout.sums}],\n"
            f"    const unsigned (&rows)[{layout.row_words}], unsigned first, unsigned second) {{\n"
            f"  warp_multiply_{KINDS[self.dtype][0]}(sums, rows, first, second);\n}}\n"
        ])  # fmt: skip

    def _store(self) -> str:
        return super()._store() if self.mapping.split == 1 else self._store_part()

    def _store_part(self) -> str:
        """Stores sums as :class:`Parts` says."""
        geometry, size = self.geometry, self.geometry.size
        flat = "(long long)blockIdx.z"
        for k, name in self.batch_names.items():
            flat = f"({flat} * {size(k)} + {name})"
        for n, digit in enumerate(digits("place", self.mapping.tile)):
            flat = f"({flat} * {geometry.loops[n].size} + start{n} + {digit})"
        rows = geometry.rows.size
        arguments = f"(int row, int place, float (&values)[{self.width}]) const"
        lines = [
            f"__device__ __forceinline__ void compute{arguments} {{}}\n",
            "__device__ __forceinline__ void store(int row, int place, const float (&values)"
            f"[{self.width}]) const {{\n",
            f"  float* const target = out + {flat} * {rows} + row_start + row;\n",
        ]
        if self.wide:
            lines.append("  *(uint4*)target = stored(values);\n}\n")
        else:
            lines.append("#pragma unroll\n")
            lines.append(f"  for (int k = 0; k < {self.width}; ++k)\n")
            lines.append(f"    if (row_start + row + k < {rows}) target[k] = values[k];\n}}\n")
        return indented(lines)
