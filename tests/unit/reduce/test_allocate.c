/* Widths of several sites under one limit: against all combinations, and worked examples. */
#include "reduce/allocate.h"

#include "base/random.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>

enum { MOST_SITES = 4, MOST_UNITS = 12 };

typedef struct problem {
    allocation_site sites[MOST_SITES];
    double errors[MOST_SITES][MOST_UNITS + 1];
    double scores[MOST_SITES][MOST_UNITS];
    int count;
} problem;

/* Costs are whole numbers, so that the grid of costs is exact where the limit is below its size. */
static void make_problem(problem *p, int count, random_state *random)
{
    *p = (problem){.count = count};
    for (int i = 0; i < count; i++) {
        const int64_t units = 3 + random_below(random, MOST_UNITS - 2);
        double error = 0.0;
        for (int64_t k = units; k >= 0; k--) {
            p->errors[i][k] = error;
            error += random_uniform(random);
        }
        p->sites[i] = (allocation_site){.name = "site",
                                        .units = units,
                                        .step = 1 + random_below(random, 3),
                                        .least = 1,
                                        .cost = (double)(1 + random_below(random, 9)),
                                        .weight = 1.0,
                                        .errors = p->errors[i],
                                        .scores = p->scores[i]};
    }
}

static bool is_width(const allocation_site *s, int64_t k)
{
    return k >= s->least && (k == s->least || k == s->units || k % s->step == 0);
}

/* The least sum of errors over all combinations of widths. */
static double least_error(const problem *p, int site, double limit)
{
    double best = HUGE_VAL;
    if (site == p->count || site == MOST_SITES) {
        return limit >= 0.0 ? 0.0 : HUGE_VAL;
    }
    const allocation_site *s = &p->sites[site];
    for (int64_t k = 0; k <= s->units; k++) {
        if (is_width(s, k)) {
            const double rest = least_error(p, site + 1, limit - s->cost * (double)k);
            best = fmin(best, s->errors[k] + rest);
        }
    }
    return best;
}

static double error_of(const problem *p, const int64_t *kept)
{
    double sum = 0.0;
    for (int i = 0; i < p->count; i++) {
        assert_true(is_width(&p->sites[i], kept[i]));
        sum += p->sites[i].errors[kept[i]];
    }
    return sum;
}

static double cost_of(const problem *p, const int64_t *kept)
{
    double sum = 0.0;
    for (int i = 0; i < p->count; i++) {
        sum += p->sites[i].cost * (double)kept[i];
    }
    return sum;
}

/* A limit that the grid divides evenly: then rounding costs up loses nothing. */
static double even_limit(double share, double least, double full)
{
    double limit = 1.0;
    while (limit * 2.0 <= least + share * (full - least)) {
        limit *= 2.0;
    }
    return limit < least ? least : limit;
}

TEST(errors_are_the_least_of_all_combinations)
{
    random_state random;
    random_seed(&random, 7, 0);
    for (int round = 0; round < 200; round++) {
        problem p;
        int64_t kept[MOST_SITES];
        make_problem(&p, 1 + (int)random_below(&random, MOST_SITES), &random);
        const double least = allocation_least(p.sites, p.count);
        const double full = allocation_full(p.sites, p.count);
        const double limit = even_limit(random_uniform(&random), least, full);
        assert_ok(allocate_by_errors(p.sites, p.count, limit, kept));
        assert_true(cost_of(&p, kept) <= limit);
        if (limit > least) { /* where only one combination is left, the grid may miss it */
            assert_true(fabs(error_of(&p, kept) - least_error(&p, 0, limit)) <= 1e-12);
        }
    }
}

/* With all widths allowed, everything that the limit pays for is kept. */
TEST(a_limit_that_pays_for_everything_keeps_everything)
{
    random_state random;
    problem p;
    int64_t kept[MOST_SITES];
    random_seed(&random, 8, 0);
    make_problem(&p, MOST_SITES, &random);
    assert_ok(allocate_by_errors(p.sites, p.count, allocation_full(p.sites, p.count), kept));
    for (int i = 0; i < p.count; i++) {
        assert_int_equal(kept[i], p.sites[i].units);
    }
}

