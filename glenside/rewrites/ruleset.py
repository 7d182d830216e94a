"""Rules by name, gathered in families.

A family is one file of this package: it defines rules with :func:`rewrite_rule`, gathers them in
:class:`RuleSet` and is named in :data:`FAMILIES`. Rules of a user's own are written likewise and
need no registration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, cast

from egglog import RewriteOrRule, Ruleset

from glenside.errors import GlensideError
from glenside.language.units import known_units

FAMILIES = (
    "im2col",
    "matrices",
    "layout",
    "tensorize",
    "blocking",
    "padding",
    "pooling",
    "linear",
    "attention",
    "steps",
    "sums",
    "convolution",
    "channels",
    "rows",
    "elementwise",
    "quantised",
    "tiling",
    "parallel",
    "cascade",
    "winograd",
)
"""Modules of :mod:`glenside.rewrites.rules` that define rules."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A named rewrite rule: one egglog rule for each of its cases.

    ``exact`` says that it only moves data, so that both sides hold the same bits; the others
    (*reassociating*) change the order in which numbers are added.
    """

    name: str
    cases: tuple[RewriteOrRule, ...]
    exact: bool
    analyses: tuple[RewriteOrRule, ...] = ()
    """egglog rules that derive what the conditions of the cases ask for, beside the types."""
    programs: Callable[[], Any] | None = None
    """Makes the Hypothesis strategy of programs to check the rule on, where it needs its own."""
    where: str = ""
    """File and line of its definition, where known."""
    chained: bool = False
    """Whether one pass repeats it until it changes nothing: for a rule that follows a chain link by
    link, and that must end by itself."""
    needs: frozenset[str] = frozenset()
    """Functions without which it finds nothing, all of them."""
    finite: bool = False
    """Whether it takes numbers to be finite: where a zero that it knows of meets an infinity or
    NaN, it may drop that. What the prover finds to do so has to say so."""
    law: str = ""
    """What it says, in a sentence, where its definition does not."""
    meanings: tuple[RewriteOrRule, ...] = ()
    """egglog rules that never run: what the relations of the analyses say of values, as the facts
    from which each would follow. Proofs take a relation for these facts."""

    @property
    def described(self) -> str:
        """The name, and where the rule stands if that is known."""
        return f"{self.name} ({self.where})" if self.where else self.name

    @property
    def base_name(self) -> str:
        """The name without parameters."""
        return self.name.partition("(")[0]


@dataclass(frozen=True)
class RuleSet:
    """Rules that belong together."""

    name: str
    rules: tuple[Rule, ...]
    stage: int = field(default=0, kw_only=True)
    """Stages run one after the other, each to its fixed point."""
    mapping: bool = field(default=False, kw_only=True)
    """The rules give work to units: exact matching has these alone."""

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def only(self, *names: str) -> RuleSet:
        """The rules of these names; raises :class:`GlensideError` for one that is not here."""
        return self._where(names, True)

    def without(self, *names: str) -> RuleSet:
        """All rules but those of these names; raises :class:`GlensideError` likewise."""
        return self._where(names, False)

    def _where(self, names: Iterable[str], wanted: bool) -> RuleSet:
        present = {rule.name for rule in self.rules} | {rule.base_name for rule in self.rules}
        for name in names:
            if name not in present:
                known = ", ".join(sorted(present))
                raise GlensideError(f"rule set {self.name} has no rule {name!r}, it has {known}")
        chosen = [r for r in self.rules if (r.name in names or r.base_name in names) == wanted]
        return dataclasses.replace(self, rules=tuple(chosen))


Cases = Callable[..., Iterable[RewriteOrRule]]


class _Maker(NamedTuple):
    """What makes a rule, and the parameters with which it is checked."""

    make: Callable[..., Rule]
    example: tuple[object, ...]


_MAKERS: dict[str, _Maker] = {}


def rewrite_rule(
    name: str,
    *,
    exact: bool,
    example: Sequence[object] = (),
    analyses: Callable[[], tuple[RewriteOrRule, ...]] = tuple,
    meanings: Callable[[], tuple[RewriteOrRule, ...]] = tuple,
    programs: Callable[[], Any] | None = None,
    chained: bool = False,
    finite: bool = False,
) -> Callable[[Cases], Callable[..., Rule]]:
    """Turns a function that yields the cases of a rule into one that makes the :class:`Rule`.

    The function's parameters become part of the rule's name: ``systolic-blocked(16,16)``. Made
    with the same parameters it is the same object. ``example`` holds the parameters, if it has
    any, with which the rule is checked; small ones find counterexamples sooner. ``analyses`` makes
    what :attr:`Rule.analyses` holds; rules that share an analysis give the same rules of egglog.
    ``meanings`` makes what :attr:`Rule.meanings` holds.
    ``programs`` gives what a rule is checked on whose query is hardly met by chance. ``chained``
    and ``finite``: see :class:`Rule`.
    """

    def define(cases: Cases) -> Callable[..., Rule]:
        @functools.cache
        def make(*args: object, **options: object) -> Rule:
            shown = [*map(str, args), *(f"{k.replace('_', '-')}={v}" for k, v in options.items())]
            full_name = f"{name}({','.join(shown)})" if shown else name
            code = cases.__code__
            # A cell of a notebook stands in a temporary file, whose name says nothing.
            cell = re.search(r"ipykernel_\d+[/\\]\d+\.py$", code.co_filename)
            where = f"{'notebook cell' if cell else code.co_filename}:{code.co_firstlineno}"
            found = tuple(cases(*args, **options))
            return Rule(
                full_name,
                found,
                exact,
                analyses(),
                programs,
                where,
                chained,
                finite=finite,
                meanings=meanings(),
            )

        make.__doc__, make.__module__ = cases.__doc__, cases.__module__
        _MAKERS[name] = _Maker(make, tuple(example))
        return make

    return define


def rule_named(name: str) -> RuleSet:
    """A rule set of one rule, by the rule's name and parameters.

    >>> rule_named("systolic-blocked(16,16)")

    :raises GlensideError: no rule has that name, or it takes other parameters.
    """
    _import_families()
    units = _rules_of_units()
    if name in units:
        return RuleSet(name, (units[name](),), mapping=True)
    match = re.fullmatch(r"([\w-]+)(?:\((.*)\))?", name)
    if match is None or match[1] not in _MAKERS:
        known = ", ".join(sorted({*_MAKERS, *units}))
        raise GlensideError(f"no rule is called {name!r}; there are {known}")
    args: list[object] = []
    options: dict[str, object] = {}
    for word in filter(None, (match[2] or "").split(",")):
        key, equals, value = word.strip().rpartition("=")
        if equals:
            options[key.replace("-", "_")] = _parameter(value)
        else:
            args.append(_parameter(value))
    try:
        rule = _MAKERS[match[1]].make(*args, **options)
    except TypeError as problem:
        raise GlensideError(f"rule {name!r} takes other parameters: {problem}") from None
    return RuleSet(rule.name, (rule,))


def law_of(rule: Rule) -> str:
    """What a rule says, in the first sentence of its definition; empty where it says nothing."""
    if rule.law:
        return rule.law
    maker = _MAKERS.get(rule.base_name)
    text = (maker.make.__doc__ or "").strip() if maker is not None else ""
    return " ".join(text.partition("\n\n")[0].split())


def all_rules() -> RuleSet:
    """Every rule that ships, those with parameters as their declarations give an example of, and
    those of the accelerators that are declared."""
    _import_families()
    # A user's own rules are registered too, but do not ship.
    makers = [_MAKERS[name] for name in sorted(_MAKERS)]
    ours = (each for each in makers if each.make.__module__.startswith("glenside."))
    rules = [maker.make(*maker.example) for maker in ours]
    return RuleSet("all", (*rules, *(make() for _, make in sorted(_rules_of_units().items()))))


def _rules_of_units() -> dict[str, Callable[[], Rule]]:
    """What makes the rewrite of each unit that is declared, by the unit's name."""
    known = ((each.name, each.rule) for each in known_units())
    return {name: cast(Callable[[], Rule], rule) for name, rule in known if rule is not None}


