"""What kernels write by os_log, and what is said of kernels that were stopped."""

from __future__ import annotations

import logging
import os
import re
import warnings

import numpy as np
import pytest

from mlx_native_py import CommandBufferError, MlxDevice, SettingsError, settings
from mlx_native_py.cli import doctor
from mlx_native_py.softmetal.engines.messages import ROOM

LOGGER = "mlx_native_py.os_log"
TALKATIVE = """
#include <metal_stdlib>
#include <metal_logging>
using namespace metal;
constant os_log logger("my.app", "loss");
kernel void levels(device float *x, uint i [[thread_position_in_grid]]) {
  if (i != 5) return;
  os_log_default.log("plain %d, %u and %.2f", -3, i, half(1.5));
  logger.log_debug("a"); logger.log_info("b"); logger.log_error("c"); logger.log_fault("d");
  logger.log_with_type(OS_LOG_TYPE_INFO, "%s", "e");
}
kernel void flood(device float *x, uint i [[thread_position_in_grid]]) {
  for (int n = 0; n < 1000; n++) os_log_default.log("message %d of thread %u", n, i);
}
"""


@pytest.mark.parametrize("engine", ["auto", "fibers", "lanes"])
@pytest.mark.parametrize("checked", [False, True])
def test_messages_reach_logging(caplog: pytest.LogCaptureFixture, engine: str, checked: bool) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    with settings.override(soft_engine=engine, soft_checked=checked), MlxDevice("soft") as device:
        device.compile(TALKATIVE).levels(np.zeros(64, np.float32))
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOGGER]
    assert told == [
        ("WARNING", "plain -3, 5 and 1.50"),
        ("DEBUG", "[my.app:loss] a"),
        ("INFO", "[my.app:loss] b"),
        ("ERROR", "[my.app:loss] c"),
        ("CRITICAL", "[my.app:loss] d"),
        ("INFO", "[my.app:loss] e"),
    ]
    assert vars(caplog.records[-1])["subsystem"] == "my.app" and vars(caplog.records[-1])["category"] == "loss"


def test_messages_that_find_no_room_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    with MlxDevice("soft") as device:
        device.compile(TALKATIVE).flood(np.zeros(64, np.float32))
    *kept, last = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert sum(len(message) + 4 for message in kept) <= ROOM
    assert last == f"{64_000 - len(kept)} more messages of kernels were lost: {ROOM} bytes are kept at a time"


WILD = """
kernel void write(device float *y, device const float *x, uint i [[thread_position_in_grid]]) { y[i * 100000] = x[i]; }
kernel void read(device float *y, device const float *x, uint i [[thread_position_in_grid]]) { y[i] = x[i * 100000]; }
kernel void divide(device int *y, uint i [[thread_position_in_grid]]) { y[i] = 7 / y[i]; }
kernel void endless(device int *y, uint i [[thread_position_in_grid]]) { while (((volatile device int *)y)[0] == 0) {} }
"""


@pytest.mark.parametrize(
    ("kernel", "facts"),
    [
        ("write", ["a write", "of 'y' (slot 0, 256 bytes)", "to see the thread"]),
        ("read", ["a read", "of 'x' (slot 1, 256 bytes)", "to see the thread"]),
        ("divide", ["division by zero"]),
        ("endless", ["timeout after 0.2 s"]),
    ],
)
@pytest.mark.parametrize("engine", ["auto", "fibers"])
def test_a_fault_says_where_and_what_would_tell_more(kernel: str, facts: list[str], engine: str) -> None:
    floats = [np.zeros(64, np.float32), np.ones(64, np.float32)]
    arguments = floats if kernel in ("write", "read") else [np.zeros(64, np.int32)]
    patience = 0.2 if kernel == "endless" else 60.0
    with settings.override(soft_engine=engine, soft_timeout=patience), MlxDevice("soft") as device:
        with pytest.raises(CommandBufferError) as caught:
            device.compile(WILD)[kernel](*arguments)
    message = str(caught.value)
    for fact in [f"kernel {kernel}: ", "threadgroup (0, 0, 0)", "MLX_SOFT_CHECKED=1", *facts]:
        assert fact in message, message
    if kernel in ("write", "read"):
        # Which thread is the first to meet memory that nobody has depends on what else the process holds.
        [byte] = re.findall(r"nearest is byte (\d+) of", message)
        thread, rest = divmod(int(byte), 400_000)
        assert 0 < thread < 64 and rest == 0
        assert engine != "fibers" or f"thread ({thread}, 0, 0) of" in message


def test_checked_mode_does_not_advise_itself() -> None:
    with settings.override(soft_checked=True, soft_timeout=0.2), MlxDevice("soft") as device:
        with pytest.raises(CommandBufferError, match="timeout") as caught:
            device.compile(WILD).endless(np.zeros(64, np.int32))
    assert "MLX_SOFT_CHECKED" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("MLX_SOFT_CHEKED", "MLX_SOFT_CHECKED"),
        ("MLX_SOFT_VERBOSE", "MLX_SOFT_"),
        ("MLX_PROFILE_CBS", "MLX_PROFILE_CB"),
        ("HF2Q_AUTOBARRIER", "HF2Q_AUTO_BARRIER"),
        ("MLX_NATIV_DEVICE", "MLX_NATIVE_DEVICE"),
    ],
)
def test_a_misspelt_variable_is_told(monkeypatch: pytest.MonkeyPatch, name: str, flag: str) -> None:
    monkeypatch.setenv(name, "1")
    assert list(settings.misspelt()) == [name] and settings.misspelt()[name].startswith(flag)
    with pytest.warns(UserWarning, match=f"{name} is set, and there is no such setting; did you mean {flag}"):
        MlxDevice("soft").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the finding says it, once
        [finding] = [each for each in doctor.examine("soft") if each.subject == "variables"]
    assert not finding.good and name in finding.detail and flag in finding.detail


def test_variables_of_mlx_itself_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_RANK", "0")
    monkeypatch.setenv("MLX_MAX_OPS_PER_BUFFER", "10")
    assert settings.misspelt() == {} and settings.strange() == ["MLX_MAX_OPS_PER_BUFFER", "MLX_RANK"]
    assert "MLX_RANK" in next(each.detail for each in doctor.examine("soft") if each.subject == "variables")


def test_settings_are_exported_for_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_SOFT_CHECKED", "0")
    monkeypatch.delenv("MLX_NATIVE_DEVICE", raising=False)
    with settings.exported(soft_checked=True, device="soft"):
        assert (os.environ["MLX_SOFT_CHECKED"], os.environ["MLX_NATIVE_DEVICE"]) == ("1", "soft")
    assert os.environ["MLX_SOFT_CHECKED"] == "0" and "MLX_NATIVE_DEVICE" not in os.environ
    with pytest.raises(SettingsError), settings.exported(device="soft", soft_checked="perhaps"):
        pass
    assert "MLX_NATIVE_DEVICE" not in os.environ
