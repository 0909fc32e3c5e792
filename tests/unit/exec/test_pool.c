/* The pool hands buffers out again. */
#include "support/support.h"

#include "exec/pool.h"

static buffer_pool *new_pool(void)
{
    buffer_pool *pool = NULL;
    assert_ok(buffer_pool_create(&pool));
    return pool;
}

static void *take(buffer_pool *pool, size_t bytes)
{
    unsigned char *buffer = NULL;
    assert_ok(buffer_pool_take(pool, bytes, (void **)&buffer));
    assert_int_equal((uintptr_t)buffer % 64, 0);
    buffer[bytes - 1] = 1;
    return buffer;
}

static void a_buffer_given_back_is_used_again_where_it_fits(void **state)
{
    (void)state;
    buffer_pool *pool = new_pool();
    void *large = take(pool, 1000);
    void *small = take(pool, 100);
    assert_ptr_not_equal(large, small);
    buffer_pool_give(pool, large);
    buffer_pool_give(pool, small);
    assert_ptr_equal(take(pool, 90), small);  /* the best fit */
    assert_ptr_equal(take(pool, 500), large); /* at most half of it is wasted */
    buffer_pool_give(pool, large);
    void *other = take(pool, 499);
    assert_ptr_not_equal(other, large);
    void *larger = take(pool, 1001);
    assert_ptr_not_equal(larger, large);
    buffer_pool_give(pool, other);
    buffer_pool_give(pool, larger);
    buffer_pool_give(pool, small);
    buffer_pool_give(pool, NULL);
    buffer_pool_free(pool);
}

static void more_buffers_than_it_remembers_are_freed(void **state)
{
    (void)state;
    enum { MANY = 40 };
    buffer_pool *pool = new_pool();
    void *buffers[MANY];
    for (int i = 0; i < MANY; i++) {
        buffers[i] = take(pool, 64);
    }
    for (int i = 0; i < MANY; i++) {
        buffer_pool_give(pool, buffers[i]);
    }
    buffer_pool_clear(pool);
    buffer_pool_give(pool, take(pool, 64));
    buffer_pool_free(pool);
    buffer_pool_free(NULL);
}

static void an_impossible_size_is_refused(void **state)
{
    (void)state;
    buffer_pool *pool = new_pool();
    void *buffer = NULL;
    assert_fails(buffer_pool_take(pool, SIZE_MAX - 8, &buffer), GRAIL_ERROR_MEMORY,
                 "out of memory");
    assert_null(buffer);
    buffer_pool_free(pool);
}

static grail_status use_pool(void *context)
{
    (void)context;
    grail_status status = GRAIL_OK;
    buffer_pool *pool = NULL;
    void *buffer = NULL;
    TRY(buffer_pool_create(&pool));
    TRY(buffer_pool_take(pool, 100, &buffer));
    buffer_pool_give(pool, buffer);
    TRY(buffer_pool_take(pool, 1000, &buffer));
    buffer_pool_give(pool, buffer);
out:
    buffer_pool_free(pool);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    support_fail_each_allocation(use_pool, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_given_back_is_used_again_where_it_fits),
        cmocka_unit_test(more_buffers_than_it_remembers_are_freed),
        cmocka_unit_test(an_impossible_size_is_refused),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
