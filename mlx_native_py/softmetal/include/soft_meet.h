// How the threads of a simdgroup exchange values: each leaves its own in the inbox, the last to come makes the outbox.
#pragma once
#include "soft_lane.h"
#include "soft_traits.h"
#include "soft_bfloat.h"

#define SOFT_LANE_FN static inline __attribute__((always_inline))

#if SOFT_ENGINE == 0
// Not defined anywhere: a flat kernel that reaches one of these was taken for flat by mistake.
extern "C" __attribute__((convergent)) soft_u32 soft_flat_kernels_cannot_wait(soft_lane *, soft_combine, soft_u64,
                                                                              soft_u64 = 0);
#define soft_meet soft_flat_kernels_cannot_wait
#define soft_barrier(lane, flags) soft_flat_kernels_cannot_wait(lane, nullptr, flags)
#elif SOFT_ENGINE == 1
// Comes back when all threads of the simdgroup that are at this call have arrived; answers which they are. The upper
// half of `flags` is the call's position in `function`.
extern "C" SOFT_WAITING soft_u32 soft_meet(soft_lane *, soft_combine, soft_u64 flags, soft_u64 function = 0);
// Calls of two branches stay two, so that each has its own line.
extern "C" SOFT_WAITING __attribute__((nomerge)) void soft_barrier(soft_lane *, soft_u32 flags);
#endif

// A return of a kernel whose threads wait for each other: checked mode wants to know of those that leave.
#if __has_feature(thread_sanitizer)
extern "C" __attribute__((nomerge, not_tail_called)) void soft_ends();
#define SOFT_RETURN return soft_ends()
// What the second argument points to, which the first one is; there are no such functions once a kernel is compiled.
extern "C" unsigned char soft_received_i8(unsigned char, const void *);
extern "C" unsigned short soft_received_i16(unsigned short, const void *);
extern "C" soft_u32 soft_received_i32(soft_u32, const void *);
#else
#define SOFT_RETURN return
#endif

