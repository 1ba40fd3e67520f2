"""The constants of `import Metal` that compute work uses, with Metal's values."""

from __future__ import annotations

from .texture_constants import *  # noqa: F403

MTLGPUFamilyApple1 = 1001
MTLGPUFamilyApple2 = 1002
MTLGPUFamilyApple3 = 1003
MTLGPUFamilyApple4 = 1004
MTLGPUFamilyApple5 = 1005
MTLGPUFamilyApple6 = 1006
MTLGPUFamilyApple7 = 1007
MTLGPUFamilyApple8 = 1008
MTLGPUFamilyApple9 = 1009
MTLGPUFamilyApple10 = 1010
MTLGPUFamilyMac1 = 2001
MTLGPUFamilyMac2 = 2002
MTLGPUFamilyCommon1 = 3001
MTLGPUFamilyCommon2 = 3002
MTLGPUFamilyCommon3 = 3003
MTLGPUFamilyMetal3 = 5001
MTLGPUFamilyMetal4 = 5002

MTLArgumentBuffersTier1 = 0
MTLArgumentBuffersTier2 = 1

MTLStorageModeShared = 0
MTLStorageModeManaged = 1
MTLStorageModePrivate = 2
MTLStorageModeMemoryless = 3

MTLCPUCacheModeDefaultCache = 0
MTLCPUCacheModeWriteCombined = 1

MTLHazardTrackingModeDefault = 0
MTLHazardTrackingModeUntracked = 1
MTLHazardTrackingModeTracked = 2

MTLResourceStorageModeShared = 0
MTLResourceStorageModeManaged = 16
MTLResourceStorageModePrivate = 32
MTLResourceStorageModeMemoryless = 48
MTLResourceCPUCacheModeDefaultCache = 0
MTLResourceCPUCacheModeWriteCombined = 1
MTLResourceHazardTrackingModeDefault = 0
MTLResourceHazardTrackingModeUntracked = 256
MTLResourceHazardTrackingModeTracked = 512
MTLResourceUsageRead = 1
MTLResourceUsageWrite = 2
MTLResourceUsageSample = 4

MTLPurgeableStateKeepCurrent = 1
MTLPurgeableStateNonVolatile = 2
MTLPurgeableStateVolatile = 3
MTLPurgeableStateEmpty = 4

MTLHeapTypeAutomatic = 0
MTLHeapTypePlacement = 1
MTLHeapTypeSparse = 2

MTLLanguageVersion1_1 = 65537
MTLLanguageVersion1_2 = 65538
MTLLanguageVersion2_0 = 131072
MTLLanguageVersion2_1 = 131073
MTLLanguageVersion2_2 = 131074
MTLLanguageVersion2_3 = 131075
MTLLanguageVersion2_4 = 131076
MTLLanguageVersion3_0 = 196608
MTLLanguageVersion3_1 = 196609
MTLLanguageVersion3_2 = 196610
MTLLanguageVersion4_0 = 262144

MTLMathModeSafe = 0
MTLMathModeRelaxed = 1
MTLMathModeFast = 2

MTLMathFloatingPointFunctionsFast = 0
MTLMathFloatingPointFunctionsPrecise = 1

MTLLibraryOptimizationLevelDefault = 0
MTLLibraryOptimizationLevelSize = 1

MTLLibraryTypeExecutable = 0
MTLLibraryTypeDynamic = 1

MTLFunctionTypeVertex = 1
MTLFunctionTypeFragment = 2
MTLFunctionTypeKernel = 3

MTLFunctionOptionNone = 0

MTLBindingTypeBuffer = 0
MTLBindingTypeThreadgroupMemory = 1
MTLBindingTypeTexture = 2
MTLBindingTypeSampler = 3

MTLBindingAccessReadOnly = 0
MTLBindingAccessReadWrite = 1
MTLBindingAccessWriteOnly = 2

