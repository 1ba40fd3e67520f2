"""The constants of textures and samplers, with Metal's values."""

from __future__ import annotations

MTLPixelFormatInvalid = 0
MTLPixelFormatA8Unorm = 1
MTLPixelFormatR8Unorm = 10
MTLPixelFormatR8Unorm_sRGB = 11
MTLPixelFormatR8Snorm = 12
MTLPixelFormatR8Uint = 13
MTLPixelFormatR8Sint = 14
MTLPixelFormatR16Unorm = 20
MTLPixelFormatR16Snorm = 22
MTLPixelFormatR16Uint = 23
MTLPixelFormatR16Sint = 24
MTLPixelFormatR16Float = 25
MTLPixelFormatRG8Unorm = 30
MTLPixelFormatRG8Unorm_sRGB = 31
MTLPixelFormatRG8Snorm = 32
MTLPixelFormatRG8Uint = 33
MTLPixelFormatRG8Sint = 34
MTLPixelFormatB5G6R5Unorm = 40
MTLPixelFormatABGR4Unorm = 42
MTLPixelFormatBGR5A1Unorm = 43
MTLPixelFormatR32Uint = 53
MTLPixelFormatR32Sint = 54
MTLPixelFormatR32Float = 55
MTLPixelFormatRG16Unorm = 60
MTLPixelFormatRG16Snorm = 62
MTLPixelFormatRG16Uint = 63
MTLPixelFormatRG16Sint = 64
MTLPixelFormatRG16Float = 65
MTLPixelFormatRGBA8Unorm = 70
MTLPixelFormatRGBA8Unorm_sRGB = 71
MTLPixelFormatRGBA8Snorm = 72
MTLPixelFormatRGBA8Uint = 73
MTLPixelFormatRGBA8Sint = 74
MTLPixelFormatBGRA8Unorm = 80
MTLPixelFormatBGRA8Unorm_sRGB = 81
MTLPixelFormatRGB10A2Unorm = 90
MTLPixelFormatRGB10A2Uint = 91
MTLPixelFormatRG11B10Float = 92
MTLPixelFormatRGB9E5Float = 93
MTLPixelFormatBGR10A2Unorm = 94
MTLPixelFormatRG32Uint = 103
MTLPixelFormatRG32Sint = 104
MTLPixelFormatRG32Float = 105
MTLPixelFormatRGBA16Unorm = 110
MTLPixelFormatRGBA16Snorm = 112
MTLPixelFormatRGBA16Uint = 113
MTLPixelFormatRGBA16Sint = 114
MTLPixelFormatRGBA16Float = 115
MTLPixelFormatRGBA32Uint = 123
MTLPixelFormatRGBA32Sint = 124
MTLPixelFormatRGBA32Float = 125
MTLPixelFormatDepth16Unorm = 250
MTLPixelFormatDepth32Float = 252

MTLTextureType1D = 0
MTLTextureType1DArray = 1
MTLTextureType2D = 2
MTLTextureType2DArray = 3
MTLTextureType2DMultisample = 4
MTLTextureTypeCube = 5
MTLTextureTypeCubeArray = 6
MTLTextureType3D = 7
MTLTextureType2DMultisampleArray = 8
MTLTextureTypeTextureBuffer = 9

MTLTextureUsageUnknown = 0
MTLTextureUsageShaderRead = 1
MTLTextureUsageShaderWrite = 2
MTLTextureUsageRenderTarget = 4
MTLTextureUsagePixelFormatView = 16
MTLTextureUsageShaderAtomic = 32

MTLSamplerAddressModeClampToEdge = 0
MTLSamplerAddressModeMirrorClampToEdge = 1
MTLSamplerAddressModeRepeat = 2
MTLSamplerAddressModeMirrorRepeat = 3
MTLSamplerAddressModeClampToZero = 4
MTLSamplerAddressModeClampToBorderColor = 5

MTLSamplerBorderColorTransparentBlack = 0
MTLSamplerBorderColorOpaqueBlack = 1
MTLSamplerBorderColorOpaqueWhite = 2

MTLSamplerMinMagFilterNearest = 0
MTLSamplerMinMagFilterLinear = 1

MTLSamplerMipFilterNotMipmapped = 0
MTLSamplerMipFilterNearest = 1
MTLSamplerMipFilterLinear = 2

MTLCompareFunctionNever = 0
MTLCompareFunctionLess = 1
MTLCompareFunctionEqual = 2
MTLCompareFunctionLessEqual = 3
MTLCompareFunctionGreater = 4
MTLCompareFunctionNotEqual = 5
MTLCompareFunctionGreaterEqual = 6
MTLCompareFunctionAlways = 7

MTLReadWriteTextureTierNone = 0
MTLReadWriteTextureTier1 = 1
MTLReadWriteTextureTier2 = 2
