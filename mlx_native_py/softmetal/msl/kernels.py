"""Kernels: definitions, templates, and explicit instantiations with host names."""

from __future__ import annotations

from dataclasses import dataclass, field

from .arguments import Parameter, ParameterReader, split
from .attributes import Attribute, attributes, refuse_unknown
from .evaluate import NotConstant
from .input_types import check_inputs
from .lexer import is_name
from .metal_functions import is_metal_function
from .scopes import Declaration, walk
from .stages import STAGES
from .unit import Unit
from .values import Values, template_names

# Functions for tables and graphs of functions: plain ones, for a kernel that calls them.
_CALLABLE = frozenset({"visible", "stitchable"})


@dataclass
class KernelFunction:
    """A kernel's definition or template; `number` is its index in the unit."""

    number: int
    declaration: Declaration
    name: str  # qualified
    spelling: str  # what denotes it in C++, whatever else has its name
    parameters: list[Parameter] = field(default_factory=list)
    host_name: str | None = None
    max_threads: int | None = None
    max_threads_name: str | None = None  # of the constant that holds it, if only the compiler can work it out
    limit: str = ""  # the text of that constant
    template: list[str] = field(default_factory=list)
    open_inputs: bool = False  # whether types of built-in inputs depend on template parameters

    @property
    def is_template(self) -> bool:
        """Whether it needs an instantiation to become callable."""
        return self.declaration.head != self.declaration.start


@dataclass(frozen=True)
class Entry:
    """A kernel with a host name; `expression` denotes the function in C++."""

    host_name: str
    function: int
    expression: str
    template_arguments: str = ""
    token: int = -1
    roots: tuple[str, ...] = ()  # names that its template arguments mention


