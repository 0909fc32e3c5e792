/* Allocation with checked sizes. Only memory.c calls malloc, so that a test can make the n-th
 * allocation fail and see that every caller survives it. */
#ifndef GRAIL_BASE_MEMORY_H
#define GRAIL_BASE_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Allocates `count * size` zeroed bytes, 64-byte aligned, and stores the pointer in *out, where
 * `out` is the address of any object pointer. A zero product yields a valid, freeable pointer.
 * GRAIL_ERROR_MEMORY leaves *out alone.
 */
grail_status memory_new(void *out, size_t count, size_t size) GRAIL_MUST_CHECK;

/** Like memory_new, but leaves the bytes unset: for large arrays that are filled at once. */
grail_status memory_new_unset(void *out, size_t count, size_t size) GRAIL_MUST_CHECK;

/** Grows or shrinks a block from memory_new; *pointer may be NULL. New bytes are unset. */
grail_status memory_resize(void *pointer, size_t count, size_t size) GRAIL_MUST_CHECK;

/**
 * Makes room for at least `count` elements in a block from memory_new; *pointer may be NULL. A
 * block knows its size and at least doubles when it grows, so that an array that is filled element
 * by element moves each of them a bounded number of times. New bytes are unset.
 */
grail_status memory_reserve(void *pointer, size_t count, size_t size) GRAIL_MUST_CHECK;

/**
 * Whether `bytes` more can be allocated with room for the margin that large blocks of the functions
 * above leave. It matters only under a limit of the address space or of data (ulimit -v, -d): the
 * libraries that grail calls abort or crash when they are refused memory, so grail must fail before
 * they do.
 */
bool memory_has_room(size_t bytes);

/** Bytes that the functions above have given and not taken back. Pages of zeroed blocks that were
 * never touched are counted too. */
int64_t memory_in_use(void);
/** Largest memory_in_use() since the last memory_peak_begin(), of all threads together. */
int64_t memory_peak(void);
void memory_peak_begin(void);

/** Frees a block from the functions above; NULL is allowed. */
void memory_free(void *pointer);

/** Copies a string; the caller frees it with memory_free. */
grail_status memory_copy_string(char **out, const char *text) GRAIL_MUST_CHECK;

/** A new formatted string; the caller frees it with memory_free. */
grail_status memory_format(char **out, const char *format, ...) GRAIL_PRINTF(2, 3) GRAIL_MUST_CHECK;

/** *out = a * b; false on overflow. */
bool size_multiply(size_t a, size_t b, size_t *out);

/** *out = a + b; false on overflow. */
bool size_add(size_t a, size_t b, size_t *out);

/**
 * Test hook: the allocation after the next `successes` ones fails, and every one after it.
 * A negative number switches the hook off.
 */
void memory_fail_after(int64_t successes);

/** How many allocations were made since the last memory_fail_after call. */
int64_t memory_allocation_count(void);

#endif
