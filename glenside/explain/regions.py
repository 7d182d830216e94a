"""Which part of the user's model a term of the extracted program stands for.

Some e-classes hold terms of the imported program. Between two of them in the extracted program
stands a *region*: what rewrites put in place of the imported terms in between. Its layers are those
whose values these terms compute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from glenside.language import CALLS, Term, topological_order

COMPUTING = frozenset({"compute", "cast", "where", "host_op", *CALLS})
"""Operators that are not mere data movement."""


class Regions:
    """The imported and the extracted program of one e-graph, one laid over the other.

    :param outputs: the imported program, by the names of its outputs.
    :param names: what the user's model calls the values of imported terms.
    :param term_classes: the e-class of each imported term.
    :param extracted: the extracted program, one term for each output.
    :param classes: the term picked for each e-class; empty where the program stayed as it was.
    """

    def __init__(
        self,
        outputs: Mapping[str, Term],
        names: Mapping[Term, str],
        term_classes: Mapping[Term, int],
        extracted: Sequence[Term],
        classes: Mapping[int, Term],
    ) -> None:
        order = topological_order(outputs.values())
        self.term_classes = term_classes
        self._position = {term: i for i, term in enumerate(order)}
        self._owner = _owners(order, outputs, names)
        self.imported: dict[int, Term] = {}
        """For each e-class that has one an imported term, one with a name if there is any."""
        for term in order:
            known = self.imported.get(term_classes[term])
            if known is None or (known not in names and term in names):
                self.imported[term_classes[term]] = term
        self.order = topological_order(extracted)
        self.class_of = {term: number for number, term in classes.items()} or dict(term_classes)
        self._users: dict[Term, list[Term]] = {}
        for term in self.order:
            for child in dict.fromkeys(term.children):
                self._users.setdefault(child, []).append(term)

    def is_imported(self, term: Term) -> bool:
        """Whether the user's model has the value of an extracted term."""
        return self.class_of[term] in self.imported

    def all_layers(self) -> tuple[str, ...]:
        """The names of all values that the model computes, in its order."""
        return self._named(t for t in self._position if t.op in COMPUTING)

    def upwards(self, term: Term) -> list[Term]:
        """From ``term`` to the nearest user whose value the model has, both included."""
        came: dict[Term, Term | None] = {term: None}
        level = [term]
        while level:
            ends = [each for each in level if self.is_imported(each)]
            if ends:
                end = min(ends, key=lambda t: self._position[self.imported[self.class_of[t]]])
                path: list[Term] = []
                step: Term | None = end
                while step is not None:
                    path.append(step)
                    step = came[step]
                return path[::-1]
            above = []
            for each in level:
                for user in self._users.get(each, ()):
                    if user not in came:
                        came[user] = each
                        above.append(user)
            level = above
        raise AssertionError("every output is a value of the model")

    def below(self, term: Term) -> Iterator[Term]:
        """The extracted terms under ``term`` down to those whose values the model has, which come
        as well."""
        stack, seen = [*reversed(term.children)], set(term.children)
        while stack:
            each = stack.pop()
            yield each
            if not self.is_imported(each):
                for child in reversed(each.children):
                    if child not in seen:
                        seen.add(child)
                        stack.append(child)

    def layers(self, term: Term, functions: Collection[str]) -> tuple[str, ...]:
        """The layers in the region of an extracted term that compute one of these functions, or
        else that whose value the region gives."""
        top = self.upwards(term)[-1]
        result = self.imported[self.class_of[top]]
        bounds = {self.class_of[each] for each in self.below(top) if self.is_imported(each)}
        found = [
            each
            for each in self._between(result, bounds)
            if each.op in COMPUTING and (each.op != "compute" or each["function"] in functions)
        ]
        return self._named(found) or self._named([result])

    def _between(self, top: Term, bounds: Collection[int]) -> list[Term]:
        """The imported terms from ``top`` down to those of the classes ``bounds``, without."""
        stack, seen = [top], {top}
        while stack:
            for child in stack.pop().children:
                if child not in seen and self.term_classes[child] not in bounds:
                    seen.add(child)
                    stack.append(child)
        return sorted(seen, key=self._position.__getitem__)

    def _named(self, terms: Iterator[Term] | Sequence[Term]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._owner[each] for each in terms))


def _owners(
    order: Sequence[Term], outputs: Mapping[str, Term], names: Mapping[Term, str]
) -> dict[Term, str]:
    """The layer of each term: the named value that it is or that first uses it."""
    owner = {term: name for name, term in outputs.items()} | dict(names)
    for term in reversed(order):
        for child in term.children:
            if child not in names:
                owner[child] = owner[term]
    return owner
