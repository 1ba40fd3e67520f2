// Kernels in a process of their own: both ends of the channel. The helper's end trusts nothing but the system.
#if defined(__linux__)
#include "isolate.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

SOFT_EXPORT soft_u32 soft_run(const soft_launch *, soft_u32, soft_u32, soft_u64, soft_u64 *, soft_fault *);
SOFT_EXPORT soft_u32 soft_log_pending;
SOFT_EXPORT soft_u64 soft_log_take(char *out, soft_u64 *lost);

namespace soft {
namespace {

enum : uint64_t { HELPER_TICK = 1000000000, CALLER_TICK = 20000000, GRACE = 2000000000 };

// Between two processes, unlike the pool's own.
void wait_on(uint32_t *word, uint32_t seen, uint64_t nanoseconds) {
  timespec limit = {0, long(nanoseconds % HELPER_TICK)};
  if (nanoseconds >= HELPER_TICK) limit = {time_t(nanoseconds / HELPER_TICK), 0};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

// Sleeps until `word` is something else; false after one tick in which it did not become so.
bool wait_for_change(uint32_t *word, uint32_t seen, uint64_t tick) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen) wait_on(word, seen, tick);
  return __atomic_load_n(word, __ATOMIC_ACQUIRE) != seen;
}

void tell(uint32_t *word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
  wake(word);
}

// The helper takes the caller's place on its core while the caller waits: to wake another core takes longer than most
// kernels. Only who takes longer may move to another core.
class SharedCore {
 public:
  SharedCore(soft_channel &channel, int helper) : channel_(channel), helper_(helper) {
    uint32_t core = sched_getcpu();
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    if (sched_getaffinity(0, sizeof before_, &before_)) return;
    if (channel.helper_core != core + 1) {
      if (sched_setaffinity(helper, sizeof here, &here)) return;
      channel.helper_core = core + 1;
    }
    stays_ = !sched_setaffinity(0, sizeof here, &here);
  }
  ~SharedCore() {
    if (stays_) sched_setaffinity(0, sizeof before_, &before_);
  }
  void leave() {
    if (channel_.helper_core && !sched_setaffinity(helper_, sizeof before_, &before_)) channel_.helper_core = 0;
  }

 private:
  soft_channel &channel_;
  int helper_;
  bool stays_ = false;
  cpu_set_t before_ = {};
};

// Whether the other process, which alone holds the other end of the pipe, has ended.
bool is_gone(int lifeline) {
  pollfd end = {lifeline, 0, 0};
  timespec now = {};
  return syscall(SYS_ppoll, &end, 1, &now, nullptr, 0) > 0;
}

// From now on the word is the thread's number, until the thread ends: that the system notes there, whatever the cause.
void hold(uint32_t *word) {
  static robust_list held;
  static robust_list_head list = {{&held}, 0, nullptr};
  held.next = &list.list;
  list.futex_offset = reinterpret_cast<char *>(word) - reinterpret_cast<char *>(&held);
  *word = this_thread();
  syscall(SYS_set_robust_list, &list, sizeof list);
}

bool apply(const soft_change &change, int file) {
  enum { CLOSED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED };
  void *address = reinterpret_cast<void *>(change.address);
  void *made = change.is_open ? mmap(address, change.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                                     change.offset)
                              : mmap(address, change.length, PROT_NONE, CLOSED, -1, 0);
  return made != MAP_FAILED;
}

// A jump to the function, which lies elsewhere in each helper.
uint64_t import_function(uint64_t slot, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
#if defined(__x86_64__)
  const uint8_t jump[] = {0xff, 0x25, 2, 0, 0, 0, 0, 0};  // jmp [rip + 2]
#else
  const uint32_t jump[] = {0x58000050, 0xd61f0200};       // ldr x16, #8; br x16
#endif
  memcpy(reinterpret_cast<void *>(slot), jump, sizeof jump);
  memcpy(reinterpret_cast<void *>(slot + sizeof jump), &found, sizeof found);
  code_was_written(slot, sizeof jump);
  return found != nullptr;
}

uint64_t import_value(uint64_t slot, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found) memcpy(reinterpret_cast<void *>(slot), found, sizeof(uint64_t));
  return found != nullptr;
}

