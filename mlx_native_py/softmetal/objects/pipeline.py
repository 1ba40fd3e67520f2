"""Compute pipelines: a function compiled and ready, its limits and its reflection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import constants as c
from ..engines.abi import Launch
from ..engines.choice import aim
from ..misuse import InvalidValue
from ..program import Argument, CompileError, Executable, Size
from .archive import MTLBinaryArchive
from .base import Descriptor, NSObject, attribute
from .foundation import NSArray, NSError
from .library import HOST_FAILURES, MTLFunction, library_error, system_error
from .values import MTLResourceID, MTLSize, instance, maybe, natural, optional_text, size, truth

if TYPE_CHECKING:
    from .device import MTLDevice

SLOTS = 31
PIPELINE_DOMAIN = "SoftMetal"
REFLECTING = c.MTLPipelineOptionBindingInfo | c.MTLPipelineOptionBufferTypeInfo


_NO_ARCHIVES: NSArray[MTLBinaryArchive] = NSArray()


class MTLPipelineBufferDescriptor(Descriptor):
    """Whether a buffer argument is promised not to change."""

    mutability, setMutability_ = attribute("mutability", natural, c.MTLMutabilityDefault)


class MTLPipelineBufferDescriptorArray(NSObject):
    """One descriptor for each buffer slot."""

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


def _archives(value: Any, what: str) -> NSArray[MTLBinaryArchive]:
    return NSArray(instance(archive, MTLBinaryArchive, what) for archive in value or ())


class MTLComputePipelineDescriptor(Descriptor):
    """What to make a pipeline of."""

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


class MTLBinding(NSObject):
    """One argument that the kernel uses."""

    def __init__(self, argument: Argument) -> None:
        self._argument = argument

    def name(self) -> str:
        return self._argument.name

    def index(self) -> int:
        return self._argument.index

    def type(self) -> int:
        buffer = self._argument.kind == "buffer"
        return c.MTLBindingTypeBuffer if buffer else c.MTLBindingTypeThreadgroupMemory

    def access(self) -> int:
        return c.MTLBindingAccessReadOnly if self._argument.access == "read" else c.MTLBindingAccessReadWrite

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


class MTLComputePipelineReflection(NSObject):
    """What a kernel binds."""

    def __init__(self, arguments: tuple[Argument, ...]) -> None:
        self._bindings: NSArray[MTLBinding] = NSArray(
            MTLBufferBinding(argument) if argument.kind == "buffer" else MTLThreadgroupBinding(argument)
            for argument in arguments
        )

    def bindings(self) -> NSArray[MTLBinding]:
        return self._bindings


class MTLComputePipelineState(NSObject):
    """A kernel ready to be dispatched. The underscored fields are what an encoder needs at each dispatch."""

    def __init__(
        self, device: MTLDevice, function: MTLFunction, code: Executable, descriptor: MTLComputePipelineDescriptor
    ) -> None:
        self._device = device
        self._function = function
        self._code = code
        self._label = descriptor.label()
        self._indirect = descriptor.supportIndirectCommandBuffers()
        self._required = descriptor.requiredThreadsPerThreadgroup()
        self._whole_simdgroups = descriptor.threadGroupSizeIsMultipleOfThreadExecutionWidth()
        self._shaped = self._whole_simdgroups or any(self._required)
        asked = descriptor.maxTotalThreadsPerThreadgroup()
        self._max_threads = min(code.max_total_threads, asked) if asked else code.max_total_threads
        self._name = function.name()
        buffers = [argument for argument in code.kernel.arguments if argument.kind == "buffer"]
        self._needed = sum({1 << argument.index for argument in buffers})
        self._written = sum({1 << argument.index for argument in buffers if argument.access == "read_write"})
        self._sized = tuple((argument.index, argument.size) for argument in buffers if not argument.is_pointer)
        self._aligned = tuple((argument.index, argument.alignment) for argument in buffers if argument.alignment > 1)
        self._threadgroup_slots = tuple(sorted(a.index for a in code.kernel.arguments if a.kind == "threadgroup"))
        self._own_threadgroup_bytes = -(-code.static_threadgroup_bytes // 16) * 16
        self._engine = 0 if code.engine == "flat" else 1
        self._last_engine: str = code.engine
        self._ran: dict[Size, str] = {}  # the engine of the last launch, by threads per threadgroup

    def label(self) -> str | None:
        return self._label

    def device(self) -> MTLDevice:
        return self._device

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return self._max_threads

    def threadExecutionWidth(self) -> int:
        return 32

    def staticThreadgroupMemoryLength(self) -> int:
        return self._code.static_threadgroup_bytes

    def supportIndirectCommandBuffers(self) -> bool:
        return self._indirect

    def requiredThreadsPerThreadgroup(self) -> MTLSize:
        return MTLSize(*self._required)

    def gpuResourceID(self) -> MTLResourceID:
        return MTLResourceID(id(self))

    def reflection(self) -> MTLComputePipelineReflection:
        return MTLComputePipelineReflection(self._code.kernel.arguments)

    def soft_prepare(self, shape: Size) -> None:
        """Begins to compile for threadgroups of this size, so that the first launch need not wait."""
        if self._code.lanes is not None:
            self._code.lanes.prepare(shape)

    def soft_engine(self) -> str:
        """Which engine ran this kernel last, or would run it first: flat, lanes or fibers."""
        return self._last_engine

    def soft_engines(self) -> dict[Size, str]:
        """The same for each shape of threadgroup that was launched."""
        return dict(self._ran)

    def soft_settled(self) -> bool:
        """Whether the choice of engine is made for every shape that was launched."""
        return self._code.lanes is None or self._code.lanes.settled()

    def soft_declined(self) -> dict[str, str]:
        """Why other engines were not taken; for lanes, shape by shape."""
        return {**self._code.declined, **(self._code.lanes.declined() if self._code.lanes else {})}

    def _aim(self, launch: Launch, shape: Size) -> None:
        """Puts the code that runs threadgroups of this shape into a launch."""
        self._last_engine = self._ran[shape] = aim(launch, self._code, shape)

    def _argument_name(self, index: int, kind: str = "buffer") -> str:
        names = [a.name for a in self._code.kernel.arguments if a.index == index and a.kind == kind]
        return names[0] if names else "?"


def build_pipeline(
    device: MTLDevice,
    descriptor: MTLComputePipelineDescriptor,
    options: int,
) -> tuple[MTLComputePipelineState | None, NSError | None]:
    """Compiles the descriptor's function; every refusal is an error object, as on Metal."""
    function = descriptor.computeFunction()
    if function is None:
        return None, NSError(PIPELINE_DOMAIN, 3, "computeFunction must not be nil.")
    problem = _refusal(device, function, descriptor, options)
    if problem is not None:
        return None, problem
    constants = _constants(function)
    if isinstance(constants, NSError):
        return None, constants
    try:
        code = function._library._program.build(function._kernel.name, constants, checked=device._options.checked)
    except CompileError as refused:
        return None, library_error(c.MTLLibraryErrorCompileFailure, str(refused))
    except HOST_FAILURES as failure:
        return None, system_error(failure)
    if code.static_threadgroup_bytes > device.maxThreadgroupMemoryLength():
        return None, NSError(
            PIPELINE_DOMAIN,
            3,
            f"Threadgroup memory size ({code.static_threadgroup_bytes}) exceeds "
            f"the maximum threadgroup memory allowed ({device.maxThreadgroupMemoryLength()})",
        )
    return MTLComputePipelineState(device, function, code, descriptor), None


