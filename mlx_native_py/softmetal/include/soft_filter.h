// Sampling: from coordinates and a sampler's rules to texels, their weights and levels.
#pragma once
#include "soft_sampler.h"
#include "soft_texel.h"

namespace metal {

struct level {
  float lod;
  SOFT_MEMBER explicit level(float lod) : lod(lod) {}
};
struct bias {
  float value;
  SOFT_MEMBER explicit bias(float value) : value(value) {}
};
struct min_lod_clamp {
  float lod;
  SOFT_MEMBER explicit min_lod_clamp(float lod) : lod(lod) {}
};
#define SOFT_GRADIENT(name, N)                                                          \
  struct name {                                                                         \
    vec<float, N> dx, dy;                                                               \
    SOFT_MEMBER name(vec<float, N> dx, vec<float, N> dy) : dx(dx), dy(dy) {}            \
  };
SOFT_GRADIENT(gradient2d, 2)
SOFT_GRADIENT(gradient3d, 3)
SOFT_GRADIENT(gradientcube, 3)
#undef SOFT_GRADIENT
enum class component { x, y, z, w };

}  // namespace metal

namespace soft::tex {

// What a call of `sample` asks for behind its coordinates.
struct wanted {
  float level = 0.0f, least = 0.0f;
  bool graded = false;
  float dx[3] = {}, dy[3] = {};
  int offset[3] = {};

