"""The type analyses: outer shape, item shape and dtype of every e-class.

Loaded terms bring their type along; these rules give the terms that rewrites make theirs, and
compare: an analysis without merge raises when a class is given two types. The rules state what
``glenside.language.operators`` states in Python; the tests hold the two against each other.

A rule whose conditions fail leaves its node untyped, which :meth:`EGraph.freeze` notices. Only a
``call`` cannot be typed here: the rule that makes one says its type, see :func:`typed`.
"""

from __future__ import annotations

from collections.abc import Iterator

from egglog import (
    Action,
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    relation,
    rule,
    set_,
    var,
    vars_,
)

from glenside.language.functions import FUNCTIONS
from glenside.rewrites.vocabulary import Access, drop, flat, ints, permute, product, take

item_kept = relation("item_kept", String, String, egg_fn="item_kept")
"""A function, and what it leaves of the item: ``none``, ``all but first`` axis or ``all``."""

dtype_from = relation("dtype_from", String, String, egg_fn="dtype_from")
"""A function, and where its result has its dtype from: ``accumulate`` or ``operand``."""

result_dtype = relation("result_dtype", String, String, egg_fn="result_dtype")
"""A function whose result always has one dtype, and that dtype."""


def typed(node: Access, outer: Vec[i64], item: Vec[i64], dtype: String) -> tuple[Action, ...]:
    """Actions that state the type of a node."""
    return (
        set_(node.outer).to(outer),
        set_(node.item).to(item),
        set_(node.dtype).to(dtype),
    )


