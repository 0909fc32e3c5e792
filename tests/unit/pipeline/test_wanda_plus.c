/* wanda++ on complete networks: regional gradients against finite differences, and unit scores
 * against torch (tests/golden/make_wanda_plus_golden.py). */
#include "lab.h"

#include "backend/operations.h"
#include "pipeline/compression.h"
#include "pipeline/network/regional.h"
#include "pipeline/network/walk.h"
#include "reduce/scores.h"
#include "reduce/wanda_plus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_UNITS = 96, NAME_SIZE = 64, VOCABULARY = 96 };

static const char *const backends[] = {"ref", "cpu"};

static double relative(double found, double expected)
{
    return fabs(found - expected) / fabs(expected);
}

/* -- scores ------------------------------------------------------------------------------------ */

/* What the last decision saw. */
static struct {
    double scores[MOST_UNITS];
    double gradient_part[MOST_UNITS]; /* without the norms */
    int decided;
} seen;

static unsigned needs_all(const site *s)
{
    (void)s;
    return NEEDS_DIAGONAL | NEEDS_GRADIENTS;
}

static grail_status keep_and_tell(const site_view *v, grail_reducer **out)
{
    const int64_t width = v->inputs[0].width;
    double *zeros = NULL;
    input_statistics silent = v->inputs[0];
    site_view without = *v;
    assert_true(v->site->units <= MOST_UNITS);
    assert_ok(memory_new(&zeros, (size_t)width, sizeof zeros[0]));
    silent.diagonal = zeros;
    without.inputs = &silent;
    assert_ok(wanda_plus_scores(v, seen.scores));
    assert_ok(wanda_plus_scores(&without, seen.gradient_part));
    memory_free(zeros);
    seen.decided++;
    return select_best(v->site->units, v->kept, v->site->groups, seen.scores, out);
}

static const selector telling = {.name = "telling",
                                 .summary = "",
                                 .uses_data = true,
                                 .needs = needs_all,
                                 .decide = keep_and_tell};

/* Runs with one site cut, decided by `telling`. */
static void decide_alone(const lab *l, const char *backend_name, const char *name)
{
    const grail_site_sparsity alone = {.site = name, .sparsity = 0.5};
    grail_compression *c = NULL;
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    options.sparsity_ffn = 0.0;
    options.sparsity_heads = 0.0;
    options.site_sparsities = &alone;
    options.site_sparsity_count = 1;
    options.backend = backend_name;
    memset(&seen, 0, sizeof seen);
    assert_ok(grail_compression_open(&options, &c));
    for (int i = 0; i < c->request->plan.count; i++) {
        c->request->plan.sites[i].selector = &telling;
    }
    assert_ok(grail_compression_run(c));
    assert_int_equal(seen.decided, 1);
    grail_compression_close(c);
}

/* The ids of the golden scores. */
static void write_golden_ids(const lab *l)
{
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
        ids[i] = (7 * i * i + 3 * i + 5) % VOCABULARY;
    }
    lab_write_ids(l, "ids.npy", LAB_SAMPLES, LAB_LENGTH, ids);
}

/* Reads one line of the golden file: a site and its scores. */
static bool read_line(FILE *file, char name[NAME_SIZE], int *units, double *scores)
{
    if (fscanf(file, "%63s %d", name, units) != 2) {
        return false;
    }
    assert_true(*units <= MOST_UNITS);
    for (int j = 0; j < *units; j++) {
        assert_int_equal(fscanf(file, "%lf", &scores[j]), 1);
    }
    return true;
}

static void scores_are_those_of_torch(void **state)
{
    (void)state;
    static const double tolerance = 1e-4;
    char name[NAME_SIZE];
    double expected[MOST_UNITS];
    int units = 0;
    int sites = 0;
    lab l;
    lab_open(&l);
    write_golden_ids(&l);
    FILE *file = fopen(GRAIL_SOURCE_DIR "/tests/golden/wanda_plus/llama3.txt", "r");
    assert_non_null(file);
    for (; read_line(file, name, &units, expected); sites++) {
        for (int b = 0; b < 2; b++) {
            decide_alone(&l, backends[b], name);
            for (int j = 0; j < units; j++) {
                assert_true(relative(seen.scores[j], expected[j]) < tolerance);
                /* what is tested is not lost beside the norms */
                assert_true(seen.gradient_part[j] > 100.0 * tolerance * expected[j]);
            }
        }
    }
    assert_int_equal(sites, 4);
    fclose(file);
    lab_close(&l);
}

/* -- gradients --------------------------------------------------------------------------------- */

