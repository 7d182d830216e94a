import re
import xml.etree.ElementTree as ElementTree

import pytest

import glenside
from glenside.errors import GlensideError, InputError
from glenside.explore.access_drawing import draw_access
from glenside.explore.program_drawing import draw_program, draw_programs
from glenside.language import builders
from tests.models import LIGHT, small_network

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(picture):
    """The picture as XML; everything lies inside of it."""
    root = ElementTree.fromstring(str(picture))
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in root.iter(f"{NAMESPACE}rect"):
        assert 0 <= float(rect.get("x")) <= width and 0 <= float(rect.get("y")) <= height
    return root


def count(root, kind):
    return sum(rect.get("class") == kind for rect in root.iter(f"{NAMESPACE}rect"))


def texts(root):
    return [text.text for text in root.iter(f"{NAMESPACE}text")]


def test_outer_axes_hold_cells_and_cells_hold_items():
    root = parsed(draw_access(builders.access(builders.tensor("x", (2, 3, 4, 5)), 2)))
    assert count(root, "outer") == 2 * 3
    assert count(root, "item") == 2 * 3 * 4 * 5
    assert "((2 3) (4 5))" in texts(root)
    assert "6 positions to iterate over, items of 20" in texts(root)


def test_long_axes_are_cut_and_it_says_so():
    root = parsed(draw_access(builders.access(builders.tensor("x", (100, 64)), 1)))
    assert count(root, "outer") == 6
    assert "drawn: 1x6 positions, 1x8 of each item" in texts(root)


def test_windows_are_shown_on_what_they_slide_over():
    image = builders.access(builders.tensor("x", (7, 7)), 0)
    root = parsed(draw_access(builders.windows(image, (3, 2), (2, 1))))
    assert count(root, "window") == 3 * 2
    assert "the first window; the next lies 2 1 further" in texts(root)
    dilated = builders.windows(image, (2, 2), (1, 1), (2, 2))
    positions = {
        (float(r.get("x")), float(r.get("y")))
        for r in parsed(draw_access(dilated)).iter(f"{NAMESPACE}rect")
        if r.get("class") == "window"
    }
    xs = sorted({x for x, _ in positions})
    assert len(positions) == 4 and xs[1] - xs[0] == 24


def test_calls_of_the_program_are_coloured():
    program = glenside.optimize(small_network(), target="systolic-array:16x16")
    root = parsed(draw_program(program.terms, names=program.names))
    assert count(root, "call") == sum(program.report.offloads.values()) == 2
    assert "systolic-array" in texts(root)


def test_chains_of_transformers_are_one_box_unless_asked():
    x = builders.tensor("x", (2, 3, 4))
    chain = builders.access(builders.transpose(builders.transpose(x, (1, 0, 2)), (2, 1, 0)), 0)
    term = builders.compute("sum", chain)
    assert count(parsed(draw_program(term)), "move") == 1
    assert "3 transformers" in texts(parsed(draw_program(term)))
    assert count(parsed(draw_program(term, transformers=True)), "move") == 3


def test_operands_stand_below_their_users():
    x = builders.tensor("x", (4,))
    total = builders.compute("sum", builders.access(builders.elementwise("relu", x), 0))
    root = parsed(draw_program(total, transformers=True))
    y = {
        group.find(f"{NAMESPACE}text").text: float(group.find(f"{NAMESPACE}rect").get("y"))
        for group in root.iter(f"{NAMESPACE}g")
        if group.find(f"{NAMESPACE}text") is not None
    }
    assert y["sum"] < y["relu"] < y["x"]


def test_before_and_after_stand_side_by_side():
    program = glenside.optimize(small_network(), target="systolic-array:16x16")
    before = glenside.optimize(small_network(), target="cpu")
    root = parsed(draw_programs({"before": before.terms, "after": program.terms}))
    assert {"before", "after"} <= set(texts(root))
    assert count(root, "call") == 2
    with pytest.raises(InputError, match="no program to draw"):
        draw_programs({})


def test_large_programs_are_summarised():
    program = glenside.optimize(
        LIGHT / "light_resnet50.onnx", target="systolic-array:16x16", check=False
    )
    root = parsed(draw_program(program.terms, most=100))
    shown = texts(root)
    assert re.fullmatch(r"1,\d{3} terms: too many to draw, so by what they are", shown[0])
    assert shown[shown.index("systolic-array") + 1] == "54"


def test_names_are_escaped_and_the_picture_can_be_written(tmp_path):
    picture = draw_program(builders.elementwise("relu", builders.tensor("<x & y>", (2,))))
    assert "<x & y>" in texts(parsed(picture))
    assert picture._repr_svg_() == str(picture)
    assert picture.save(tmp_path / "p.svg").read_text().startswith("<svg")
    with pytest.raises(GlensideError, match="cannot write"):
        picture.save(tmp_path / "none" / "p.svg")


def test_a_picture_styles_nothing_else_on_a_page():
    style = parsed(draw_access(builders.tensor("x", (2, 3)))).find("{*}style").text
    bodies = re.sub(r"@media[^{]*\{(.*?\})\s*\}", r"\1", style)
    selectors = [each for group in re.findall(r"([^{}]+)\{", bodies) for each in group.split(",")]
    assert len(selectors) > 15
    for selector in selectors:
        assert re.search(r"\.glenside-drawing\b", selector), selector
