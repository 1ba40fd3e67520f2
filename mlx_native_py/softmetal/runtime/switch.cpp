// The context switches, in assembly: one layout of saved registers for fibers and for the caller of a kernel.
#include "runtime.h"

// soft_call_escapable(entry, group, lane, save): calls entry so that soft_escape, entered with the stack pointer
// kept at `save`, returns from the call early;
// soft_leave(stack) goes there by itself.
// soft_fiber_start: where a new fiber begins; its lane lies on top of its stack.
// soft_run_on(stack, function): calls on another stack what leaves by soft_leave.
#if defined(__x86_64__)
asm(R"(
  .text
  .hidden soft_call_escapable
  .globl soft_call_escapable
  .type soft_call_escapable,@function
  .p2align 4
soft_call_escapable:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rcx)
  leaq soft_escape(%rip), %rax
  pushq %rax
  pushq $0
  pushq $0
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  call *%rax
  addq $24, %rsp
  jmp soft_escape
  .hidden soft_leave
  .globl soft_leave
soft_leave:
  movq %rdi, %rsp
  .hidden soft_escape
  .globl soft_escape
soft_escape:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size soft_call_escapable, .-soft_call_escapable

  .hidden soft_fiber_start
  .globl soft_fiber_start
  .type soft_fiber_start,@function
  .p2align 4
soft_fiber_start:
  movq (%rsp), %rdi
  call soft_fiber_main
  ud2
  .size soft_fiber_start, .-soft_fiber_start

  .hidden soft_run_on
  .globl soft_run_on
  .type soft_run_on,@function
  .p2align 4
soft_run_on:
  movq %rdi, %rsp
  xorl %ebp, %ebp
  call *%rsi
  ud2
  .size soft_run_on, .-soft_run_on
)");
#elif defined(__aarch64__)
#define SOFT_SAVE                                                                                                 \
  "  sub sp, sp, #160\n  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"           \
  "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n  stp d8, d9, [sp, #96]\n"    \
  "  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
#define SOFT_RESTORE                                                                                              \
  "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"   \
  "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"   \
  "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n  add sp, sp, #160\n  ret\n"
// soft_switch(save, load): keeps this fiber on its stack, goes on with another.
asm("  .text\n"
    SOFT_FUNCTION(soft_switch)
    SOFT_SAVE
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    SOFT_RESTORE
    SOFT_FUNCTION(soft_call_escapable)
    SOFT_SAVE
    "  mov x9, sp\n  str x9, [x3]\n  mov x10, x0\n  mov x0, x1\n  mov x1, x2\n  blr x10\n"
    "  b " SOFT_SYMBOL(soft_escape) "\n"
    SOFT_FUNCTION(soft_leave)
    "  mov sp, x0\n  b " SOFT_SYMBOL(soft_escape) "\n"
    SOFT_FUNCTION(soft_escape)
    SOFT_RESTORE
    SOFT_FUNCTION(soft_fiber_start)
    "  ldr x0, [sp]\n  bl " SOFT_SYMBOL(soft_fiber_main) "\n  brk #1\n"
    SOFT_FUNCTION(soft_run_on)
    "  mov sp, x0\n  mov x29, xzr\n  blr x1\n  brk #1\n");
#else
#error "software Metal runs on x86_64 and aarch64"
#endif
