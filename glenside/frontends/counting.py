"""Counts the operators of a user's model that compute something from its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from glenside.language import Term, topological_order


def count_operators(calls: Sequence[tuple[str, object]], inputs: Collection[str]) -> dict[str, int]:
    """How often each operator computes something from an input.

    :param calls: operators and what they gave, terms and tuples of them (numbers do not count).
    :param inputs: names of the inputs' tensors.
    """
    terms = [list(_terms(result)) for _, result in calls]
    depends: set[Term] = set()
    for term in topological_order(t for each in terms for t in each):
        if term.op == "tensor":
            if term["name"] in inputs:
                depends.add(term)
        elif any(child in depends for child in term.children):
            depends.add(term)
    names = (name for (name, _), each in zip(calls, terms, strict=True) if depends & set(each))
    return dict(Counter(names))


def _terms(value: object) -> Iterator[Term]:
    pending = [value]
    while pending:
        top = pending.pop()
        if isinstance(top, Term):
            yield top
        elif isinstance(top, tuple):
            pending.extend(top)
