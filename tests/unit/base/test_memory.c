/* Allocation: alignment, zeroing, checked sizes, and the hook that makes it fail. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

TEST(test_new_blocks_are_aligned_and_zeroed)
{
    static const size_t sizes[] = {1, 15, 64, 1000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block = NULL;
        assert_ok(memory_new(&block, sizes[i], 1));
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_true(is_zero(block, sizes[i]));
        memset(block, 0xee, sizes[i]);
        memory_free(block);
    }
}

TEST(test_a_block_of_nothing_can_be_freed_and_grown)
{
    OPENED(char, block, memory_new(&block, 0, 8));
    assert_non_null(block);
    assert_ok(memory_resize(&block, 4, 1));
    memcpy(block, "abc", 4);
    assert_ok(memory_resize(&block, 0, 1));
    assert_non_null(block);
    memory_free(NULL);
}

static void fill(unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        block[i] = (unsigned char)(i % 251);
    }
}

static void assert_filled(const unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(block[i], i % 251);
    }
}

/* Many blocks of odd sizes, so that moved ones start at another distance from their alignment. */
TEST(test_resizing_keeps_the_bytes_and_the_alignment)
{
    enum { BLOCKS = 50, ROUNDS = 40 };
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    random_state r;
    random_seed(&r, 1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int b = 0; b < BLOCKS; b++) {
            const size_t next = (size_t)random_below(&r, 3000);
            const size_t kept = next < sizes[b] ? next : sizes[b];
            assert_ok(memory_resize(&blocks[b], next, 1));
            assert_int_equal((uintptr_t)blocks[b] % 64, 0);
            assert_filled(blocks[b], kept);
            fill(blocks[b], next);
            sizes[b] = next;
        }
    }
    for (int b = 0; b < BLOCKS; b++) {
        memory_free(blocks[b]);
    }
}

/* Filled one by one, an array is moved a few times only, and keeps what it holds. */
TEST(test_a_filled_array_moves_seldom)
{
    enum { COUNT = 100000 };
    int *array = NULL;
    memory_fail_after(-1);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(memory_reserve(&array, (size_t)i + 1, sizeof array[0]));
        array[i] = i;
    }
    assert_in_range(memory_allocation_count(), 1, 20);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(array[i], i);
    }
    const int *const before = array;
    assert_ok(memory_reserve(&array, 1, sizeof array[0]));
    assert_ptr_equal(array, before);
    assert_fails(memory_reserve(&array, SIZE_MAX, 2), GRAIL_ERROR_MEMORY, "cannot allocate");
    assert_ptr_equal(array, before);
    memory_free(array);
}

TEST(test_room_for_nothing_is_a_block)
{
    char *block = NULL;
    assert_ok(memory_reserve(&block, 0, 8));
    assert_non_null(block);
    memory_free(block);
    block = NULL;
    memory_fail_after(0);
    const grail_status status = memory_reserve(&block, 1, 8);
    memory_fail_after(-1);
    assert_int_equal(status, GRAIL_ERROR_MEMORY);
    assert_null(block);
}

TEST(test_sizes_that_overflow_are_refused)
{
    int marker = 0;
    int *block = &marker;
    assert_fails(memory_new(&block, SIZE_MAX, 2), GRAIL_ERROR_MEMORY, "cannot allocate");
    assert_fails(memory_new_unset(&block, SIZE_MAX / 2, 2), GRAIL_ERROR_MEMORY, "cannot allocate");
    assert_fails(memory_new(&block, SIZE_MAX, 1), GRAIL_ERROR_MEMORY, "cannot allocate");
    assert_ptr_equal(block, &marker);
    block = NULL;
    assert_ok(memory_new(&block, 1, sizeof *block));
    *block = 7;
    assert_fails(memory_resize(&block, SIZE_MAX, 2), GRAIL_ERROR_MEMORY, "cannot allocate");
    assert_fails(memory_resize(&block, SIZE_MAX, 1), GRAIL_ERROR_MEMORY, "cannot allocate");
    assert_int_equal(*block, 7);
    memory_free(block);
}

