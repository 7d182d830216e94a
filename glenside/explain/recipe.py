"""What it takes to explain a program later: exploration is repeated for it, which takes a while.

So neither optimising nor saving waits for an explanation that nobody may ask for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import GlensideError, UnknownRule
from glenside.explain.proof import ProgramProof, prove_program
from glenside.explain.provenance import call_origins
from glenside.explain.records import Explanation, Left
from glenside.explain.regions import Regions
from glenside.language import Term, parse_all, to_text, topological_order
from glenside.rewrites import Applied, RuleSet
from glenside.rewrites.ruleset import rule_named


@dataclass(frozen=True)
class Recipe:
    """Makes the :class:`Explanation` of one program when it is called.

    ``outputs``, ``names`` and ``term_classes`` are of the model as imported, ``extracted`` and
    ``classes`` of the program, as :class:`Regions` takes them; ``rules`` and ``steps`` are those of
    the exploration, which ended with so many e-``nodes``.
    """

    model: str
    target: str
    outputs: Mapping[str, Term]
    names: Mapping[Term, str]
    term_classes: Mapping[Term, int]
    extracted: Sequence[Term]
    classes: Mapping[int, Term]
    rules: Sequence[RuleSet]
    steps: Sequence[Applied]
    nodes: int
    left: tuple[Left, ...]

    def regions(self) -> Regions:
        """Both programs, one laid over the other."""
        return Regions(self.outputs, self.names, self.term_classes, self.extracted, self.classes)

    def __call__(self) -> Explanation:
        """Repeats the exploration, as far as that is needed."""
        regions = self.regions()
        roots = list(self.outputs.values())
        origins = call_origins(roots, regions, self.rules, self.steps, self.nodes)
        return Explanation(self.model, self.target, origins, self.left, regions.all_layers())

    def prove(self, seconds: float) -> ProgramProof:
        """That the program equals the model, by the rules of the exploration."""
        imported = list(self.outputs.values())
        return prove_program(
            self.model,
            self.target,
            imported,
            list(self.extracted),
            self.rules,
            self.steps,
            self.nodes,
            seconds=seconds,
        )

    def to_json(self) -> dict[str, Any]:
        """One JSON object. Rules stand there by name."""
        number_of = {term: number for number, term in self.classes.items()}
        imported = topological_order(self.outputs.values())
        known = set(imported)
        names = {term: name for term, name in self.names.items() if term in known}
        return {
            "model": self.model,
            "target": self.target,
            "terms": to_text(*self.outputs.values(), *names, *self.extracted),
            "outputs": list(self.outputs),
            "names": list(names.values()),
            "term_classes": [self.term_classes[term] for term in imported],
            "classes": [number_of.get(term) for term in topological_order(self.extracted)],
            "rules": [
                {
                    "name": each.name,
                    "stage": each.stage,
                    "mapping": each.mapping,
                    "rules": [rule.name for rule in each],
                }
                for each in self.rules
            ],
            "steps": [[step.rule.name, step.iteration] for step in self.steps],
            "nodes": self.nodes,
            "left": [dataclasses.asdict(each) for each in self.left],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Recipe:
        """The recipe that :meth:`to_json` wrote.

        :raises UnknownRule: a rule is not known here.
        """
        terms = parse_all(data["terms"])
        count, named = len(data["outputs"]), len(data["outputs"]) + len(data["names"])
        outputs = dict(zip(data["outputs"], terms[:count], strict=True))
        imported, extracted = topological_order(outputs.values()), terms[named:]
        known: dict[str, Any] = {}
        rules = []
        for each in data["rules"]:
            for name in each["rules"]:
                if name not in known:
                    known[name] = _rule(name)
            chosen = tuple(known[name] for name in each["rules"])
            rules.append(
                RuleSet(each["name"], chosen, stage=each["stage"], mapping=each["mapping"])
            )
        numbers = zip(data["classes"], topological_order(extracted), strict=True)
        return cls(
            data["model"],
            data["target"],
            outputs,
            dict(zip(terms[count:named], data["names"], strict=True)),
            dict(zip(imported, data["term_classes"], strict=True)),
            extracted,
            {number: term for number, term in numbers if number is not None},
            rules,
            [Applied(known[name], iteration) for name, iteration in data["steps"]],
            data["nodes"],
            tuple(Left(**each) for each in data["left"]),
        )


def _rule(name: str) -> Any:
    try:
        return rule_named(name).rules[0]
    except GlensideError as problem:
        raise UnknownRule(
            f"the program was made with the rule {name}, which is not known here: import what "
            "defines it (--import MODULE), or call explain() before the program is saved"
        ) from problem