/* A compression whose sample stream waits before a block that is still dense. */
static grail_compression *wait_before(const lab *l, const char *model, int block)
{
    grail_compression *c = NULL;
    grail_compress_options options = lab_options(l, model, NULL);
    options.selector = "wanda++";
    options.compensate = "none";
    options.backend = "ref";
    assert_ok(grail_compression_open(&options, &c));
    for (int b = GRAPH_NONE; b < block; b++) {
        assert_ok(compress_block(c->network, b, NULL));
    }
    return c;
}

/* Moves one element of a weight. */
static void move(matrix weight, int64_t element, double by)
{
    host_view v = {0};
    assert_ok(host_view_open(weight, GRAIL_DTYPE_F64, HOST_UPDATES, &v));
    ((double *)v.values)[element] += by;
    assert_ok(host_view_close(&v));
}

/* ||Y_n||_F of the block as it is. */
static double norm_behind(const calibration_network *n, const region *r, int64_t sample)
{
    execution *e = n->current.execution;
    host_view v = {0};
    double sum = 0.0;
    assert_int_equal(r->output_count, 1);
    assert_ok(region_place(n, sample, e));
    assert_ok(execution_run(e, n->current.parameters, r->begin, r->end));
    const matrix y = execution_value(e, r->outputs[0]);
    assert_ok(host_view_open(y, GRAIL_DTYPE_F64, HOST_READS, &v));
    for (int64_t i = 0; i < matrix_count(y); i++) {
        sum += ((const double *)v.values)[i] * ((const double *)v.values)[i];
    }
    host_view_drop(&v);
    return sqrt(sum);
}

/* The root mean square over the samples of (L(w + h) - L(w - h)) / 2h. */
static double difference(const calibration_network *n, const region *r, matrix weight,
                         int64_t element)
{
    static const double step = 1e-5;
    double sum = 0.0;
    for (int64_t i = 0; i < r->sample_count; i++) {
        move(weight, element, step);
        const double above = norm_behind(n, r, r->samples[i]);
        move(weight, element, -2.0 * step);
        const double below = norm_behind(n, r, r->samples[i]);
        move(weight, element, step);
        sum += pow((above - below) / (2.0 * step), 2.0);
    }
    return sqrt(sum / (double)r->sample_count);
}

static void assert_differences(const calibration_network *n, const region *r, int parameter)
{
    enum { TRIED = 7 };
    const parameter_entry *entry = NULL;
    const float *gradients = regional_gradients_of(n, parameter);
    assert_non_null(gradients);
    assert_ok(parameter_store_get(n->current.parameters, parameter, &entry));
    const int64_t count = matrix_count(entry->values);
    for (int64_t i = 0; i < TRIED; i++) {
        const int64_t element = (i * count / TRIED + 13 * i) % count;
        const double expected = difference(n, r, entry->values, element);
        assert_true(expected > 0.0);
        assert_true(relative((double)gradients[element], expected) < 1e-5);
    }
}

/* Of the second block, behind a narrowed one. */
static void gradients_are_those_of_finite_differences(void **state)
{
    (void)state;
    enum { BLOCK = 1 };
    lab l;
    region r;
    int consumers = 0;
    lab_open(&l);
    grail_compression *c = wait_before(&l, lab_golden("llama3"), BLOCK);
    calibration_network *n = c->network;
    const graph *g = c->request->graph;
    assert_ok(region_init(c->request, BLOCK, &r));
    assert_int_equal(r.sample_count, LAB_SAMPLES);
    assert_ok(regional_gradients_measure(n, BLOCK));
    for (int p = 0; p < g->parameter_count; p++) {
        if (regional_gradients_of(n, p) != NULL) {
            assert_differences(n, &r, p);
            consumers++;
        }
    }
    assert_int_equal(consumers, 2);
    regional_gradients_fini(&n->regional);
    assert_null(regional_gradients_of(n, 0));
    region_fini(&r);
    grail_compression_close(c);
    lab_close(&l);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void an_open_loop_has_no_gradients(void **state)
{
    (void)state;
    grail_compression *c = NULL;
    lab l;
    lab_open(&l);
    grail_compress_options options = lab_options(&l, lab_golden("llama3"), NULL);
    options.selector = "wanda++";
    options.open_loop = 1;
    assert_fails(grail_compression_open(&options, &c), GRAIL_ERROR_UNSUPPORTED,
                 "site 'model.layers.0.self_attn.o_proj': selector 'wanda++' needs the gradients "
                 "of the network as narrowed so far, which an open loop does not run; use --loop "
                 "closed");
    lab_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_torch),
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(an_open_loop_has_no_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
