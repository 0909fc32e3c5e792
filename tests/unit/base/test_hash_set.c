/* Sets of hashes: what they hold, their file read back, and files that are not those. */
#include "support/support.h"

#include "base/hash.h"

#include <string.h>

enum { PATH_SIZE = 256 };

static hash_set set_of(const uint64_t *hashes, int64_t count)
{
    hash_set set = {0};
    assert_ok(hash_set_init(&set));
    memcpy(set.hashes, hashes, (size_t)count * sizeof hashes[0]);
    set.count = count;
    hash_set_settle(&set);
    return set;
}

TEST(hashes_are_ordered_and_found_once)
{
    static const uint64_t given[] = {7, UINT64_MAX, 0, 7, 1};
    static const uint64_t ordered[] = {0, 1, 7, UINT64_MAX};
    bool marked[HASH_SET_MOST] = {false};
    hash_set set = set_of(given, 5);
    hash_set empty = {0};
    assert_int_equal(set.count, 4);
    assert_memory_equal(set.hashes, ordered, sizeof ordered);
    assert_int_equal(hash_set_mark(&set, 7, marked), 1);
    assert_int_equal(hash_set_mark(&set, 7, marked), 0);
    assert_int_equal(hash_set_mark(&set, 8, marked), 0);
    assert_int_equal(hash_set_mark(&set, UINT64_MAX, marked), 1);
    assert_int_equal(hash_set_mark(&empty, 7, marked), 0);
    assert_true(hash_set_has(&set, 7) && !hash_set_has(&set, 8) && !hash_set_has(&empty, 7));
    hash_set_fini(&set);
    hash_set_fini(&set);
}

/* Where there are too many, every so many of both stay. */
TEST(a_set_takes_the_hashes_of_another)
{
    static const uint64_t some[] = {7, 1};
    static const uint64_t more[] = {9, 7, 0};
    static const uint64_t both[] = {0, 1, 7, 9};
    uint64_t many[HASH_SET_MOST];
    int64_t of_others = 0;
    hash_set set = set_of(some, 2);
    hash_set other = set_of(more, 3);
    const hash_set empty = {0};
    assert_ok(hash_set_add(&set, &other));
    assert_ok(hash_set_add(&set, &empty));
    assert_int_equal(set.count, 4);
    assert_memory_equal(set.hashes, both, sizeof both);
    hash_set_fini(&set);
    hash_set_fini(&other);
    for (uint64_t i = 0; i < HASH_SET_MOST; i++) {
        many[i] = 4 * i;
    }
    set = set_of(many, HASH_SET_MOST);
    for (uint64_t i = 0; i < HASH_SET_MOST; i++) {
        many[i] = 4 * (HASH_SET_MOST + i) + 1;
    }
    other = set_of(many, HASH_SET_MOST);
    assert_ok(hash_set_add(&set, &other));
    assert_int_equal(set.count, HASH_SET_MOST);
    for (int64_t i = 0; i < set.count; i++) {
        of_others += set.hashes[i] % 4 != 0;
        assert_true(i == 0 || set.hashes[i] > set.hashes[i - 1]);
    }
    assert_int_equal(of_others, HASH_SET_MOST / 2);
    hash_set_fini(&set);
    hash_set_fini(&other);
}

/* -- the file ---------------------------------------------------------------------------------- */

/* Reads the bytes as a file of this content. */
static grail_status read_file(const void *bytes, size_t size, const void *expected,
                              size_t expected_size, hash_set *out)
{
    char sha256[HASH_TEXT_SIZE];
    OWNED(buffer) file;
    hash_bytes(expected, expected_size, sha256);
    buffer_init(&file, size);
    assert_ok(buffer_append(&file, bytes, size));
    return hash_set_read("a.hashes", &file, sha256, out);
}

DIRECTORY_TEST(a_file_is_read_back_with_its_lowest_bytes_first)
{
    static const uint64_t given[] = {0x0123456789ABCDEFU, 2};
    static const unsigned char file[] = {2,    0,    0,    0,    0,    0,    0,    0,
                                         0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01};
    OWNED(hash_set) set = set_of(given, 2);
    OWNED(hash_set) again = {0};
    OWNED(buffer) bytes;
    buffer_init(&bytes, sizeof file);
    assert_ok(hash_set_append(&set, &bytes));
    assert_int_equal(bytes.size, sizeof file);
    assert_memory_equal(bytes.bytes, file, sizeof file);
    assert_ok(read_file(file, sizeof file, file, sizeof file, &again));
    assert_int_equal(again.count, set.count);
    assert_memory_equal(again.hashes, set.hashes, 2 * sizeof given[0]);
}

DIRECTORY_TEST(other_bytes_than_those_named_are_refused)
{
    static const unsigned char file[24] = {1, [8] = 2, [16] = 3};
    hash_set set = {0};
    unsigned char changed[sizeof file];
    for (size_t bit = 0; bit < 8 * sizeof file; bit++) {
        memcpy(changed, file, sizeof file);
        changed[bit / 8] = (unsigned char)(changed[bit / 8] ^ 1U << bit % 8);
        assert_fails(read_file(changed, sizeof changed, file, sizeof file, &set),
                     GRAIL_ERROR_FORMAT, "a.hashes' is damaged or of another result");
    }
    for (size_t size = 0; size < sizeof file; size++) {
        assert_fails(read_file(file, size, file, sizeof file, &set), GRAIL_ERROR_FORMAT, "damaged");
    }
    assert_null(set.hashes);
}

/* Its hash is right: one hand may have written both, the file and its hash. */
DIRECTORY_TEST(content_that_is_no_set_is_refused)
{
    static const unsigned char odd[9] = {1};
    static const unsigned char falling[16] = {2, [8] = 1};
    static const unsigned char equal[16] = {2, [8] = 2};
    static unsigned char huge[8 * (HASH_SET_MOST + 1)];
    hash_set set = {0};
    assert_fails(read_file(odd, sizeof odd, odd, sizeof odd, &set), GRAIL_ERROR_FORMAT,
                 "has 9 bytes, which are no whole number of 8-byte hashes");
    assert_fails(read_file(falling, sizeof falling, falling, sizeof falling, &set),
                 GRAIL_ERROR_FORMAT, "hash 1 is not above the one before it");
    assert_fails(read_file(equal, sizeof equal, equal, sizeof equal, &set), GRAIL_ERROR_FORMAT,
                 "hash 1 is not above the one before it");
    assert_fails(read_file(huge, sizeof huge, huge, sizeof huge, &set), GRAIL_ERROR_FORMAT,
                 "32776 bytes");
    assert_null(set.hashes);
}

static grail_status read_once(void *context)
{
    char sha256[HASH_TEXT_SIZE];
    OWNED(hash_set) set = {0};
    const buffer *file = context;
    hash_bytes(file->bytes, file->size, sha256);
    return hash_set_read("zero", file, sha256, &set);
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    const uint64_t zero = 0;
    OWNED(buffer) file;
    buffer_init(&file, sizeof zero);
    assert_ok(buffer_append(&file, &zero, sizeof zero));
    support_fail_each_allocation(read_once, &file);
}
