"""The report: one file, without network, driven in a real browser where there is one."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import browser
import pytest

from mlx_native_py import profile
from mlx_native_py.profiling.profile import Profile
from mlx_native_py.profiling.records import BarrierRecord, CommandBufferRecord, DispatchRecord

from .conftest import LAYERS, Work


def large(count: int) -> Profile:
    """Ten command buffers with `count` dispatches of 20 kernels between them."""
    result = Profile("dispatch")
    result.started_ns, result.ended_ns = 1, 2
    each = count // 10
    for number in range(10):
        begin = number * each * 12_000
        dispatches = [
            DispatchRecord(
                *(n, f"kernel_{n % 20}", f"op_{n % 20}", "Other", (f"layer {n // 50}", "attention"), 4096, 4096, 8192),
                *(begin + n * 10_000, begin + n * 10_000 + 5_000 + n % 20 * 100, 5_000 + n % 20 * 100),
                how="measured",
            )
            for n in range(each)
        ]
        barriers = [BarrierRecord(n, n - 1, "RAW", "x", 0, 64) for n in range(1, each, 2)]
        times = (begin, begin + 10, begin + 20, begin, begin + each * 10_000)
        record = CommandBufferRecord(number, f"step {number}", "device", 1, *times, "measured")
        record.dispatches, record.barriers, record.memory = dispatches, barriers, [(begin, number << 20)]
        result._records.append(record)
    return result


@pytest.fixture
def page(work: Work, tmp_path: Path) -> Path:
    with profile("dispatch") as before:
        work()
    with profile("dispatch") as after:
        work()
        work()
    after.report(tmp_path / "run.html", compare_with=before, title="a </script> title")
    return tmp_path / "run.html"


def test_one_file_without_network(page: Path) -> None:
    text = page.read_text()
    addresses = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()
    assert not re.search(r"<link|<img|@import|url\(| src=", text)
    assert text.count("</script>") == 2 and "{{" not in text
    assert "a &lt;/script&gt; title" in text


def test_level_cb_and_nothing_at_all(work: Work, tmp_path: Path) -> None:
    with profile() as p:
        work()
    p.report(tmp_path / "cb.html")
    with profile() as empty:
        pass
    empty.report(tmp_path / "empty.html")
    assert '"tracks":[]' in (tmp_path / "empty.html").read_text()
    assert "apportioned" in (tmp_path / "cb.html").read_text()


@pytest.mark.browser
def test_tables_sort_and_filter(page: Path) -> None:
    with browser.opened(f"file://{page}") as (shown, faults):

        def names() -> list[str]:
            found: list[str] = shown.locator("#table tbody tr td:first-child").all_inner_texts()
            return found

        assert len(names()) == 3
        shown.locator("#table th", has_text="name").click()
        assert names() == sorted(names())
        shown.locator("#table th", has_text="name").click()
        assert names() == sorted(names(), reverse=True)
        shown.locator("#tabs button", has_text="op").click()
        assert set(names()) == {"matmul", "rms_norm", "add"}
        shown.fill("#filter", "MATMUL")
        assert names() == ["matmul"]
        assert all("matmul" in text for text in shown.locator("#barriers tbody tr").all_inner_texts())
        shown.fill("#filter", "")
        assert shown.locator("#barriers tbody tr").count() == 12
        assert shown.locator("#changes tbody tr").count() == 3
        # Every layer, and the three kernels of the one that took longest; others may be too small to draw.
        assert shown.locator("#treemap .region").count() == LAYERS
        assert shown.locator("#treemap div").count() >= LAYERS + 3
        assert shown.locator("#roofline circle").count() == 1
        assert shown.locator("#memory polyline").count() == 1
        assert not faults


@pytest.mark.browser
def test_the_timeline_zooms_pans_and_tells(page: Path) -> None:
    with browser.opened(f"file://{page}") as (shown, faults):

        def view() -> list[float]:
            found: list[float] = shown.evaluate("[timeline.view.start, timeline.view.end]")
            return found

        box = shown.locator("#timeline").bounding_box()
        whole = view()
        shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
        shown.mouse.wheel(0, -500)
        shown.wait_for_function("([a, b]) => timeline.view.end - timeline.view.start < (b - a) / 2", arg=whole)
        zoomed = view()
        shown.mouse.down()
        shown.mouse.move(box["x"] + box["width"] / 2 - 100, box["y"] + 30)
        shown.mouse.up()
        panned = view()
        assert panned[0] > zoomed[0] and abs((panned[1] - panned[0]) - (zoomed[1] - zoomed[0])) < 1
        shown.locator("#timeline").dblclick()
        assert view() == whole
        shown.locator("#barriers tbody tr").first.click()
        assert view()[1] - view()[0] < whole[1] - whole[0]
        assert not faults


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(page: Path, scheme: str) -> None:
    with browser.opened(f"file://{page}", color_scheme=scheme) as (shown, faults):

        def theme() -> tuple[str, str]:
            ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
            return shown.evaluate("document.documentElement.dataset.theme"), ground

        before = theme()
        assert before[0] == scheme
        shown.click("#theme")
        assert all(old != new for old, new in zip(before, theme(), strict=True))
        assert not faults


def seconds_to_load(shown: Any, page: Path) -> float:
    begin = time.perf_counter()
    shown.goto(f"file://{page}")
    shown.wait_for_function("document.documentElement.dataset.ready")
    return time.perf_counter() - begin


@pytest.mark.browser
def test_ten_thousand_dispatches_load_in_two_seconds(tmp_path: Path) -> None:
    large(10_000).report(tmp_path / "large.html")
    with browser.opened("about:blank") as (shown, faults):
        took = min(seconds_to_load(shown, tmp_path / "large.html") for _ in range(3))
        assert shown.evaluate("Object.keys(data.byId).length") == 10_000
        assert shown.evaluate("timeline.view.drawn") > 100
        print(f"{took:.2f} s")
        assert took < 2
        assert not faults
