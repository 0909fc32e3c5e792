/* Choices of units on plain buffers: what every selector promises, and hostile calls. That they
 * are those of runs is tested where runs are (unit/pipeline/test_numerics). */
#include <grail/compress.h>
#include <grail/select.h>

#include "support/support.h"

#include <math.h>
#include <string.h>

enum { ROWS = 96, N = 8, IN = 5, O = 3, KEPT = 4 };

static float producer[N * IN];
static float consumer[O * N];
static float x[ROWS * N];

static int fill(void **state)
{
    support_fill_normal(producer, N * IN, 1);
    support_fill_normal(consumer, O * N, 2);
    support_fill_normal(x, ROWS * N, 3);
    for (int i = 0; i < ROWS * N; i++) {
        x[i] = x[i] * (1.0F + 0.5F * (float)(i % N)) + 0.3F;
    }
    return 0;
}

/* A site of neurons with one producer and one consumer. */
typedef struct plain {
    grail_site site;
    grail_unit_rows rows;
    grail_unit_columns columns;
    grail_statistics *sums;
    float gradients[O * N];
    double norms[IN], routed[N];
    int64_t routed_rows[N];
} plain;

static void plain_init(plain *p, const float *z)
{
    *p = (plain){.rows = {.weight = producer, .columns = IN},
                 .columns = {.weight = consumer, .outputs = O}};
    grail_site_init(&p->site);
    assert_ok(grail_statistics_create(N, 0, &p->sums));
    assert_ok(grail_statistics_accumulate(p->sums, z == NULL ? 0 : ROWS, z, N, NULL, 0));
    p->columns.fit = p->sums;
    p->columns.gradients = p->gradients;
    p->site.units = N;
    p->site.producers = &p->rows;
    p->site.producer_count = 1;
    p->site.consumers = &p->columns;
    p->site.consumer_count = 1;
    p->site.input_norms = p->norms;
    p->site.routed_norms = p->routed;
    p->site.routed_rows = p->routed_rows;
    p->site.seed = 3;
    for (int i = 0; i < IN; i++) {
        p->norms[i] = 1.0 + i;
    }
    for (int e = 0; e < N; e++) {
        p->routed[e] = 10.0 * e;
        p->routed_rows[e] = 1 + e * e;
    }
}

/* What each selector needs of neurons is given. */
static grail_reducer *choose(const char *name, const char *kind, int64_t kept)
{
    plain p;
    grail_reducer *r = NULL;
    plain_init(&p, x);
    p.site.kind = kind;
    assert_ok(grail_select(name, &p.site, kept, &r));
    grail_statistics_free(p.sums);
    return r;
}

static const char *kind_for(const char *name)
{
    return strcmp(name, "reap") == 0 ? "experts" : "ffn";
}

TEST(every_selector_keeps_as_many_units_as_asked_for)
{
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const char *name = grail_selector_at(i);
        for (int64_t kept = 1; kept <= N; kept++) {
            int64_t labels[N];
            bool used[N] = {false};
            int64_t different = 0;
            int64_t removed = 0;
            OWNED(grail_reducer) *r = choose(name, kind_for(name), kept);
            grail_reducer_labels(r, labels);
            for (int j = 0; j < N; j++) {
                assert_int_equal(labels[j], grail_reducer_label(r, j));
                removed += labels[j] < 0;
                if (labels[j] >= 0 && !used[labels[j]]) {
                    used[labels[j]] = true;
                    different++;
                }
            }
            assert_int_equal(grail_reducer_kept(r), kept);
            assert_int_equal(different, kept);
            assert_int_equal(removed, grail_reducer_folds(r) ? 0 : N - kept);
        }
    }
}

TEST(the_same_call_chooses_the_same_units)
{
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const char *name = grail_selector_at(i);
        int64_t labels[2][N];
        for (int k = 0; k < 2; k++) {
            OWNED(grail_reducer) *r = choose(name, kind_for(name), KEPT);
            grail_reducer_labels(r, labels[k]);
        }
        assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    }
}

