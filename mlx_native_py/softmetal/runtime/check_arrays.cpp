// What the compiler plants for types: indices outside of arrays (-fsanitize=array-bounds), addresses that a type cannot
// have (-fsanitize=alignment), and functions that end without a result (-fsanitize=return); and pointers that leave their
// variable (softmetal/definedness/bounds.py).
#include <string.h>

#include "check_shadow.h"

namespace {

// As the compiler lays them out.
struct Type {
  unsigned short kind, info;
  char name[];
};
struct Array {
  const char *file;
  soft_u32 line, column;
  const Type *array, *index;
};

struct Mismatch {
  const char *file;
  soft_u32 line, column;
  const Type *type;
  unsigned char log_alignment, kind;
};

struct Element {
  const char *name;
  unsigned bytes;
};
constexpr Element ELEMENTS[] = {
    {"short", 2}, {"ushort", 2}, {"half", 2},  {"_Float16", 2}, {"bfloat", 2}, {"__bf16", 2}, {"int", 4},  {"uint", 4},
    {"float", 4}, {"long", 8},   {"ulong", 8}, {"size_t", 8},   {"double", 8}, {"int16_t", 2}, {"uint16_t", 2},
    {"int32_t", 4}, {"uint32_t", 4}, {"int64_t", 8}, {"uint64_t", 8},
};

bool is_word(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Bytes of the element of a number or a vector, by the first word that names one; 1 for what has no such name.
unsigned element_bytes(const char *type) {
  for (const char *at = type; *at;) {
    const char *end = at;
    while (is_word(*end)) end++;
    unsigned length = (unsigned)(end - at);
    while (length > 1 && at[length - 1] >= '2' && at[length - 1] <= '4' && at[length - 2] != '6' && at[length - 2] != '_') length--;
    for (const Element &element : ELEMENTS) {
      if (strlen(element.name) == length && !strncmp(element.name, at, length)) return element.bytes;
    }
    at = end + (*end != 0 && !is_word(*end));
  }
  return 1;
}

}  // namespace

enum { LOAD = 0, STORE = 1 };  // kinds of a mismatch

// GPUs want elements aligned, not vectors.
extern "C" __attribute__((visibility("default"))) void __ubsan_handle_type_mismatch_v1(const Mismatch *mismatch,
                                                                                      soft_u64 address) {
  soft::Worker *w = soft::check_worker;
  if (!w->group || mismatch->kind > STORE || address - w->stacks < w->stack_bytes) return;
  if (address - w->image_start < w->image_end - w->image_start) return;  // constants of the program, which we laid out
  unsigned bytes = element_bytes(mismatch->type->name);
  if (address % bytes == 0) return;
  soft_u64 site = (soft_u64)__builtin_return_address(0);
  soft_u32 access = mismatch->kind == LOAD ? SOFT_READ : SOFT_WRITE;
  soft::misaligned(*w, {address, 0, site, access, 0, 0, 0}, bytes);
}

// Of the thread's own, or a constant; which one, only the line tells.
extern "C" __attribute__((visibility("default"))) void soft_outside_variable() {
  soft::Worker *w = soft::check_worker;
  if (w->group) soft::outside_variable(*w, (soft_u64)__builtin_return_address(0));
}

// There is nothing behind the call.
extern "C" __attribute__((visibility("default"))) void __ubsan_handle_missing_return(const void *function) {
  soft::Worker *w = soft::check_worker;
  if (!w->group) __builtin_trap();
  soft::no_result(*w, (soft_u64)__builtin_return_address(0), (soft_u64)function);
}

// The access to threadgroup memory follows and tells more; that to a private array mostly has no callback.
extern "C" __attribute__((visibility("default"))) void __ubsan_handle_out_of_bounds(const Array *array, soft_u64 index) {
  soft::Worker *w = soft::check_worker;
  if (!w->group) return;
  soft::Outside outside = {reinterpret_cast<soft_u64>(array), index, soft::current_lane};
  if (!strstr(array->array->name, "__local")) soft::outside_private_array(*w, outside);
  if (w->outside.array) return;
  w->outside = outside;
  soft::shut_ways(*w);
}