uint64_t perform(soft_channel &channel) {
  if (channel.kind == SOFT_REQUEST_CALL) return reinterpret_cast<uint64_t (*)()>(channel.function)();
  if (channel.kind == SOFT_REQUEST_IMPORT) return import_function(channel.function, channel.log);
  if (channel.kind == SOFT_REQUEST_IMPORT_DATA) return import_value(channel.function, channel.log);
  uint64_t found = soft_run(channel.launches, channel.count, channel.threads, channel.nanoseconds, channel.times,
                            &channel.fault);
  if (soft_log_pending && !channel.log_size) channel.log_size = soft_log_take(channel.log, &channel.log_lost);
  return found;
}

// How many launches have ended, as the helper says.
uint32_t ended(const soft_channel &channel) {
  uint32_t count = 0;
  while (count < channel.count && __atomic_load_n(&channel.times[2 * count + 1], __ATOMIC_RELAXED)) count++;
  return count;
}

}  // namespace

// Who takes short turns is let in sooner where a core has other work too; the share of the core stays the same.
void take_short_turns() {
  enum : uint64_t { TURN = 100000 };
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {};                  // struct sched_attr, which some systems' headers define in conflict with others
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) || attributes.policy != SCHED_OTHER) return;
  attributes.runtime = TURN;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace soft

// The helper: answers requests until the other process has ended.
SOFT_EXPORT void soft_serve(soft_channel *channel, int lifeline, int file) {
  soft::hold(&channel->holder);
  for (uint32_t seen = 0;;) {
    while (!soft::wait_for_change(&channel->request, seen, soft::HELPER_TICK))
      if (soft::is_gone(lifeline)) _exit(0);
    seen = __atomic_load_n(&channel->request, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < channel->changed; i++)
      if (!soft::apply(channel->changes[i], file)) _exit(2);
    channel->result = soft::perform(*channel);
    soft::tell(&channel->answer, seen);
  }
}

// The caller: makes the request that is in the channel and waits for its answer, but no longer than `limit` ns for one
// launch after the other; 0 = for ever. Answers 0, SOFT_HELPER_GONE or SOFT_OVERDUE.
SOFT_EXPORT soft_u32 soft_request(soft_channel *channel, int lifeline, int helper, soft_u64 limit) {
  uint32_t number = channel->request + 1, before = channel->answer, done = 0;
  uint64_t since = soft::now();
  soft::SharedCore core(*channel, helper);
  soft::tell(&channel->request, number);
  while (!soft::wait_for_change(&channel->answer, before, soft::CALLER_TICK)) {
    if (soft::is_gone(lifeline)) return SOFT_HELPER_GONE;
    core.leave();
    uint32_t now_done = soft::ended(*channel);
    if (now_done > done) done = now_done, since = soft::now();
    if (limit && soft::now() - since > limit) return SOFT_OVERDUE;
  }
  return 0;
}

// soft_run in the helper. A helper that does not stop its kernels itself is overdue some time after it should have.
SOFT_EXPORT soft_u32 soft_submit(soft_channel *channel, int lifeline, int helper, const soft_launch *launches,
                                 soft_u32 count, soft_u32 threads, soft_u64 nanoseconds, soft_u64 *times, soft_fault *fault) {
  *fault = {};
  channel->kind = SOFT_REQUEST_RUN;
  channel->changed = 0;
  channel->threads = threads;
  channel->nanoseconds = nanoseconds;
  channel->log_size = 0;
  for (uint32_t first = 0; first < count; first += SOFT_CHANNEL_LAUNCHES) {
    uint32_t part = count - first < SOFT_CHANNEL_LAUNCHES ? count - first : uint32_t(SOFT_CHANNEL_LAUNCHES);
    channel->count = part;
    memcpy(channel->launches, launches + first, part * sizeof *launches);
    memset(channel->times, 0, 2 * part * sizeof *channel->times);
    uint32_t lost = soft_request(channel, lifeline, helper, nanoseconds ? nanoseconds + soft::GRACE : 0);
    uint32_t done = soft::ended(*channel);
    memcpy(times + 2 * first, channel->times, 2 * part * sizeof *times);
    if (lost) {
      fault->launch = first + (done < part ? done : part - 1);
      return fault->kind = lost;
    }
    if (channel->result) {
      *fault = channel->fault;
      fault->launch = first + (fault->launch < part ? fault->launch : part - 1);
      return fault->kind;
    }
  }
  return 0;
}

SOFT_EXPORT soft_u64 soft_sizeof_channel() { return sizeof(soft_channel); }
#endif
