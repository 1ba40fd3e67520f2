// Depth textures and multisampled ones; soft_texture_types.h includes this where its macros are known.
#pragma once

template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct depth2d : SOFT_BASE(soft::tex::TEXTURE_2D, 2, true) {
  T read(vec<uint, 2> c, uint lod = 0) const { return this->load(c.x, c.y, 0, lod).x; }
  T read(vec<ushort, 2> c, ushort lod = 0) const { return this->load(c.x, c.y, 0, lod).x; }
  SOFT_EXTENTS_2
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradient2d, vec<int, 2>>, O...>>
  T sample(sampler s, vec<float, 2> c, O... o) const {
    return this->take(s, soft::tex::at(c), 0, soft::tex::all_wanted(o...)).x;
  }
  template <class... O, class = soft::tex::if_allowed<soft::tex::single_options<gradient2d, vec<int, 2>>, O...>>
  T sample_compare(sampler s, vec<float, 2> c, float reference, O... o) const {
    return this->compare(s, soft::tex::at(c), 0, reference, soft::tex::all_wanted(o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 2> c, vec<int, 2> offset = vec<int, 2>(0)) const {
    return this->four(s, soft::tex::at(c), 0, soft::tex::all_wanted(offset), component::x);
  }
  vec<T, 4> gather_compare(sampler s, vec<float, 2> c, float reference, vec<int, 2> offset = vec<int, 2>(0)) const {
    return this->four_compared(s, soft::tex::at(c), 0, reference, soft::tex::all_wanted(offset));
  }
};

template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct depth2d_array : SOFT_BASE(soft::tex::TEXTURE_2D_ARRAY, 2, true) {
  T read(vec<uint, 2> c, uint array, uint lod = 0) const { return this->load(c.x, c.y, array, lod).x; }
  T read(vec<ushort, 2> c, uint array, ushort lod = 0) const { return this->load(c.x, c.y, array, lod).x; }
  SOFT_EXTENTS_2
  uint get_array_size() const { return this->state()->slices; }
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradient2d, vec<int, 2>>, O...>>
  T sample(sampler s, vec<float, 2> c, uint array, O... o) const {
    return this->take(s, soft::tex::at(c), this->slice(array), soft::tex::all_wanted(o...)).x;
  }
  template <class... O, class = soft::tex::if_allowed<soft::tex::single_options<gradient2d, vec<int, 2>>, O...>>
  T sample_compare(sampler s, vec<float, 2> c, uint array, float reference, O... o) const {
    return this->compare(s, soft::tex::at(c), this->slice(array), reference, soft::tex::all_wanted(o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 2> c, uint array, vec<int, 2> offset = vec<int, 2>(0)) const {
    return this->four(s, soft::tex::at(c), this->slice(array), soft::tex::all_wanted(offset), component::x);
  }
  vec<T, 4> gather_compare(sampler s, vec<float, 2> c, uint array, float reference, vec<int, 2> offset = vec<int, 2>(0)) const {
    return this->four_compared(s, soft::tex::at(c), this->slice(array), reference, soft::tex::all_wanted(offset));
  }
};

template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct depthcube : SOFT_BASE(soft::tex::TEXTURE_CUBE, 2, true) {
  T read(vec<uint, 2> c, uint face, uint lod = 0) const { return this->load(c.x, c.y, face, lod).x; }
  T read(vec<ushort, 2> c, uint face, ushort lod = 0) const { return this->load(c.x, c.y, face, lod).x; }
  SOFT_EXTENTS_2
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradientcube, void>, O...>>
  T sample(sampler s, vec<float, 3> c, O... o) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->take(s, place, (uint)place.at[2], soft::tex::cube_wanted(soft::tex::at(c), (uint)place.at[2], o...)).x;
  }
  template <class... O, class = soft::tex::if_allowed<soft::tex::single_options<gradientcube, void>, O...>>
  T sample_compare(sampler s, vec<float, 3> c, float reference, O... o) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->compare(s, place, (uint)place.at[2], reference, soft::tex::cube_wanted(soft::tex::at(c), (uint)place.at[2], o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 3> c) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->four(s, place, (uint)place.at[2], soft::tex::all_wanted(), component::x);
  }
  vec<T, 4> gather_compare(sampler s, vec<float, 3> c, float reference) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->four_compared(s, place, (uint)place.at[2], reference, soft::tex::all_wanted());
  }
};

template <class T, access A = access::sample, memory_coherence = memory_coherence_threadgroup> struct depthcube_array : SOFT_BASE(soft::tex::TEXTURE_CUBE_ARRAY, 2, true) {
  T read(vec<uint, 2> c, uint face, uint array, uint lod = 0) const { return this->load(c.x, c.y, array * 6 + face, lod).x; }
  T read(vec<ushort, 2> c, uint face, uint array, ushort lod = 0) const { return this->load(c.x, c.y, array * 6 + face, lod).x; }
  SOFT_EXTENTS_2
  uint get_array_size() const { return this->state()->slices / 6; }
  template <class... O, class = soft::tex::if_allowed<soft::tex::options<gradientcube, void>, O...>>
  T sample(sampler s, vec<float, 3> c, uint array, O... o) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->take(s, place, this->slice(array) * 6 + (uint)place.at[2], soft::tex::cube_wanted(soft::tex::at(c), (uint)place.at[2], o...)).x;
  }
  template <class... O, class = soft::tex::if_allowed<soft::tex::single_options<gradientcube, void>, O...>>
  T sample_compare(sampler s, vec<float, 3> c, uint array, float reference, O... o) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->compare(s, place, this->slice(array) * 6 + (uint)place.at[2], reference, soft::tex::cube_wanted(soft::tex::at(c), (uint)place.at[2], o...));
  }
  vec<T, 4> gather(sampler s, vec<float, 3> c, uint array) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->four(s, place, this->slice(array) * 6 + (uint)place.at[2], soft::tex::all_wanted(), component::x);
  }
  vec<T, 4> gather_compare(sampler s, vec<float, 3> c, uint array, float reference) const {
    soft::tex::point place = soft::tex::cube_place(soft::tex::at(c));
    return this->four_compared(s, place, this->slice(array) * 6 + (uint)place.at[2], reference, soft::tex::all_wanted());
  }
};

