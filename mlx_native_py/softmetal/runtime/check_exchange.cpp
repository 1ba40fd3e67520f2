// Values without one that threads of a simdgroup give each other: what a function makes of them has none either, as far as
// it depends on them. That is tried out: the function runs again with other numbers in their places.
#include "check_access.h"

namespace soft {

struct Boxes {
  u8 inbox[MAX_SIMDGROUPS][SOFT_OUTBOX];      // for each byte, the bits without a value
  u8 outbox[MAX_SIMDGROUPS][OUTBOX_BYTES];
  alignas(64) char tried[SOFT_OUTBOX];
  alignas(64) char made[OUTBOX_BYTES];
};

static u32 own_simdgroup() { return current_lane->index / SOFT_WIDTH % MAX_SIMDGROUPS; }

static void make_boxes(Worker &w) {
  Undisturbed hold;
  w.boxes = (Boxes *)aligned_alloc(64, sizeof(Boxes));
  if (!w.boxes) __builtin_trap();
  check_private_memory(w.boxes, sizeof(Boxes));
}

bool leave_in_box(Worker &w, u64 address, const u8 *shadow, u64 bytes) {
  u64 offset = address - (u64)current_lane->inbox;
  if (offset >= SOFT_OUTBOX || bytes > SOFT_OUTBOX - offset) return false;
  u32 simdgroup = own_simdgroup();
  if (!w.boxes) make_boxes(w);
  u8 *marks = w.boxes->inbox[simdgroup];
  if (!(w.sent >> simdgroup & 1)) __builtin_memset(marks, 0, SOFT_OUTBOX);
  w.sent |= 1u << simdgroup;
  __builtin_memcpy(marks + offset, shadow, bytes);
  return true;
}

const u8 *marks_of_received(const Worker &w, u64 address) {
  u32 simdgroup = own_simdgroup();
  u64 offset = address - (u64)current_lane->inbox - SOFT_OUTBOX;
  return w.received >> simdgroup & 1 && offset < OUTBOX_BYTES ? w.boxes->outbox[simdgroup] + offset : nullptr;
}

// Puts other bits, or 0 for the opposite, where those of active threads have no value. Whether any were.
static bool try_others(Boxes &boxes, const u8 *marks, const char *inbox, u32 active, u8 other) {
  bool any = false;
  __builtin_memcpy(boxes.tried, inbox, SOFT_OUTBOX);
  for (u32 slot = 1; slot <= SOFT_SLOT_BYTES; slot *= 2) {
    for (u32 i = 0; i < SOFT_WIDTH * slot; i++) {
      u32 at = SOFT_WIDTH * (slot - 1) + i;
      if (!(active >> (i / slot) & 1) || !marks[at]) continue;
      u8 bits = other ? other : (u8)~inbox[at];
      boxes.tried[at] = (char)((inbox[at] & ~marks[at]) | (bits & marks[at]));
      any = true;
    }
  }
  return any;
}

static void forget(u8 *marks, u32 active) {
  for (u32 slot = 1; slot <= SOFT_SLOT_BYTES; slot *= 2) {
    for (u32 lane = 0; lane < SOFT_WIDTH; lane++) {
      if (active >> lane & 1) __builtin_memset(marks + SOFT_WIDTH * (slot - 1) + lane * slot, 0, slot);
    }
  }
}

void check_exchange(unsigned simdgroup, const char *inbox, const char *outbox, soft_combine combine, unsigned active) {
  Worker &w = *check_worker;
  u32 bit = 1u << simdgroup % MAX_SIMDGROUPS;
  w.received &= ~bit;
  if (!(w.sent & bit)) return;
  Boxes &boxes = *w.boxes;
  u8 *marks = boxes.inbox[simdgroup % MAX_SIMDGROUPS], *result = boxes.outbox[simdgroup % MAX_SIMDGROUPS];
  // The opposite, a large number and a large negative one, for whole numbers and all floats.
  constexpr u8 OTHERS[] = {0, 0x7B, 0xFB};
  __builtin_memset(result, 0, OUTBOX_BYTES);
  for (u8 other : OTHERS) {
    if (!combine || !try_others(boxes, marks, inbox, active, other)) break;
    __builtin_memcpy(boxes.made, outbox, OUTBOX_BYTES);
    combine(boxes.tried, boxes.made, active);
    for (u32 i = 0; i < OUTBOX_BYTES; i++) result[i] |= (u8)(boxes.made[i] ^ outbox[i]);
    w.received |= bit;
  }
  forget(marks, active);
}

}  // namespace soft
