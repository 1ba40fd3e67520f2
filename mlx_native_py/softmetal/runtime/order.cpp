// Which of several waiting threads go first: those that are furthest behind in the program.
#include "runtime.h"

namespace soft {
namespace {

enum { DEEPEST = 64 };

// The calls that a thread is at, and the loops around it from the outermost.
struct Progress {
  uint64_t call;
  uint32_t depth;
  const soft_loop *loops[DEEPEST];
};

void measure(const Lane &lane, Progress &progress) {
  progress.call = static_cast<const uint64_t *>(lane.stack)[SAVED_RETURN];
  progress.depth = 0;
  for (const soft_loop *loop = lane.thread.loops; loop && progress.depth < DEEPEST; loop = loop->outer)
    progress.loops[progress.depth++] = loop;
  for (uint32_t i = 0; i < progress.depth / 2; i++) {
    const soft_loop *loop = progress.loops[i];
    progress.loops[i] = progress.loops[progress.depth - 1 - i];
    progress.loops[progress.depth - 1 - i] = loop;
  }
}

// In the same loop the earlier round is behind; elsewhere the lower address, since code is laid out as it is written.
bool is_behind(const Progress &a, const Progress &b) {
  for (uint32_t i = 0; i < a.depth && i < b.depth; i++) {
    if (a.loops[i]->number != b.loops[i]->number) break;
    if (a.loops[i]->round != b.loops[i]->round) return a.loops[i]->round < b.loops[i]->round;
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
    measure(simdgroup.lanes[i], candidate);
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