MTLArgumentAccessReadOnly = 0
MTLArgumentAccessReadWrite = 1
MTLArgumentAccessWriteOnly = 2

MTLMutabilityDefault = 0
MTLMutabilityMutable = 1
MTLMutabilityImmutable = 2

MTLPipelineOptionNone = 0
MTLPipelineOptionArgumentInfo = 1
MTLPipelineOptionBindingInfo = 1
MTLPipelineOptionBufferTypeInfo = 2
MTLPipelineOptionFailOnBinaryArchiveMiss = 4

MTLCommandBufferStatusNotEnqueued = 0
MTLCommandBufferStatusEnqueued = 1
MTLCommandBufferStatusCommitted = 2
MTLCommandBufferStatusScheduled = 3
MTLCommandBufferStatusCompleted = 4
MTLCommandBufferStatusError = 5

MTLCommandBufferErrorNone = 0
MTLCommandBufferErrorInternal = 1
MTLCommandBufferErrorTimeout = 2
MTLCommandBufferErrorPageFault = 3
MTLCommandBufferErrorAccessRevoked = 4
MTLCommandBufferErrorBlacklisted = 4
MTLCommandBufferErrorNotPermitted = 7
MTLCommandBufferErrorOutOfMemory = 8
MTLCommandBufferErrorInvalidResource = 9
MTLCommandBufferErrorMemoryless = 10
MTLCommandBufferErrorDeviceRemoved = 11
MTLCommandBufferErrorStackOverflow = 12

MTLCommandBufferErrorOptionNone = 0
MTLCommandBufferErrorOptionEncoderExecutionStatus = 1

MTLCommandEncoderErrorStateUnknown = 0
MTLCommandEncoderErrorStateCompleted = 1
MTLCommandEncoderErrorStateAffected = 2
MTLCommandEncoderErrorStatePending = 3
MTLCommandEncoderErrorStateFaulted = 4

MTLDispatchTypeSerial = 0
MTLDispatchTypeConcurrent = 1

MTLBarrierScopeBuffers = 1
MTLBarrierScopeTextures = 2
MTLBarrierScopeRenderTargets = 4

MTLBlitOptionNone = 0

MTLCounterSamplingPointAtStageBoundary = 0
MTLCounterSamplingPointAtDrawBoundary = 1
MTLCounterSamplingPointAtDispatchBoundary = 2
MTLCounterSamplingPointAtTileDispatchBoundary = 3
MTLCounterSamplingPointAtBlitBoundary = 4

MTLCounterSampleBufferErrorOutOfMemory = 0
MTLCounterSampleBufferErrorInvalid = 1
MTLCounterSampleBufferErrorInternal = 2

MTLIndirectCommandTypeDraw = 1
MTLIndirectCommandTypeDrawIndexed = 2
MTLIndirectCommandTypeDrawPatches = 4
MTLIndirectCommandTypeDrawIndexedPatches = 8
MTLIndirectCommandTypeConcurrentDispatch = 32
MTLIndirectCommandTypeConcurrentDispatchThreads = 64

MTLCaptureDestinationDeveloperTools = 1
MTLCaptureDestinationGPUTraceDocument = 2

MTLCaptureErrorNotSupported = 1
MTLCaptureErrorAlreadyCapturing = 2
MTLCaptureErrorInvalidDescriptor = 3

MTLLibraryErrorUnsupported = 1
MTLLibraryErrorInternal = 2
MTLLibraryErrorCompileFailure = 3
MTLLibraryErrorCompileWarning = 4
MTLLibraryErrorFunctionNotFound = 5
MTLLibraryErrorFileNotFound = 6

MTLBinaryArchiveErrorNone = 0
MTLBinaryArchiveErrorInvalidFile = 1
MTLBinaryArchiveErrorUnexpectedElement = 2
MTLBinaryArchiveErrorCompilationFailure = 3
MTLBinaryArchiveErrorInternalError = 4

