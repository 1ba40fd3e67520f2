"""Compute pipelines: a compiled function, its limits and its reflection."""

from __future__ import annotations

from typing import Any

from .. import constants as c
from ..engines.abi import SLOTS, THREADGROUP_ZONES
from ..engines.choice import MANY_THREADS
from ..execution.pipeline import SIMD_WIDTH, KernelSource, PipelineRules, PipelineState
from ..misuse import InvalidValue
from ..program import CompileError, Executable, KernelArgument, Size
from ..values import MTLResourceID, MTLSize, instance, maybe, natural, optional_text, size, truth
from .base import Descriptor, NSObject, attribute
from .foundation import NSArray, NSError
from .library import HOST_FAILURES, FunctionArchive, FunctionState, MTLFunction, library_error, system_error
from .owned import DeviceObject, Owned

PIPELINE_DOMAIN = "SoftMetal"
MOST_VARIABLES = THREADGROUP_ZONES - SLOTS  # in threadgroup memory, beside as many arguments as there can be
REFLECTING = c.MTLPipelineOptionBindingInfo | c.MTLPipelineOptionBufferTypeInfo
_NO_ARCHIVES: NSArray[FunctionArchive] = NSArray()


class MTLPipelineBufferDescriptor(Descriptor):
    """Whether a buffer argument is promised to be immutable."""

    mutability, setMutability_ = attribute("mutability", natural, c.MTLMutabilityDefault)


class MTLPipelineBufferDescriptorArray(NSObject):
    """One descriptor per buffer slot."""

    def __init__(self) -> None:
        self._items: dict[int, MTLPipelineBufferDescriptor] = {}

    def objectAtIndexedSubscript_(self, index: int) -> MTLPipelineBufferDescriptor:
        place = natural(index, "index")
        if place >= SLOTS:
            raise InvalidValue(f"buffer index {place}, expected 0 to {SLOTS - 1}")
        return self._items.setdefault(place, MTLPipelineBufferDescriptor())

    def setObject_atIndexedSubscript_(self, item: MTLPipelineBufferDescriptor, index: int) -> None:
        self.objectAtIndexedSubscript_(index)
        self._items[index] = instance(item, MTLPipelineBufferDescriptor, "buffer")


def _archives(value: Any, what: str) -> NSArray[FunctionArchive]:
    return NSArray(instance(archive, FunctionArchive, what) for archive in value or ())


class MTLComputePipelineDescriptor(Descriptor):
    """The parameters of a pipeline."""

    def __init__(self) -> None:
        self._buffers = MTLPipelineBufferDescriptorArray()

    label, setLabel_ = attribute("label", optional_text, None)
    computeFunction, setComputeFunction_ = attribute("computeFunction", maybe(MTLFunction), None)
    supportIndirectCommandBuffers, setSupportIndirectCommandBuffers_ = attribute(
        "supportIndirectCommandBuffers", truth, False
    )
    maxTotalThreadsPerThreadgroup, setMaxTotalThreadsPerThreadgroup_ = attribute(
        "maxTotalThreadsPerThreadgroup", natural, 0
    )
    threadGroupSizeIsMultipleOfThreadExecutionWidth, setThreadGroupSizeIsMultipleOfThreadExecutionWidth_ = attribute(
        "threadGroupSizeIsMultipleOfThreadExecutionWidth", truth, False
    )
    requiredThreadsPerThreadgroup, setRequiredThreadsPerThreadgroup_ = attribute(
        "requiredThreadsPerThreadgroup", size, (0, 0, 0)
    )
    binaryArchives, setBinaryArchives_ = attribute("binaryArchives", _archives, _NO_ARCHIVES)
    shaderValidation, setShaderValidation_ = attribute("shaderValidation", natural, 0)

    def buffers(self) -> MTLPipelineBufferDescriptorArray:
        return self._buffers

    def reset(self) -> None:
        self.__dict__.clear()
        self._buffers = MTLPipelineBufferDescriptorArray()


