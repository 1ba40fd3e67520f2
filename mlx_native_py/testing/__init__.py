"""Test support for your own kernels: a pytest fixture, budget assertions, and fault injection.

The pytest plugin is installed with the package: a test that takes `metal_device` runs on every available device. The
functions below are context managers for tests, and report what was counted if it exceeds the budget.
"""

from .assertions import (
    assert_barriers,
    assert_command_buffers,
    assert_deterministic,
    assert_dispatches,
    assert_messages,
    assert_no_leak,
)
from .faults import FaultKind, InjectedFault, fail

__all__ = [
    "FaultKind",
    "InjectedFault",
    "assert_barriers",
    "assert_command_buffers",
    "assert_deterministic",
    "assert_dispatches",
    "assert_messages",
    "assert_no_leak",
    "fail",
]
