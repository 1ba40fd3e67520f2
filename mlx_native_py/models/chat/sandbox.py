"""Jinja's sandbox with a budget: loops, calls and new values cost steps, and rendering stops when they run out.

Loops are charged for their length before they start, literals and text conversions for their size, and operations that
can make long values out of short ones (`+ * % ** ~`, `join`, `replace`) before they run. Filters and globals that chat
templates do not use are removed. Comparisons and tests are charged for the length of their operands, whose entries were
charged when they were made. Time is checked at every charge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache, lru_cache, wraps
from typing import Any

from ..extras import extra
from .budget import ENTRIES, BudgetExceeded, TemplateLimits, current, size_of
from .weight import weight_of

__all__ = ["compiled", "words_of"]

_FILTERS = """
    abs attr capitalize count d default dictsort e escape first float groupby indent int items join last length list
    lower map max min reject rejectattr replace reverse round safe select selectattr sort string title tojson trim
    unique upper urlencode wordcount
""".split()
# Filters that do not read entries, and filters that pass entries on; all others convert entries to text.
_LOOKS = ("attr", "count", "d", "default", "first", "last", "length")
_HAND_ON = "dictsort groupby items list map max min reject rejectattr reverse select selectattr sort unique".split()
_GLOBALS = ("dict", "namespace", "range")
_OURS = ("compared", "counted", "handed_on", "joined", "paid")
# String methods. Omitted are those that make long texts of short ones (`expandtabs`, `translate`) or return bytes.
_METHODS = frozenset(
    """
    capitalize casefold center count endswith find format format_map index isalnum isalpha isascii isdecimal isdigit
    isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix
    removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title
    upper zfill
    """.split()
)
_SCOPES = ("_block_vars", "_loop_vars")  # what jinja adds to calls, and does not hand on
# Those that may compare each character of a text with each character of another.
_SEARCHES = ("do_trim", "lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip")
_COMPARISONS = 4096  # of two characters, for a step
_WIDEST_INDENT = 16
_TAG = re.compile(r"\{[{%](.*?)(?:[}%]\}|$)", re.DOTALL)
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|\w+|[^\w\s]")
_WIDTH = re.compile(r":[^}]*[\d{]")
_LARGEST_NUMBER = 100_000
_COPIES = 4  # how often a text is joined to others for the price of writing it once: prompts may grow in a variable


def words_of(source: str) -> int:
    """The number of words, quoted strings and signs within the tags of a template."""
    return sum(1 + len(_WORD.findall(tag)) for tag in _TAG.findall(source))


@lru_cache(maxsize=4)
def compiled(source: str, heaviest: int) -> Any:
    """The template, with charges inserted for its loops and values."""
    env, jinja2 = _environment(), extra("jinja2")
    nodes = jinja2.nodes
    tree = env.parse(source)
    if (weight := weight_of(tree)) > heaviest:
        raise BudgetExceeded(f"has {weight} weighted expressions and statements, more than {heaviest}")
    for loop in list(tree.find_all(nodes.For)):
        text = sum(len(data.data) for data in loop.find_all(nodes.TemplateData))
        loop.iter = _through("counted", loop.iter, nodes.Const(1 + text // TemplateLimits.characters))
    for parent in list(tree.find_all(nodes.Node)):
        if parent.__class__.__name__ == "Filter" and parent.name in _OURS:
            continue
        for name, value in parent.iter_fields():
            if isinstance(value, list):
                setattr(parent, name, [_paid(each, parent) for each in value])
            elif isinstance(value, nodes.Node):
                setattr(parent, name, _paid(value, parent))
    tree.set_environment(env)
    return jinja2.Template.from_code(env, env.compile(tree), env.make_globals(None))


def _paid(node: Any, parent: Any) -> Any:
    """Inserts a charge for literals, for values converted to text, and for slices. The result of `a ~ b` is as long as
    its operands, which are charged."""
    nodes = extra("jinja2").nodes
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        node = _through("handed_on", node)
    literal = isinstance(node, (nodes.List, nodes.Dict)) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
    text = isinstance(parent, nodes.Output) and not isinstance(node, nodes.TemplateData)
    if isinstance(parent, nodes.Concat):
        return _through("joined", node)
    if isinstance(parent, (nodes.Compare, nodes.Operand)) and not isinstance(node, (nodes.Const, nodes.Operand)):
        return _through("compared", _through("paid", node) if literal else node)
    return _through("paid", node) if literal or text else node


def _through(name: str, node: Any, *arguments: Any) -> Any:
    return extra("jinja2").nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


def _counted(value: Any, cost: int) -> Any:
    """Charges for a loop before it starts."""
    if not hasattr(value, "__len__"):
        value = list(value)
    current.get().spend(len(value) * cost)
    return value


def _handed_on(value: Any) -> Any:
    return current.get().pay(value)


def _joined(value: Any) -> Any:
    """Charges for an operand of `~`: a text is only copied."""
    if not isinstance(value, str):
        return _paid_in_full(value)
    budget = current.get()
    budget.spend(1 + len(value) // (_COPIES * budget.limits.characters))
    return value


def _compared(value: Any) -> Any:
    """Charges for an operand of a comparison or a test, which may look at all of it."""
    budget = current.get()
    if isinstance(value, str):
        budget.spend(len(value) // (_COPIES * budget.limits.characters))
    else:
        budget.spend(len(value) // ENTRIES if isinstance(value, (list, tuple, dict, range)) else 0)
    return value


def _paid_in_full(value: Any) -> Any:
    return current.get().pay(value, deep=True)


def _check_arguments(function: Any, arguments: tuple[Any, ...], options: dict[str, Any], *, deep: bool) -> None:
    """Charges for the result of a function that can be much larger than its arguments."""
    budget = current.get()
    # Jinja wraps string formatting methods.
    name, own = getattr(function, "__name__", ""), getattr(getattr(function, "__wrapped__", function), "__self__", None)
    for each in (*arguments, *options.values()):
        if isinstance(each, int) and abs(each) > _LARGEST_NUMBER:
            raise BudgetExceeded(f"passes the number {each:.3e}")
        budget.pay(each, deep=deep or isinstance(own, str))
    if isinstance(own, (str, bytes)) and (name not in _METHODS or isinstance(own, bytes)):
        raise BudgetExceeded(f"calls {type(own).__name__}.{name}, which is not allowed")
    if name not in ("endswith", "startswith"):  # their arguments are charged
        _compared(own)
    given = [own, *arguments] if isinstance(own, str) else list(arguments)
    if name == "_tojson":
        _check_json(*arguments, **options)
    elif name in ("format", "format_map"):
        _check_format(own, (*arguments, *options.values()))
    elif name in ("join", "do_join", "sync_do_join"):
        _check_join(given if name == "join" else [*given[2:], *options.values(), *given[1:2]])
    else:
        _check_text(name, given, options)


def _check_join(given: list[Any]) -> None:
    """Charges for entries, the last of `given`, with the texts before them between any two."""
    budget, entries = current.get(), given[-1]
    budget.pay(entries, deep=True)
    separator = max((len(str(each)) for each in given[:-1]), default=0)
    budget.spend((separator + 1) * len(entries) // budget.limits.characters if hasattr(entries, "__len__") else 0)


def _check_text(name: str, given: list[Any], options: dict[str, Any]) -> None:
    budget = current.get()
    if name in ("replace", "do_replace"):
        whole, *others = (str(each) for each in (given if name == "replace" else given[1:]))
        named = {"old": "", "new": "", **dict(zip(("old", "new"), others, strict=False)), **options}
        budget.spend(whole.count(str(named["old"])) * len(str(named["new"])) // budget.limits.characters)
    elif name == "do_indent":
        text, *widths = [each for each in (*given, *options.values()) if isinstance(each, (str, int))] or [""]
        width = max([4, *(each if isinstance(each, int) else len(each) for each in widths)])
        budget.spend(width * str(text).count("\n") // budget.limits.characters)
    elif name in _SEARCHES:
        length, *lengths = (len(str(each)) for each in (*given, *options.values()))
        budget.spend(length * max(lengths, default=0) // _COMPARISONS)
    else:
        # What sorts, selects or groups by attributes looks up each name of a path in each entry.
        names = sum(each.count(".") + each.count(",") for each in (*given, *options.values()) if isinstance(each, str))
        entries = max((len(each) for each in given if isinstance(each, (list, tuple, dict, range))), default=0)
        budget.spend(names * entries // ENTRIES)


def _gathered(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of which those that give their entries one by one are gathered: what they cost depends on how many."""
    return tuple(list(each) if isinstance(each, Iterator) else each for each in arguments)


