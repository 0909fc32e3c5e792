/* The rate of a step and the samples of a step. */
#include "heal/training.h"

#include "support/support.h"

#include <math.h>
#include <string.h>

TEST(the_rate_rises_evenly_over_the_first_tenth)
{
    assert_true(rate_share(0.0) == 0.0);
    assert_near(rate_share(0.025), 0.25, 1e-12);
    assert_near(rate_share(0.05), 0.5, 1e-12);
    assert_near(rate_share(0.1), 1.0, 1e-12);
}

TEST(then_it_falls_along_half_a_cosine_to_0)
{
    double before = 1.0;
    assert_near(rate_share(0.55), 0.5, 1e-12); /* halfway */
    assert_near(rate_share(0.325), 0.5 + 0.25 * sqrt(2.0), 1e-12);
    for (int i = 1; i <= 90; i++) {
        const double now = rate_share(0.1 + 0.01 * i);
        assert_true(now < before);
        before = now;
    }
    assert_true(rate_share(1.0) == 0.0);
    assert_true(rate_share(1.5) == 0.0);
    assert_true(rate_share(0.999) < 1e-5);
}

enum { SAMPLES = 10, MOST = 60 };

static void draw(uint64_t seed, int64_t steps, int64_t count, int64_t *out)
{
    int64_t samples[SAMPLES];
    for (int64_t i = 0; i < SAMPLES; i++) {
        samples[i] = 100 + 3 * i;
    }
    for (int64_t s = 0; s < steps; s++) {
        assert_ok(samples_of_step(seed, s, SAMPLES, samples, count, out + s * count));
    }
}

/* Steps of 4 go three times through 10 samples in 7.5 steps. */
TEST(every_sample_is_taken_once_in_each_round)
{
    int64_t drawn[MOST];
    draw(5, 15, 4, drawn);
    for (int round = 0; round < 6; round++) {
        int times[SAMPLES] = {0};
        for (int i = 0; i < SAMPLES; i++) {
            const int64_t sample = drawn[round * SAMPLES + i];
            assert_int_equal((sample - 100) % 3, 0);
            times[(sample - 100) / 3]++;
        }
        for (int i = 0; i < SAMPLES; i++) {
            assert_int_equal(times[i], 1);
        }
    }
}

TEST(the_order_follows_from_the_seed_and_differs_in_each_round)
{
    int64_t a[MOST];
    int64_t b[MOST];
    const size_t round = SAMPLES * sizeof a[0];
    draw(5, 10, 4, a);
    draw(5, 10, 4, b);
    assert_memory_equal(a, b, 4 * round);
    draw(5, 4, 10, b); /* the same order, in other steps */
    assert_memory_equal(a, b, 4 * round);
    draw(6, 10, 4, b);
    assert_int_not_equal(memcmp(a, b, 4 * round), 0);
    assert_int_not_equal(memcmp(a, a + SAMPLES, round), 0);
}

static grail_status draw_once(void *context)
{
    int64_t out[SAMPLES];
    return samples_of_step(1, 1, SAMPLES, context, 7, out);
}

TEST(failing_allocations_are_survived)
{
    int64_t samples[SAMPLES] = {0};
    support_fail_each_allocation(draw_once, samples);
}