/* Units 2 i and 2 i + 1 have the same rows and columns, and so the same activations. */
TEST(duplicated_units_fold_without_loss)
{
    float twice[N * IN];
    float reads[O * N];
    float z[ROWS * N];
    float narrow[KEPT * IN];
    float merged[O * KEPT];
    grail_reducer *r = NULL;
    plain p;
    for (int j = 0; j < N; j++) {
        memcpy(twice + j * IN, producer + j / 2 * IN, IN * sizeof twice[0]);
        for (int o = 0; o < O; o++) {
            reads[o * N + j] = consumer[o * N + j / 2];
        }
        for (int t = 0; t < ROWS; t++) {
            z[t * N + j] = x[t * N + j / 2];
        }
    }
    plain_init(&p, z);
    p.rows.weight = twice;
    p.columns.weight = reads;
    assert_ok(grail_select("fold", &p.site, KEPT, &r));
    for (int j = 0; j < N; j++) {
        assert_int_equal(grail_reducer_label(r, j), j / 2);
    }
    assert_ok(grail_reducer_narrow_rows(r, 0, 1, IN, twice, narrow));
    assert_ok(grail_reducer_merge_columns(r, 0, 1, O, reads, merged));
    assert_memory_equal(narrow, producer, sizeof narrow);
    for (int i = 0; i < O * KEPT; i++) {
        assert_near((double)merged[i], 2.0 * (double)consumer[i / KEPT * N + i % KEPT], 0.0);
    }
    grail_compensate_options options; /* the fit leaves a folding without loss as it is */
    grail_compensate_result result;
    float fitted[O * KEPT];
    grail_compensate_options_init(&options);
    options.prior = 1;
    assert_ok(grail_compensate(p.sums, NULL, r, 1, O, reads, &options, fitted, NULL, &result));
    assert_near(result.error_before, 0.0, 1e-12);
    for (int i = 0; i < O * KEPT; i++) {
        assert_near((double)fitted[i], (double)merged[i], 1e-5);
    }
    grail_reducer_free(r);
    grail_statistics_free(p.sums);
}

/* One of three units is the sum of the others, so obs takes one away at no cost. */
TEST(a_dependent_unit_costs_obs_nothing)
{
    float z[ROWS * N];
    double losses[N + 1];
    plain p;
    grail_reducer *r = NULL;
    memcpy(z, x, sizeof z);
    for (int t = 0; t < ROWS; t++) {
        z[t * N + 5] = 0.5F * (z[t * N + 1] + z[t * N + 2]);
    }
    plain_init(&p, z);
    assert_ok(grail_select("obs", &p.site, N - 1, &r));
    assert_true(grail_reducer_label(r, 1) < 0 || grail_reducer_label(r, 2) < 0 ||
                grail_reducer_label(r, 5) < 0);
    assert_ok(grail_select_losses("obs", &p.site, losses));
    assert_near(losses[N], 0.0, 0.0);
    for (int k = 0; k < N; k++) {
        assert_true(losses[k] >= losses[k + 1]);
    }
    assert_true(losses[N - 1] < 0.1 * losses[N - 2]);
    grail_reducer_free(r);
    grail_statistics_free(p.sums);
}

TEST(the_best_scores_are_kept)
{
    double scores[N];
    plain p;
    grail_reducer *r = NULL;
    plain_init(&p, x);
    assert_ok(grail_select_scores("wanda", &p.site, scores));
    for (int j = 0; j < N; j++) { /* mean_o |W_oj| ||X_j|| */
        double sum = 0.0;
        for (int o = 0; o < O; o++) {
            sum += fabs((double)consumer[o * N + j]) / O;
        }
        assert_near(scores[j], sum * sqrt(grail_statistics_gram(p.sums, j, j)), 1e-9);
    }
    assert_ok(grail_select("wanda", &p.site, KEPT, &r));
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            assert_false(grail_reducer_label(r, j) >= 0 && grail_reducer_label(r, i) < 0 &&
                         scores[i] > scores[j]);
        }
    }
    assert_fails(grail_select_scores("obs", &p.site, scores), GRAIL_ERROR_UNSUPPORTED,
                 "'obs' has no scores");
    assert_fails(grail_select_losses("wanda", &p.site, scores), GRAIL_ERROR_UNSUPPORTED,
                 "'wanda' has no losses");
    grail_reducer_free(r);
    grail_statistics_free(p.sums);
}

