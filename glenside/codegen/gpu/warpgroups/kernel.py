"""The CUDA text of a product by warpgroups, which multiply what lies in local memory."""

from __future__ import annotations

from glenside.codegen.gpu.interface import DeviceKernel
from glenside.codegen.gpu.tensor.kernel import (
    UnitNest,
    kernel_head,
    multiplication,
    primitives,
    template,
)
from glenside.codegen.gpu.warpgroups.tiling import WarpgroupTiling


class WarpgroupNest(UnitNest[WarpgroupTiling]):
    """The kernel of one product by one mapping of that kind."""

    def _tiling(self) -> WarpgroupTiling:
        return WarpgroupTiling(self.geometry, self.mapping)

    def device_kernel(self, name: str) -> DeviceKernel:
        """The launch.

        :raises Unprintable: a part of what is computed has no form in the template.
        """
        tiling = self.tiling
        cluster = f"__cluster_dims__(1, 1, {self.mapping.split}) " if self.mapping.split > 1 else ""
        declared, body, arguments = self._entry()
        source = (
            f"{kernel_head(declared, tiling.threads, cluster)}{body}"
            f"  shape.start();\n"
            f"  GLENSIDE_LOCAL(local);\n"
            f"  matrix_product(shape, local);\n}}\n"
        )
        library = (
            primitives("common"),
            primitives(),
            multiplication(self.dtype, tiling.columns_each),
            template("operands"),
            template("results"),
            template(),
        )
        return self._launched(name, source, arguments, library, cluster=self.mapping.split)
