"""Pictures of e-graphs: whole, near a class, summarised."""

import pytest

import glenside
from glenside.errors import InputError
from glenside.explore import draw_egraph
from glenside.explore.egraph_drawing import MEMBERS
from glenside.language import builders
from glenside.language.shape import AccessType
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.rules.layout import LAYOUT
from tests.explore.test_drawings import NAMESPACE, count, parsed, texts


def kinds(root, kind):
    return sum(kind in rect.get("class").split() for rect in root.iter(f"{NAMESPACE}rect"))


def hints(root):
    return [title.text for title in root.iter(f"{NAMESPACE}title")]


def test_a_small_one_is_drawn_whole(exploration):
    exploration.run()
    root = parsed(draw_egraph(exploration))
    egraph = exploration.egraph
    assert kinds(root, "class") == len(egraph.classes) == 14
    assert len(hints(root)) == egraph.node_count == 20
    assert count(root, "call chosen") == 1
    assert any(h.endswith("brought by systolic-padded(16,16) in pass 1") for h in hints(root))
    chosen = exploration.extract().cost[-1]
    assert kinds(root, "chosen") == chosen
    assert f"#{egraph.roots[0]} ((1 4 6 6) ()) float32, an output" in texts(root)


def test_a_frozen_one_is_drawn_too(exploration):
    root = parsed(draw_egraph(exploration.egraph))
    assert (kinds(root, "class"), kinds(root, "chosen")) == (9, 0)


def test_operands_stand_below_and_cycles_do_no_harm():
    x = builders.tensor("x", (3, 4))
    run = glenside.explore(builders.transpose(x, (0, 1)), rules=[LAYOUT]).run()
    assert any(n in node.children for n, c in enumerate(run.egraph.classes) for node in c)
    root = parsed(draw_egraph(run))
    assert sum(path.get("class") == "edge cycle" for path in root.iter(f"{NAMESPACE}path")) == 1


@pytest.mark.parametrize("around", ["(blocked ?unit ?size ?x ?w)", None])
def test_the_neighbourhood_of_a_class(exploration, around):
    egraph = exploration.run().egraph
    number = next(n for n, c in enumerate(egraph.classes) if any(x.op == "blocked" for x in c))
    root = parsed(draw_egraph(exploration, around=around or number))
    near = {c for node in egraph.classes[number] for c in node.children}
    near |= {n for n, c in enumerate(egraph.classes) if any(number in x.children for x in c)}
    assert kinds(root, "class") == 1 + len(near) < len(egraph.classes)
    assert kinds(root, "here") == 1
    wider = parsed(draw_egraph(exploration, around=around or number, hops=2))
    assert kinds(wider, "class") > 1 + len(near)
    few = parsed(draw_egraph(exploration, around=around or number, most=2))
    assert kinds(few, "class") == 2
    assert f"{len(near) - 1} more classes are as near" in texts(few)


def test_a_term_may_be_what_it_is_drawn_around(exploration):
    root = parsed(draw_egraph(exploration, around="(access 1 (tensor x))", hops=0))
    assert kinds(root, "here") == kinds(root, "class") == 1


def test_a_large_one_is_summarised(exploration):
    egraph = exploration.run().egraph
    shown = texts(parsed(draw_egraph(exploration, most=5)))
    assert "20 e-nodes in 14 classes, by operator" in shown
    flatten = sum(node.op == "flatten" for nodes in egraph.classes for node in nodes)
    assert f"{flatten}  in {flatten} classes" == shown[shown.index("flatten") + 1]
    largest = max(map(len, egraph.classes))
    assert any(text.startswith(f"{largest}  ") for text in shown)
    by_class = texts(parsed(draw_egraph(exploration, by="class")))
    assert "20 e-nodes in 14 classes: classes with most members" in by_class
    assert "flatten" not in by_class


def test_what_is_not_there_is_told(exploration):
    for around in (99, -1):
        with pytest.raises(InputError, match=r"there is no class -?\d+: they are 0 to 8"):
            draw_egraph(exploration, around=around)
    with pytest.raises(InputError, match="the e-graph does not hold"):
        draw_egraph(exploration, around="(call ?u ?p ?x)")
    with pytest.raises(InputError, match="by 'operator' or 'class', not by 'rule'"):
        draw_egraph(exploration, by="rule")


def test_large_classes_show_some_of_their_members():
    members = tuple(ENode("constant", (float(i), (3,), "float32"), ()) for i in range(MEMBERS + 3))
    frozen = FrozenEGraph((members,), (AccessType((3,), (), "float32"),), (0,))
    root = parsed(draw_egraph(frozen))
    assert len(hints(root)) == MEMBERS - 1
    assert "4 more members" in texts(root)
