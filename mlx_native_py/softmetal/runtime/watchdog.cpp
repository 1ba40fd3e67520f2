// The watchdog: a thread that sleeps until the earliest deadline and stops what is still running then.
#include <signal.h>

#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t { AGAIN = 5000000 };

Lock watch_lock;
Run *watched;
uint32_t changed;                     // futex
uint64_t wakes_at;                    // when the thread looks next; 0 = it sleeps without limit
bool started;

// Stops what is overdue; answers when to look again, 0 = never.
uint64_t look(uint64_t time) {
  uint64_t next = 0;
  for (Run *run = watched; run; run = run->watched_next) {
    uint64_t when = __atomic_load_n(&run->deadline, __ATOMIC_SEQ_CST);
    if (when <= time) {
      uint32_t expected = SOFT_FAULT_NONE;
      __atomic_compare_exchange_n(&run->stop, &expected, uint32_t(SOFT_FAULT_TIMEOUT), false, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST);
      interrupt(*run);
      when = time + AGAIN;
    }
    if (!next || when < next) next = when;
  }
  return next;
}

void *watchdog(void *) {
  for (;;) {
    uint32_t seen;
    uint64_t wait;
    {
      Locked hold(watch_lock);
      seen = __atomic_load_n(&changed, __ATOMIC_SEQ_CST);
      uint64_t time = now(), next = look(time);
      // While nothing is watched, a time that is set stays: the next deadline is later, and disturbs nobody.
      if (next || wakes_at <= time) wakes_at = next;
      wait = wakes_at ? wakes_at - time : 0;
    }
    futex_wait(&changed, seen, wait);
  }
}

void start() {
  if (started) return;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  started = !pthread_create(&thread, nullptr, watchdog, nullptr);
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace

void start_watchdog() {
  Locked hold(watch_lock);
  start();
}

// Deadlines mostly grow, so the sleeping thread is seldom disturbed.
void watch_deadline(Run &run) {
  if (!run.deadline) return;
  Locked hold(watch_lock);
  start();
  run.watched_previous = nullptr;
  run.watched_next = watched;
  if (watched) watched->watched_previous = &run;
  watched = &run;
  if (wakes_at && wakes_at <= run.deadline) return;
  wakes_at = run.deadline;
  __atomic_add_fetch(&changed, 1, __ATOMIC_SEQ_CST);
  futex_wake(&changed, 1);
}

void unwatch_deadline(Run &run) {
  if (!run.deadline) return;
  Locked hold(watch_lock);
  (run.watched_previous ? run.watched_previous->watched_next : watched) = run.watched_next;
  if (run.watched_next) run.watched_next->watched_previous = run.watched_previous;
}

void reset_watchdog_after_fork() {
  watch_lock.word = 0;
  watched = nullptr;
  wakes_at = 0;
  started = false;
}

}  // namespace soft
