// How a kernel becomes an entry point: its arguments from the launch, its built-in values from the group and lane.
// Included last: it takes back the name SOFT_THREADGROUP for the item of SOFT_ENTRY.
#pragma once
#include "soft_lane.h"
#include "soft_reflect.h"

namespace soft {

// Where a thread is; everything that a built-in value can be made of.
struct place {
  const soft_group *group;
  uint x, y, z;
  uint index;
#if SOFT_ENGINE == 2
  uint shape[3];  // of the threadgroup, known when the kernel is compiled
#endif
};

struct triple {
  uint x, y, z;
};

static uint count(triple threads) { return threads.x * threads.y * threads.z; }

// Threads per threadgroup, as there are and as were asked for; compiled for one shape there is no difference.
#if SOFT_ENGINE == 2
static triple size(const place &p) { return {p.shape[0], p.shape[1], p.shape[2]}; }
static triple asked(const place &p) { return size(p); }
static uint total(const place &p) { return count(size(p)); }
static uint simdgroup(const place &) { return __lane_simdgroup(); }
static uint in_simdgroup(const place &) { return __lane_number(); }
#else
static triple size(const place &p) { return {p.group->size[0], p.group->size[1], p.group->size[2]}; }
static triple asked(const place &p) {
  const soft_u32 *group = p.group->launch->group;
  return {group[0], group[1], group[2]};
}
static uint total(const place &p) { return p.group->count; }
static uint simdgroup(const place &p) { return p.index / SOFT_WIDTH; }
static uint in_simdgroup(const place &p) { return p.index % SOFT_WIDTH; }
#endif

// Built-in values, by Metal's names. Each answers a number or a triple.
namespace values {
#define SOFT_VALUE(name, type, ...)                                      \
  struct name {                                                          \
    static type of(const place &p) { return __VA_ARGS__; }               \
  };
SOFT_VALUE(thread_position_in_grid, triple,
           {p.group->position[0] * asked(p).x + p.x, p.group->position[1] * asked(p).y + p.y,
            p.group->position[2] * asked(p).z + p.z})
SOFT_VALUE(thread_position_in_threadgroup, triple, {p.x, p.y, p.z})
SOFT_VALUE(threadgroup_position_in_grid, triple, {p.group->position[0], p.group->position[1], p.group->position[2]})
SOFT_VALUE(threads_per_threadgroup, triple, size(p))
SOFT_VALUE(dispatch_threads_per_threadgroup, triple, asked(p))
SOFT_VALUE(threads_per_grid, triple,
           {p.group->launch->threads[0], p.group->launch->threads[1], p.group->launch->threads[2]})
SOFT_VALUE(grid_size, triple, {p.group->launch->threads[0], p.group->launch->threads[1], p.group->launch->threads[2]})
SOFT_VALUE(grid_origin, triple, {0, 0, 0})
SOFT_VALUE(threadgroups_per_grid, triple,
           {p.group->launch->groups[0], p.group->launch->groups[1], p.group->launch->groups[2]})
SOFT_VALUE(thread_index_in_threadgroup, uint, p.index)
SOFT_VALUE(thread_index_in_simdgroup, uint, in_simdgroup(p))
SOFT_VALUE(thread_index_in_quadgroup, uint, in_simdgroup(p) % 4)
SOFT_VALUE(simdgroup_index_in_threadgroup, uint, simdgroup(p))
SOFT_VALUE(quadgroup_index_in_threadgroup, uint, simdgroup(p) * (SOFT_WIDTH / 4) + in_simdgroup(p) / 4)
SOFT_VALUE(simdgroups_per_threadgroup, uint, (total(p) + SOFT_WIDTH - 1) / SOFT_WIDTH)
SOFT_VALUE(quadgroups_per_threadgroup, uint, (total(p) + 3) / 4)
SOFT_VALUE(dispatch_simdgroups_per_threadgroup, uint, (count(asked(p)) + SOFT_WIDTH - 1) / SOFT_WIDTH)
SOFT_VALUE(dispatch_quadgroups_per_threadgroup, uint, (count(asked(p)) + 3) / 4)
SOFT_VALUE(threads_per_simdgroup, uint, SOFT_WIDTH)
SOFT_VALUE(thread_execution_width, uint, SOFT_WIDTH)
#undef SOFT_VALUE
}  // namespace values

// A number or triple as the scalar or vector that the kernel declares.
template <class T> struct given {
  static T from(uint v) { return T(v); }
  static T from(triple v) { return T(v.x); }
};
template <class T> struct given<metal::vec<T, 2>> {
  static metal::vec<T, 2> from(triple v) { return metal::vec<T, 2>(T(v.x), T(v.y)); }
};
template <class T> struct given<metal::vec<T, 3>> {
  static metal::vec<T, 3> from(triple v) { return metal::vec<T, 3>(T(v.x), T(v.y), T(v.z)); }
};

// A pointer or reference parameter P that stands for the memory at an address.
template <class P> struct bind;
template <class T> struct bind<T *> {
  typedef T element;
  static constexpr bool is_pointer = true;
  static T *at(void *address) { return (T *)address; }
};
template <class T> struct bind<T &> {
  typedef T element;
  static constexpr bool is_pointer = false;
  static T &at(void *address) { return *(T *)address; }
};

// The items of SOFT_ENTRY. `get` makes the argument of type P.
template <uint I> struct buffer {
  template <class P> static decltype(auto) get(const place &p) { return bind<P>::at(p.group->launch->buffers[I]); }
  template <class P> static constexpr soft_argument describe() {
    return describe_argument<bind<P>>(I, SOFT_KIND_BUFFER);
  }
  static constexpr bool is_bindable = true;
};
template <uint I> struct threadgroup_argument {
  template <class P> static decltype(auto) get(const place &p) {
    return bind<P>::at(p.group->tg + p.group->launch->tg_offsets[I]);
  }
  template <class P> static constexpr soft_argument describe() {
    return describe_argument<bind<P>>(I, SOFT_KIND_THREADGROUP);
  }
  static constexpr bool is_bindable = true;
};
template <class Value> struct in {
  template <class P> static auto get(const place &p) { return given<bare<P>>::from(Value::of(p)); }
  static constexpr bool is_bindable = false;
};
template <class T> struct zeros {
  static const __global char bytes[sizeof(T)] __attribute__((aligned(64)));
};
template <class T> const __global char zeros<T>::bytes[sizeof(T)] = {};

// An argument that a function constant switched off: null, or zeros to refer to.
struct nothing {
  template <class P> static decltype(auto) get(const place &) {
    if constexpr (metal::is_reference<P>::value)
      return bind<P>::at((void *)zeros<typename bind<P>::element>::bytes);
    else
      return P();
  }
  static constexpr bool is_bindable = false;
};

template <class... P> struct signature {
  template <auto F, class... Items> static __attribute__((always_inline)) void call(const place &p) {
    static_assert(sizeof...(P) == sizeof...(Items), "one item for each parameter");
    F(Items::template get<P>(p)...);
  }
  template <class... Items> static constexpr auto describe() {
    return argument_list<(uint(Items::is_bindable) + ... + 0)>::of(list<P...>(), list<Items...>());
  }
};

template <class... P> signature<P...> signature_of(void (*)(P...));

// All threads of a group in one loop; nobody waits, so their order does not matter. Parallel: they have no memory of
// their own either, so that the loop may be vectorised.
template <bool Parallel, auto F, class... Items> struct flat_entry {
  static __attribute__((always_inline)) void row(const soft_group &group, uint y, uint z, uint index) {
    if constexpr (Parallel) {
#pragma clang loop vectorize(assume_safety) interleave(enable)
      for (uint x = 0; x < group.size[0]; x++) thread(group, x, y, z, index + x);
    } else {
      for (uint x = 0; x < group.size[0]; x++) thread(group, x, y, z, index + x);
    }
  }

  static __attribute__((always_inline)) void thread(const soft_group &group, uint x, uint y, uint z, uint index) {
    decltype(signature_of(F))::template call<F, Items...>(place{&group, x, y, z, index});
  }

  static __attribute__((always_inline)) void run(const soft_group *shared) {
    const soft_launch launch = *shared->launch;
    soft_group group = *shared;
    group.launch = &launch;
    uint index = 0;
    for (uint z = 0; z < group.size[2]; z++)
      for (uint y = 0; y < group.size[1]; y++, index += group.size[0]) row(group, y, z, index);
  }
};

template <auto F, class... Items> struct fiber_entry {
  static __attribute__((always_inline)) void run(const soft_group *group, const soft_lane *lane) {
    place p = {group, lane->position[0], lane->position[1], lane->position[2], lane->index};
    decltype(signature_of(F))::template call<F, Items...>(p);
  }
};

#if SOFT_ENGINE == 2
template <uint X, uint Y, uint Z> struct shape {
  template <auto F, class... Items> static __attribute__((always_inline)) void run(const soft_group *group) {
    uint index = __lane_simdgroup() * SOFT_WIDTH + __lane_number();
    place p = {group, __lane_x(), __lane_y(), __lane_z(), index, {X, Y, Z}};
    decltype(signature_of(F))::template call<F, Items...>(p);
  }
};
#endif

}  // namespace soft

