"""For people who test their own kernels: devices for pytest, budgets as assertions, and faults on demand.

The pytest plugin comes with the package: a test that takes `metal_device` runs on every device that there is. What is
below is for `with` blocks in tests, and says what was counted where it is more than was allowed.
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
