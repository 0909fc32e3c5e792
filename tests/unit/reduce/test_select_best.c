/* best: candidates decide on inputs of their own, and the trial with the least error wins. */
#include "hand_site.h"

#include "support/matrices.h"

#include <string.h>

enum { UNITS = 8, KEPT = 4, OUTPUTS = 3, ROWS = 30, TRIALS = 16 };

/* Errors to answer with, and what was tried. */
typedef struct trials {
    double errors[TRIALS];
    int64_t labels[TRIALS][UNITS];
    int count;
    int fails_at; /* -1: none */
} trials;

static grail_status answer(void *context, const grail_reducer *r, double *error)
{
    trials *t = context;
    assert_true(t->count < TRIALS);
    if (t->count == t->fails_at) {
        return error_set(GRAIL_ERROR_NUMERIC, "this trial fails");
    }
    memcpy(t->labels[t->count], r->labels, UNITS * sizeof r->labels[0]);
    *error = t->errors[t->count++];
    return GRAIL_OK;
}

/* A site of neurons with the statistics that best needs; matrices of the view are owned. */
typedef struct best_site {
    hand_site f;
    trials t;
    float weight[OUTPUTS * UNITS];
    float producer[UNITS * OUTPUTS];
    double diagonal[UNITS], means[UNITS], target_means[OUTPUTS];
} best_site;

static void open_site(best_site *s)
{
    float x[ROWS * UNITS];
    double gram[UNITS * UNITS] = {0};
    *s = (best_site){.t = {.fails_at = -1}};
    support_fill_normal(x, ROWS * UNITS, 1);
    support_fill_normal(s->weight, OUTPUTS * UNITS, 2);
    support_fill_normal(s->producer, UNITS * OUTPUTS, 3);
    for (int64_t i = 0; i < UNITS * UNITS * ROWS; i++) {
        const int64_t t = i / (UNITS * UNITS);
        const int64_t a = i / UNITS % UNITS;
        const int64_t b = i % UNITS;
        gram[a * UNITS + b] += (double)x[t * UNITS + a] * (double)x[t * UNITS + b];
        s->diagonal[a] = gram[a * UNITS + a];
    }
    hand_begin(&s->f, SITE_FFN, UNITS, KEPT);
    hand_add_producer(&s->f, 1, OUTPUTS, s->producer);
    hand_add_consumer(&s->f, 1, OUTPUTS, s->weight);
    s->f.view.backend = on_cpu;
    s->f.view.trial = (reducer_trial){answer, &s->t};
    s->f.inputs[0] = (input_statistics){.width = UNITS,
                                        .weight = ROWS,
                                        .diagonal = s->diagonal,
                                        .means = s->means,
                                        .gram = support_matrix(on_cpu, UNITS, UNITS, gram)};
}

static void close_site(best_site *s)
{
    matrix_free(&s->f.inputs[0].gram);
    grail_reducer_free(s->f.reducer);
}

static void the_trial_with_the_least_error_wins(void **state)
{
    (void)state;
    static const double errors[] = {0.5, 0.4, 0.3, 0.6, 0.2, 0.7, 0.2};
    static const char *const rules[] = {"obs", "ziplm", "gram-css", "slimgpt", "leverage"};
    for (int winner = 0; winner < 5; winner++) {
        best_site s;
        open_site(&s);
        memcpy(s.t.errors, errors, sizeof errors);
        s.t.errors[winner] = 0.1;
        assert_ok(selector_best.decide(&s.f.view, &s.f.reducer));
        assert_int_equal(s.t.count, 7);
        assert_string_equal(s.f.reducer->rule, rules[winner]);
        assert_memory_equal(s.f.reducer->labels, s.t.labels[winner], sizeof s.t.labels[0]);
        close_site(&s);
    }
}

static void the_first_of_equal_trials_wins(void **state)
{
    (void)state;
    best_site s;
    open_site(&s);
    assert_ok(selector_best.decide(&s.f.view, &s.f.reducer));
    assert_string_equal(s.f.reducer->rule, "obs");
    close_site(&s);
}

/* Selectors that take the Gram matrix over do not spoil it for those behind them. */
static void every_candidate_decides_as_it_does_alone(void **state)
{
    (void)state;
    const selector *const alone[] = {&selector_obs,         &selector_ziplm,    &selector_gram_css,
                                     &selector_slimgpt,     &selector_leverage, &selector_wanda,
                                     &selector_magnitude_l2};
    best_site s;
    open_site(&s);
    assert_ok(selector_best.decide(&s.f.view, &s.f.reducer));
    for (int i = 0; i < 7; i++) {
        best_site one;
        open_site(&one);
        assert_ok(alone[i]->decide(&one.f.view, &one.f.reducer));
        assert_memory_equal(one.f.reducer->labels, s.t.labels[i], sizeof s.t.labels[0]);
        assert_null(one.f.reducer->rule);
        close_site(&one);
    }
    close_site(&s);
}

static void a_trial_that_fails_ends_the_decision(void **state)
{
    (void)state;
    best_site s;
    open_site(&s);
    s.t.fails_at = 3;
    assert_fails(selector_best.decide(&s.f.view, &s.f.reducer), GRAIL_ERROR_NUMERIC,
                 "this trial fails");
    assert_null(s.f.reducer);
    close_site(&s);
}

static void no_candidate_needs_what_is_gone_at_the_consumer(void **state)
{
    (void)state;
    const site kinds[] = {{.kind = SITE_FFN}, {.kind = SITE_HEADS}, {.kind = SITE_CONV}};
    const site stream = {.kind = SITE_STREAM};
    for (int i = 0; i < 3; i++) {
        const unsigned needs = selector_needs(&selector_best, &kinds[i]);
        assert_true((needs & NEEDS_TRIALS) != 0 && (needs & NEEDS_TARGET) != 0);
        assert_int_equal(needs & (NEEDS_INPUT_NORMS | NEEDS_ALL_CONSUMERS), 0);
    }
    const unsigned needs = selector_needs(&selector_best, &stream);
    assert_true((needs & NEEDS_ALL_CONSUMERS) != 0);
    assert_int_equal(needs & NEEDS_INPUT_NORMS, 0);
}

static grail_status decide_once(void *context)
{
    best_site *s = context;
    s->t.count = 0;
    const grail_status status = selector_best.decide(&s->f.view, &s->f.reducer);
    grail_reducer_free(s->f.reducer);
    s->f.reducer = NULL;
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    best_site s;
    open_site(&s);
    support_fail_each_allocation(decide_once, &s);
    close_site(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trial_with_the_least_error_wins),
        cmocka_unit_test(the_first_of_equal_trials_wins),
        cmocka_unit_test(every_candidate_decides_as_it_does_alone),
        cmocka_unit_test(a_trial_that_fails_ends_the_decision),
        cmocka_unit_test(no_candidate_needs_what_is_gone_at_the_consumer),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(no_matrix_is_left),
    };
    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
