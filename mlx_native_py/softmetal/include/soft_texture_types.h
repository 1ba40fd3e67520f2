// metal::texture2d and its relatives: what a kernel holds is a handle, the address of the texture's description.
#pragma once
#include "soft_atomic.h"
#include "soft_filter.h"

namespace metal {
enum class access { sample, read, write, soft_name_read_write };
// Every write is seen by every thread that is ordered after it, so this changes nothing.
enum memory_coherence { memory_coherence_threadgroup, memory_coherence_device };
}

namespace soft::tex {

enum { TEXTURE_1D, TEXTURE_1D_ARRAY, TEXTURE_2D, TEXTURE_2D_ARRAY, TEXTURE_SAMPLES, TEXTURE_CUBE, TEXTURE_CUBE_ARRAY, TEXTURE_3D, TEXTURE_SAMPLES_ARRAY, TEXTURE_BUFFER };

// Checked mode hears of coordinates beyond the texture, which otherwise read as zero and write nothing.
#if __has_feature(thread_sanitizer)
struct coordinate_type {
  ushort kind, info;
  char name[16];
};
struct coordinate_report {
  const __global char *file;
  uint line, column;
  const __global coordinate_type *array, *index;
};
extern "C" void __ubsan_handle_out_of_bounds(const __global coordinate_report *, ulong);
static const __global coordinate_type coordinate_names[4] = {
    {0xfffe, 0, "x"}, {0xfffe, 0, "y"}, {0xfffe, 0, "slice"}, {0xfffe, 0, "level"}};
static const __global coordinate_report coordinate_reports[4] = {
    {0, 0, 0, coordinate_names, coordinate_names},
    {0, 0, 0, coordinate_names + 1, coordinate_names},
    {0, 0, 0, coordinate_names + 2, coordinate_names},
    {0, 0, 0, coordinate_names + 3, coordinate_names}};
SOFT_INLINE bool is_inside(uint value, uint end, int axis) {
  if (value < end) return true;
  __ubsan_handle_out_of_bounds(coordinate_reports + axis, (ulong)end << 32 | value);
  return false;
}
#else
SOFT_INLINE bool is_inside(uint value, uint end, int) { return value < end; }
#endif
SOFT_INLINE bool is_texel(texture_t t, uint x, uint y, uint plane, uint level) {
  return is_inside(level, t->levels, 3) && is_inside(x, extent_at(t->width, level), 0) &&
         is_inside(y, extent_at(t->height, level), 1) && is_inside(plane, planes_at(t, level), 2);
}

template <class T> SOFT_INLINE metal::vec<T, 4> given_as(texel<typename working<T>::type> v) {
  return metal::vec<T, 4>(T(v.x), T(v.y), T(v.z), T(v.w));
}

// What every texture has; Kind is its MTLTextureType, N how many coordinates a texel has on one plane.
template <class T, metal::access A, int Kind, int N, bool Depth = false> struct texture_base {
  typedef typename working<T>::type W;
  typedef T element;
  static constexpr int kind = Kind, access = (int)A;
  static constexpr bool is_depth = Depth, is_cube = Kind == TEXTURE_CUBE || Kind == TEXTURE_CUBE_ARRAY;
  static constexpr bool readable = A != metal::access::write, writable = A == metal::access::write || A == metal::access::soft_name_read_write;
  static_assert(__is_same(T, float) || __is_same(T, half) || __is_same(T, int) || __is_same(T, uint) ||
                    __is_same(T, short) || __is_same(T, ushort),
                "a texture holds half, float, short, ushort, int or uint");
  static_assert(!Depth || __is_same(T, float), "a depth texture holds float");
  static_assert(!Depth || !writable, "a depth texture is sampled or read");
  static_assert(Kind != TEXTURE_BUFFER || A != metal::access::sample, "a texture buffer is not sampled");

  ulong soft_handle;

  uint get_width(uint lod = 0) const { return extent_at(state()->width, lod); }
  uint get_num_mip_levels() const { return state()->levels; }
  void fence() const {
    static_assert(!Depth, "a depth texture is not written, so it has no fence");
    __c11_atomic_signal_fence(__ATOMIC_SEQ_CST);
  }

 protected:
  texture_t state() const { return (texture_t)soft_handle; }
  metal::vec<T, 4> load(uint x, uint y, uint plane, uint level) const {
    static_assert(readable, "a texture with access::write cannot be read");
    texture_t t = state();
    if (!is_texel(t, x, y, plane, level)) return metal::vec<T, 4>(T(0));
    return given_as<T>(load_texel(t->layout, texel_at(t, x, y, plane, level), W()));
  }
  void store(metal::vec<T, 4> v, uint x, uint y, uint plane, uint level) const {
    static_assert(writable, "a texture is written with access::write or access::read_write only");
    texture_t t = state();
    if (!is_texel(t, x, y, plane, level)) return;
    store_texel(t->layout, texel_at(t, x, y, plane, level), texel<W>{(W)v.x, (W)v.y, (W)v.z, (W)v.w});
  }
  SOFT_DEVICE metal::atomic<T> *word(uint x, uint y, uint plane) const {
    static_assert(A == metal::access::soft_name_read_write && (__is_same(T, int) || __is_same(T, uint)),
                  "atomics are for textures of int or uint with access::read_write");
    texture_t t = state();
    return is_texel(t, x, y, plane, 0) ? (SOFT_DEVICE metal::atomic<T> *)texel_at(t, x, y, plane, 0) : nullptr;
  }
  // Slices beyond the last are the last, as far as sampling goes.
  uint slice(uint array) const {
    uint count = is_cube ? state()->slices / 6 : state()->slices;
    return array < count ? array : count - 1;
  }
  metal::vec<T, 4> take(metal::sampler s, point c, uint plane, const wanted &w) const {
    static_assert(A == metal::access::sample, "a texture is sampled with access::sample only");
    return given_as<T>(sampled<W, N, is_cube, as_is<W>>(state(), s.soft_bits, c, plane, w, 0.0f));
  }
  metal::vec<T, 4> four(metal::sampler s, point c, uint plane, const wanted &w, metal::component part) const {
    static_assert(A == metal::access::sample, "a texture is sampled with access::sample only");
    return given_as<T>(gathered<W, is_cube, as_is<W>>(state(), s.soft_bits, c, plane, w, (uint)part, 0.0f));
  }
  T compare(metal::sampler s, point c, uint plane, float reference, const wanted &w) const {
    return T(sampled<W, N, is_cube, with_compare>(state(), s.soft_bits, c, plane, w, reference).x);
  }
  metal::vec<T, 4> four_compared(metal::sampler s, point c, uint plane, float reference, const wanted &w) const {
    return given_as<T>(gathered<W, is_cube, with_compare>(state(), s.soft_bits, c, plane, w, 0, reference));
  }
};

SOFT_INLINE point at(float x) { return {{x, 0.0f, 0.0f}}; }
SOFT_INLINE point at(metal::vec<float, 2> c) { return {{c.x, c.y, 0.0f}}; }
SOFT_INLINE point at(metal::vec<float, 3> c) { return {{c.x, c.y, c.z}}; }

// What a call on a cube asks for, with gradients as they are on the face that the direction meets.
template <class... O> SOFT_INLINE wanted cube_wanted(point direction, uint face, O... options) {
  wanted result = all_wanted(options...);
  if (result.graded) {
    point x = cube_slope(direction, face, result.dx), y = cube_slope(direction, face, result.dy);
    for (int i = 0; i < 3; i++) result.dx[i] = x.at[i], result.dy[i] = y.at[i];
  }
  return result;
}

}  // namespace soft::tex

