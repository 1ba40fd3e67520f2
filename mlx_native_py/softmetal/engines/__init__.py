"""The engines: they run compiled kernels, threadgroups in parallel over all cores."""

from mlx_native_py.softmetal.engines.abi import SoftLaunch
from mlx_native_py.softmetal.engines.runtime import KernelFault, LaunchTimes, RunResult, Runtime, open_runtime, runtime

__all__ = ["KernelFault", "LaunchTimes", "RunResult", "Runtime", "SoftLaunch", "open_runtime", "runtime"]
