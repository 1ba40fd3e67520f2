"""The engines, which run compiled kernels with threadgroups in parallel on all cores."""

from mlx_native_py.softmetal.engines.abi import SoftLaunch
from mlx_native_py.softmetal.engines.runtime import KernelFault, LaunchTimes, RunResult, Runtime, open_runtime, runtime

__all__ = ["KernelFault", "LaunchTimes", "RunResult", "Runtime", "SoftLaunch", "open_runtime", "runtime"]
