"""Every selector that this package sends to Metal: argument kinds, result, and what PyObjC must be told about it.

Kinds are Objective-C type encodings, shortened so that a line stays readable:

    Q q Z z f d v @   NSUInteger, NSInteger, BOOL, signed char (as a number), float, double, void, object
    size range align     the structs MTLSize, NSRange, MTLSizeAndAlign; a plain tuple when sent
    region id            the structs MTLRegion, as (origin, size), and MTLResourceID
    bytes:N              input memory whose length in bytes is argument N (counted from 0)
    bytes                input memory whose length follows from another argument's value
    room                 memory to fill, whose length follows likewise
    objects:N  ints:N    input array of objects or of NSUInteger, counted by argument N
    block                always sent as None
    out@  outQ           out-parameter: None is sent, the value is returned after the result
    varlist              a result that is `contents()`-like memory

`new` after a line marks a result that the caller owns; PyObjC does not know that of instance methods, so it
must be registered. `fix` marks a line whose metadata PyObjC lacks or has wrong. Metal 4's factories
are here only to be registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .contract_textures import TEXTURES

__all__ = ["CONTRACT", "Selector", "corrections"]


@dataclass(frozen=True)
class Selector:
    """One message: who receives it, what it takes and what comes back."""

    owner: str
    name: str
    arguments: tuple[str, ...]
    result: str
    owned: bool = False
    fix: bool = False

    @property
    def python_name(self) -> str:
        return self.name.replace(":", "_")

    @property
    def out_parameters(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.arguments) if kind.startswith("out"))


_TEXT = """
MTLDevice
  name -> @
  registryID -> Q
  architecture -> @
  maxThreadsPerThreadgroup -> size
  maxThreadgroupMemoryLength -> Q
  recommendedMaxWorkingSetSize -> Q
  currentAllocatedSize -> Q
  maxBufferLength -> Q
  hasUnifiedMemory -> Z
  isLowPower -> Z
  isRemovable -> Z
  isHeadless -> Z
  argumentBuffersSupport -> Q
  supportsFamily: q -> Z
  supportsCounterSampling: Q -> Z
  counterSets -> @
  sampleTimestamps:gpuTimestamp: outQ outQ -> v
  newBufferWithLength:options: Q Q -> @ new
  newBufferWithBytes:length:options: bytes:1 Q Q -> @ new
  newBufferWithBytesNoCopy:length:options:deallocator: bytes:1 Q Q block -> @ new
  newTextureWithDescriptor: @ -> @ new
  newSamplerStateWithDescriptor: @ -> @ new
  newArgumentEncoderWithArguments: @ -> @ new
  minimumLinearTextureAlignmentForPixelFormat: Q -> Q
  newHeapWithDescriptor: @ -> @ new
  heapBufferSizeAndAlignWithLength:options: Q Q -> align
  newLibraryWithSource:options:error: @ @ out@ -> @ new
  newLibraryWithURL:error: @ out@ -> @ new
  newLibraryWithData:error: @ out@ -> @ new
  newComputePipelineStateWithFunction:error: @ out@ -> @ new
  newComputePipelineStateWithFunction:options:reflection:error: @ Q out@ out@ -> @ new fix
  newComputePipelineStateWithDescriptor:options:reflection:error: @ Q out@ out@ -> @ new fix
  newBinaryArchiveWithDescriptor:error: @ out@ -> @ new
  newCommandQueue -> @ new
  newCommandQueueWithMaxCommandBufferCount: Q -> @ new
  newEvent -> @ new
  newSharedEvent -> @ new
  newFence -> @ new
  newIndirectCommandBufferWithDescriptor:maxCommandCount:options: @ Q Q -> @ new
  newResidencySetWithDescriptor:error: @ out@ -> @ new
  newCounterSampleBufferWithDescriptor:error: @ out@ -> @ new
  newMTL4CommandQueue -> @ new
  newCommandAllocator -> @ new
  newCommandBuffer -> @ new
  newArgumentTableWithDescriptor:error: @ out@ -> @ new
  newCounterHeapWithDescriptor:error: @ out@ -> @ new
  newCompilerWithDescriptor:error: @ out@ -> @ new
MTLArchitecture
  name -> @
MTLResource
  setLabel: @ -> v
  label -> @
  storageMode -> Q
  hazardTrackingMode -> Q
  setPurgeableState: Q -> Q
  allocatedSize -> Q
MTLBuffer
  contents -> varlist
  length -> Q
  gpuAddress -> Q
  didModifyRange: range -> v
  newTextureWithDescriptor:offset:bytesPerRow: @ Q Q -> @ new
MTLHeap
  newBufferWithLength:options: Q Q -> @ new
  newBufferWithLength:options:offset: Q Q Q -> @ new
  maxAvailableSizeWithAlignment: Q -> Q
  usedSize -> Q
MTLCompileOptions
  setLanguageVersion: Q -> v
  setFastMathEnabled: Z -> v
  setMathMode: q -> v
  setMathFloatingPointFunctions: q -> v
  setPreprocessorMacros: @ -> v
  setOptimizationLevel: q -> v
  setEnableLogging: Z -> v
