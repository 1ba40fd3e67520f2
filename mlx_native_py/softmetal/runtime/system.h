// What differs between operating systems; system_linux.cpp and system_darwin.cpp hold one half each.
#pragma once
#include <signal.h>
#include <stdint.h>
#include <sys/ucontext.h>

#include "../include/soft_abi.h"

#define SOFT_HIDDEN __attribute__((visibility("hidden")))
#define SOFT_SHARED __attribute__((visibility("default")))  // with the checker's library

// A function in assembly: how its name is written, and that it stays inside of the library.
#if defined(__APPLE__)
#define SOFT_SYMBOL(name) "_" #name
#define SOFT_FUNCTION(name) "  .private_extern _" #name "\n  .globl _" #name "\n  .p2align 4\n_" #name ":\n"
#else
#define SOFT_SYMBOL(name) #name
#define SOFT_FUNCTION(name) \
  "  .hidden " #name "\n  .globl " #name "\n  .type " #name ",%function\n  .p2align 4\n" #name ":\n"
#endif

namespace soft {

struct Context;

// What a thread has of its own and kernels or signal handlers look at. Kernels know where it is: `soft_lane_offset`
// bytes from the thread pointer.
#if defined(__APPLE__)
// Thread-local variables are found by a call there, which may allocate; a slot of pthread's own table is not.
SOFT_SHARED extern int64_t context_offset;
SOFT_SHARED extern int64_t lane_offset;
inline char *thread_pointer() { return (char *)((uint64_t)__builtin_thread_pointer() & ~7ull); }
inline soft_lane *&lane_slot() { return *reinterpret_cast<soft_lane **>(thread_pointer() + lane_offset); }
inline Context *&context_slot() { return *reinterpret_cast<Context **>(thread_pointer() + context_offset); }
#define current_lane lane_slot()
#define current_context context_slot()
#else
extern SOFT_SHARED __thread __attribute__((tls_model("initial-exec"))) soft_lane *current_lane;
extern SOFT_SHARED __thread __attribute__((tls_model("initial-exec"))) Context *current_context;
#endif

SOFT_HIDDEN uint64_t now();           // ns of the clock that Python calls monotonic
SOFT_HIDDEN uint32_t count_cores();   // that the process may use
SOFT_HIDDEN void want_huge_pages(void *start, uint64_t bytes);
SOFT_HIDDEN void call_in_forked_child(void (*)());

// Between two looks at a word that another core is about to change.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// Sleeps while the word is `seen`, and for no longer than that; 0 ns = without limit. May wake up for no reason.
SOFT_HIDDEN void futex_wait(uint32_t *word, uint32_t seen, uint64_t nanoseconds);
SOFT_HIDDEN void futex_wake(uint32_t *word, int count);

// Makes the processor see instructions that were just written, which are few.
SOFT_HIDDEN void code_was_written(uint64_t address, uint64_t bytes);

// Threads by number, which is never 0.
SOFT_HIDDEN uint64_t this_thread();
SOFT_HIDDEN void signal_thread(uint64_t number, int signal);
SOFT_HIDDEN int interrupt_signal();

// Where threads run, for systems that leave it to them.
SOFT_HIDDEN uint32_t current_core();
SOFT_HIDDEN void keep_off(uint64_t thread, uint32_t core);  // it may run wherever the caller may, but not there

// What a handler is given.
SOFT_HIDDEN bool was_sent(const siginfo_t &);             // by a process, rather than raised by an instruction
SOFT_HIDDEN uint32_t access_of(const siginfo_t &, const ucontext_t &);  // SOFT_ACCESS_*, as the processor says it
SOFT_HIDDEN uint64_t stack_pointer(const ucontext_t &);
SOFT_HIDDEN uint64_t program_counter(const ucontext_t &);
SOFT_HIDDEN void go_on_at(ucontext_t &, void (*code)(), void *stack);

}  // namespace soft
