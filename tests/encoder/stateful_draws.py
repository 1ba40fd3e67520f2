"""Random sequences of a machine's rules, by seed; one that fails is cut down to the calls that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

Draw = Callable[[Random], Any]
Made = tuple[str, dict[str, Any]]
"""A call: the rule's name and its arguments."""


def whole(low: int, high: int) -> Draw:
    """A number from low to high; the ends are as likely as all others together."""
    return lambda random: random.choice((low, high)) if random.random() < 0.3 else random.randint(low, high)


def either_of(values: Sequence[Any]) -> Draw:
    return lambda random: random.choice(values)


def one_of(*draws: Draw) -> Draw:
    return lambda random: random.choice(draws)(random)


def several(draw: Draw, least: int, most: int) -> Draw:
    return lambda random: [draw(random) for _ in range(random.randint(least, most))]


def together(*draws: Draw) -> Draw:
    return lambda random: tuple(draw(random) for draw in draws)


def some_of(draws: Mapping[str, Draw]) -> Draw:
    """A dict of some of them."""
    return lambda random: {name: draw(random) for name, draw in draws.items() if random.random() < 0.5}


def flag(random: Random) -> bool:
    return random.random() < 0.5


def rule(**draws: Draw) -> Callable[[Any], Any]:
    """A method that sequences call, with arguments drawn so."""

    def mark(method: Any) -> Any:
        method.draws = draws
        return method

    return mark


def sequence(machine: type[Any], seed: str, steps: int) -> list[Made]:
    """Calls of some of the machine's rules: with fewer kinds of calls, those that are left reach further."""
    random = Random(seed)
    names = sorted(name for name in dir(machine) if hasattr(getattr(machine, name), "draws"))
    chosen = random.sample(names, random.randint(1, len(names)) if flag(random) else len(names))
    calls: list[Made] = []
    for _ in range(steps):
        name = random.choice(chosen)
        calls.append((name, {key: draw(random) for key, draw in getattr(machine, name).draws.items()}))
    return calls


def run(machine: type[Any], calls: Sequence[Made]) -> None:
    """Makes the calls; the machine looks after each whether all is well."""
    running = machine()
    try:
        for name, arguments in calls:
            getattr(running, name)(**arguments)
            running.holds()
    finally:
        running.teardown()


def fails(machine: type[Any], calls: Sequence[Made]) -> Exception | None:
    try:
        run(machine, calls)
    except Exception as error:
        return error
    return None


def cut_down(machine: type[Any], calls: Sequence[Made]) -> list[Made]:
    """The calls of a failing sequence without which it does not fail."""
    kept = list(calls)
    size = len(kept) // 2
    while size:
        for start in range(len(kept) - size, -1, -size):
            shorter = kept[:start] + kept[start + size :]
            if fails(machine, shorter) is not None:
                kept = shorter
        size //= 2
    return kept


def check_sequences(machine: type[Any], name: str, count: int, steps: int) -> None:
    """Runs so many sequences; of one that fails, raises its error with the calls that lead there."""
    for number in range(count):
        calls = sequence(machine, f"{name} {number}", steps)
        if fails(machine, calls) is None:
            continue
        needed = cut_down(machine, calls)
        error = fails(machine, needed)
        told = "\n".join(f"    {name}({arguments})" for name, arguments in needed)
        raise AssertionError(f"sequence {name!r} {number} fails by:\n{told}") from error