namespace metal {

#define SOFT_BASE(...) soft::tex::texture_base<T, A, __VA_ARGS__>
// The atomic functions on one texel of the format R32Uint or R32Sint; `where` is its place, as parameters and arguments.
#define SOFT_UNWRAP(...) __VA_ARGS__
#define SOFT_ATOMIC(name, where, ...)                                                                      \
  vec<T, 4> name(SOFT_UNWRAP where, vec<T, 4> v) const {                                                   \
    SOFT_DEVICE atomic<T> *word = this->word(__VA_ARGS__);                                                    \
    return vec<T, 4>(word ? name##_explicit(word, v.x, memory_order_relaxed) : T(0), T(0), T(0), T(0));    \
  }
#define SOFT_ATOMICS(where, ...)                                                                           \
  SOFT_ATOMIC(atomic_exchange, where, __VA_ARGS__)                                                         \
  SOFT_ATOMIC(atomic_fetch_add, where, __VA_ARGS__)                                                        \
  SOFT_ATOMIC(atomic_fetch_and, where, __VA_ARGS__)                                                        \
  SOFT_ATOMIC(atomic_fetch_max, where, __VA_ARGS__)                                                        \
  SOFT_ATOMIC(atomic_fetch_min, where, __VA_ARGS__)                                                        \
  SOFT_ATOMIC(atomic_fetch_or, where, __VA_ARGS__)                                                         \
  SOFT_ATOMIC(atomic_fetch_sub, where, __VA_ARGS__)                                                        \
  SOFT_ATOMIC(atomic_fetch_xor, where, __VA_ARGS__)                                                        \
  vec<T, 4> atomic_load(SOFT_UNWRAP where) const {                                                         \
    SOFT_DEVICE atomic<T> *word = this->word(__VA_ARGS__);                                                    \
    return vec<T, 4>(word ? atomic_load_explicit(word, memory_order_relaxed) : T(0), T(0), T(0), T(0));    \
  }                                                                                                        \
  void atomic_store(vec<T, 4> v, SOFT_UNWRAP where) const {                                                \
    if (SOFT_DEVICE atomic<T> *word = this->word(__VA_ARGS__)) atomic_store_explicit(word, v.x, memory_order_relaxed); \
  }                                                                                                        \
  bool atomic_compare_exchange_weak(SOFT_UNWRAP where, __private vec<T, 4> *expected, vec<T, 4> v) const { \
    SOFT_DEVICE atomic<T> *word = this->word(__VA_ARGS__);                                                    \
    T seen = expected->x;                                                                                  \
    bool done = word && atomic_compare_exchange_weak_explicit(word, &seen, v.x, memory_order_relaxed, memory_order_relaxed); \
    expected->x = seen;                                                                                    \
    return done;                                                                                           \
  }
#define SOFT_EXTENTS_2                                                                                     \
  uint get_height(uint lod = 0) const { return soft::tex::extent_at(this->state()->height, lod); }

template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texture1d : SOFT_BASE(soft::tex::TEXTURE_1D, 1) {
  SOFT_ATOMICS((uint c), c, 0, 0)
  vec<T, 4> read(uint c, uint lod = 0) const { return this->load(c, 0, 0, lod); }
  void write(vec<T, 4> v, uint c, uint lod = 0) const { this->store(v, c, 0, 0, lod); }
  vec<T, 4> sample(sampler s, float c) const { return this->take(s, soft::tex::at(c), 0, soft::tex::all_wanted()); }
};

template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texture1d_array : SOFT_BASE(soft::tex::TEXTURE_1D_ARRAY, 1) {
  SOFT_ATOMICS((uint c, uint array), c, 0, array)
  vec<T, 4> read(uint c, uint array, uint lod = 0) const { return this->load(c, 0, array, lod); }
  void write(vec<T, 4> v, uint c, uint array, uint lod = 0) const { this->store(v, c, 0, array, lod); }
  uint get_array_size() const { return this->state()->slices; }
  vec<T, 4> sample(sampler s, float c, uint array) const {
    return this->take(s, soft::tex::at(c), this->slice(array), soft::tex::all_wanted());
  }
};

#define SOFT_TEXELS_2D(U)                                                                                  \
  vec<T, 4> read(vec<U, 2> c, U lod = 0) const { return this->load(c.x, c.y, 0, lod); }                    \
  void write(vec<T, 4> v, vec<U, 2> c, U lod = 0) const { this->store(v, c.x, c.y, 0, lod); }
template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texture2d : SOFT_BASE(soft::tex::TEXTURE_2D, 2) {
  SOFT_TEXELS_2D(uint)
  SOFT_TEXELS_2D(ushort)
  SOFT_ATOMICS((vec<uint, 2> c), c.x, c.y, 0)
  SOFT_ATOMICS((vec<ushort, 2> c), c.x, c.y, 0)
  SOFT_EXTENTS_2
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradient2d, vec<int, 2>>, O...>>
  vec<T, 4> sample(sampler s, vec<float, 2> c, O... o) const {
    return this->take(s, soft::tex::at(c), 0, soft::tex::all_wanted(o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 2> c, vec<int, 2> offset = vec<int, 2>(0), component part = component::x) const {
    return this->four(s, soft::tex::at(c), 0, soft::tex::all_wanted(offset), part);
  }
};
#undef SOFT_TEXELS_2D

#define SOFT_TEXELS_2D_ARRAY(U)                                                                            \
  vec<T, 4> read(vec<U, 2> c, uint array, U lod = 0) const { return this->load(c.x, c.y, array, lod); }    \
  void write(vec<T, 4> v, vec<U, 2> c, uint array, U lod = 0) const { this->store(v, c.x, c.y, array, lod); }
template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texture2d_array : SOFT_BASE(soft::tex::TEXTURE_2D_ARRAY, 2) {
  SOFT_TEXELS_2D_ARRAY(uint)
  SOFT_TEXELS_2D_ARRAY(ushort)
  SOFT_ATOMICS((vec<uint, 2> c, uint array), c.x, c.y, array)
  SOFT_ATOMICS((vec<ushort, 2> c, uint array), c.x, c.y, array)
  SOFT_EXTENTS_2
  uint get_array_size() const { return this->state()->slices; }
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradient2d, vec<int, 2>>, O...>>
  vec<T, 4> sample(sampler s, vec<float, 2> c, uint array, O... o) const {
    return this->take(s, soft::tex::at(c), this->slice(array), soft::tex::all_wanted(o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 2> c, uint array, vec<int, 2> offset = vec<int, 2>(0), component part = component::x) const {
    return this->four(s, soft::tex::at(c), this->slice(array), soft::tex::all_wanted(offset), part);
  }
};
#undef SOFT_TEXELS_2D_ARRAY

#define SOFT_TEXELS_3D(U)                                                                                  \
  vec<T, 4> read(vec<U, 3> c, U lod = 0) const { return this->load(c.x, c.y, c.z, lod); }                  \
  void write(vec<T, 4> v, vec<U, 3> c, U lod = 0) const { this->store(v, c.x, c.y, c.z, lod); }
template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texture3d : SOFT_BASE(soft::tex::TEXTURE_3D, 3) {
  SOFT_TEXELS_3D(uint)
  SOFT_TEXELS_3D(ushort)
  SOFT_ATOMICS((vec<uint, 3> c), c.x, c.y, c.z)
  SOFT_ATOMICS((vec<ushort, 3> c), c.x, c.y, c.z)
  SOFT_EXTENTS_2
  uint get_depth(uint lod = 0) const { return soft::tex::extent_at(this->state()->depth, lod); }
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradient3d, vec<int, 3>>, O...>>
  vec<T, 4> sample(sampler s, vec<float, 3> c, O... o) const {
    return this->take(s, soft::tex::at(c), 0, soft::tex::all_wanted(o...));
  }
};
#undef SOFT_TEXELS_3D

#define SOFT_TEXELS_CUBE(U)                                                                                \
  vec<T, 4> read(vec<U, 2> c, uint face, U lod = 0) const { return this->load(c.x, c.y, face, lod); }      \
  void write(vec<T, 4> v, vec<U, 2> c, uint face, U lod = 0) const { this->store(v, c.x, c.y, face, lod); }
template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texturecube : SOFT_BASE(soft::tex::TEXTURE_CUBE, 2) {
  SOFT_TEXELS_CUBE(uint)
  SOFT_TEXELS_CUBE(ushort)
  SOFT_EXTENTS_2
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradientcube, void>, O...>>
  vec<T, 4> sample(sampler s, vec<float, 3> c, O... o) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->take(s, place, (uint)place.at[2], soft::tex::cube_wanted(soft::tex::at(c), (uint)place.at[2], o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 3> c, component part = component::x) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->four(s, place, (uint)place.at[2], soft::tex::all_wanted(), part);
  }
};
#undef SOFT_TEXELS_CUBE

#define SOFT_TEXELS_CUBE_ARRAY(U)                                                                          \
  vec<T, 4> read(vec<U, 2> c, uint face, uint array, U lod = 0) const {                                    \
    return this->load(c.x, c.y, array * 6 + face, lod);                                                    \
  }                                                                                                        \
  void write(vec<T, 4> v, vec<U, 2> c, uint face, uint array, U lod = 0) const {                           \
    this->store(v, c.x, c.y, array * 6 + face, lod);                                                       \
  }
template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct texturecube_array : SOFT_BASE(soft::tex::TEXTURE_CUBE_ARRAY, 2) {
  SOFT_TEXELS_CUBE_ARRAY(uint)
  SOFT_TEXELS_CUBE_ARRAY(ushort)
  SOFT_EXTENTS_2
  uint get_array_size() const { return this->state()->slices / 6; }
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradientcube, void>, O...>>
  vec<T, 4> sample(sampler s, vec<float, 3> c, uint array, O... o) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->take(s, place, this->slice(array) * 6 + (uint)place.at[2], soft::tex::cube_wanted(soft::tex::at(c), (uint)place.at[2], o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 3> c, uint array, component part = component::x) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->four(s, place, this->slice(array) * 6 + (uint)place.at[2], soft::tex::all_wanted(), part);
  }
};
#undef SOFT_TEXELS_CUBE_ARRAY

template <class T, access A = access::read, memory_coherence = memory_coherence_threadgroup> struct texture_buffer : SOFT_BASE(soft::tex::TEXTURE_BUFFER, 1) {
  SOFT_ATOMICS((uint c), c, 0, 0)
  vec<T, 4> read(uint c) const { return this->load(c, 0, 0, 0); }
  void write(vec<T, 4> v, uint c) const { this->store(v, c, 0, 0, 0); }
  uint get_width() const { return this->state()->width; }
  uint get_num_mip_levels() const = delete;
};

#include "soft_texture_depth.h"
#undef SOFT_BASE
#undef SOFT_EXTENTS_2
#undef SOFT_ATOMICS
#undef SOFT_ATOMIC
#undef SOFT_UNWRAP

template <class T, access A, int K, int N, bool D> SOFT_INLINE bool is_null_texture(soft::tex::texture_base<T, A, K, N, D> t) {
  return !t.soft_handle;
}

}  // namespace metal
