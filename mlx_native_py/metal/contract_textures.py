"""The contract's lines for textures, samplers and argument encoders; see contract.py."""

from __future__ import annotations

__all__ = ["TEXTURES"]

TEXTURES = """
MTLTexture
  gpuResourceID -> id
  newTextureViewWithPixelFormat: Q -> @ new
  newTextureViewWithPixelFormat:textureType:levels:slices: Q Q range range -> @ new
  replaceRegion:mipmapLevel:withBytes:bytesPerRow: region Q bytes Q -> v
  replaceRegion:mipmapLevel:slice:withBytes:bytesPerRow:bytesPerImage: region Q Q bytes Q Q -> v
  getBytes:bytesPerRow:fromRegion:mipmapLevel: room Q region Q -> v
  getBytes:bytesPerRow:bytesPerImage:fromRegion:mipmapLevel:slice: room Q Q region Q Q -> v
MTLTextureDescriptor
  setTextureType: Q -> v
  setPixelFormat: Q -> v
  setWidth: Q -> v
  setHeight: Q -> v
  setDepth: Q -> v
  setMipmapLevelCount: Q -> v
  setArrayLength: Q -> v
  setUsage: Q -> v
  setStorageMode: Q -> v
MTLSamplerDescriptor
  setMinFilter: Q -> v
  setMagFilter: Q -> v
  setMipFilter: Q -> v
  setSAddressMode: Q -> v
  setTAddressMode: Q -> v
  setRAddressMode: Q -> v
  setBorderColor: Q -> v
  setCompareFunction: Q -> v
  setNormalizedCoordinates: Z -> v
  setLodMinClamp: f -> v
  setLodMaxClamp: f -> v
  setSupportArgumentBuffers: Z -> v
MTLSamplerState
  gpuResourceID -> id
MTLArgumentDescriptor
  argumentDescriptor -> @
  setDataType: Q -> v
  setIndex: Q -> v
  setArrayLength: Q -> v
  setAccess: Q -> v
  setTextureType: Q -> v
  setConstantBlockAlignment: Q -> v
MTLArgumentEncoder
  encodedLength -> Q
  alignment -> Q
  setArgumentBuffer:offset: @ Q -> v
  setArgumentBuffer:startOffset:arrayElement: @ Q Q -> v
  setBuffer:offset:atIndex: @ Q Q -> v
  setBuffers:offsets:withRange: objects:2 ints:2 range -> v
  setTexture:atIndex: @ Q -> v
  setTextures:withRange: objects:1 range -> v
  setSamplerState:atIndex: @ Q -> v
  setSamplerStates:withRange: objects:1 range -> v
  constantDataAtIndex: Q -> varlist fix
MTLTextureBinding
  textureType -> Q
  textureDataType -> Q
"""
