"""Images and volumes brought to another size."""

from __future__ import annotations

from collections.abc import Callable

from glenside.frontends.kinds import Floats, Ints
from glenside.frontends.lowering.axes import IMAGES, relayout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.known import ints_of
from glenside.frontends.lowering.tvm_resizing import Resizing, resize
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.language import Term


def _resize(form: str) -> Callable[..., Term]:
    def lower(
        constants: Constants,
        x: Term,
        *,
        size: Ints,
        roi: Floats | None = None,
        layout: str = form,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "round",
        cubic_alpha: float = -0.5,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> Term:
        """Each pixel from those nearest to where it lies in the old image."""
        how = Resizing(
            method, coordinate_transformation_mode, rounding_method, cubic_alpha,
            bool(cubic_exclude), extrapolation_value, roi or (),
        )  # fmt: skip
        return resize(constants, x, form, layout, size, how, out_dtype)

    return lower


_RESIZE = {f"image.resize{suffix}": _resize(form) for suffix, form in IMAGES.items()}
for _name, _lower in _RESIZE.items():
    operator(_name)(_lower)


@operator("dyn.image.resize2d")
def dynamic_resize2d(
    constants: Constants,
    x: Term,
    size: Term,
    roi: Term,
    *,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Term:
    """``image.resize2d`` where operands say the size and what is seen; they must be known."""
    seen = constants.known(roi)
    if seen is None:
        raise Refused("operand roi must be known while importing")
    return _RESIZE["image.resize2d"](
        constants,
        x,
        size=ints_of(constants, size, "size"),
        roi=tuple(map(float, seen.reshape(-1))),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


def _scaled(x: Term, form: str, layout: str, scales: tuple[float, ...]) -> list[int]:
    spatial = relayout(x, layout, form).shape[2:]
    return [round(n * scale) for n, scale in zip(spatial, scales, strict=True)]


@operator("nn.upsampling")
def upsampling(
    constants: Constants,
    x: Term,
    *,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Term:
    """Each axis longer by a factor: pixels repeated, or weighted means between them."""
    mode = "align_corners" if align_corners else "asymmetric"
    how = Resizing(method.removeprefix("bi"), mode, cubic_alpha=-0.75)
    size = _scaled(x, "NCHW", layout, (scale_h, scale_w))
    return resize(constants, x, "NCHW", layout, size, how)


@operator("nn.upsampling3d")
def upsampling3d(
    constants: Constants,
    x: Term,
    *,
    scale_d: float = 1.0,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Term:
    """As ``nn.upsampling``, of volumes."""
    how = Resizing(method.removeprefix("tri"), coordinate_transformation_mode, cubic_alpha=-0.75)
    size = _scaled(x, "NCDHW", layout, (scale_d, scale_h, scale_w))
    return resize(constants, x, "NCDHW", layout, size, how)


def _factors(constants: Constants, scales: dict[str, Term]) -> dict[str, float]:
    result = {}
    for name, term in scales.items():
        known = constants.known(term)
        if known is None or known.size != 1:
            raise Refused(f"operand {name} must be a known number")
        result[name] = float(known.item())
    return result


@operator("dyn.nn.upsampling")
def dynamic_upsampling(
    constants: Constants,
    x: Term,
    scale_h: Term,
    scale_w: Term,
    *,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Term:
    """``nn.upsampling`` where operands, which must be known, say the factors."""
    factors = _factors(constants, {"scale_h": scale_h, "scale_w": scale_w})
    return upsampling(
        constants, x, **factors, layout=layout, method=method, align_corners=align_corners
    )


@operator("dyn.nn.upsampling3d")
def dynamic_upsampling3d(
    constants: Constants,
    x: Term,
    scale_d: Term,
    scale_h: Term,
    scale_w: Term,
    *,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Term:
    """``nn.upsampling3d`` where operands, which must be known, say the factors."""
    factors = _factors(constants, {"scale_d": scale_d, "scale_h": scale_h, "scale_w": scale_w})
    return upsampling3d(
        constants,
        x,
        **factors,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
    )