TEST(every_group_keeps_as_many)
{
    plain p;
    plain_init(&p, x);
    p.site.kind = "heads";
    p.site.groups = 4;
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const char *name = grail_selector_at(i);
        grail_selector_facts facts;
        assert_ok(grail_selector_describe(name, &facts));
        if (facts.folds || strcmp(name, "reap") == 0) {
            continue;
        }
        OPENED(grail_reducer, r, grail_select(name, &p.site, KEPT, &r));
        for (int g = 0; g < 4; g++) {
            assert_int_equal(
                (grail_reducer_label(r, 2 * g) >= 0) + (grail_reducer_label(r, 2 * g + 1) >= 0), 1);
        }
    }
    grail_statistics_free(p.sums);
}

/* As of an expert that no row was routed to. */
TEST(without_rows_units_stay_by_their_weights)
{
    static const char *const names[] = {"obs", "wanda", "gram-css", "leverage"};
    plain p;
    grail_reducer *expected = NULL;
    plain_init(&p, NULL);
    assert_ok(grail_select("magnitude-l2", &p.site, KEPT, &expected));
    for (int i = 0; i < 4; i++) {
        OPENED(grail_reducer, r, grail_select(names[i], &p.site, KEPT, &r));
        for (int j = 0; j < N; j++) {
            assert_int_equal(grail_reducer_label(r, j), grail_reducer_label(expected, j));
        }
    }
    grail_reducer_free(expected);
    grail_statistics_free(p.sums);
}

/* Held-out rows count for a choice as the others do, whatever part they are in. */
TEST(both_parts_of_the_rows_count)
{
    static const char *const names[] = {"obs", "wanda", "flap", "slimgpt", "gram-css"};
    plain p;
    grail_statistics *fit = NULL;
    grail_statistics *held = NULL;
    plain_init(&p, x);
    assert_ok(grail_statistics_create(N, 0, &fit));
    assert_ok(grail_statistics_create(N, 0, &held));
    assert_ok(grail_statistics_accumulate(fit, 16, x, N, NULL, 0));
    assert_ok(grail_statistics_accumulate(held, ROWS - 16, x + 16 * N, N, NULL, 0));
    for (int i = 0; i < 5; i++) {
        grail_reducer *r[2] = {NULL, NULL};
        p.columns.fit = p.sums;
        p.columns.held = NULL;
        assert_ok(grail_select(names[i], &p.site, KEPT, &r[0]));
        p.columns.fit = fit;
        p.columns.held = held;
        assert_ok(grail_select(names[i], &p.site, KEPT, &r[1]));
        for (int j = 0; j < N; j++) {
            assert_int_equal(grail_reducer_label(r[0], j), grail_reducer_label(r[1], j));
        }
        grail_reducer_free(r[0]);
        grail_reducer_free(r[1]);
    }
    grail_statistics_free(fit);
    grail_statistics_free(held);
    grail_statistics_free(p.sums);
}

TEST(statistics_are_not_changed)
{
    double before[N * N];
    double after[N * N];
    plain p;
    plain_init(&p, x);
    assert_ok(grail_statistics_get(p.sums, &(const grail_sums){.gram = before}));
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        p.site.kind = kind_for(grail_selector_at(i));
        OPENED(grail_reducer, r, grail_select(grail_selector_at(i), &p.site, KEPT, &r));
    }
    assert_ok(grail_statistics_get(p.sums, &(const grail_sums){.gram = after}));
    assert_memory_equal(before, after, sizeof before);
    grail_statistics_free(p.sums);
}

