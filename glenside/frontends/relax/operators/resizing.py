"""Images brought to another size."""

from __future__ import annotations

from collections.abc import Callable

from glenside.frontends.kinds import Floats, Ints
from glenside.frontends.lowering.axes import IMAGES
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.tvm_resizing import Resizing, resize
from glenside.frontends.relax.signature import operator
from glenside.language import Term


def _resize(form: str) -> Callable[..., Term]:
    def lower(
        constants: Constants,
        x: Term,
        size: Ints,
        *,
        roi: Floats | None,
        layout: str,
        method: str,
        coordinate_transformation_mode: str,
        rounding_method: str,
        cubic_alpha: float,
        cubic_exclude: int,
        extrapolation_value: float,
        out_dtype: str | None,
    ) -> Term:
        """Each pixel from those nearest to where it lies in the old image."""
        how = Resizing(
            method, coordinate_transformation_mode, rounding_method, cubic_alpha,
            bool(cubic_exclude), extrapolation_value, roi or (),
        )  # fmt: skip
        return resize(constants, x, form, layout, size, how, out_dtype)

    return lower


for _suffix in ("2d", "3d"):
    operator(f"image.resize{_suffix}")(_resize(IMAGES[_suffix]))