MTLLibrary
  functionNames -> @
  newFunctionWithName: @ -> @ new
  newFunctionWithName:constantValues:error: @ @ out@ -> @ new
  newFunctionWithDescriptor:error: @ out@ -> @ new
MTLFunction
  functionConstantsDictionary -> @
  newArgumentEncoderWithBufferIndex: Q -> @ new
MTLFunctionConstant
  name -> @
  type -> q
  index -> Q
  required -> Z
MTLFunctionConstantValues
  setConstantValue:type:atIndex: bytes Q Q -> v fix
  setConstantValue:type:withName: bytes Q @ -> v fix
  setConstantValues:type:withRange: bytes Q range -> v fix
  reset -> v
MTLComputePipelineDescriptor
  setComputeFunction: @ -> v
  setLabel: @ -> v
  setSupportIndirectCommandBuffers: Z -> v
  setMaxTotalThreadsPerThreadgroup: Q -> v
  setThreadGroupSizeIsMultipleOfThreadExecutionWidth: Z -> v
  setBinaryArchives: @ -> v
  buffers -> @
MTLComputePipelineState
  maxTotalThreadsPerThreadgroup -> Q
  threadExecutionWidth -> Q
  staticThreadgroupMemoryLength -> Q
  supportIndirectCommandBuffers -> Z
  reflection -> @
MTLComputePipelineReflection
  bindings -> @
MTLBinding
  name -> @
  type -> q
  access -> Q
  index -> Q
  isUsed -> Z
  isArgument -> Z
MTLBufferBinding
  bufferAlignment -> Q
  bufferDataSize -> Q
  bufferDataType -> Q
MTLBinaryArchiveDescriptor
  setUrl: @ -> v
MTLBinaryArchive
  addComputePipelineFunctionsWithDescriptor:error: @ out@ -> Z
  serializeToURL:error: @ out@ -> Z
MTLCommandQueue
  setLabel: @ -> v
  commandBuffer -> @
  commandBufferWithUnretainedReferences -> @
  commandBufferWithDescriptor: @ -> @
  addResidencySet: @ -> v
  removeResidencySet: @ -> v
MTLCommandBufferDescriptor
  setErrorOptions: Q -> v
  setRetainedReferences: Z -> v
MTLCommandBuffer
  setLabel: @ -> v
  enqueue -> v
  commit -> v
  waitUntilScheduled -> v
  waitUntilCompleted -> v
  status -> q
  error -> @
  logs -> @
  GPUStartTime -> d
  GPUEndTime -> d
  kernelStartTime -> d
  kernelEndTime -> d
  encodeSignalEvent:value: @ Q -> v
  encodeWaitForEvent:value: @ Q -> v
  computeCommandEncoder -> @
  computeCommandEncoderWithDispatchType: Q -> @
  computeCommandEncoderWithDescriptor: @ -> @
  blitCommandEncoder -> @
  useResidencySet: @ -> v
NSError
  code -> q
  domain -> @
  localizedDescription -> @
  userInfo -> @
MTLCommandBufferEncoderInfo
  label -> @
  errorState -> q
MTLSharedEvent
  signaledValue -> Q
  setSignaledValue: Q -> v
  waitUntilSignaledValue:timeoutMS: Q Q -> Z
MTLComputePassDescriptor
  computePassDescriptor -> @
  setDispatchType: Q -> v
  sampleBufferAttachments -> @
MTLComputePassSampleBufferAttachmentDescriptorArray
  objectAtIndexedSubscript: Q -> @
MTLComputePassSampleBufferAttachmentDescriptor
  setSampleBuffer: @ -> v
  setStartOfEncoderSampleIndex: Q -> v
  setEndOfEncoderSampleIndex: Q -> v
MTLCommandEncoder
  setLabel: @ -> v
  insertDebugSignpost: @ -> v
  pushDebugGroup: @ -> v
  popDebugGroup -> v
  endEncoding -> v
MTLComputeCommandEncoder
  setComputePipelineState: @ -> v
  setBuffer:offset:atIndex: @ Q Q -> v
  setBufferOffset:atIndex: Q Q -> v
  setBuffers:offsets:withRange: objects:2 ints:2 range -> v
  setBytes:length:atIndex: bytes:1 Q Q -> v
  setTexture:atIndex: @ Q -> v
  setSamplerState:atIndex: @ Q -> v
  setThreadgroupMemoryLength:atIndex: Q Q -> v
  dispatchThreads:threadsPerThreadgroup: size size -> v
  dispatchThreadgroups:threadsPerThreadgroup: size size -> v
  dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup: @ Q size -> v
  memoryBarrierWithScope: Q -> v
  memoryBarrierWithResources:count: objects:1 Q -> v
  useResource:usage: @ Q -> v
  useResources:count:usage: objects:1 Q Q -> v
  useHeap: @ -> v
  updateFence: @ -> v
  waitForFence: @ -> v
  executeCommandsInBuffer:withRange: @ range -> v
  executeCommandsInBuffer:indirectBuffer:indirectBufferOffset: @ @ Q -> v
  sampleCountersInBuffer:atSampleIndex:withBarrier: @ Q Z -> v