/* -- hostile calls ----------------------------------------------------------------------------- */

static grail_status select_with(const plain *p, const char *name, int64_t kept)
{
    OWNED(grail_reducer) *r = NULL;
    const grail_status status = grail_select(name, &p->site, kept, &r);
    assert_true(status == GRAIL_OK || r == NULL);
    return status;
}

TEST(what_is_missing_is_named)
{
    plain p;
    plain_init(&p, x);
    p.columns.fit = NULL;
    assert_ok(select_with(&p, "magnitude-l1", KEPT));
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_ARGUMENT,
                 "'obs' needs statistics of the consumer's input");
    p.columns.fit = p.sums;
    p.columns.gradients = NULL;
    assert_fails(select_with(&p, "wanda++", KEPT), GRAIL_ERROR_ARGUMENT, "needs gradients");
    p.site.consumer_count = 0;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_ARGUMENT, "needs a consumer");
    p.site.producer_count = 0;
    assert_fails(select_with(&p, "fold", KEPT), GRAIL_ERROR_ARGUMENT, "it has none");
    assert_fails(select_with(&p, "magnitude-l2", KEPT), GRAIL_ERROR_ARGUMENT, "consumer 0");
    p.site.kind = "conv";
    assert_fails(select_with(&p, "magnitude-l2", KEPT), GRAIL_ERROR_ARGUMENT, "no producer");
    assert_ok(select_with(&p, "random", KEPT));
    p.site.producer_count = 1;
    p.site.input_norms = NULL;
    assert_fails(select_with(&p, "wanda", KEPT), GRAIL_ERROR_ARGUMENT, "needs the norms");
    p.site.kind = "experts";
    p.site.routed_rows = NULL;
    assert_fails(select_with(&p, "reap", KEPT), GRAIL_ERROR_ARGUMENT, "rows that were routed");
    grail_statistics_free(p.sums);
}

TEST(what_does_not_fit_is_refused)
{
    float nan[N * IN];
    plain p;
    grail_statistics *wide = NULL;
    plain_init(&p, x);
    static const int64_t counts[] = {0, -1, N + 1, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; grail_selector_at(k) != NULL; k++) {
            p.site.kind = kind_for(grail_selector_at(k));
            assert_fails(select_with(&p, grail_selector_at(k), counts[i]), GRAIL_ERROR_ARGUMENT,
                         "cannot keep");
        }
    }
    p.site.kind = "ffn";
    p.site.groups = 3;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_ARGUMENT, "in 3 groups");
    p.site.groups = 1;
    assert_fails(select_with(&p, "obss", KEPT), GRAIL_ERROR_ARGUMENT, "'obs'");
    p.site.kind = "neurons";
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_ARGUMENT, "unknown kind of site");
    p.site.kind = "conv";
    assert_fails(select_with(&p, "flap", KEPT), GRAIL_ERROR_UNSUPPORTED, "kind 'conv'");
    p.site.kind = "ffn";
    assert_fails(select_with(&p, "reap", KEPT), GRAIL_ERROR_UNSUPPORTED, "kind 'ffn'");
    assert_fails(select_with(&p, NULL, KEPT), GRAIL_ERROR_ARGUMENT, "no name");
    assert_fails(grail_select("obs", NULL, KEPT, &(grail_reducer *){NULL}), GRAIL_ERROR_ARGUMENT,
                 "no site");
    assert_fails(grail_select("obs", &p.site, KEPT, NULL), GRAIL_ERROR_ARGUMENT, "no place");
    assert_ok(grail_statistics_create(N + 1, 0, &wide));
    p.columns.fit = wide;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_SHAPE, "9 features, expected 8");
    p.columns.fit = p.sums;
    p.columns.held = wide;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_SHAPE, "held-out");
    p.columns.held = NULL;
    p.site.target = GRAIL_FIT_MIXED;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_ARGUMENT, "mixed target needs");
    p.site.target = GRAIL_FIT_USUAL;
    p.columns.outputs = 0;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_SHAPE, "consumer 0 of the site");
    p.columns.outputs = INT64_MAX / 2;
    assert_fails(select_with(&p, "obs", KEPT), GRAIL_ERROR_SHAPE, "consumer 0 of the site");
    p.columns.outputs = O;
    memcpy(nan, producer, sizeof nan);
    nan[7] = (float)NAN;
    p.rows.weight = nan;
    assert_fails(select_with(&p, "fold", KEPT), GRAIL_ERROR_NUMERIC, "element 7");
    p.rows.weight = producer;
    p.norms[2] = -1.0;
    p.site.kind = "conv";
    assert_fails(select_with(&p, "wanda", KEPT), GRAIL_ERROR_ARGUMENT, "norm of inputs is -1");
    p.norms[2] = 1.0;
    p.site.first_scored = 1;
    assert_fails(select_with(&p, "wanda", KEPT), GRAIL_ERROR_ARGUMENT, "from number 1 on of 1");
    p.site.first_scored = 0;
    p.rows.positions = 2;
    assert_fails(select_with(&p, "wanda", KEPT), GRAIL_ERROR_SHAPE, "5 columns of 2 positions");
    p.rows.positions = 1;
    p.site.kind = "heads";
    p.site.subunits = 2;
    assert_fails(select_with(&p, "fold", KEPT), GRAIL_ERROR_ARGUMENT, "producer");
    p.rows.exchangeable = 1;
    assert_fails(select_with(&p, "fold", KEPT), GRAIL_ERROR_SHAPE, "2 equal blocks");
    grail_statistics_free(wide);
    grail_statistics_free(p.sums);
}

