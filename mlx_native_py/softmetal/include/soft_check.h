// Checked mode's part of the ABI: Python fills it (checked/abi.py mirrors it), the runtime's checker reads it and answers in it.
#pragma once
#include "soft_abi.h"

enum { SOFT_READ = 1, SOFT_WRITE = 2, SOFT_ATOMIC = 4 };
enum { SOFT_DEVICE = 0, SOFT_THREADGROUP = 1, SOFT_PRIVATE = 2 };
enum {
  SOFT_OUT_OF_BOUNDS = 1,
  SOFT_RACE_IN_GROUP = 2,
  SOFT_RACE_BETWEEN_GROUPS = 3,
  SOFT_OUTSIDE_ARRAY = 4,
  SOFT_UNINITIALISED = 5,
  SOFT_MISALIGNED = 6,
  SOFT_DIVERGENT = 7,
};
// What a private variable without a value decides.
enum { SOFT_USE_BRANCH = 0, SOFT_USE_ADDRESS = 1, SOFT_USE_STORE = 2, SOFT_USE_READ = 3, SOFT_USE_CALL = 4, SOFT_USE_RESULT = 5 };
// Where a thread is that does not come to a barrier.
enum { SOFT_AT_ANOTHER = 0, SOFT_ENDED = 1 };
enum { SOFT_ZONES = 512, SOFT_ZONE_SHIFT = 37 };
enum { SOFT_BLOCK = 1024 };           // areas begin and end at multiples of this

// Bytes that the dispatch may touch; sorted by start, without overlap.
struct soft_segment {
  soft_u64 start;
  soft_u64 end;
  soft_u32 access;                    // SOFT_READ, SOFT_WRITE or both
  soft_u32 area;                      // the area that it lies in
};

// An argument in a zone of addresses that nothing else is in, so that any index of it, however wild, is known as its own.
// A zone that was an argument of an earlier dispatch keeps its memory, for the pointers to it that were stored.
struct soft_argument_zone {
  soft_u64 start;                     // what the kernel sees
  soft_u64 length;                    // from there to the end of what is bound
  soft_u64 delta;                     // to be added for the address of the memory itself
  unsigned char *seen;                // a byte for each that was read, where nobody can write and all is written; or null
  unsigned char *seen_words;          // likewise, for four that were read together and are aligned
  soft_u64 ready;                     // if so: the length
  soft_u64 ready_words;               // and up to where there are whole words of four; a zone is a cache line
  soft_u32 access;                    // SOFT_READ, SOFT_WRITE or both
  soft_u32 argument;                  // the slot plus one; 0 where it is none of this dispatch
};

// Whole blocks around one or more segments, with a bit for each byte that was touched in a given way.
struct soft_area {
  soft_u64 start;
  soft_u64 end;
  soft_u64 *reads;
  soft_u64 *writes;
  soft_u64 *atomic_reads;
  soft_u64 *atomic_writes;
  soft_u32 *reader;                   // for each 4 bytes that were touched, the last group (plus one) that read there
  soft_u32 *writer;                   // likewise; both null where the whole area is read-only
  soft_u32 *reader_site;              // for each 4 bytes, where in the code that was
  soft_u32 *writer_site;
  const soft_u64 *fresh;              // a bit for each byte that nobody has written yet; null where all have been
  unsigned char *blocks;              // 1 for each block of which something else here is told
};

// One finding. "Other" is the earlier of two conflicting accesses.
struct soft_report {
  soft_u32 kind;
  soft_u32 space;                     // SOFT_DEVICE, SOFT_THREADGROUP or SOFT_PRIVATE
  soft_u32 access;
  soft_u32 other_access;
  soft_u64 address;                   // in threadgroup memory: the offset, as a signed number
  soft_u64 bytes;
  soft_u64 site;                      // of the instruction, from the start of the kernel's image, so that a loop reports once
  soft_u64 other_site;                // 0 where it is not known
  soft_u32 group[3];
  soft_u32 thread[3];
  soft_u32 other_group[3];
  soft_u32 other_thread[3];
  soft_u32 other_known;               // whether other_thread is
  soft_u32 argument;                  // the slot whose pointer it was, plus one; 0 where that is not known
  soft_u64 array;                     // what the compiler says of the array that the index was outside of, or of the function
                                      // without a result; the names of private variables without a value; or 0
  soft_u64 index;                     // that index; or what the variables decide; or where the other thread is
};

struct soft_check {
  const struct soft_segment *segments;
  struct soft_area *areas;
  struct soft_report *reports;
  soft_u32 segment_count;
  soft_u32 area_count;
  soft_u32 report_capacity;
  soft_u32 report_count;              // kept
  soft_u64 reports_total;             // distinct findings, kept or not
  soft_u64 serial;                    // distinguishes dispatches; never 0
  const struct soft_argument_zone *zones;  // SOFT_ZONES of them
  soft_u64 zones_start;               // where the first zone begins; 0 where there are none
  const soft_u32 *tg_bytes;           // of each threadgroup variable and argument, SOFT_TG_ZONE apart in their memory
  soft_u32 tg_count;
  soft_u32 lock;
};
