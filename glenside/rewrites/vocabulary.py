"""The language as an egglog sort: one method of :class:`Access` for each operator.

Operands come first, then the attributes in the order of ``glenside.language.OPERATORS``. Sizes and
axes are ``i64``, lists of them ``Vec[i64]``, names and dtypes ``String``. What the language may
leave out is always spelled here, so that rules need no second case:

- ``windows``: the dilation is ones rather than absent;
- ``compute`` and ``blocked``: ``accumulate`` is the dtype that is used; for functions that do not
  accumulate it is :data:`NO_DTYPE`;
- numbers are the ``String`` that the language's text form spells, so that they read back exactly.

The type of an access (:attr:`Access.outer`, :attr:`Access.item`, :attr:`Access.dtype`) is an
analysis: a function of the e-class that has no merge, so that equating two accesses of different
types is an error. ``types.py`` derives it.
"""

# egglog reads the signatures; there are no bodies.
# mypy: disable-error-code="empty-body, prop-decorator"

from __future__ import annotations

from egglog import Expr, String, StringLike, Vec, function, i64, i64Like, method

NO_DTYPE = ""
"""The ``accumulate`` of a function that does not accumulate."""


class Access(Expr):
    """An access: an array whose axes are split into outer and item ones."""

    # --- leaves ---

    @method(egg_fn="Access.tensor")
    @classmethod
    def tensor(cls, name: StringLike, shape: Vec[i64], dtype: StringLike) -> Access: ...

    @method(egg_fn="Access.constant")
    @classmethod
    def constant(cls, value: StringLike, shape: Vec[i64], dtype: StringLike) -> Access: ...

    # --- transformers ---

    @method(egg_fn="Access.access")
    def access(self, split: i64Like) -> Access: ...

    @method(egg_fn="Access.transpose")
    def transpose(self, permutation: Vec[i64]) -> Access: ...

    @method(egg_fn="Access.cart_prod")
    def cart_prod(self, other: Access, batch: i64Like) -> Access: ...

    @method(egg_fn="Access.pair")
    def pair(self, other: Access) -> Access: ...

    @method(egg_fn="Access.windows")
    def windows(self, shape: Vec[i64], stride: Vec[i64], dilation: Vec[i64]) -> Access: ...

    @method(egg_fn="Access.slice")
    def slice(self, axis: i64Like, low: i64Like, high: i64Like, step: i64Like) -> Access: ...

    @method(egg_fn="Access.concat")
    def concat(self, other: Access, axis: i64Like) -> Access: ...

    @method(egg_fn="Access.pad")
    def pad(
        self,
        value: StringLike,
        axis: i64Like,
        before: i64Like,
        after: i64Like,
        interior: i64Like,
    ) -> Access: ...

    @method(egg_fn="Access.squeeze")
    def squeeze(self, axis: i64Like) -> Access: ...

    @method(egg_fn="Access.unsqueeze")
    def unsqueeze(self, axis: i64Like) -> Access: ...

    @method(egg_fn="Access.broadcast")
    def broadcast(self, shape: Vec[i64]) -> Access: ...

    @method(egg_fn="Access.flatten")
    def flatten(self) -> Access: ...

    @method(egg_fn="Access.reshape")
    def reshape(self, outer: Vec[i64], item: Vec[i64]) -> Access: ...

    @method(egg_fn="Access.gather")
    def gather(self, indices: Access, axis: i64Like) -> Access: ...

    # --- what computes ---

    @method(egg_fn="Access.cast")
    def cast(self, dtype: StringLike) -> Access: ...

    @method(egg_fn="Access.where")
    def where(self, yes: Access, no: Access) -> Access: ...

    @method(egg_fn="Access.compute")
    def compute(self, function: StringLike, accumulate: StringLike) -> Access: ...

    @method(egg_fn="Access.call")
    @classmethod
    def call(
        cls, operands: Vec[Access], unit: StringLike, parameters: Vec[i64], batch: i64Like = 0
    ) -> Access: ...

    @method(egg_fn="Access.blocked")
    def blocked(
        self,
        other: Access,
        unit: StringLike,
        parameters: Vec[i64],
        batch: i64Like,
        accumulate: StringLike,
    ) -> Access: ...

    @method(egg_fn="Access.host_op")
    @classmethod
    def host_op(
        cls,
        operands: Vec[Access],
        operator: StringLike,
        shape: Vec[i64],
        dtype: StringLike,
        domain: StringLike,
        version: i64Like,
        output: i64Like,
        attributes: StringLike,
    ) -> Access: ...

    # --- analyses ---

    @method(egg_fn="Access.outer")
    @property
    def outer(self) -> Vec[i64]:
        """Lengths of the outer axes."""

    @method(egg_fn="Access.item")
    @property
    def item(self) -> Vec[i64]:
        """Lengths of the item axes."""

    @method(egg_fn="Access.dtype")
    @property
    def dtype(self) -> String:
        """The dtype of the elements."""


# --- lists of axis lengths -----------------------------------------------------------------------
#
# Functions with a body become primitives of egglog: they are computed at once, without Python. A
# primitive that fails (an index out of range) makes the query around it not match.

MAX_RANK = 12
"""``product`` fails on longer lists, so that rules which need it do not fire there."""


def ints(*values: i64Like) -> Vec[i64]:
    """A list; unlike ``Vec(...)`` it may be empty."""
    return Vec[i64](*values) if values else Vec[i64].empty()


@function
def take(v: Vec[i64], n: i64Like) -> Vec[i64]:
    """The first ``n`` entries; fails when there are fewer."""
    return n.range().map(lambda i: v[i])


@function
def drop(v: Vec[i64], n: i64Like) -> Vec[i64]:
    """All but the first ``n`` entries."""
    return (v.length() - n).range().map(lambda i: v[i + n])


@function
def permute(v: Vec[i64], order: Vec[i64]) -> Vec[i64]:
    """``v[order[0]], v[order[1]], ...``"""
    return order.map(lambda i: v[i])


@function
def _product_of_padded(v: Vec[i64]) -> i64:
    result = v[0]
    for i in range(1, MAX_RANK):
        result = result * v[i]
    return result


@function
def product(v: Vec[i64]) -> i64:
    """The product of at most ``MAX_RANK`` entries."""
    # There is no fold. Where the list is too long, the last factor fails by dividing by zero.
    fits = (i64(MAX_RANK + 1) - v.length()).max(0).min(1)
    return _product_of_padded(v.append(ints(*[1] * MAX_RANK))) * (i64(1) / fits)


@function
def flat(v: Vec[i64]) -> Vec[i64]:
    """One axis of as many elements; no axis where there was none."""
    return v.length().min(1).range().map(lambda _: product(v))


@function
def index_of(v: Vec[i64], entry: i64Like) -> i64:
    """Where ``entry`` stands in ``v``, which holds it once and at most ``MAX_RANK`` entries."""
    # There is no search. All factors but that one are 1.
    factors = v.map(lambda each: i64(1) - ((each - entry) * (each - entry)).min(1))
    return product(v.length().range().map(lambda i: i64(1) + i * factors[i])) - 1


def lengths(x: Access) -> Vec[i64]:
    """The lengths of all axes; ``x`` has to be a variable."""
    return x.outer.append(x.item)