def type_rules() -> Iterator[RewriteOrRule]:
    """The analyses, one rule for each operator and case."""
    x, y, z = vars_("x y z", Access)
    s, t, s2, t2, outer, item = vars_("s t s2 t2 outer item", Vec[i64])
    v, w, u = vars_("v w u", Vec[i64])
    d, dtype, name, kind = vars_("d dtype name kind", String)
    a, b, c, e, n = vars_("a b c e n", i64)

    # What is known of the operands; `dims` counts axes over outer ++ item, as the language does.
    of_x = (eq(s).to(x.outer), eq(t).to(x.item), eq(d).to(x.dtype))
    of_y = (eq(s2).to(y.outer), eq(t2).to(y.item))
    dims = s.append(t)

    def infer(
        title: str,
        node: Access,
        *facts: Fact,
        outer_is: Vec[i64],
        item_is: Vec[i64],
        dtype_is: String,
    ) -> RewriteOrRule:
        # Computed in the query: what fails there just does not match, in an action it would panic.
        return rule(
            node, *facts, eq(outer).to(outer_is), eq(item).to(item_is), name=f"type of {title}"
        ).then(*typed(node, outer, item, dtype_is))

    def split(title: str, node: Access, *facts: Fact, axes: Vec[i64], at: i64) -> RewriteOrRule:
        """The result has ``axes``, the first ``at`` of them outer, and the dtype of x."""
        outer_is, item_is = take(axes, at), drop(axes, at)
        return infer(title, node, *of_x, *facts, outer_is=outer_is, item_is=item_is, dtype_is=d)

    rank = s.length()
    yield infer("tensor", Access.tensor(name, v, d), outer_is=v, item_is=ints(), dtype_is=d)
    yield infer("constant", Access.constant(name, v, d), outer_is=v, item_is=ints(), dtype_is=d)
    yield split("access", x.access(n), axes=dims, at=n)
    yield split(
        "transpose", x.transpose(v), v.length() == dims.length(), axes=permute(dims, v), at=rank
    )
    yield infer(
        "cart_prod",
        x.cart_prod(y, n),
        *of_x,
        *of_y,
        t == t2,
        take(s, n) == take(s2, n),
        outer_is=s.append(drop(s2, n)),
        item_is=ints(2).append(t),
        dtype_is=d,
    )
    yield infer(
        "pair",
        x.pair(y),
        *of_x,
        *of_y,
        s == s2,
        t == t2,
        outer_is=s,
        item_is=ints(2).append(t),
        dtype_is=d,
    )
    counts = (
        t.length().range().map(lambda i: (t[i] - (v[i] - i64(1)) * u[i] - i64(1)) / w[i] + i64(1))
    )
    yield infer(
        "windows", x.windows(v, w, u), *of_x, outer_is=s.append(counts), item_is=v, dtype_is=d
    )
    yield split("slice", x.slice(a, b, c, e), axes=dims.set(a, (c - b + e - 1) / e), at=rank)
    yield split(
        "concat", x.concat(y, a), *of_y, axes=dims.set(a, dims[a] + s2.append(t2)[a]), at=rank
    )
    gaps = (dims[a] - i64(1)).max(0) * e
    yield split("pad", x.pad(name, a, b, c, e), axes=dims.set(a, b + dims[a] + gaps + c), at=rank)
    one = dims[a] == i64(1)
    yield split("squeeze, outer", x.squeeze(a), one, a < rank, axes=dims.remove(a), at=rank - 1)
    yield split("squeeze, item", x.squeeze(a), one, a >= rank, axes=dims.remove(a), at=rank)
    longer = take(dims, a).append(ints(1), drop(dims, a))
    yield split("unsqueeze, outer", x.unsqueeze(a), a <= rank, axes=longer, at=rank + 1)
    yield split("unsqueeze, item", x.unsqueeze(a), a > rank, axes=longer, at=rank)
    yield split("broadcast", x.broadcast(v), v.length() == dims.length(), axes=v, at=rank)
    yield infer("flatten", x.flatten(), *of_x, outer_is=flat(s), item_is=flat(t), dtype_is=d)
    yield infer(
        "reshape",
        x.reshape(v, w),
        *of_x,
        product(v) == product(s),
        product(w) == product(t),
        outer_is=v,
        item_is=w,
        dtype_is=d,
    )
    positions = s2.append(t2)
    taken = take(dims, a).append(positions, drop(dims, a + 1))
    yield split(
        "gather, outer",
        x.gather(y, a),
        *of_y,
        a < rank,
        axes=taken,
        at=rank - 1 + positions.length(),
    )
    yield split("gather, item", x.gather(y, a), *of_y, a >= rank, axes=taken, at=rank)
    yield infer("cast", x.cast(dtype), *of_x, outer_is=s, item_is=t, dtype_is=dtype)
    yield infer("where", z.where(x, y), *of_x, outer_is=s, item_is=t, dtype_is=d)
    yield infer(
        "blocked",
        x.blocked(y, name, v, n, dtype),
        *of_x,
        *of_y,
        t == t2,
        outer_is=s.append(drop(s2, n)),
        item_is=ints(),
        dtype_is=dtype,
    )
    yield infer(
        "host_op",
        Access.host_op(var("operands", Vec[Access]), name, v, d, dtype, a, b, kind),
        outer_is=v,
        item_is=ints(),
        dtype_is=d,
    )

    # Shape and dtype of a computation depend on its function in two independent ways.
    node = x.compute(name, dtype)
    for kept, item_is in (("none", ints()), ("all but first", drop(t, 1)), ("all", t)):
        yield rule(
            node, *of_x, item_kept(name, kept), eq(item).to(item_is), name=f"type of item: {kept}"
        ).then(set_(node.outer).to(s), set_(node.item).to(item))
    for source, dtype_is in (("accumulate", dtype), ("operand", d)):
        yield rule(
            node, *of_x, dtype_from(name, source), name=f"type of result: dtype of {source}"
        ).then(set_(node.dtype).to(dtype_is))
    yield rule(node, result_dtype(name, kind), name="type of result: fixed").then(
        set_(node.dtype).to(kind)
    )


def function_facts() -> Iterator[tuple[str, str, str]]:
    """Rows ``(relation, function, value)`` that tell the rules above about the functions."""
    kept = {"reduce": "none", "fold": "all but first", "map": "all", "vector": "all"}
    for name, declared in FUNCTIONS.items():
        yield "item_kept", name, kept[declared.kind]
        if declared.result:
            yield "result_dtype", name, declared.result
        else:
            yield "dtype_from", name, "accumulate" if declared.accumulates else "operand"
