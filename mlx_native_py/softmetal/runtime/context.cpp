// Contexts: the lanes, stacks and memory with which one OS thread runs threadgroups.
#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t { THREADGROUP_BYTES = 64 << 10, THREADGROUP_ALIGNMENT = 256 };

Lock free_lock;
Context *free_contexts;

// Threadgroup memory lies apart from the rest: kernels write there by index.
Context *new_context() {
  Guarded state, shared;
  uint64_t simdgroups = sizeof(Simdgroup) * MAX_SIMDGROUPS, lanes = sizeof(Lane) * MAX_THREADS;
  if (!map_guarded(state, sizeof(Context) + simdgroups + lanes)) return nullptr;
  if (!map_guarded(shared, THREADGROUP_BYTES)) {
    unmap_guarded(state);
    return nullptr;
  }
  Context *context = reinterpret_cast<Context *>(state.start);
  context->simdgroups = reinterpret_cast<Simdgroup *>(context + 1);
  context->lanes = reinterpret_cast<Lane *>(context->simdgroups + MAX_SIMDGROUPS);
  context->threadgroup_end = shared.start + shared.bytes;
  register_context(*context);
  return context;
}

}  // namespace

Context *take_context() {
  Context *context = nullptr;
  {
    Locked hold(free_lock);
    context = free_contexts;
    if (context) free_contexts = context->next_free;
  }
  if (!context) context = new_context();
  if (!context) return nullptr;
  context->owner = own_thread();
  context->in_kernel = 0;
  context->fault = SOFT_FAULT_NONE;
  current_context = context;
  return context;
}

void return_context(Context *context) {
  current_context = nullptr;
  give_back_stacks(*context);
  Locked hold(free_lock);
  context->next_free = free_contexts;
  free_contexts = context;
}

void forget_contexts_in_use() { free_lock.word = 0; }

// Ends where a page that faults begins, so that running over the end is seen.
char *threadgroup_memory(const Context &context, uint32_t bytes) {
  return context.threadgroup_end - (bytes + THREADGROUP_ALIGNMENT - 1) / THREADGROUP_ALIGNMENT * THREADGROUP_ALIGNMENT;
}

}  // namespace soft