TEST(test_sums_and_products_of_sizes_are_checked)
{
    size_t out = 0;
    assert_true(size_multiply(3, 5, &out));
    assert_int_equal(out, 15);
    assert_true(size_multiply(SIZE_MAX, 0, &out));
    assert_false(size_multiply(SIZE_MAX, 2, &out));
    assert_false(size_multiply((size_t)1 << 32, (size_t)1 << 32, &out));
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(size_add(SIZE_MAX, 1, &out));
}

TEST(test_strings_are_copied_and_formatted)
{
    char *copy = NULL;
    char *text = NULL;
    assert_ok(memory_copy_string(&copy, "gram"));
    assert_string_equal(copy, "gram");
    assert_ok(memory_format(&text, "%s-%d", copy, 12));
    assert_string_equal(text, "gram-12");
    memory_free(copy);
    memory_free(text);
    assert_ok(memory_copy_string(&copy, ""));
    assert_string_equal(copy, "");
    memory_free(copy);
}

TEST(test_the_hook_fails_from_the_chosen_allocation_on)
{
    OWNED(char) *first = NULL;
    char *second = NULL;
    memory_fail_after(1);
    const grail_status one = memory_new(&first, 1, 1);
    const grail_status two = memory_new(&second, 1, 1);
    const grail_status resized = memory_resize(&first, 100, 1);
    const grail_status copied = memory_copy_string(&second, "x");
    const int64_t count = memory_allocation_count();
    memory_fail_after(-1);
    assert_int_equal(one, GRAIL_OK);
    assert_int_equal(two, GRAIL_ERROR_MEMORY);
    assert_int_equal(resized, GRAIL_ERROR_MEMORY);
    assert_int_equal(copied, GRAIL_ERROR_MEMORY);
    assert_null(second);
    assert_int_equal(count, 4);
    assert_ok(memory_resize(&first, 100, 1));
}

TEST(test_bytes_in_use_and_their_peak_are_counted)
{
    char *small = NULL;
    char *large = NULL;
    const int64_t before = memory_in_use();
    memory_peak_begin();
    assert_int_equal(memory_peak(), before);
    assert_ok(memory_new(&small, 10, 10));
    assert_ok(memory_new_unset(&large, 1000, 1));
    assert_int_equal(memory_in_use(), before + 1100);
    assert_ok(memory_resize(&large, 3000, 1));
    assert_ok(memory_resize(&large, 50, 1));
    assert_int_equal(memory_in_use(), before + 150);
    memory_free(large);
    memory_free(small);
    assert_int_equal(memory_in_use(), before);
    assert_int_equal(memory_peak(), before + 3100);
    memory_peak_begin();
    assert_int_equal(memory_peak(), before);
}

/* Under a limit a large block is refused while 16 MiB are still there, small ones are not. */
TEST(test_a_margin_is_left_under_a_limit)
{
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* its shadow takes all address space */
#endif
    enum { BLOCK = 1 << 20, MOST = 4096, ROOM = 512 << 20, MARGIN = 16 << 20 };
    static void *blocks[MOST];
    struct rlimit old;
    int count = 0;
    void *small = NULL;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    assert_true(memory_has_room((size_t)1 << 46));
    struct rlimit low = old;
    low.rlim_cur = ROOM;
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    const bool room = memory_has_room(MARGIN);
    while (count < MOST && memory_new(&blocks[count], BLOCK, 1) == GRAIL_OK) {
        count++;
    }
    const bool none = !memory_has_room(BLOCK);
    const grail_status of_small = memory_new(&small, 100, 1);
    void *volatile margin = malloc(MARGIN - 2 * BLOCK);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_true(room && none && count > 100 && count < MOST);
    assert_ok(of_small);
    assert_non_null(margin);
    free(margin);
    memory_free(small);
    assert_ok(memory_resize(&blocks[0], 2 * BLOCK, 1));
    for (int i = 0; i < count; i++) {
        memory_free(blocks[i]);
    }
}
