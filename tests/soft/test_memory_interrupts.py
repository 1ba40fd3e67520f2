"""Device memory: exceptions, finalisers and signal handlers in the middle of taking and giving back lose no byte."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interrupts import raise_at_every_bytecode, work_at_every_bytecode

from mlx_native_py import softmetal
from mlx_native_py.softmetal import memory
from mlx_native_py.softmetal.execution.textures import Descriptions
from mlx_native_py.softmetal.memory import PAGE, DeviceMemory, MemoryArena, pages
from mlx_native_py.softmetal.pages import FilePages, PrivatePages
from mlx_native_py.softmetal.signs import sign

INSIDE = Path(softmetal.__file__).parent
LARGE = MemoryArena.SHARED + PAGE
FILLING = b"\7"


class Counted(PrivatePages):
    """Pages of this process, and which of them are open."""

    counted: dict[int, int]

    def open(self, address: int, length: int) -> bool:
        self.counted[address] = length
        return super().open(address, length)

    def close(self, address: int, length: int) -> bool:
        closed = super().close(address, length)
        if closed:
            self.counted.pop(address, None)
        return closed


class CountedFile(Counted, FilePages):
    """The same of a file."""


PRIVATE, FILE = Counted(), CountedFile() if sys.platform == "linux" else Counted()


def is_filled(piece: DeviceMemory) -> bool:
    return bytes(piece.view()) == FILLING * piece.length


class Books:
    """An arena whose open pages are counted; some of its memory is held, and more than one slab is in use."""

    def __init__(self, source: Counted | CountedFile, guarded: int) -> None:
        self.open = source.counted = {}
        self.arena = MemoryArena(source, guarded=guarded, step=1 << 24, gap=PAGE)
        self.arena._watched = True  # the test says when memory is given back
        self.held: list[Any] = [self.arena.memory(size) for size in (PAGE, LARGE)]
        self.kept = self.given(3 * PAGE)
        self.fresh: list[Any] = []
        self.inside: list[DeviceMemory] = []  # what was taken in the middle of another call

    def given(self, length: int) -> DeviceMemory:
        made = self.arena.memory(length)
        assert made is not None and not any(made.view()[:: PAGE // 2])
        made.view()[:] = FILLING * length
        return made

    def agree(self) -> None:
        """What is open belongs to somebody, what somebody has is open, and nobody shares it."""
        assert all(map(is_filled, (self.kept, *self.inside)))
        assert all(not any(each.view()[:: PAGE // 2]) for each in self.fresh)
        again = [self.given(size) for size in (PAGE, PAGE, LARGE, 5 * PAGE)]
        live = [self.kept, *again, *self.inside, *self.fresh, *self.held]
        spans = sorted((each.address, each.address + pages(each.length)) for each in live)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
        assert is_filled(self.kept)
        del live
        again.clear()
        self.inside.clear()
        self.fresh.clear()
        self.held.clear()
        del self.kept
        self.arena.settle()
        unused = [slab for slabs in self.arena._slabs.values() for slab in slabs if len(slab.free) == slab.count]
        assert len(unused) <= 1  # which was just made, for the next one that asks
        assert self.open == {slab.address: slab.length for slab in unused}
        assert (self.arena.waiting, len(self.arena._lent), self.arena._cells) == (0, 0, {})


def take_small(books: Books) -> None:
    books.fresh.append(books.arena.memory(PAGE))


def take_last_of_slab(books: Books) -> None:
    books.fresh += [books.arena.memory(MemoryArena.SHARED) for _ in range(MemoryArena.CELLS)]


def take_large(books: Books) -> None:
    books.fresh.append(books.arena.memory(LARGE))


def give_back(books: Books) -> None:
    books.held.clear()
    books.arena.settle()


def replace(books: Books) -> None:
    books.held.clear()
    books.fresh.append(books.arena.memory(LARGE))


def borrow(books: Books) -> None:
    books.arena.over(PAGE, PAGE)
    books.arena.settle()


ACTS = pytest.mark.parametrize("act", [take_small, take_last_of_slab, take_large, give_back, replace, borrow])
KINDS = pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Books(PRIVATE, 1 << 30), id="own pages"),
        pytest.param(lambda: Books(PRIVATE, 1), id="shared pages"),
        pytest.param(lambda: Books(FILE, 1), id="shared pages of a file"),
    ],
)


@KINDS
@ACTS
def test_an_exception_anywhere_loses_no_memory(make: Callable[[], Books], act: Callable[[Books], None]) -> None:
    assert raise_at_every_bytecode(make, act, Books.agree, inside=INSIDE, only_checked=True) > 5


@KINDS
@ACTS
def test_memory_may_be_taken_and_dropped_inside(make: Callable[[], Books], act: Callable[[Books], None]) -> None:
    books: list[Books] = []

    def setup() -> Books:
        books[:] = [make()]
        return books[0]

    def work() -> None:
        (here,) = books
        here.inside += [here.given(PAGE), here.given(LARGE)]
        here.given(PAGE), here.given(LARGE)
        here.arena.settle()

    assert work_at_every_bytecode(setup, act, work, Books.agree, inside=INSIDE) > 5


def test_a_texture_may_be_made_and_dropped_while_another_is() -> None:
    """Each has a description of its own."""
    places = Descriptions(MemoryArena(step=1 << 24, gap=PAGE))
    kept: list[tuple[object, int]] = []

    def take() -> None:
        holder = sign()
        kept.append((holder, places.take(holder)[0]))

    def setup() -> None:
        kept.clear()
        for _ in range(200):  # more than one piece of memory holds
            take()
        del kept[::2]

    def act(state: None) -> None:
        for _ in range(120):
            take()

    def work() -> None:
        take()
        take()
        del kept[:3]

    def check(_: None) -> None:
        assert len({place for _, place in kept}) == len(kept)

    assert work_at_every_bytecode(setup, act, work, check, inside=INSIDE / "execution", step=7) > 20
    assert raise_at_every_bytecode(setup, act, check, inside=INSIDE / "execution", only_checked=True, step=7) > 20


def test_a_finaliser_inside_waits_for_no_thread_that_waits_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    device = softmetal.open_device()
    arena = device.state.arena
    made: list[Any] = [device.newBufferWithLength_options_(LARGE, 0)]
    arena.settle()

    def take() -> None:
        made.append(device.newBufferWithLength_options_(LARGE, 0))

    def close(source: PrivatePages, address: int, length: int) -> bool:
        monkeypatch.undo()
        others.append(threading.Thread(target=take, daemon=True))
        others[0].start()
        others[0].join(0.2)  # so that it holds what it can
        take()
        return source.close(address, length)

    others: list[threading.Thread] = []
    made.clear()
    monkeypatch.setattr(PrivatePages, "close", close)
    others.append(threading.Thread(target=arena.settle, daemon=True))
    others.pop().start()
    for _ in range(100):
        if len(made) == 2:
            break
        time.sleep(0.1)
    assert len(made) == 2 and None not in made


def test_two_threads_that_take_the_first_memory_start_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(memory, "start_new_thread", lambda *given: started.append(given))
    arena = MemoryArena(step=1 << 24, gap=PAGE)
    assert work_at_every_bytecode(
        lambda: arena, lambda arena: arena.memory(PAGE), lambda: arena.over(PAGE, PAGE), lambda _: None, inside=INSIDE
    )
    assert len(started) == 1


@pytest.mark.parametrize("refusal", [RuntimeError, MemoryError])
def test_without_a_thread_the_next_allocation_gives_back(
    refusal: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise refusal("can't start new thread")

    monkeypatch.setattr(memory, "start_new_thread", refuse)
    arena = MemoryArena(step=1 << 24, gap=PAGE)
    for _ in range(3):
        assert arena.memory(LARGE) is not None
        assert arena.waiting == 1
    monkeypatch.undo()
    assert arena.memory(PAGE) is not None  # starts it
    for _ in range(100):
        if not arena.waiting:
            break
        time.sleep(0.1)
    assert not arena.waiting