MTLDataTypeNone = 0
MTLDataTypeStruct = 1
MTLDataTypeArray = 2
MTLDataTypeFloat = 3
MTLDataTypeFloat2 = 4
MTLDataTypeFloat3 = 5
MTLDataTypeFloat4 = 6
MTLDataTypeFloat2x2 = 7
MTLDataTypeFloat2x3 = 8
MTLDataTypeFloat2x4 = 9
MTLDataTypeFloat3x2 = 10
MTLDataTypeFloat3x3 = 11
MTLDataTypeFloat3x4 = 12
MTLDataTypeFloat4x2 = 13
MTLDataTypeFloat4x3 = 14
MTLDataTypeFloat4x4 = 15
MTLDataTypeHalf = 16
MTLDataTypeHalf2 = 17
MTLDataTypeHalf3 = 18
MTLDataTypeHalf4 = 19
MTLDataTypeHalf2x2 = 20
MTLDataTypeHalf2x3 = 21
MTLDataTypeHalf2x4 = 22
MTLDataTypeHalf3x2 = 23
MTLDataTypeHalf3x3 = 24
MTLDataTypeHalf3x4 = 25
MTLDataTypeHalf4x2 = 26
MTLDataTypeHalf4x3 = 27
MTLDataTypeHalf4x4 = 28
MTLDataTypeInt = 29
MTLDataTypeInt2 = 30
MTLDataTypeInt3 = 31
MTLDataTypeInt4 = 32
MTLDataTypeUInt = 33
MTLDataTypeUInt2 = 34
MTLDataTypeUInt3 = 35
MTLDataTypeUInt4 = 36
MTLDataTypeShort = 37
MTLDataTypeShort2 = 38
MTLDataTypeShort3 = 39
MTLDataTypeShort4 = 40
MTLDataTypeUShort = 41
MTLDataTypeUShort2 = 42
MTLDataTypeUShort3 = 43
MTLDataTypeUShort4 = 44
MTLDataTypeChar = 45
MTLDataTypeChar2 = 46
MTLDataTypeChar3 = 47
MTLDataTypeChar4 = 48
MTLDataTypeUChar = 49
MTLDataTypeUChar2 = 50
MTLDataTypeUChar3 = 51
MTLDataTypeUChar4 = 52
MTLDataTypeBool = 53
MTLDataTypeBool2 = 54
MTLDataTypeBool3 = 55
MTLDataTypeBool4 = 56
MTLDataTypeTexture = 58
MTLDataTypeSampler = 59
MTLDataTypePointer = 60
MTLDataTypeRenderPipeline = 78
MTLDataTypeComputePipeline = 79
MTLDataTypeIndirectCommandBuffer = 80
MTLDataTypeLong = 81
MTLDataTypeLong2 = 82
MTLDataTypeLong3 = 83
MTLDataTypeLong4 = 84
MTLDataTypeULong = 85
MTLDataTypeULong2 = 86
MTLDataTypeULong3 = 87
MTLDataTypeULong4 = 88
MTLDataTypeBFloat = 121
MTLDataTypeBFloat2 = 122
MTLDataTypeBFloat3 = 123
MTLDataTypeBFloat4 = 124
MTLDataTypeTensor = 140

MTLCounterDontSample = 2**64 - 1
MTLCounterErrorValue = 2**64 - 1
MTLMaxComputePassSampleBuffers = 4
MTLCommonCounterSetTimestamp = "timestamp"
MTLCommonCounterTimestamp = "GPUTimestamp"
MTLCommandBufferErrorDomain = "MTLCommandBufferErrorDomain"
MTLCommandBufferEncoderInfoErrorKey = "MTLCommandBufferEncoderInfoErrorKey"
MTLLibraryErrorDomain = "MTLLibraryErrorDomain"
MTLBinaryArchiveDomain = "MTLBinaryArchiveDomain"
MTLCounterErrorDomain = "MTLCounterErrorDomain"
MTLCaptureErrorDomain = "MTLCaptureError"
