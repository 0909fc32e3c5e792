#include "base/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* A header precedes every block: the size of the block and, in the last byte, its distance from the
 * address that malloc returned. */
enum { ALIGNMENT = 64, HEADER = sizeof(size_t) + 1 };

/* A block of at least LARGE bytes is refused unless MARGIN bytes remain for others: small blocks of
 * threads, kernels that oneDNN generates. */
enum { LARGE = 1 << 16, MARGIN = 16 << 20 };

/* The least that memory_reserve allocates. */
enum { SMALLEST = 256 };

static _Atomic int64_t in_use, peak;
static _Atomic int64_t allocations;
static _Atomic int64_t allowed = -1;

bool size_multiply(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

void memory_fail_after(int64_t successes)
{
    atomic_store(&allocations, 0);
    atomic_store(&allowed, successes);
}

int64_t memory_allocation_count(void)
{
    return atomic_load(&allocations);
}

static bool allocation_allowed(void)
{
    const int64_t index = atomic_fetch_add(&allocations, 1);
    const int64_t limit = atomic_load(&allowed);
    return limit < 0 || index < limit;
}

int64_t memory_in_use(void)
{
    return atomic_load(&in_use);
}

int64_t memory_peak(void)
{
    return atomic_load(&peak);
}

void memory_peak_begin(void)
{
    atomic_store(&peak, atomic_load(&in_use));
}

static void count_bytes(int64_t change)
{
    const int64_t now = atomic_fetch_add(&in_use, change) + change;
    int64_t highest = atomic_load(&peak);
    while (now > highest && !atomic_compare_exchange_weak(&peak, &highest, now)) {
    }
}

static grail_status out_of_memory(size_t count, size_t size)
{
    return error_set(GRAIL_ERROR_MEMORY, "out of memory: cannot allocate %zu x %zu bytes", count,
                     size);
}

static size_t shift_of(const unsigned char *raw)
{
    return HEADER + ALIGNMENT - 1 - ((uintptr_t)raw + HEADER + ALIGNMENT - 1) % ALIGNMENT;
}

static unsigned char *write_header(unsigned char *raw, size_t shift, size_t bytes)
{
    unsigned char *block = raw + shift;
    memcpy(block - HEADER, &bytes, sizeof bytes);
    block[-1] = (unsigned char)shift;
    return block;
}

static size_t block_bytes(const unsigned char *block)
{
    size_t bytes = 0;
    memcpy(&bytes, block - HEADER, sizeof bytes);
    return bytes;
}

static unsigned char *raw_start(unsigned char *block)
{
    return block - block[-1];
}

static bool is_limited(void)
{
    struct rlimit space = {.rlim_cur = RLIM_INFINITY};
    struct rlimit data = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_AS, &space);
    (void)getrlimit(RLIMIT_DATA, &data);
    return space.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

/* Maps the bytes and unmaps them at once; pages that are not touched cost nothing. */
bool memory_has_room(size_t bytes)
{
    size_t wanted = 0;
    if (!is_limited()) {
        return true;
    }
    if (!size_add(bytes, MARGIN, &wanted)) {
        return false;
    }
    void *probe = mmap(NULL, wanted, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED) {
        return false;
    }
    munmap(probe, wanted);
    return true;
}

static bool may_grow(size_t bytes, size_t before)
{
    return bytes < LARGE || bytes <= before || memory_has_room(bytes - before);
}

/* Pages of a new large block are had one by one as they are written, which takes longer than the
 * writing: huge pages are few. Only a hint. */
static void prefer_huge_pages(unsigned char *raw, size_t bytes)
{
    enum { HUGE_PAGE = 1 << 21, LEAST = 1 << 23 };
    const size_t skipped = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (bytes >= LEAST) {
        (void)madvise(raw + skipped, (bytes - skipped) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    }
}

/* Large blocks come from calloc when zeroed: the kernel's pages are zero already, so a big
 * accumulator costs no memory until it is touched. calloc aligns to 16 only, so the start is moved
 * up. */
static void *aligned_block(size_t bytes, bool zeroed)
{
    size_t padded = 0;
    if (!size_add(bytes, ALIGNMENT + HEADER, &padded)) {
        return NULL;
    }
    unsigned char *raw = zeroed ? calloc(1, padded) : malloc(padded);
    if (raw == NULL) {
        return NULL;
    }
    if (!zeroed) {
        prefer_huge_pages(raw, padded);
    }
    count_bytes((int64_t)bytes);
    return write_header(raw, shift_of(raw), bytes);
}

static grail_status new_block(void *out, size_t count, size_t size, bool zeroed)
{
    size_t bytes = 0;
    void *block = NULL;
    if (size_multiply(count, size, &bytes) && allocation_allowed() && may_grow(bytes, 0)) {
        block = aligned_block(bytes, zeroed);
    }
    if (block == NULL) {
        return out_of_memory(count, size);
    }
    memcpy(out, &block, sizeof block);
    return GRAIL_OK;
}

grail_status memory_new(void *out, size_t count, size_t size)
{
    return new_block(out, count, size, true);
}

grail_status memory_new_unset(void *out, size_t count, size_t size)
{
    return new_block(out, count, size, false);
}

grail_status memory_resize(void *pointer, size_t count, size_t size)
{
    unsigned char *old = NULL;
    memcpy(&old, pointer, sizeof old);
    if (old == NULL) {
        return new_block(pointer, count, size, false);
    }
    size_t bytes = 0;
    size_t padded = 0;
    if (!size_multiply(count, size, &bytes) || !size_add(bytes, ALIGNMENT + HEADER, &padded) ||
        !allocation_allowed() || !may_grow(bytes, block_bytes(old))) {
        return out_of_memory(count, size);
    }
    const size_t old_shift = old[-1];
    const size_t old_bytes = block_bytes(old);
    unsigned char *raw = realloc(raw_start(old), padded);
    if (raw == NULL) {
        return out_of_memory(count, size);
    }
    const size_t shift = shift_of(raw);
    if (shift != old_shift) {
        memmove(raw + shift, raw + old_shift, bytes < old_bytes ? bytes : old_bytes);
    }
    count_bytes((int64_t)bytes - (int64_t)old_bytes);
    unsigned char *moved = write_header(raw, shift, bytes);
    memcpy(pointer, &moved, sizeof moved);
    return GRAIL_OK;
}

grail_status memory_reserve(void *pointer, size_t count, size_t size)
{
    unsigned char *block = NULL;
    size_t needed = 0;
    memcpy(&block, pointer, sizeof block);
    if (!size_multiply(count, size, &needed)) {
        return out_of_memory(count, size);
    }
    const size_t held = block == NULL ? 0 : block_bytes(block);
    if (block != NULL && needed <= held) {
        return GRAIL_OK;
    }
    size_t wanted = needed < SMALLEST ? SMALLEST : needed;
    wanted = held < SIZE_MAX / 2 && wanted < 2 * held ? 2 * held : wanted;
    return memory_resize(pointer, wanted, 1);
}

void memory_free(void *pointer)
{
    if (pointer != NULL) {
        count_bytes(-(int64_t)block_bytes(pointer));
        free(raw_start(pointer));
    }
}

grail_status memory_copy_string(char **out, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = NULL;
    CHECK(memory_new_unset(&copy, bytes, 1));
    memcpy(copy, text, bytes);
    *out = copy;
    return GRAIL_OK;
}

grail_status memory_format(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return error_set(GRAIL_ERROR_INTERNAL, "cannot format a string");
    }
    char *text = NULL;
    CHECK(memory_new_unset(&text, (size_t)length + 1, 1));
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    *out = text;
    return GRAIL_OK;
}