namespace soft {

// Where in the source a call is; made where the function is called that takes it as its last argument.
struct mark {
  const __constant char *function;
  uint position;
  SOFT_MEMBER mark(const __constant char *name = __builtin_FUNCTION(), uint line = __builtin_LINE(),
                   uint column = __builtin_COLUMN())
      : function(name), position(line << 12 | (column < 4095 ? column : 4095)) {}
};

SOFT_LANE_FN uint meet(lane_t lane, soft_combine combine, mark at, uint flags = 0) {
  return soft_meet(lane, combine, (ulong)at.position << 32 | flags, (ulong)at.function);
}

// Slots are powers of two; those of one size lie together, so threads at different calls do not disturb each other.
constexpr uint slot_bytes(uint size) {
  uint slot = 1;
  while (slot < size) slot *= 2;
  return slot;
}
template <class T> static constexpr uint slot_of = slot_bytes(sizeof(T));
template <class T> static constexpr uint inbox_of = SOFT_WIDTH * (slot_of<T> - 1);

template <class T> SOFT_LANE_FN const T &read_slot(const char *box, uint lane) {
  return *(const T *)(box + lane * slot_of<T>);
}
template <class T> SOFT_LANE_FN T &write_slot(char *box, uint lane) { return *(T *)(box + lane * slot_of<T>); }

#if SOFT_ENGINE != 2
SOFT_LANE_FN uint lane_number(const soft_lane *lane) { return lane->index % SOFT_WIDTH; }
#endif

// Leaves a value, meets the others, answers the outbox. It holds until this thread's next meeting.
template <class T> SOFT_LANE_FN const char *exchange(lane_t lane, T value, soft_combine combine, mark at) {
  static_assert(slot_of<T> <= SOFT_SLOT_BYTES, "exchanged in pieces");
  write_slot<T>(lane->inbox + inbox_of<T>, lane_number(lane)) = value;
  meet(lane, combine, at);
  return lane->inbox + SOFT_OUTBOX;
}

#if SOFT_ENGINE == 1
// A loop in which threads wait for each other. Threads in different rounds of it do not meet.
struct loop : soft_loop {
  soft_lane *lane;
  soft_u64 path;
  __attribute__((always_inline)) loop(mark at = mark()) : lane(self()) {
    outer = lane->loops;
    path = lane->path;
    function = (ulong)at.function;
    position = at.position;
    round = 0;
    lane->loops = this;
  }
  __attribute__((always_inline)) void next() {
    round++;
    lane->path = (path + ((ulong)position << 32 | round)) * 0x9e3779b97f4a7c15ul;
  }
  __attribute__((always_inline)) ~loop() {
    lane->loops = outer;
    lane->path = path;
  }
};
#endif

// Every thread's value as it is. For those that are not here stands that of the first that is, on every engine.
template <uint Slot> void copy_all(const char *inbox, char *outbox, uint active) {
  inbox += SOFT_WIDTH * (Slot - 1);
  __builtin_memcpy(outbox, inbox, SOFT_WIDTH * Slot);
  for (uint absent = ~active; absent; absent &= absent - 1)
    __builtin_memcpy(outbox + __builtin_ctz(absent) * Slot, inbox + __builtin_ctz(active) * Slot, Slot);
}

// Which lane to take a value from, and from which of two values.
struct source {
  uint lane;
  bool filling;
};

struct piece {
  ulong words[SOFT_SLOT_BYTES / 8];
};
template <class T> struct pieces {
  piece part[(sizeof(T) + sizeof(piece) - 1) / sizeof(piece)];
};

#if SOFT_ENGINE == 2
template <class T> struct words {
  uint word[(sizeof(T) + 3) / 4];
};
// A value in the outbox.
template <class T> SOFT_LANE_FN T take(const T *place) {
  if constexpr (sizeof(T) == 1) {
    return __builtin_bit_cast(T, __lane_take_i8(place));
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(T, __lane_take_i16(place));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, __lane_take_i32(place));
  } else if constexpr (sizeof(T) == 8 && soft::whole_number<T>) {
    return __builtin_bit_cast(T, __lane_take_i64(place));
  } else {
    words<T> whole;
    T value;
#pragma unroll
    for (uint i = 0; i < sizeof(whole) / 4; i++) whole.word[i] = __lane_take_i32((const uint *)place + i);
    __builtin_memcpy(&value, &whole, sizeof(T));
    return value;
  }
}
template <class T> SOFT_LANE_FN T from_lane(T value, uint source, mark) {
  source %= SOFT_WIDTH;
  if constexpr (sizeof(T) == 1) {
    return __builtin_bit_cast(T, __lane_shuffle_i8(__builtin_bit_cast(uchar, value), source));
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(T, __lane_shuffle_i16(__builtin_bit_cast(ushort, value), source));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, __lane_shuffle_i32(__builtin_bit_cast(uint, value), source));
  } else if constexpr (sizeof(T) == 8 && soft::whole_number<T>) {
    return __builtin_bit_cast(T, __lane_shuffle_i64(__builtin_bit_cast(ulong, value), source));
  } else {
    words<T> whole;
    __builtin_memcpy(&whole, &value, sizeof(T));
#pragma unroll
    for (uint i = 0; i < sizeof(whole) / 4; i++) whole.word[i] = __lane_shuffle_i32(whole.word[i], source);
    __builtin_memcpy(&value, &whole, sizeof(T));
    return value;
  }
}
#else
#if __has_feature(thread_sanitizer)
// Says of a value in the outbox that it came from other threads, who may not have had one (softmetal/definedness).
template <class T> SOFT_LANE_FN T take(const T *place) {
  if constexpr (sizeof(T) == 1) {
    return __builtin_bit_cast(T, soft_received_i8(*(const uchar *)place, place));
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(T, soft_received_i16(*(const ushort *)place, place));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, soft_received_i32(*(const uint *)place, place));
  } else {
    uchar bytes[sizeof(T)];
    constexpr uint WORDS = sizeof(T) / 4;
#pragma unroll
    for (uint i = 0; i < WORDS; i++) {
      uint word = take<uint>((const uint *)place + i);
      __builtin_memcpy(bytes + 4 * i, &word, 4);
    }
#pragma unroll
    for (uint i = 4 * WORDS; i < sizeof(T); i++) bytes[i] = take<uchar>((const uchar *)place + i);
    T value;
    __builtin_memcpy(&value, bytes, sizeof(T));
    return value;
  }
}
#else
template <class T> SOFT_LANE_FN T take(const T *place) { return *place; }
#endif
template <class T> SOFT_LANE_FN T from_lane(T value, uint source, mark at) {
  lane_t lane = self();
  if constexpr (slot_of<T> <= SOFT_SLOT_BYTES) {
    return take<T>(&read_slot<T>(exchange(lane, value, copy_all<slot_of<T>>, at), source % SOFT_WIDTH));
  } else {
    pieces<T> whole;
    __builtin_memcpy(&whole, &value, sizeof(T));
    for (piece &p : whole.part) p = from_lane(p, source, at);
    __builtin_memcpy(&value, &whole, sizeof(T));
    return value;
  }
}
#endif

template <class T> struct two {
  T data, filling;
};
template <class T> SOFT_LANE_FN T from_lane_filled(T data, T filling, source from, mark at) {
  two<T> both = from_lane(two<T>{data, filling}, from.lane, at);
  return from.filling ? both.filling : both.data;
}

SOFT_LANE_FN uint own_lane() { return lane_number(self()); }

}  // namespace soft

// Around a loop: SOFT_LOOP for (...) SOFT_ROUND body, SOFT_LOOP while (...) SOFT_ROUND body,
// SOFT_LOOP do SOFT_ROUND body while (...);
#if SOFT_ENGINE != 1
#define SOFT_LOOP
#define SOFT_ROUND
#else
#define SOFT_LOOP if (soft::loop soft_this_loop; false) { } else
#define SOFT_ROUND if (soft_this_loop.next(), false) { } else
#endif
