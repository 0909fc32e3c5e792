/* Numbers are found under their keys alone, and what is kept stays within the bound. */
#include "base/kept_numbers.h"

#include "support/support.h"

static const char *key_of(int i, char key[HASH_TEXT_SIZE])
{
    hash_bytes(&i, sizeof i, key);
    return key;
}

TEST(numbers_are_found_under_their_keys_alone)
{
    char key[HASH_TEXT_SIZE];
    kept_numbers k = {0};
    assert_null(kept_numbers_find(&k, key_of(0, key), 1));
    for (int i = 0; i < 20; i++) {
        const double numbers[] = {i, i + 0.5};
        assert_ok(kept_numbers_add(&k, key_of(i, key), numbers, 1 + i % 2));
    }
    for (int i = 0; i < 20; i++) {
        const size_t count = 1 + (size_t)(i % 2);
        const double *found = kept_numbers_find(&k, key_of(i, key), count);
        assert_non_null(found);
        assert_true(found[0] == i && (count == 1 || found[1] == i + 0.5));
        assert_null(kept_numbers_find(&k, key, 3 - count)); /* not so many */
    }
    assert_null(kept_numbers_find(&k, key_of(20, key), 1));
    kept_numbers_fini(&k);
    assert_null(kept_numbers_find(&k, key_of(0, key), 1));
}

TEST(those_that_came_first_go)
{
    enum { ARRAYS = 7, COUNT = KEPT_NUMBERS_BYTES / 4 / sizeof(double) };
    char key[HASH_TEXT_SIZE];
    OWNED(double) *numbers = NULL;
    kept_numbers k = {0};
    const double one = 1.0;
    assert_ok(memory_new(&numbers, (size_t)4 * COUNT, sizeof numbers[0]));
    assert_ok(kept_numbers_add(&k, key_of(-1, key), &one, 1));
    for (int i = 0; i < ARRAYS; i++) {
        numbers[0] = i;
        assert_ok(kept_numbers_add(&k, key_of(i, key), numbers, COUNT));
        assert_true(k.bytes <= KEPT_NUMBERS_BYTES);
        assert_true(k.bytes == k.count * (COUNT * sizeof numbers[0] + sizeof(kept_array)) ||
                    kept_numbers_find(&k, key_of(-1, key), 1) != NULL);
    }
    assert_int_equal(k.count, 3); /* with their keys four are a little too many */
    for (int i = -1; i < ARRAYS; i++) {
        const double *found = kept_numbers_find(&k, key_of(i, key), i < 0 ? 1 : COUNT);
        assert_int_equal(found != NULL, i >= ARRAYS - 3);
        assert_true(found == NULL || found[0] == i);
    }
    /* what is beyond the bound alone drives nothing out */
    assert_ok(kept_numbers_add(&k, key_of(ARRAYS, key), numbers, (size_t)4 * COUNT));
    assert_int_equal(k.count, 3);
    assert_null(kept_numbers_find(&k, key, (size_t)4 * COUNT));
    kept_numbers_fini(&k);
}

static grail_status add_some(void *context)
{
    grail_status status = GRAIL_OK;
    char key[HASH_TEXT_SIZE];
    kept_numbers k = {0};
    size_t added = 0;
    for (int i = 0; i < 9 && status == GRAIL_OK; i++) {
        const double number = i;
        status = kept_numbers_add(&k, key_of(i, key), &number, 1);
        added += status == GRAIL_OK ? 1 : 0;
    }
    assert_int_equal(k.count, added);
    for (size_t i = 0; i < added; i++) {
        assert_true(*kept_numbers_find(&k, key_of((int)i, key), 1) == (double)i);
    }
    kept_numbers_fini(&k);
    return status;
}

TEST(a_failure_changes_nothing)
{
    support_fail_each_allocation(add_some, NULL);
}
