/* The pool hands matrices out again. */
#include "support/support.h"

#include "exec/pool.h"

static matrix_pool *new_pool(void)
{
    matrix_pool *pool = NULL;
    assert_ok(matrix_pool_create(backend_host(), &pool));
    return pool;
}

static matrix take(matrix_pool *pool, int64_t rows, int64_t columns)
{
    matrix m = {0};
    assert_ok(matrix_pool_take(pool, rows, columns, &m));
    assert_int_equal(m.rows, rows);
    assert_int_equal(m.columns, columns);
    assert_true(matrix_is_packed(m));
    assert_int_equal((uintptr_t)m.memory % 64, 0);
    return m;
}

TEST(a_matrix_given_back_is_used_again_where_it_fits)
{
    matrix_pool *pool = new_pool();
    matrix large = take(pool, 10, 100);
    matrix small = take(pool, 1, 100);
    const void *place_of_large = large.memory;
    const void *place_of_small = small.memory;
    assert_ptr_not_equal(place_of_large, place_of_small);
    matrix_pool_give(pool, &large);
    matrix_pool_give(pool, &small);
    assert_false(matrix_exists(large));
    small = take(pool, 90, 1);
    assert_ptr_equal(small.memory, place_of_small); /* the best fit */
    large = take(pool, 5, 100);
    assert_ptr_equal(large.memory, place_of_large); /* at most half of it is wasted */
    matrix_pool_give(pool, &large);
    matrix other = take(pool, 499, 1);
    assert_ptr_not_equal(other.memory, place_of_large);
    matrix larger = take(pool, 1001, 1);
    assert_ptr_not_equal(larger.memory, place_of_large);
    matrix_pool_give(pool, &other);
    matrix_pool_give(pool, &larger);
    matrix_pool_give(pool, &small);
    matrix_pool_give(pool, &(matrix){0});
    matrix_pool_free(pool);
    assert_int_equal(backend_bytes(backend_host()), 0);
}

TEST(more_matrices_than_it_remembers_are_freed)
{
    enum { MANY = 40 };
    matrix_pool *pool = new_pool();
    matrix taken[MANY];
    for (int i = 0; i < MANY; i++) {
        taken[i] = take(pool, 4, 4);
    }
    for (int i = 0; i < MANY; i++) {
        matrix_pool_give(pool, &taken[i]);
    }
    matrix_pool_clear(pool);
    assert_int_equal(backend_bytes(backend_host()), 0);
    taken[0] = take(pool, 4, 4);
    matrix_pool_give(pool, &taken[0]);
    matrix_pool_free(pool);
    matrix_pool_free(NULL);
}

TEST(an_impossible_size_is_refused)
{
    OWNED(matrix_pool) *pool = new_pool();
    matrix m = {0};
    assert_fails(matrix_pool_take(pool, INT64_MAX / 2, 8, &m), GRAIL_ERROR_MEMORY,
                 "is too large to address");
    assert_false(matrix_exists(m));
}

TEST(a_wider_pool_keeps_as_many_as_are_needed_at_once)
{
    enum { MANY = 40, USUAL = 16 };
    matrix_pool *pool = new_pool();
    matrix taken[MANY];
    assert_ok(matrix_pool_widen(pool, MANY));
    for (int i = 0; i < MANY; i++) {
        taken[i] = take(pool, 4, 4);
    }
    const int64_t bytes = backend_bytes(backend_host());
    for (int i = 0; i < MANY; i++) {
        matrix_pool_give(pool, &taken[i]);
    }
    assert_int_equal(backend_bytes(backend_host()), bytes);
    matrix_pool_narrow(pool);
    assert_int_equal(backend_bytes(backend_host()), bytes / MANY * USUAL);
    matrix_pool_free(pool);
    assert_int_equal(backend_bytes(backend_host()), 0);
}

static grail_status use_pool(void *context)
{
    OWNED(matrix_pool) *pool = NULL;
    matrix m = {0};
    CHECK(matrix_pool_create(backend_host(), &pool));
    CHECK(matrix_pool_take(pool, 10, 10, &m));
    matrix_pool_give(pool, &m);
    CHECK(matrix_pool_take(pool, 100, 10, &m));
    matrix_pool_give(pool, &m);
    return GRAIL_OK;
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(use_pool, NULL);
}
