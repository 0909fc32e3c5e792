/* Routers against the loops of the oracle, for every rule of choice. */
#include "conformance/conformance.h"

#include <string.h>

enum { ROWS = 23, OUTPUTS = 12, ALL = ROWS * OUTPUTS };

static const int64_t order[OUTPUTS] = {3, 0, 1, 2, 7, 6, 5, 4, 11, 10, 8, 9};

typedef struct rule {
    route_attributes how;
    bool added, ordered;
} rule;

static const rule rules[] = {
    {.how = {.chosen = 2}},
    {.how = {.chosen = 3, .over_all = true, .scale = 1.5}, .ordered = true},
    {.how = {.chosen = OUTPUTS}},
    {.how = {.chosen = 1, .sigmoid = true, .over_all = true}},
    {.how = {.chosen = 4, .sigmoid = true, .scale = 2.5}, .added = true, .ordered = true},
    {.how = {.chosen = 4, .sigmoid = true, .groups = 4, .chosen_groups = 2, .best = 2},
     .added = true},
    {.how = {.chosen = 3, .over_all = true, .groups = 3, .chosen_groups = 1, .best = 1}},
};

enum { RULES = sizeof rules / sizeof rules[0] };

static matrix copy_on(backend *b, int64_t rows, matrix of)
{
    OWNED(double) *values = results_of(of);
    const matrix out = matrix_of(b, backend_type(b), rows, OUTPUTS, values);
    return out;
}

/* The shares of scores, then the gradient; both owned. */
static void route(const rule *r, matrix x, matrix added, matrix dy, double *out[2])
{
    matrix y = blank_values(x.owner, ROWS, OUTPUTS);
    matrix dx = blank_values(x.owner, ROWS, OUTPUTS);
    const matrix by = r->added ? added : no_matrix;
    assert_ok(matrix_route(&r->how, r->ordered ? order : NULL, x, by, y));
    assert_ok(matrix_route_gradient(&r->how, x, by, dy, dx));
    out[0] = results_of(y);
    assert_ok(matrix_copy(dy, y));
    assert_ok(matrix_route_gradient(&r->how, x, by, y, y));
    out[1] = results_of(dx);
    double *in_place = results_of(y);
    assert_memory_equal(in_place, out[1], ALL * sizeof in_place[0]);
    memory_free(in_place);
    free_matrices(&y, &dx);
}

/* Equal scores, too, of which the first are chosen. */
BACKEND_TEST(test_routers_choose_and_share_as_the_oracle_does)
{
    backend *reference = backend_reference();
    float *scores = normals(ALL, 41, 1.0);
    float *biases = normals(OUTPUTS, 42, 0.3);
    float *gradients = normals(ALL, 43, 1.0);
    for (int o = 0; o < OUTPUTS; o++) {
        scores[o] = 0.5F;
        scores[OUTPUTS + o] = o % 2 == 0 ? 1.0F : -0.25F;
    }
    matrix x = values_of(b, ROWS, OUTPUTS, scores);
    matrix added = values_of(b, 1, OUTPUTS, biases);
    matrix dy = values_of(b, ROWS, OUTPUTS, gradients);
    matrix there[] = {copy_on(reference, ROWS, x), copy_on(reference, 1, added),
                      copy_on(reference, ROWS, dy)};
    double *scale = doubles(ALL, 4.0);
    for (int i = 0; i < RULES; i++) {
        double *actual[2];
        double *expected[2];
        route(&rules[i], x, added, dy, actual);
        route(&rules[i], there[0], there[1], there[2], expected);
        for (int k = 0; k < ALL; k++) {
            assert_int_equal(actual[0][k] != 0.0, expected[0][k] != 0.0);
        }
        assert_all_near(b, "route", ALL, actual[0], expected[0], scale, rounding(b));
        assert_all_near(b, "route_gradient", ALL, actual[1], expected[1], scale, 4.0 * rounding(b));
        free_blocks(actual[0], actual[1], expected[0], expected[1]);
    }
    free_blocks(scores, biases, gradients, scale);
    free_matrices(&x, &added, &dy, &there[0], &there[1], &there[2]);
}