// Several samples a texel: kernels read them, render passes alone write them.
#define SOFT_SAMPLES                                                                                       \
  SOFT_EXTENTS_2                                                                                           \
  uint get_num_samples() const { return this->state()->samples; }                                          \
  uint plane(uint array, uint sample) const {                                                              \
    return sample < get_num_samples() ? array * get_num_samples() + sample : ~0u;                          \
  }
#define SOFT_SAMPLED(name, number, is_depth, R, part)                                                      \
  template <class T, access A = access::read, memory_coherence = memory_coherence_threadgroup>             \
  struct name : SOFT_BASE(soft::tex::number, 2, is_depth) {                                                \
    SOFT_SAMPLES                                                                                           \
    R read(vec<uint, 2> c, uint sample) const { return this->load(c.x, c.y, plane(0, sample), 0)part; }    \
    R read(vec<ushort, 2> c, ushort sample) const { return this->load(c.x, c.y, plane(0, sample), 0)part; } \
  };                                                                                                       \
  template <class T, access A = access::read, memory_coherence = memory_coherence_threadgroup>             \
  struct name##_array : SOFT_BASE(soft::tex::number##_ARRAY, 2, is_depth) {                                \
    SOFT_SAMPLES                                                                                           \
    uint get_array_size() const { return this->state()->slices / get_num_samples(); }                      \
    R read(vec<uint, 2> c, uint array, uint sample) const {                                                \
      return this->load(c.x, c.y, plane(array, sample), 0)part;                                            \
    }                                                                                                      \
    R read(vec<ushort, 2> c, uint array, ushort sample) const {                                            \
      return this->load(c.x, c.y, plane(array, sample), 0)part;                                            \
    }                                                                                                      \
  };
#define SOFT_VECTOR_4 vec<T, 4>
SOFT_SAMPLED(texture2d_ms, TEXTURE_SAMPLES, false, SOFT_VECTOR_4, )
SOFT_SAMPLED(depth2d_ms, TEXTURE_SAMPLES, true, T, .x)
#undef SOFT_VECTOR_4
#undef SOFT_SAMPLED
#undef SOFT_SAMPLES