def as_ruleset(rules: object, name: str = "rules") -> RuleSet:
    """One rule set from a :class:`Rule`, a :class:`RuleSet`, several of them, or an egglog ruleset.

    :raises GlensideError: it is something else.
    """
    if isinstance(rules, RuleSet):
        return rules
    if isinstance(rules, Rule):
        return RuleSet(rules.name, (rules,))
    if isinstance(rules, Ruleset):
        declarations = rules.__egg_decls__
        cases = [RewriteOrRule(declarations, each) for each in rules.__egg_ruleset__.rules]
        named = (Rule(_name_of(case, i), (case,), exact=False) for i, case in enumerate(cases))
        return RuleSet(name, tuple(named))
    if isinstance(rules, Iterable) and not isinstance(rules, str):
        parts = [as_ruleset(each) for each in rules]
        return RuleSet(name, tuple(rule for part in parts for rule in part))
    raise GlensideError(
        f"{name} is neither a rule nor a rule set (glenside's or egglog's) but {rules!r}"
    )


def explored_with(
    own: Callable[[], Sequence[RuleSet]], rules: object = None, add_rules: object = None
) -> list[RuleSet]:
    """What is explored with: a target's own rules, or others in place of them, and more beside.

    :param own: makes the target's.
    :param rules: in place of these, if not None; like ``add_rules`` a list of what
        :func:`as_ruleset` takes, or one of them.
    :raises GlensideError: something is no rule.
    """
    chosen = list(own()) if rules is None else _as_rulesets(rules, "rules")
    present = {id(each) for each in chosen} | {id(rule) for each in chosen for rule in each}
    for each in _as_rulesets(add_rules or [], "add_rules"):
        fresh = tuple(rule for rule in each if id(rule) not in present)
        present.update(map(id, fresh))
        if fresh and id(each) not in present:
            chosen.append(dataclasses.replace(each, rules=fresh))
    return chosen