  template <class V> void grade(V x, V y) {
    graded = true;
    for (int i = 0; i < V::soft_size; i++) dx[i] = x.at(i), dy[i] = y.at(i);
  }
  void take(metal::level v) { level = v.lod; }
  void take(metal::bias v) { level = v.value; }
  void take(metal::min_lod_clamp v) { least = v.lod; }
  void take(metal::gradient2d v) { grade(v.dx, v.dy); }
  void take(metal::gradient3d v) { grade(v.dx, v.dy); }
  void take(metal::gradientcube v) { grade(v.dx, v.dy); }
  void take(int v) { offset[0] = offset[1] = offset[2] = v; }
  void take(metal::vec<int, 2> v) { offset[0] = v.x, offset[1] = v.y; }
  void take(metal::vec<int, 3> v) { offset[0] = v.x, offset[1] = v.y, offset[2] = v.z; }
};
// What may stand there, by the specification: one option, or a bias or gradient with a limit, then an offset.
template <class Gradient, class Offset> struct options {
  static void of(Offset = Offset(0));
  static void of(metal::level, Offset = Offset(0));
  static void of(metal::bias, Offset = Offset(0));
  static void of(metal::min_lod_clamp, Offset = Offset(0));
  static void of(Gradient, Offset = Offset(0));
  static void of(metal::bias, metal::min_lod_clamp, Offset = Offset(0));
  static void of(Gradient, metal::min_lod_clamp, Offset = Offset(0));
};
template <class Gradient> struct options<Gradient, void> {
  static void of();
  static void of(metal::level);
  static void of(metal::bias);
  static void of(metal::min_lod_clamp);
  static void of(Gradient);
  static void of(metal::bias, metal::min_lod_clamp);
  static void of(Gradient, metal::min_lod_clamp);
};
// Comparisons have no limit beside another option.
template <class Gradient, class Offset> struct single_options {
  static void of(Offset = Offset(0));
  static void of(metal::level, Offset = Offset(0));
  static void of(metal::bias, Offset = Offset(0));
  static void of(metal::min_lod_clamp, Offset = Offset(0));
  static void of(Gradient, Offset = Offset(0));
};
template <class Gradient> struct single_options<Gradient, void> {
  static void of();
  static void of(metal::level);
  static void of(metal::bias);
  static void of(metal::min_lod_clamp);
  static void of(Gradient);
};
template <class Allowed, class... O> using if_allowed = decltype(Allowed::of(*(O *)nullptr...));

template <class... O> SOFT_INLINE wanted all_wanted(O... options) {
  wanted result;
  (result.take(options), ...);
  return result;
}

struct point {
  float at[3];
};

SOFT_INLINE int modulo(int i, int size) {
  int rest = i % size;
  return rest < 0 ? rest + size : rest;
}
// The index that stands for `i` on an axis, or -1 outside.
SOFT_INLINE int wrapped(int i, int size, uint mode) {
  switch (mode) {
    case REPEAT: return modulo(i, size);
    case MIRRORED_REPEAT: i = modulo(i, 2 * size); return i < size ? i : 2 * size - 1 - i;
    case MIRROR_CLAMP: i = i < 0 ? -1 - i : i; return i < size ? i : size - 1;
    case CLAMP_TO_EDGE: return i < 0 ? 0 : i < size ? i : size - 1;
    default: return i >= 0 && i < size ? i : -1;
  }
}
SOFT_INLINE bool has_alpha(uint layout) { return (layout >> 8 & 7) == 4 || layout & ALPHA_ONLY; }
template <class W> SOFT_INLINE texel<W> outside_texel(texture_t t, ulong s, uint mode) {
  if (mode == CLAMP_TO_ZERO) return texel<W>{0, 0, 0, W(!has_alpha(t->layout))};
  W colour = border(s) == 2, alpha = border(s) != 0;
  return texel<W>{colour, colour, colour, alpha};
}

// From one of a cube's faces to a direction, and back.
SOFT_INLINE point cube_direction(uint face, float s, float t) {
  switch (face) {
    case 0: return {{1.0f, -t, -s}};
    case 1: return {{-1.0f, -t, s}};
    case 2: return {{s, 1.0f, t}};
    case 3: return {{s, -1.0f, -t}};
    case 4: return {{s, -t, 1.0f}};
    default: return {{-s, -t, -1.0f}};
  }
}
// The face that a direction meets, in `at[2]`, and where from 0 to 1.
SOFT_INLINE point cube_place(point d) {
  SOFT_EXACT
  float x = __builtin_fabsf(d.at[0]), y = __builtin_fabsf(d.at[1]), z = __builtin_fabsf(d.at[2]);
  float across, down, axis;
  uint face;
  if (x >= y && x >= z)
    face = d.at[0] < 0, axis = x, across = face ? d.at[2] : -d.at[2], down = -d.at[1];
  else if (y >= z)
    face = 2 + (d.at[1] < 0), axis = y, across = d.at[0], down = face == 3 ? -d.at[2] : d.at[2];
  else
    face = 4 + (d.at[2] < 0), axis = z, across = face == 5 ? -d.at[0] : d.at[0], down = -d.at[1];
  return {{(across / axis + 1.0f) * 0.5f, (down / axis + 1.0f) * 0.5f, (float)face}};
}

// How fast the place on that face changes where the direction does by `g`.
SOFT_INLINE point cube_slope(point d, uint face, const float *g) {
  SOFT_EXACT
  constexpr int axes[3][3] = {{0, 2, 1}, {1, 0, 2}, {2, 0, 1}};  // towards the face, across, down
  const int *axis = axes[face / 2];
  float towards = d.at[axis[0]];
  float across = (g[axis[1]] - d.at[axis[1]] / towards * g[axis[0]]) / towards;
  float down = (g[axis[2]] - d.at[axis[2]] / towards * g[axis[0]]) / towards;
  return {{across * 0.5f, down * 0.5f, 0.0f}};
}

// The four or eight texels around a point, and how far it is from the first of them.
struct footprint {
  int first[3];
  float fraction[3];
};
template <int N> SOFT_INLINE footprint around(texture_t t, ulong s, point c, const wanted &w, uint level, bool linear) {
  SOFT_EXACT
  footprint result = {};
  uint size[3] = {extent_at(t->width, level), extent_at(t->height, level), extent_at(t->depth, level)};
  for (int i = 0; i < N; i++) {
    float at = in_pixels(s) ? c.at[i] : c.at[i] * (float)size[i];
    at = at == at ? within(linear ? at - 0.5f : at, -1.0e9f, 1.0e9f) : 0.0f;
    float low = __builtin_floorf(at);
    result.first[i] = (int)low + w.offset[i];
    result.fraction[i] = at - low;
  }
  return result;
}
template <class W, int N> SOFT_SHARED texel<W> addressed(texture_t t, ulong s, const int *index, uint plane, uint level) {
  int at[3] = {0, 0, 0};
  uint size[3] = {extent_at(t->width, level), extent_at(t->height, level), extent_at(t->depth, level)};
  for (int i = 0; i < N; i++) {
    uint mode = address_mode(s, i);
    at[i] = wrapped(index[i], (int)size[i], mode);
    if (at[i] < 0) return outside_texel<W>(t, s, mode);
  }
  return load_texel(t->layout, texel_at(t, at[0], at[1], N == 3 ? at[2] : plane, level), W());
}
// A texel beside its face lies on the face next to it.
template <class W> SOFT_SHARED texel<W> on_cube(texture_t t, const int *index, uint plane, uint level) {
  SOFT_EXACT
  int size = extent_at(t->width, level), x = index[0], y = index[1];
  if (x < 0 || y < 0 || x >= size || y >= size) {
    point d = cube_direction(plane % 6, (2 * x + 1) / (float)size - 1.0f, (2 * y + 1) / (float)size - 1.0f);
    point place = cube_place(d);
    x = wrapped((int)(place.at[0] * size), size, CLAMP_TO_EDGE), y = wrapped((int)(place.at[1] * size), size, CLAMP_TO_EDGE);
    plane = plane / 6 * 6 + (uint)place.at[2];
  }
  return load_texel(t->layout, texel_at(t, x, y, plane, level), W());
}
template <class W, int N, bool Cube> SOFT_INLINE texel<W> corner(texture_t t, ulong s, footprint f, int k, uint plane, uint level) {
  int index[3];
  for (int i = 0; i < N; i++) index[i] = f.first[i] + (k >> i & 1);
  if constexpr (Cube)
    return on_cube<W>(t, index, plane, level);
  else
    return addressed<W, N>(t, s, index, plane, level);
}

template <class W> SOFT_INLINE texel<W> as_is(ulong, texel<W> v, float) { return v; }
SOFT_INLINE texel<float> with_compare(ulong s, texel<float> v, float reference) { return compared(s, reference, v.x); }

// One level: the nearest texel, or the mean of those around, each by its share.
template <class W, int N, bool Cube, auto See>
SOFT_SHARED texel<W> sample_level(texture_t t, ulong s, point c, uint plane, const wanted &w, uint level, bool linear, float reference) {
  SOFT_EXACT
  footprint f = around<N>(t, s, c, w, level, linear);
  if constexpr (__is_same(W, float)) {
    if (linear) {
      texel<float> sum = 0.0f;
      for (int k = 0; k < 1 << N; k++) {
        float share = 1.0f;
        for (int i = 0; i < N; i++) share = share * (k >> i & 1 ? f.fraction[i] : 1.0f - f.fraction[i]);
        soft_texel_counts(share > 0.0f);
        sum = sum + See(s, corner<W, N, Cube>(t, s, f, k, plane, level), reference) * share;
      }
      soft_texel_counts(true);
      return sum;
    }
  }
  return See(s, corner<W, N, Cube>(t, s, f, 0, plane, level), reference);
}

SOFT_INLINE float lod_of(texture_t t, ulong s, const wanted &w, int dimensions) {
  SOFT_EXACT
  float lod = w.level;
  if (w.graded) {
    float size[3] = {(float)t->width, (float)t->height, (float)t->depth}, x = 0.0f, y = 0.0f;
    for (int i = 0; i < dimensions; i++) {
      x = x + w.dx[i] * size[i] * (w.dx[i] * size[i]);
      y = y + w.dy[i] * size[i] * (w.dy[i] * size[i]);
    }
    float most = x > y ? x : y;
    lod = most > 0.0f ? 0.5f * metal::precise::log2(most) : 0.0f;
  }
  lod = lod < w.least ? w.least : lod;
  return lod == lod ? within(lod, least_lod(s), most_lod(s)) : 0.0f;
}

template <class W, int N, bool Cube, auto See>
SOFT_SHARED texel<W> sampled(texture_t t, ulong s, point c, uint plane, const wanted &w, float reference) {
  SOFT_EXACT
  float lod = lod_of(t, s, w, N), last = (float)(t->levels - 1);
  bool linear = is_linear(s, lod > 0.0f);
  if (!mip_mode(s) || in_pixels(s) || last == 0.0f) return sample_level<W, N, Cube, See>(t, s, c, plane, w, 0, linear, reference);
  lod = within(lod, 0.0f, last);
  uint level = (uint)(mip_mode(s) == 1 ? __builtin_floorf(lod + 0.5f) : lod);
  texel<W> result = sample_level<W, N, Cube, See>(t, s, c, plane, w, level, linear, reference);
  if constexpr (__is_same(W, float)) {
    float part = lod - (float)level;
    if (mip_mode(s) == 2 && part > 0.0f)
      result = result * (1.0f - part) + sample_level<W, N, Cube, See>(t, s, c, plane, w, level + 1, linear, reference) * part;
  }
  return result;
}

// One component of the four texels that a linear filter would take, counter-clockwise from the lower left.
template <class W, bool Cube, auto See>
SOFT_SHARED texel<W> gathered(texture_t t, ulong s, point c, uint plane, const wanted &w, uint part, float reference) {
  footprint f = around<2>(t, s, c, w, 0, true);
  texel<W> result;
  result[0] = See(s, corner<W, 2, Cube>(t, s, f, 2, plane, 0), reference)[part];
  result[1] = See(s, corner<W, 2, Cube>(t, s, f, 3, plane, 0), reference)[part];
  result[2] = See(s, corner<W, 2, Cube>(t, s, f, 1, plane, 0), reference)[part];
  result[3] = See(s, corner<W, 2, Cube>(t, s, f, 0, plane, 0), reference)[part];
  return result;
}

}  // namespace soft::tex
