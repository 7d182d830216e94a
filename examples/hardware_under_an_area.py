"""Which units are worth their area? Units and program are chosen together, for each budget."""

import glenside
from glenside.samples import sample_model


def main() -> None:
    """Prints the front for SqueezeNet: the fastest hardware for each area."""
    front = glenside.explore_hardware(
        sample_model("squeezenet"),
        areas=[64, 256, 1024],
        candidates=["vta", "systolic-array:8x8", "systolic-array:16x64"],
    )
    for point in front.points:
        units = ", ".join(point.units) or "no unit"
        print(f"area {point.area:g}: {units}: {point.cycles:,.0f} cycles")


if __name__ == "__main__":
    main()