def _as_rulesets(given: object, name: str) -> list[RuleSet]:
    if isinstance(given, Iterable) and not isinstance(given, str | RuleSet | Ruleset):
        return [as_ruleset(each, name) for each in given]
    return [as_ruleset(given, name)]


def rules_in(module: ModuleType) -> list[RuleSet]:
    """The rules that a module of the user's own brings: what it calls ``RULES``, or else all rules
    and rule sets that it defines.

    :raises GlensideError: what it calls ``RULES`` is no rule.
    """
    defined = {name: each for name, each in vars(module).items() if not name.startswith("_")}
    if "RULES" in defined:
        return _as_rulesets(defined["RULES"], f"{module.__name__}.RULES")
    foreign = {
        id(each)
        for name, other in list(sys.modules.items())
        if name.partition(".")[0] == "glenside"
        for each in vars(other).values()
    }
    found: list[RuleSet] = []
    makers = {id(maker.make) for maker in _MAKERS.values()}
    for each in defined.values():
        if id(each) in foreign:
            continue
        if id(each) in makers:
            with contextlib.suppress(TypeError):  # It takes parameters, which nobody gave.
                found.append(as_ruleset(each()))
        elif isinstance(each, RuleSet | Rule | Ruleset):
            found.append(as_ruleset(each, module.__name__))
    return found


def _name_of(case: RewriteOrRule, position: int) -> str:
    return getattr(case.decl, "name", None) or f"rule {position}"


def _import_families() -> None:
    for family in FAMILIES:
        importlib.import_module(f"glenside.rewrites.rules.{family}")


def _parameter(word: str) -> int | str:
    return int(word) if re.fullmatch(r"-?\d+", word) else word
