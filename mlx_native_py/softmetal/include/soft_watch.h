// Tells checked mode of accesses that are wider than 16 bytes; the compiler tells it of all others.
#pragma once

#if __has_feature(thread_sanitizer)
extern "C" void __tsan_read_range(const void *, unsigned long);
extern "C" void __tsan_write_range(const void *, unsigned long);
#define SOFT_WILL_READ(place) __tsan_read_range(&(place), sizeof(place))
#define SOFT_WILL_WRITE(place) __tsan_write_range(&(place), sizeof(place))
#else
#define SOFT_WILL_READ(place) ((void)0)
#define SOFT_WILL_WRITE(place) ((void)0)
#endif
