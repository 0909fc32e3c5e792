/* Random numbers: fixed sequences, ranges, and moments within many standard errors. */
#include "support/support.h"

#include <math.h>

/* Blackman and Vigna's xoshiro256** from the state {1, 2, 3, 4}: the first results that the
 * reference code gives. */
TEST(test_the_generator_is_the_published_one)
{
    static const uint64_t expected[] = {11520U, 0U, 1509978240U, 1215971899390074240U};
    random_state r = {{1, 2, 3, 4}};
    for (size_t i = 0; i < 4; i++) {
        assert_true(random_next(&r) == expected[i]);
    }
}

TEST(test_the_same_seed_gives_the_same_numbers)
{
    random_state a;
    random_state b;
    random_seed(&a, 42, 7);
    random_seed(&b, 42, 7);
    for (int i = 0; i < 1000; i++) {
        assert_true(random_next(&a) == random_next(&b));
    }
}

TEST(test_seeds_and_streams_differ)
{
    random_state r[4];
    random_seed(&r[0], 0, 0);
    random_seed(&r[1], 1, 0);
    random_seed(&r[2], 0, 1);
    random_seed(&r[3], 1, 1);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < i; k++) {
            random_state a = r[i];
            random_state b = r[k];
            int equal = 0;
            for (int n = 0; n < 100; n++) {
                equal += random_next(&a) == random_next(&b) ? 1 : 0;
            }
            assert_int_equal(equal, 0);
        }
    }
}

/* Each of 7 values expects 10000 of 70000 draws, with a standard deviation of 93. */
TEST(test_bounded_numbers_fill_their_range_evenly)
{
    int counts[7] = {0};
    random_state r;
    random_seed(&r, 3, 0);
    for (int i = 0; i < 70000; i++) {
        const int64_t value = random_below(&r, 7);
        assert_true(value >= 0 && value < 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_near(counts[i], 10000, 600);
    }
    assert_int_equal(random_below(&r, 1), 0);
    for (int i = 0; i < 1000; i++) {
        const int64_t value = random_below(&r, INT64_MAX);
        assert_true(value >= 0 && value < INT64_MAX);
    }
}

TEST(test_uniform_numbers_lie_in_the_unit_interval)
{
    enum { COUNT = 100000 };
    random_state r;
    double sum = 0;
    random_seed(&r, 5, 0);
    for (int i = 0; i < COUNT; i++) {
        const double value = random_uniform(&r);
        assert_true(value >= 0 && value < 1);
        sum += value;
    }
    assert_near(sum / COUNT, 0.5, 0.006); /* standard error 0.0009 */
}

TEST(test_normal_numbers_have_the_normal_moments)
{
    enum { COUNT = 100000 };
    random_state r;
    double sum = 0;
    double square = 0;
    double fourth = 0;
    random_seed(&r, 6, 0);
    for (int i = 0; i < COUNT; i++) {
        const double value = random_normal(&r);
        assert_true(isfinite(value));
        sum += value;
        square += value * value;
        fourth += value * value * value * value;
    }
    assert_near(sum / COUNT, 0, 0.02);    /* standard error 0.0032 */
    assert_near(square / COUNT, 1, 0.03); /* 0.0045 */
    assert_near(fourth / COUNT, 3, 0.2);  /* 0.031 */
}

TEST(test_a_permutation_holds_every_value_once)
{
    enum { COUNT = 1000 };
    int64_t values[COUNT];
    bool seen[COUNT] = {false};
    random_state r;
    int64_t fixed = 0;
    random_seed(&r, 8, 0);
    random_permutation(&r, COUNT, values);
    for (int64_t i = 0; i < COUNT; i++) {
        assert_true(values[i] >= 0 && values[i] < COUNT && !seen[values[i]]);
        seen[values[i]] = true;
        fixed += values[i] == i ? 1 : 0;
    }
    assert_true(fixed < 10); /* one is expected, Poisson */
    random_permutation(&r, 0, NULL);
}

/* Six orders of three values, 1000 expected of each, standard deviation 29. */
TEST(test_all_orders_are_equally_likely)
{
    int counts[27] = {0};
    random_state r;
    random_seed(&r, 9, 0);
    for (int i = 0; i < 6000; i++) {
        int64_t v[3];
        random_permutation(&r, 3, v);
        counts[9 * v[0] + 3 * v[1] + v[2]]++;
    }
    static const int orders[] = {5, 7, 11, 15, 19, 21};
    for (size_t i = 0; i < 6; i++) {
        assert_near(counts[orders[i]], 1000, 170);
    }
}