#undef SOFT_THREADGROUP
#define SOFT_BUFFER(index) soft::buffer<index>
#define SOFT_THREADGROUP(index) soft::threadgroup_argument<index>
#define SOFT_IN(name) soft::in<soft::values::name>
#define SOFT_NOTHING soft::nothing

#if SOFT_ENGINE == 0
// SOFT_PARALLEL: 1 or 0, known only where the kernel is compiled, so that one precompiled header serves both.
#define SOFT_RUN(f, ...) soft::flat_entry<SOFT_PARALLEL, f __VA_OPT__(, ) __VA_ARGS__>::run(group)
#elif SOFT_ENGINE == 2
// SOFT_SHAPE: the threads per threadgroup, as three numbers.
#define SOFT_RUN(f, ...) soft::shape<SOFT_SHAPE>::run<f __VA_OPT__(, ) __VA_ARGS__>(group)
#else
#define SOFT_RUN(f, ...) soft::fiber_entry<f __VA_OPT__(, ) __VA_ARGS__>::run(group, lane)
#endif

// SOFT_ENTRY((kernel), items...): see above for the items. An overload is chosen by static_cast<void (&)(...)>(kernel).
#define SOFT_ENTRY(f, ...)                                                                                            \
  extern "C" void soft_entry_point(soft_group *group, soft_lane *lane) {                                              \
    SOFT_RUN((f)__VA_OPT__(, ) __VA_ARGS__);                                                                          \
  }                                                                                                                   \
  extern "C" soft_u32 soft_tg_size() { return soft::static_threadgroup_bytes(); }                                     \
  extern "C" const __global char *soft_tg_places() { return soft_tg_start; }                                          \
  extern "C" const __global auto soft_arguments_list = decltype(soft::signature_of(f))::describe<__VA_ARGS__>();      \
  extern "C" const soft_argument *soft_arguments() { return soft_arguments_list.items; }                              \
  extern "C" soft_u32 soft_arguments_count() { return soft_arguments_list.count; }

// SOFT_MAX_TOTAL_THREADS(constant): what [[max_total_threads_per_threadgroup]] of the kernel says.
#define SOFT_MAX_TOTAL_THREADS(...)                                                                                   \
  static_assert((__VA_ARGS__) >= 1 && (__VA_ARGS__) <= 1024,                                                          \
                "'max_total_threads_per_threadgroup' attribute parameter must be between 1 and 1024");                \
  extern "C" soft_u32 soft_max_total_threads() { return __VA_ARGS__; }