def _constants(function: MTLFunction) -> dict[int, bytes] | NSError:
    missing = [
        constant.name
        for constant in function._kernel.constants
        if constant.required and constant.index not in function._constants
    ]
    if missing:
        return library_error(
            c.MTLLibraryErrorCompileFailure,
            f"Function {function.name()} cannot be used to build a "
            f"pipeline state: function constants {', '.join(missing)} have no value",
        )
    return dict(function._constants)


def _refusal(
    device: MTLDevice, function: MTLFunction, descriptor: MTLComputePipelineDescriptor, options: int
) -> NSError | None:
    if descriptor.supportIndirectCommandBuffers() and not device._profile.indirect_command_buffers:
        return NSError(PIPELINE_DOMAIN, 3, "Compute function cannot be used with indirect command buffers")
    asked, limit = descriptor.maxTotalThreadsPerThreadgroup(), device._profile.max_threads[0]
    if asked > limit:
        return NSError(PIPELINE_DOMAIN, 3, f"maxTotalThreadsPerThreadgroup ({asked}) exceeds the device's {limit}")
    if options & c.MTLPipelineOptionFailOnBinaryArchiveMiss:
        if not any(archive._holds(function._key()) for archive in descriptor.binaryArchives()):
            return NSError(
                c.MTLBinaryArchiveDomain,
                c.MTLBinaryArchiveErrorUnexpectedElement,
                f"Function {function.name()} is in none of the descriptor's binary archives",
            )
    return None
