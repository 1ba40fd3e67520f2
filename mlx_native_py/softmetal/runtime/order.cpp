// Which of several waiting threads go first: those that are furthest behind in the program.
#include "runtime.h"

namespace soft {
namespace {

enum { DEEPEST = 64 };

// A place in the source: a loop that a thread is in, or the call at which it waits.
struct Place {
  uint64_t function;
  uint32_t position;
  uint32_t round;
};

// How a thread got where it is, from the outermost loop to the call.
struct Progress {
  uint64_t call;                      // address in the compiled kernel
  uint32_t depth;
  Place places[DEEPEST + 1];
};

void measure(const Simdgroup &simdgroup, uint32_t number, Progress &progress) {
  const Lane &lane = simdgroup.lanes[number];
  progress.call = static_cast<const uint64_t *>(lane.stack)[SAVED_RETURN];
  uint32_t depth = 0;
  for (const soft_loop *loop = lane.thread.loops; loop && depth < DEEPEST; loop = loop->outer) depth++;
  progress.depth = depth;
  progress.places[depth] = {simdgroup.functions[number], lane.position, 0};
  for (const soft_loop *loop = lane.thread.loops; depth; loop = loop->outer)
    progress.places[--depth] = {loop->function, loop->position, loop->round};
}

// In one loop the earlier round is behind, in one function what comes first in the source; between functions the
// order of the compiled code has to do.
bool is_behind(const Progress &a, const Progress &b) {
  for (uint32_t i = 0; i <= a.depth && i <= b.depth; i++) {
    const Place &x = a.places[i], &y = b.places[i];
    if (x.function != y.function) break;
    if (x.position != y.position) return x.position < y.position;
    if (x.round != y.round) return x.round < y.round;
  }
  return a.call < b.call;
}

}  // namespace

uint32_t choose_lanes(Simdgroup &simdgroup, uint32_t waiting) {
  Progress progress[2];
  uint32_t last = 0, current = 0;
  for (uint32_t left = waiting; left; left &= left - 1) {
    uint32_t i = __builtin_ctz(left);
    if (left != waiting && simdgroup.places[i] == simdgroup.places[last]) continue;
    Progress &candidate = progress[left == waiting ? current : !current];
    measure(simdgroup, i, candidate);
    if (left != waiting && !is_behind(candidate, progress[current])) continue;
    if (left != waiting) current = !current;
    last = i;
  }
  uint32_t together = 0;
  for (uint32_t left = waiting; left; left &= left - 1) {
    uint32_t i = __builtin_ctz(left);
    together |= uint32_t(simdgroup.places[i] == simdgroup.places[last]) << i;
  }
  return together;
}

}  // namespace soft
