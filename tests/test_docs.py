"""What is written holds: every Python block runs, every link leads somewhere, quotes are
true, every name of the crate has an answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mlx_native_py

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = [
    pytest.param(page, number, text, id=f"{page.stem}-{number}", marks=[pytest.mark.soft] * ('"soft"' in text))
    for page in PAGES
    for number, text in enumerate(BLOCK.findall(page.read_text()), 1)
]

# The public names of the documents that this package answers to.
CRATE = """
    KernelArg as_bytes RecordedBinding DispatchKind CapturedOpKind is_reorderable name MemRange CapturedNode
    reset_counters sync_count dispatch_count cmd_buf_count barrier_count barrier_total_ns auto_barrier_count
    auto_barrier_concurrent_count CommandEncoder start_capture is_capturing take_capture set_op_kind
    set_pending_buffer_ranges annotate_last_dispatch_if_missing memory_barrier set_pipeline set_buffer dispatch_threads
    encode encode_threadgroups encode_threadgroups_with_shared encode_with_args encode_threadgroups_with_args
    encode_threadgroups_with_args_and_shared replay_dispatch dispatch_tracked_threadgroups
    dispatch_tracked_threadgroups_with_shared dispatch_tracked_threadgroups_with_args
    dispatch_tracked_threadgroups_with_args_and_shared dispatch_tracked_threads_with_args
    force_barrier_and_reset_tracker mem_ranges_len commit_and_wait commit commit_wait_with_gpu_time
    commit_and_wait_labeled commit_labeled wait_until_completed metal_command_buffer ProfileEntry record reset dump
    is_enabled DispatchEntry is_dispatch_enabled record_dispatch dump_dispatches record_clock_pair
    convert_gpu_ticks_to_ns MlxDevice command_encoder encoder_session alloc_buffer metal_device MlxBuffer as_slice
    as_mut_slice slice_view DType KernelRegistry register_source get_pipeline get_pipeline_with_constants
    EncoderSession env_enabled begin_stage encoder commit_stage fence_stage reset_for_next_stage is_drained
    is_fence_pending fence_value has_event wait_value wait_count MemRanges BufferRange MemRangeRole MlxBufferPool
    MlxError elementwise_add dispatch_scalar_mul_bf16_with_encoder MetalCapture ComputeGraph from_nodes fuse reorder
    encode_sequential encode_with_barriers encode_dual_buffer unannotated_dispatch_count GraphExecutor begin
    begin_recorded GraphSession encoder_mut barrier_between track_dispatch finish finish_with_timing
    finish_with_gpu_time finish_with_fusion finish_with_fusion_and_timing finish_with_fusion_and_reorder
    finish_with_fusion_reorder_and_timing finish_optimized finish_optimized_with_timing dump_group_stats
"""


@pytest.mark.parametrize(("page", "number", "block"), BLOCKS)
def test_blocks_run(
    page: Path,
    number: int,
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"{page.name}, block {number}", "exec"), {"__name__": "block"})
    assert capsys.readouterr().out, "a block shows what it does"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_found(page: Path) -> None:
    index = (ROOT / "docs" / "index.md").read_text() + (ROOT / "README.md").read_text()
    assert page.name in ("README.md",) or page.name in index


def test_every_page_is_on_the_site() -> None:
    listed = set(re.findall(r"\b([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")}


def rows() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "from-the-crate.md").read_text()
    cells = [line.replace(r"\|", "").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [(row[1], row[2]) for row in cells]


def test_every_name_of_the_crate_has_a_row() -> None:
    named = {part for crate, _ in rows() for part in re.findall(r"\w+", crate)}
    assert set(CRATE.split()) - named == set()


@pytest.mark.parametrize("name", sorted({n for _, here in rows() for n in re.findall(r"`([\w.]+)`", here)}))
def test_every_answer_exists(name: str) -> None:
    thing: object = mlx_native_py
    for part in name.split("."):
        assert hasattr(thing, part) or part in getattr(thing, "__annotations__", {}), name
        thing = getattr(thing, part, None)


QUOTES = re.findall(
    r"^From `([\w/.]+)`:\n\n```\w+\n(.*?)^```",
    (ROOT / "docs" / "writing-a-kernel.md").read_text(),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize(("path", "quote"), QUOTES, ids=[path for path, _ in QUOTES])
def test_quotes_are_true(path: str, quote: str) -> None:
    assert quote in (ROOT / path).read_text()


def test_kernel_function_and_row_are_quoted() -> None:
    assert [path.split("/")[0] for path, _ in QUOTES] == ["kernels", "mlx_native_py", "tests"]