/* Sites that may lose everything do so when nothing may be spent, or hardly anything. */
TEST(a_limit_of_nothing_keeps_nothing)
{
    static const double limits[] = {0.0, -0.0, 4.9e-324};
    for (int i = 0; i < 3; i++) {
        problem p;
        random_state random;
        int64_t kept[MOST_SITES];
        random_seed(&random, 3, 0);
        make_problem(&p, 2, &random);
        p.sites[0].least = p.sites[1].least = 0;
        assert_ok(allocate_by_errors(p.sites, p.count, limits[i], kept));
        assert_true(kept[0] == 0 && kept[1] == 0);
        assert_ok(allocate_by_scores(p.sites, p.count, limits[i], kept));
        assert_true(kept[0] == 0 && kept[1] == 0);
    }
}

TEST(a_limit_below_the_least_is_an_error_that_names_it)
{
    random_state random;
    problem p;
    int64_t kept[MOST_SITES];
    char expected[64];
    random_seed(&random, 9, 0);
    make_problem(&p, 2, &random);
    const double least = allocation_least(p.sites, p.count);
    snprintf(expected, sizeof expected, "cost %.6g even at their least widths", least);
    assert_fails(allocate_by_errors(p.sites, p.count, 0.9 * least, kept), GRAIL_ERROR_ARGUMENT,
                 expected);
    assert_fails(allocate_by_scores(p.sites, p.count, 0.9 * least, kept), GRAIL_ERROR_ARGUMENT,
                 expected);
}

TEST(a_curve_that_rises_or_is_not_a_number_is_an_error)
{
    random_state random;
    problem p;
    int64_t kept[MOST_SITES];
    random_seed(&random, 10, 0);
    make_problem(&p, 1, &random);
    const double full = allocation_full(p.sites, 1);
    p.errors[0][2] = p.errors[0][1] + 1.0;
    assert_fails(allocate_by_errors(p.sites, 1, full, kept), GRAIL_ERROR_NUMERIC,
                 "expected one that falls");
    p.errors[0][2] = (double)NAN;
    assert_fails(allocate_by_errors(p.sites, 1, full, kept), GRAIL_ERROR_NUMERIC,
                 "expected one that falls");
    p.scores[0][1] = (double)NAN;
    assert_fails(allocate_by_scores(p.sites, 1, full, kept), GRAIL_ERROR_NUMERIC,
                 "is not a number");
}

/* FLAP, AL-AM: heads {0.5, -0.3} that cost 2, neurons {1.0, 0.2, -0.1, -0.9}, half of the cost:
 * kept are 1.0, 0.5 and 0.2. */
TEST(scores_keep_the_best_units_of_all_sites)
{
    const double heads[] = {0.5, -0.3};
    const double neurons[] = {-0.1, 1.0, -0.9, 0.2};
    const allocation_site sites[] = {
        {.name = "heads", .units = 2, .step = 1, .least = 0, .cost = 2.0, .scores = heads},
        {.name = "ffn", .units = 4, .step = 1, .least = 0, .cost = 1.0, .scores = neurons},
    };
    int64_t kept[2];
    assert_ok(allocate_by_scores(sites, 2, 4.0, kept));
    assert_int_equal(kept[0], 1);
    assert_int_equal(kept[1], 2);
    assert_ok(allocate_by_scores(sites, 2, 8.0, kept));
    assert_int_equal(kept[0], 2);
    assert_int_equal(kept[1], 4);
}

TEST(depth_has_the_mean_that_was_asked_for)
{
    static const int layers[] = {1, 2, 5, 12, 32, 80};
    for (int l = 0; l < 6; l++) {
        for (int percent = 0; percent <= 90; percent += 5) {
            double ratios[80];
            double sum = 0.0;
            const double r = percent / 100.0;
            allocate_by_depth(layers[l], r, ratios);
            for (int i = 0; i < layers[l]; i++) {
                sum += ratios[i];
                assert_true(ratios[i] >= ratios[0] - 1e-15);
                assert_true(ratios[i] <= ratios[layers[l] - 1] + 1e-15);
            }
            assert_true(fabs(sum / layers[l] - r) < 1e-12);
            assert_true(ratios[layers[l] - 1] <= 0.95 + 1e-12);
        }
    }
}

/* SlimGPT's own table: 32 layers from 0.0625. */
TEST(depth_ends_where_the_published_code_ends)
{
    static const double means[] = {0.1, 0.2, 0.3, 0.5, 0.7};
    static const double last[] = {0.1135, 0.2495, 0.3855, 0.6574, 0.9294};
    for (int i = 0; i < 5; i++) {
        double ratios[32];
        allocate_by_depth(32, means[i], ratios);
        assert_true(fabs(ratios[0] - 0.0625) < 1e-15);
        assert_true(fabs(ratios[31] - last[i]) < 1e-4);
    }
}