class KernelReader:
    """Finds kernels and entries, and rewrites them as plain static functions."""

    def __init__(self, unit: Unit, values: Values) -> None:
        self.unit = unit
        self.values = values
        self.functions: list[KernelFunction] = []
        self.templates: dict[str, list[KernelFunction]] = {}
        self.entries: dict[str, Entry] = {}
        self.instantiations: list[Declaration] = []
        self.prototypes: list[Declaration] = []

    def read(self) -> None:
        """Fills `functions` and `entries`."""
        everything = list(walk(self.unit.declarations))
        for declaration in everything:
            if declaration.kind == "function":
                self._function(declaration)
        text = self.unit.tokens.text
        plain = {(text[d.name], d.scope) for d in self._plain_functions(everything) if not d.in_class}
        for function in self.functions:
            if not function.is_template and function.declaration.body:
                self._enter(
                    Entry(
                        function.host_name or function.name,
                        function.number,
                        self._plain_expression(function, plain),
                        token=function.declaration.name,
                    )
                )
            elif function.is_template:
                self.templates.setdefault(text[function.declaration.name], []).append(function)
        for declaration in everything:
            if declaration.kind == "instantiation":
                self._instantiation(declaration)
        self._refuse_calls(everything)

    def _function(self, declaration: Declaration) -> None:
        unit = self.unit
        text = unit.tokens.text
        prefix = attributes(unit.tokens, declaration.start, declaration.name)
        keywords = [
            i for i in range(declaration.start, declaration.name) if text[i] == "kernel" and not _inside(i, prefix)
        ]
        marked = [a for a in prefix if a.name == "kernel"]
        self._refuse_stages(declaration, prefix)
        if not keywords and not marked:
            if any(a.name == "host_name" for a in prefix):
                unit.error(declaration.name, "'host_name' attribute only applies to kernel functions")
            return
        if declaration.in_class:
            unit.error(declaration.name, "a kernel function cannot be a member of a class")
            return
        scope = [*filter(None, declaration.scope), *(text[i] for i in _qualifiers(text, declaration.name))]
        name = "::".join([*scope, text[declaration.name]])
        spelling = "::".join(["", *scope, unit.out[declaration.name]])
        function = KernelFunction(len(self.functions), declaration, name, spelling)
        if function.is_template:
            function.template = template_names(unit, declaration)
        self._prefix(function, prefix)
        self._make_static(declaration, keywords, prefix)
        if function.limit:
            place = declaration.start if function.is_template else self._first_word(declaration)
            unit.out[place] = f"{function.limit} {unit.out[place]}"
        assert declaration.parameters
        if not declaration.body:
            self._prototype(declaration)
            return
        function.parameters = ParameterReader(unit, self.values).read(*declaration.parameters)
        check_inputs(unit, function.parameters, dict.fromkeys(function.template, "?"))
        typed = {word for p in function.parameters if p.builtin for word in text[p.start : p.end]}
        function.open_inputs = not typed.isdisjoint(function.template)
        self.functions.append(function)

    def _prototype(self, declaration: Declaration) -> None:
        """A kernel that is only declared: its definition says what its parameters are bound to."""
        assert declaration.parameters
        for start, end in split(self.unit, *declaration.parameters):
            for attribute in attributes(self.unit.tokens, start, end):
                self.unit.drop(attribute.start, attribute.end)
        self.prototypes.append(declaration)

    def _plain_functions(self, everything: list[Declaration]) -> list[Declaration]:
        """The functions that are no kernels."""
        kernels = {id(d) for d in (*(function.declaration for function in self.functions), *self.prototypes)}
        return [d for d in everything if d.kind == "function" and id(d) not in kernels]

    def _plain_expression(self, function: KernelFunction, plain: set[tuple[str, tuple[str, ...]]]) -> str:
        """A kernel that is no template; the types of its parameters tell it from plain functions of the same name."""
        own = function.declaration
        shared = (self.unit.tokens.text[own.name], own.scope) in plain
        assert own.parameters
        types = " ".join(filter(None, self.unit.out[own.parameters[0] : own.parameters[1] + 1]))
        return f"static_cast<void (&) {types}>({function.spelling})" if shared else function.spelling

    def _refuse_stages(self, declaration: Declaration, prefix: list[Attribute]) -> None:
        first = self.unit.tokens.text[declaration.head]
        if first in ("vertex", "fragment") and declaration.name > declaration.head + 1:
            self.unit.error(declaration.head, f"'{first}' functions are not supported by software Metal")
        for attribute in prefix:
            if attribute.name in STAGES:
                self.unit.error(attribute.index, f"'{attribute.name}' functions are not supported by software Metal")
            if attribute.name in STAGES or attribute.name in _CALLABLE:
                self.unit.drop(attribute.start, attribute.end)

    def _prefix(self, function: KernelFunction, prefix: list[Attribute]) -> None:
        for attribute in prefix:
            if attribute.name == "host_name":
                function.host_name = self._string(attribute)
            elif attribute.name == "max_total_threads_per_threadgroup":
                self._max_threads(function, attribute)
            elif attribute.name != "kernel" and attribute.name not in STAGES:
                refuse_unknown(self.unit, attribute)

    def _max_threads(self, function: KernelFunction, attribute: Attribute) -> None:
        unit = self.unit
        if attribute.arguments is None:
            unit.error(attribute.index, "'max_total_threads_per_threadgroup' attribute takes one argument")
            return
        try:
            function.max_threads = self.values.integer(attribute.arguments)
        except NotConstant:
            function.max_threads_name = f"soft_max_threads_{function.number}"
            declaration = function.declaration
            header = " ".join(unit.out[declaration.start : declaration.head])
            expression = " ".join(unit.out[slice(*attribute.arguments)])
            function.limit = (
                f"{header} static constexpr const __global long {function.max_threads_name} = ({expression}) ;"
            )
            return
        if not 1 <= function.max_threads <= 1024:
            unit.error(
                attribute.index, "'max_total_threads_per_threadgroup' attribute parameter must be between 1 and 1024"
            )

    def _make_static(self, declaration: Declaration, keywords: list[int], prefix: list[Attribute]) -> None:
        unit = self.unit
        text = unit.tokens.text
        skipped = {i for a in prefix for i in range(a.start, a.end)}
        for attribute in prefix:
            unit.drop(attribute.start, attribute.end)
        for index in keywords:
            unit.out[index] = ""
        words = [i for i in range(declaration.head, declaration.name) if i not in skipped and i not in keywords]
        words = words[: len(words) - 2 * len(_qualifiers(text, declaration.name))]
        types = [i for i in words if text[i] not in ("static", "inline", "extern", "constexpr")]
        while types and text[types[0]] == "__attribute__":
            close = unit.tokens.match[types[0] + 1]
            types = [i for i in types if i > close]
        if [text[i] for i in types] != ["void"]:
            unit.error(types[0] if types else declaration.name, "kernel must have void return type")
        if not any(text[i] == "static" for i in words):
            first = words[0] if words else declaration.name
            unit.out[first] = "static " + unit.out[first]

    def _first_word(self, declaration: Declaration) -> int:
        """The first word that is left of a function without a template header."""
        return next(index for index in range(declaration.head, declaration.name + 1) if self.unit.out[index])

    def _refuse_calls(self, everything: list[Declaration]) -> None:
        """Kernels are for the host to call; a plain function of the same name may be called."""
        text = self.unit.tokens.text
        plain = {text[d.name] for d in self._plain_functions(everything)}
        kernels = {text[function.declaration.name] for function in self.functions} - plain
        bodies = [range(*d.body) for d in everything if d.kind == "function" and d.body]
        declared = {d.name for d in everything}
        for index in self.unit.tokens.places_of(kernels):
            called = text[index + 1 : index + 2] == ["("] and text[index - 1] not in (".", "->", "::")
            # A kernel called `exp` may use Metal's exp, which overload resolution prefers.
            if called and index not in declared and not is_metal_function(text[index]):
                if any(index in body for body in bodies):
                    self.unit.error(index, f"kernel function '{text[index]}' cannot be called from another function")

    def _instantiation(self, declaration: Declaration) -> None:
        unit = self.unit
        text, match = unit.tokens.text, unit.tokens.match
        last = declaration.end - 2
        parameters = None
        if text[last] == ")":
            parameters = (match[last], last)
            last = match[last] - 1
        first = _open_angle(unit, last)
        name = first - 1 if first >= 0 else last
        if not is_name(text[name]):
            return
        candidates = self.templates.get(text[name], [])
        prefix = attributes(unit.tokens, declaration.start, declaration.end - 1)
        hosted = next((a for a in prefix if a.name == "host_name"), None)
        if not candidates:
            for attribute in prefix:
                unit.drop(attribute.start, attribute.end)
            if hosted or any(a.name == "kernel" for a in prefix):
                unit.error(
                    name, f"explicit instantiation of '{text[name]}' does not refer to a kernel function template"
                )
            return
        self._clean_instantiation(declaration, prefix, parameters)
        self.instantiations.append(declaration)
        arguments = (first, last + 1) if first >= 0 else None
        function = self._choose(candidates, arguments, parameters, name)
        if function and arguments and function.open_inputs:
            given = [unit.spelling(start, end) for start, end in split(unit, arguments[0], arguments[1] - 1)]
            check_inputs(unit, function.parameters, dict(zip(function.template, given, strict=False)))
        host_name = self._string(hosted) if hosted else None
        if host_name and function:
            self._enter(self._entry(host_name, function, arguments, parameters, name))

    def _clean_instantiation(
        self, declaration: Declaration, prefix: list[Attribute], parameters: tuple[int, int] | None
    ) -> None:
        unit = self.unit
        ranges = split(unit, *parameters) if parameters else []
        inner = [a for start, end in ranges for a in attributes(unit.tokens, start, end)]
        for attribute in prefix:
            if attribute.name not in ("kernel", "host_name", "max_total_threads_per_threadgroup"):
                refuse_unknown(unit, attribute)
        for attribute in (*prefix, *inner):
            unit.drop(attribute.start, attribute.end)
        for index in range(declaration.start, declaration.end):
            if unit.tokens.text[index] == "kernel":
                unit.out[index] = ""

    def _choose(
        self,
        candidates: list[KernelFunction],
        arguments: tuple[int, int] | None,
        parameters: tuple[int, int] | None,
        name: int,
    ) -> KernelFunction | None:
        unit = self.unit
        if len(candidates) > 1 and parameters:
            count = len(split(unit, *parameters))
            candidates = [
                c
                for c in candidates
                if c.declaration.parameters and len(split(unit, *c.declaration.parameters)) == count
            ]
        if len(candidates) > 1 and arguments:
            count = len(split(unit, arguments[0], arguments[1] - 1))
            candidates = [c for c in candidates if len(c.template) == count] or candidates
        defined = [c for c in candidates if c.declaration.body] or candidates
        shapes = {tuple((p.kind, p.builtin, p.argument and p.argument.index) for p in c.parameters) for c in defined}
        if len(shapes) != 1:
            unit.error(
                name,
                f"explicit instantiation of '{unit.tokens.text[name]}' does not choose one kernel function template",
            )
            return None
        return defined[0]

    def _entry(
        self,
        host_name: str,
        function: KernelFunction,
        arguments: tuple[int, int] | None,
        parameters: tuple[int, int] | None,
        name: int,
    ) -> Entry:
        unit = self.unit
        spelled = " ".join(filter(None, unit.out[slice(*arguments)])) if arguments else ""
        expression = function.spelling + spelled
        if parameters:
            types = " ".join(filter(None, unit.out[parameters[0] : parameters[1] + 1]))
            expression = f"static_cast<void (&) {types}>({expression})"
        roots = {t for t in unit.tokens.text[slice(*arguments)] if is_name(t)} if arguments else set()
        if parameters:
            roots |= {t for t in unit.tokens.text[slice(*parameters)] if is_name(t)}
        if function.max_threads_name and not arguments:
            unit.error(
                name,
                "max_total_threads_per_threadgroup depends on template parameters that are deduced here; name them",
            )
        return Entry(host_name, function.number, expression, spelled, name, tuple(sorted(roots)))

    def _enter(self, entry: Entry) -> None:
        if entry.host_name in self.entries:
            self.unit.error(entry.token, f"duplicate kernel function name '{entry.host_name}'")
        self.entries[entry.host_name] = entry

    def _string(self, attribute: Attribute) -> str | None:
        text = self.unit.tokens.text
        words = text[slice(*attribute.arguments)] if attribute.arguments else []
        if not words or not all(word.startswith('"') for word in words):
            self.unit.error(attribute.index, "'host_name' attribute requires a string")
            return None
        return "".join(word[1:-1] for word in words)


def _inside(index: int, listed: list[Attribute]) -> bool:
    return any(a.start <= index < a.end for a in listed)


def _qualifiers(text: list[str], name: int) -> list[int]:
    """The namespaces that a definition outside of them names, as in `void outer::inner::name()`."""
    first = name
    while text[first - 1] == "::" and is_name(text[first - 2]):
        first -= 2
    return [*range(first, name, 2)]


def _open_angle(unit: Unit, index: int) -> int:
    """The `<` that the bracket closing at `index` belongs to, or -1 if none closes there."""
    text, match = unit.tokens.text, unit.tokens.match
    if text[index] not in (">", ">>"):
        return -1
    depth = 0
    while index >= 0:
        token = text[index]
        if token in (")", "]", "}"):
            index = match[index]
        depth += {">": 1, ">>": 2, "<": -1}.get(token, 0)
        if depth == 0:
            return index
        index -= 1
    return -1
