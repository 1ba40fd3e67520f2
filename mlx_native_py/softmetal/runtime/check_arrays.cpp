// The callback that the compiler plants where an index lies outside its array (-fsanitize=array-bounds).
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

}  // namespace

// The access to threadgroup memory follows and tells more; that to a private array mostly has no callback.
extern "C" __attribute__((visibility("default"))) void __ubsan_handle_out_of_bounds(const Array *array, soft_u64 index) {
  soft::Worker *w = soft::check_worker;
  if (!w || !w->group) return;
  soft::Outside outside = {reinterpret_cast<soft_u64>(array), index, soft::current_lane};
  if (!strstr(array->array->name, "__local")) soft::outside_private_array(*w, outside);
  if (!w->outside.array) w->outside = outside;
}
