"""GPU traces: by flag, as a block, and a clear error where the device cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.encoding import floats, pipeline, soft_device

from mlx_native_py import MlxDevice, settings
from mlx_native_py.errors import CaptureError
from mlx_native_py.profiling.metal_capture import MetalCapture, reset_capture_consumed

pytestmark = pytest.mark.soft


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reset_capture_consumed()
    yield
    reset_capture_consumed()


def fill(device: MlxDevice) -> None:
    with device.command_encoder() as enc:
        enc.dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)


def test_a_block_is_traced(tmp_path: Path) -> None:
    with soft_device(capture_enabled=True) as device:
        with MetalCapture(device, tmp_path / "one.gputrace") as capture:
            assert capture.is_capturing
            capture.begin()
            fill(device)
        assert not capture.is_capturing
        capture.end()
        fill(device)
        lines = (tmp_path / "one.gputrace" / "capture.jsonl").read_text().splitlines()
        assert len(lines) == 2 and '"kernel": "fill"' in lines[0]
        with MetalCapture(device, str(tmp_path / "two.gputrace")):
            fill(device)


def test_work_in_flight_is_in_the_trace(tmp_path: Path) -> None:
    with soft_device(capture_enabled=True) as device:
        with MetalCapture(device, tmp_path / "one.gputrace"):
            enc = device.command_encoder()
            enc.dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)
            enc.commit()
        assert "completed" in (tmp_path / "one.gputrace" / "capture.jsonl").read_text()


def test_the_flag_asks_for_one_trace(tmp_path: Path) -> None:
    with soft_device(capture_enabled=True) as device:
        assert MetalCapture.from_env(device) is None
        with settings.override(metal_capture=tmp_path / "env.gputrace"):
            capture = MetalCapture.from_env(device)
            assert capture is not None and capture.is_capturing
            assert MetalCapture.from_env(device) is None
            fill(device)
            capture.end()
        assert (tmp_path / "env.gputrace").is_dir()


def test_a_device_that_cannot_says_so(tmp_path: Path) -> None:
    with soft_device() as device:
        with pytest.raises(CaptureError, match="not supported. .*MTL_CAPTURE_ENABLED=1"):
            MetalCapture(device, tmp_path / "no.gputrace").begin()
        with settings.override(metal_capture=tmp_path / "no.gputrace"):
            for _ in range(2):
                with pytest.raises(CaptureError):
                    MetalCapture.from_env(device)


def test_a_trace_is_not_overwritten(tmp_path: Path) -> None:
    with soft_device(capture_enabled=True) as device:
        with pytest.raises(CaptureError, match="already exists"):
            MetalCapture(device, tmp_path).begin()


def test_a_dropped_capture_is_stopped(tmp_path: Path) -> None:
    with soft_device(capture_enabled=True) as device:
        capture = MetalCapture(device, tmp_path / "one.gputrace")
        capture.begin()
        del capture
        with MetalCapture(device, tmp_path / "two.gputrace"):
            fill(device)