def _check_json(value: Any, _: Any = False, indent: Any = None, separators: Any = None, **options: Any) -> None:
    """Indentation and separators are repeated for each entry."""
    for each in (indent, *(separators or ())):
        if (len(each) if isinstance(each, str) else each or 0) > _WIDEST_INDENT:
            raise BudgetExceeded(f"writes JSON with more than {_WIDEST_INDENT} characters before an entry")


def _check_format(form: Any, arguments: tuple[Any, ...]) -> None:
    # A width can produce any length, and may come from another field.
    if not isinstance(form, str) or _WIDTH.search(form):
        raise BudgetExceeded("formats with widths, which is not allowed")
    for each in arguments:
        for _ in range(form.count("{")):
            current.get().pay(each, deep=True)


def _check_operator(operator: str, left: Any, right: Any) -> None:
    budget = current.get()
    a, b = (size_of(each, budget.most) for each in (left, right))
    size = a + b
    if operator == "+" and isinstance(left, str):
        size //= _COPIES
    elif operator == "*" and isinstance(right, int) and not isinstance(left, int):
        size = a * max(right, 0)
    elif operator == "*" and isinstance(left, int) and not isinstance(right, int):
        size = b * max(left, 0)
    elif operator == "**" and isinstance(right, int):
        size = max(a, 1) * abs(right)
    elif operator == "%" and isinstance(left, str):
        # A width in a format can produce any length.
        if any(mark in left for mark in "0123456789*"):
            raise BudgetExceeded("formats with widths, which is not allowed")
        size = a + left.count("%") * b
    budget.spend(1 + size // budget.limits.characters)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise extra("jinja2").TemplateError(message)


def _strftime_now(form: str) -> str:
    if len(form) > 100 or any(letter.isdecimal() for letter in form):
        raise BudgetExceeded("asks for a date in a form that is not allowed")
    return datetime.now().strftime(form)


def _metered(name: str, function: Any) -> Any:
    """A filter that charges for its arguments and result."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        budget = current.get()
        if name in _LOOKS:
            budget.spend(1)
            return function(*arguments, **options)
        arguments = _gathered(arguments)
        _check_arguments(function, arguments, options, deep=name not in _HAND_ON)
        return budget.pay(function(*arguments, **options))

    return call


def _tested(test: Any) -> Any:
    """A test that charges for what it looks at, by itself and within `select`."""

    @wraps(test)
    def call(*arguments: Any) -> Any:
        for each in arguments:
            _compared(each)
        return test(*arguments)

    return call


@cache
def _environment() -> Any:
    extra("jinja2")
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: B902, N805
            args = _gathered(args)
            given = {name: value for name, value in kwargs.items() if name not in _SCOPES}
            _check_arguments(__obj, args, given, deep=__obj is dict)
            return current.get().pay(super().call(__context, __obj, *args, **kwargs))

    # Without the optimiser, which would run filters at compile time.
    env = Sandbox(trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=["jinja2.ext.loopcontrols"])
    env.add_extension(_generation_tag())
    known = {**env.filters, "tojson": _tojson}
    env.filters = {name: _metered(name, known[name]) for name in _FILTERS}
    env.filters |= {
        "compared": _compared,
        "counted": _counted,
        "handed_on": _handed_on,
        "joined": _joined,
        "paid": _paid_in_full,
    }
    env.tests = {name: _tested(test) for name, test in env.tests.items()}
    env.globals = {name: env.globals[name] for name in _GLOBALS}
    env.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    return env


def _generation_tag() -> Any:
    from jinja2.ext import Extension

    class Generation(Extension):
        """`{% generation %}` marks what an assistant wrote; in a prompt it is only its content."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return extra("jinja2").nodes.Scope(body, lineno=line)

    return Generation