_BINDING_TYPES = {
    "buffer": c.MTLBindingTypeBuffer,
    "threadgroup": c.MTLBindingTypeThreadgroupMemory,
    "texture": c.MTLBindingTypeTexture,
    "sampler": c.MTLBindingTypeSampler,
}
_ACCESS = {
    "read": c.MTLBindingAccessReadOnly,
    "read_write": c.MTLBindingAccessReadWrite,
    "write": c.MTLBindingAccessWriteOnly,
}


class MTLBinding(NSObject):
    """One argument that the kernel uses."""

    def __init__(self, argument: KernelArgument) -> None:
        self._argument = argument

    def name(self) -> str:
        return self._argument.name

    def index(self) -> int:
        return self._argument.index

    def type(self) -> int:
        return _BINDING_TYPES[self._argument.kind]

    def access(self) -> int:
        return _ACCESS[self._argument.access]

    def isUsed(self) -> bool:
        return True

    def isArgument(self) -> bool:
        return True


class MTLBufferBinding(MTLBinding):
    """A buffer argument."""

    def bufferAlignment(self) -> int:
        return self._argument.alignment

    def bufferDataSize(self) -> int:
        return self._argument.size

    def bufferDataType(self) -> int:
        return self._argument.data_type


class MTLThreadgroupBinding(MTLBinding):
    """A threadgroup argument."""

    def threadgroupMemoryAlignment(self) -> int:
        return self._argument.alignment

    def threadgroupMemoryDataSize(self) -> int:
        return self._argument.size


class MTLTextureBinding(MTLBinding):
    """A texture argument."""

    def textureType(self) -> int:
        return self._argument.texture_type

    def textureDataType(self) -> int:
        return self._argument.data_type

    def isDepthTexture(self) -> bool:
        return self._argument.is_depth

    def arrayLength(self) -> int:
        return self._argument.count


_BINDINGS: dict[str, type[MTLBinding]] = {
    "buffer": MTLBufferBinding,
    "threadgroup": MTLThreadgroupBinding,
    "texture": MTLTextureBinding,
    "sampler": MTLBinding,
}


class MTLComputePipelineReflection(NSObject):
    """The arguments of a kernel."""

    def __init__(self, arguments: tuple[KernelArgument, ...]) -> None:
        self._bindings: NSArray[MTLBinding] = NSArray(_BINDINGS[argument.kind](argument) for argument in arguments)

    def bindings(self) -> NSArray[MTLBinding]:
        return self._bindings


class MTLComputePipelineState(Owned):
    """A kernel ready to be dispatched."""

    def __init__(self, device: DeviceObject, state: PipelineState, label: str | None, indirect: bool) -> None:
        super().__init__(device)
        self.state = state
        self._label = label
        self._indirect = indirect

    def label(self) -> str | None:
        return self._label

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return self.state.max_threads

    def threadExecutionWidth(self) -> int:
        return SIMD_WIDTH

    def staticThreadgroupMemoryLength(self) -> int:
        return self.state.code.static_threadgroup_bytes

    def supportIndirectCommandBuffers(self) -> bool:
        return self._indirect

    def requiredThreadsPerThreadgroup(self) -> MTLSize:
        return MTLSize(*self.state.rules.required)

    def gpuResourceID(self) -> MTLResourceID:
        return MTLResourceID(id(self))

    def reflection(self) -> MTLComputePipelineReflection:
        return MTLComputePipelineReflection(self.state.code.kernel.arguments)

    def soft_prepare(self, shape: Size) -> None:
        """Begins to compile for threadgroups of this size, so that the first launch need not wait."""
        self.state.prepare(shape, MANY_THREADS)

    def soft_engine(self) -> str:
        """Which engine ran this kernel last, or would run it first: flat, lanes or fibers."""
        return self.state.last_engine

    def soft_engines(self) -> dict[Size, str]:
        """The same for each shape of threadgroup that was launched."""
        return dict(self.state.engines)

    def soft_settled(self) -> bool:
        """Whether the choice of engine is made for every shape that was launched."""
        return self.state.is_settled()

    def soft_declined(self) -> dict[str, str]:
        """Why other engines were not taken; for lanes, shape by shape."""
        return self.state.declined()


