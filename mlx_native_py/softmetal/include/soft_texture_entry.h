// Textures and samplers as arguments of a kernel: handles in a table, which a buffer slot that the kernel leaves free is for.
#pragma once
#include "soft_array.h"
#include "soft_entry.h"
#include "soft_texture_types.h"

enum { SOFT_KIND_TEXTURE = 2, SOFT_KIND_SAMPLER = 3 };

namespace soft {

enum { SAMPLERS = 16 };  // stand first in the table

template <class P> struct resource {
  static constexpr uint count = 1;
  typedef P single;
  static P at(const __global ulong *handles) {
    P result = {};
    if constexpr (__is_same(P, metal::sampler))
      result.soft_bits = *handles;
    else
      result.soft_handle = *handles;
    return result;
  }
};
template <class P, size_t N> struct resource<metal::array<P, N>> {
  static constexpr uint count = N;
  typedef P single;
  static metal::array<P, N> at(const __global ulong *handles) {
    metal::array<P, N> result = {};
    for (size_t i = 0; i < N; i++) result.elements[i] = resource<P>::at(handles + i);
    return result;
  }
};

template <uint Table, uint I> struct handle_argument {
  template <class P> static decltype(auto) get(const place &p) {
    return resource<bare<P>>::at((const __global ulong *)p.group->launch->buffers[Table] + I);
  }
  static constexpr bool is_bindable = true;
};
// Their reflection: the component's MTLDataType, MTLTextureType, access, and how many there are.
template <uint Table, uint I> struct texture_argument : handle_argument<Table, SAMPLERS + I> {
  template <class P> static constexpr soft_argument describe() {
    typedef typename resource<bare<P>>::single T;
    return {I, SOFT_KIND_TEXTURE, data_type<typename T::element>::value, (uint)T::kind, (uint)T::access | (uint)T::is_depth << 8, resource<bare<P>>::count};
  }
};
template <uint Table, uint I> struct sampler_argument : handle_argument<Table, I> {
  template <class P> static constexpr soft_argument describe() {
    return {I, SOFT_KIND_SAMPLER, 59, 0, 0, resource<bare<P>>::count};
  }
};

}  // namespace soft

#define SOFT_TEXTURE(table, index) soft::texture_argument<table, index>
#define SOFT_SAMPLER(table, index) soft::sampler_argument<table, index>