TEST(reducers_check_their_arrays)
{
    float buffer[N * IN];
    OWNED(grail_reducer) *r = choose("magnitude-l1", "ffn", KEPT);
    memcpy(buffer, producer, sizeof buffer);
    assert_fails(grail_reducer_narrow_rows(r, 0, 1, IN, buffer, buffer + 1), GRAIL_ERROR_ARGUMENT,
                 "do not overlap");
    assert_fails(grail_reducer_narrow_rows(r, 0, 0, IN, producer, buffer), GRAIL_ERROR_ARGUMENT,
                 "0 features");
    assert_fails(grail_reducer_narrow_rows(r, 0, INT64_MAX / 2, IN, producer, buffer),
                 GRAIL_ERROR_ARGUMENT, "cannot narrow");
    assert_fails(grail_reducer_narrow_rows(NULL, 0, 1, IN, producer, buffer), GRAIL_ERROR_ARGUMENT,
                 "no reducer");
    assert_fails(grail_reducer_merge_columns(r, 0, 1, O, NULL, buffer), GRAIL_ERROR_ARGUMENT,
                 "two arrays");
    assert_ok(grail_reducer_merge_columns(r, 0, 1, 0, NULL, NULL));
    assert_int_equal(grail_reducer_label(r, -1), -1);
    assert_int_equal(grail_reducer_label(r, N), -1);
    assert_int_equal(grail_reducer_subunits(r), 1);
}

static grail_status select_all(void *context)
{
    static const char *const names[] = {"obs", "fold", "wanda", "slimgpt-paper", "random"};
    plain *p = context;
    double losses[N + 1];
    for (int i = 0; i < 5; i++) {
        OWNED(grail_reducer) *r = NULL;
        CHECK(grail_select(names[i], &p->site, KEPT, &r));
    }
    return grail_select_losses("obs", &p->site, losses);
}

TEST(every_failing_allocation_is_survived)
{
    plain p;
    plain_init(&p, x);
    support_fail_each_allocation(select_all, &p);
    grail_statistics_free(p.sums);
}

CMFixtureFunction support_setup = fill;