def build_pipeline(
    device: DeviceObject,
    descriptor: MTLComputePipelineDescriptor,
    options: int,
) -> tuple[MTLComputePipelineState | None, NSError | None]:
    """Compiles the descriptor's function; every refusal is an error object, as on Metal."""
    function = descriptor.computeFunction()
    if function is None:
        return None, NSError(PIPELINE_DOMAIN, 3, "computeFunction must not be nil.")
    problem = _refusal(device, function.state, descriptor, options) or _missing_constants(function.state)
    if problem is not None:
        return None, problem
    asked, limit = function.state, device.state.profile.threadgroup_memory
    constants = dict(asked.constants)
    try:
        code = asked.program.build(asked.kernel.name, constants, checked=device.state.options.checked)
    except CompileError as refused:
        return None, library_error(c.MTLLibraryErrorCompileFailure, str(refused))
    except HOST_FAILURES as failure:
        return None, system_error(failure)
    problem = _too_much_memory(code, limit)
    if problem is not None:
        return None, problem
    rules = PipelineRules(
        descriptor.maxTotalThreadsPerThreadgroup(),
        descriptor.requiredThreadsPerThreadgroup(),
        descriptor.threadGroupSizeIsMultipleOfThreadExecutionWidth(),
    )
    state = PipelineState(function.name(), code, rules, KernelSource(asked.source, asked.digest, constants))
    state.label = descriptor.label()
    return MTLComputePipelineState(device, state, state.label, descriptor.supportIndirectCommandBuffers()), None


def _too_much_memory(code: Executable, limit: int) -> NSError | None:
    if code.static_threadgroup_bytes > limit:
        size = code.static_threadgroup_bytes
        text = f"Threadgroup memory size ({size}) exceeds the maximum threadgroup memory allowed ({limit})"
    elif len(code.variables) > MOST_VARIABLES:
        text = f"{len(code.variables)} threadgroup variables, of which checked mode can tell {MOST_VARIABLES} apart"
    else:
        return None
    return NSError(PIPELINE_DOMAIN, 3, text)


def _missing_constants(function: FunctionState) -> NSError | None:
    missing = [
        constant.name
        for constant in function.kernel.constants
        if constant.required and constant.index not in function.constants
    ]
    if not missing:
        return None
    return library_error(
        c.MTLLibraryErrorCompileFailure,
        f"Function {function.name} cannot be used to build a "
        f"pipeline state: function constants {', '.join(missing)} have no value",
    )


def _refusal(
    device: DeviceObject, function: FunctionState, descriptor: MTLComputePipelineDescriptor, options: int
) -> NSError | None:
    profile = device.state.profile
    if descriptor.supportIndirectCommandBuffers() and any(each.table >= 0 for each in function.kernel.arguments):
        return NSError(PIPELINE_DOMAIN, 3, "Textures and samplers cannot be bound in indirect command buffers")
    if descriptor.supportIndirectCommandBuffers() and not profile.indirect_command_buffers:
        return NSError(PIPELINE_DOMAIN, 3, "Compute function cannot be used with indirect command buffers")
    asked, limit = descriptor.maxTotalThreadsPerThreadgroup(), profile.max_threads[0]
    if asked > limit:
        return NSError(PIPELINE_DOMAIN, 3, f"maxTotalThreadsPerThreadgroup ({asked}) exceeds the device's {limit}")
    if options & c.MTLPipelineOptionFailOnBinaryArchiveMiss:
        if not any(function.key() in archive.names for archive in descriptor.binaryArchives()):
            return NSError(
                c.MTLBinaryArchiveDomain,
                c.MTLBinaryArchiveErrorUnexpectedElement,
                f"Function {function.name} is in none of the descriptor's binary archives",
            )
    return None