MTLBlitCommandEncoder
  copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size: @ Q @ Q Q -> v
  fillBuffer:range:value: @ range z -> v
  resolveCounters:inRange:destinationBuffer:destinationOffset: @ range @ Q -> v
  optimizeIndirectCommandBuffer:withRange: @ range -> v
MTLIndirectCommandBufferDescriptor
  setCommandTypes: Q -> v
  setInheritBuffers: Z -> v
  setInheritPipelineState: Z -> v
  setMaxKernelBufferBindCount: Q -> v
  setMaxKernelThreadgroupMemoryBindCount: Q -> v
MTLIndirectCommandBuffer
  size -> Q
  indirectComputeCommandAtIndex: Q -> @
  resetWithRange: range -> v
MTLIndirectComputeCommand
  setComputePipelineState: @ -> v
  setKernelBuffer:offset:atIndex: @ Q Q -> v
  setThreadgroupMemoryLength:atIndex: Q Q -> v
  concurrentDispatchThreadgroups:threadsPerThreadgroup: size size -> v
  concurrentDispatchThreads:threadsPerThreadgroup: size size -> v
  setBarrier -> v
  clearBarrier -> v
  reset -> v
MTLResidencySetDescriptor
  setLabel: @ -> v
  setInitialCapacity: Q -> v
MTLResidencySet
  addAllocation: @ -> v
  addAllocations:count: objects:1 Q -> v
  removeAllocation: @ -> v
  removeAllAllocations -> v
  containsAllocation: @ -> Z
  commit -> v
  requestResidency -> v
  endResidency -> v
MTLCounterSampleBufferDescriptor
  setLabel: @ -> v
  setCounterSet: @ -> v
  setSampleCount: Q -> v
  setStorageMode: Q -> v
MTLCounterSampleBuffer
  resolveCounterRange: range -> @
  sampleCount -> Q
MTLCounterSet
  name -> @
  counters -> @
MTLCaptureManager
  sharedCaptureManager -> @
  supportsDestination: q -> Z
  startCaptureWithDescriptor:error: @ out@ -> Z
  stopCapture -> v
  isCapturing -> Z
  newCaptureScopeWithDevice: @ -> @ new
MTLCaptureDescriptor
  setCaptureObject: @ -> v
  setDestination: q -> v
  setOutputURL: @ -> v
MTLCaptureScope
  beginScope -> v
  endScope -> v
"""


def _read(text: str) -> Iterator[Selector]:
    owner = ""
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            owner = line
            continue
        left, _, right = line.partition("->")
        name, *arguments = left.split()
        result, *marks = right.split()
        yield Selector(owner, name, tuple(arguments), result, "new" in marks, "fix" in marks)


CONTRACT: tuple[Selector, ...] = tuple(_read(_TEXT + TEXTURES))

_ENCODINGS = {
    "size": "{MTLSize=QQQ}",
    "range": "{_NSRange=QQ}",
    "align": "{MTLSizeAndAlign=QQ}",
    "region": "{MTLRegion={MTLOrigin=QQQ}{MTLSize=QQQ}}",
}
_BLOCK = {"retval": {"type": b"v"}, "arguments": {0: {"type": b"^v"}, 1: {"type": b"n^v"}, 2: {"type": b"Q"}}}


def _argument(kind: str) -> dict[str, Any]:
    if kind.startswith("out"):
        return {"type": b"^" + kind[3:].encode(), "type_modifier": b"o"}
    if kind == "block":
        return {"type": b"@?", "callable": _BLOCK}
    if kind == "bytes":
        return {"type": b"^v", "type_modifier": b"n", "c_array_of_variable_length": True}
    if kind.startswith("bytes:"):
        return {"type": b"^v", "type_modifier": b"n", "c_array_length_in_arg": 2 + int(kind[6:])}
    return {"type": _ENCODINGS.get(kind, kind).encode()}


def corrections() -> Iterator[tuple[bytes, bytes, dict[str, Any]]]:
    """The (class, selector, metadata) to register with PyObjC; complete, because registering replaces."""
    for selector in CONTRACT:
        if not (selector.owned or selector.fix):
            continue
        # PyObjC counts self and _cmd as arguments 0 and 1.
        metadata: dict[str, Any] = {"arguments": {i + 2: _argument(kind) for i, kind in enumerate(selector.arguments)}}
        if selector.owned:
            metadata["retval"] = {"type": b"@", "already_retained": True}
        elif selector.result == "varlist":
            metadata["retval"] = {"type": b"^v", "c_array_of_variable_length": True}
        # Metal's protocols are registered on NSObject; only real classes are registered by their own name.
        of_class = selector.owner == "MTLFunctionConstantValues"
        yield selector.owner.encode() if of_class else b"NSObject", selector.name.encode(), metadata
