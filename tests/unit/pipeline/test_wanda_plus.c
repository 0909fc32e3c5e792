/* wanda++ on complete networks: regional gradients against finite differences, and unit scores
 * against torch (tests/golden/make_wanda_plus_golden.py). */
#include "vision_lab.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "pipeline/compression.h"
#include "pipeline/network/regional.h"
#include "pipeline/network/walk.h"
#include "reduce/scores.h"
#include "stats/row_squares.h"

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
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    options.amount.sparsity_ffn = 0.0;
    options.amount.sparsity_heads = 0.0;
    options.amount.site_sparsities = &alone;
    options.amount.site_sparsity_count = 1;
    options.run.backend = backend_name;
    memset(&seen, 0, sizeof seen);
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    for (int i = 0; i < c->request->plan.count; i++) {
        c->request->plan.sites[i].selector = &telling;
    }
    assert_ok(grail_compression_run(c));
    assert_int_equal(seen.decided, 1);
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

LAB_TEST(scores_are_those_of_torch)
{
    static const double tolerance = 1e-4;
    char name[NAME_SIZE];
    double expected[MOST_UNITS];
    int units = 0;
    int sites = 0;
    write_golden_ids(l);
    FILE *file = fopen(GRAIL_SOURCE_DIR "/tests/golden/wanda_plus/llama3.txt", "r");
    assert_non_null(file);
    for (; read_line(file, name, &units, expected); sites++) {
        for (int b = 0; b < 2; b++) {
            decide_alone(l, backends[b], name);
            for (int j = 0; j < units; j++) {
                assert_true(relative(seen.scores[j], expected[j]) < tolerance);
                /* what is tested is not lost beside the norms */
                assert_true(seen.gradient_part[j] > 100.0 * tolerance * expected[j]);
            }
        }
    }
    assert_int_equal(sites, 4);
    fclose(file);
}

/* Measures the gradients of a block before which the sample stream waits. */
static grail_status measure(grail_compression *c, int block)
{
    return regional_gradients_measure(&c->request->cut, &c->network->passes, block,
                                      &c->network->regional);
}

static grail_status init_training(grail_compression *c, int block, regional_training *t)
{
    return regional_training_init(&c->request->cut, &c->network->passes, block,
                                  &c->network->regional, t);
}

/* -- gradients --------------------------------------------------------------------------------- */

/* A compression whose sample stream waits before a block that is still dense. */
static grail_compression *wait_before(const lab *l, const char *model, int block)
{
    grail_compression *c = NULL;
    grail_compress_options options = lab_options(l, model, NULL);
    options.cut.selector = "wanda++";
    options.fit.compensate = "none";
    options.run.backend = "ref";
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

static double square_of(matrix y)
{
    double square = 0.0;
    OWNED(matrix) of_row = {0};
    assert_ok(row_squares_make(matrix_reshape(y, 1, matrix_count(y)), 1, &of_row));
    assert_ok(matrix_download(of_row, &square));
    return square;
}

/* ||Y_n||_F of the block as it is. */
static double norm_behind(const calibration_network *n, const region *r, int64_t sample)
{
    execution *e = n->current.execution;
    assert_int_equal(r->output_count, 1);
    assert_ok(region_place(r, sample, e));
    assert_ok(execution_run(e, n->current.parameters, r->begin, r->end));
    return sqrt(square_of(execution_value(e, r->outputs[0])));
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
    const float *gradients = regional_gradients_of(&n->regional, parameter);
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

/* They are those of the second block, behind a narrowed one. */
LAB_TEST(gradients_are_those_of_finite_differences)
{
    enum { BLOCK = 1 };
    region r;
    int consumers = 0;
    OWNED(grail_compression) *c = wait_before(l, lab_golden("llama3"), BLOCK);
    calibration_network *n = c->network;
    const graph *g = c->request->graph;
    assert_ok(region_init(&c->request->cut, &n->passes, BLOCK, &r));
    assert_int_equal(r.sample_count, LAB_SAMPLES);
    assert_ok(measure(c, BLOCK));
    for (int p = 0; p < g->parameter_count; p++) {
        if (regional_gradients_of(&n->regional, p) != NULL) {
            assert_differences(n, &r, p);
            consumers++;
        }
    }
    assert_int_equal(consumers, 2);
    regional_gradients_fini(&n->regional);
    assert_null(regional_gradients_of(&n->regional, 0));
    region_fini(&r);
}

/* -- regional optimisation --------------------------------------------------------------------- */

enum { ROUNDS = 5 };

static const double rate = 3e-7;

/* A block that is to be trained, with its gradients measured. */
static grail_compression *open_training(const lab *l, int block, regional_training *t)
{
    grail_compression *c = wait_before(l, lab_golden("llama3"), block);
    assert_ok(measure(c, block));
    assert_ok(init_training(c, block, t));
    return c;
}

static void close_training(grail_compression *c, regional_training *t)
{
    regional_training_fini(t);
    grail_compression_close(c);
}

/* Mean over all samples of ||Y - T||_F^2: Y of the trained block, T of the network's. */
static double loss_of(const regional_training *t)
{
    const region *r = &t->region;
    execution *current = r->passes->current->execution;
    matrix difference = {0};
    double sum = 0.0;
    assert_int_equal(r->output_count, 1);
    for (int64_t i = 0; i < r->sample_count; i++) {
        assert_ok(region_place(r, r->samples[i], current));
        assert_ok(execution_run(current, r->passes->current->parameters, r->begin, r->end));
        assert_ok(region_place(r, r->samples[i], tape_execution(t->tape)));
        assert_ok(tape_forward(t->tape, t->trained, t->gradients, false, r->begin, r->end));
        const matrix y = execution_value(tape_execution(t->tape), r->outputs[0]);
        assert_ok(matrix_new(y.owner, y.type, y.rows, y.columns, &difference));
        assert_ok(matrix_subtract(y, execution_value(current, r->outputs[0]), difference));
        sum += square_of(difference);
        matrix_free(&difference);
    }
    return sum / (double)r->sample_count;
}

/* The columns of removed units, and no others, are zero. */
static void assert_silent(const regional_training *t, int index)
{
    const cutting *cut = t->region.cut;
    const site *s = cut_site(cut, index);
    const grail_reducer *r = t->decided[index];
    const matrix w = t->trained->entries[cut->graph->nodes[s->consumers[0].node].weight].values;
    const int64_t u = s->consumers[0].features_per_unit;
    OWNED(host_view) v = {0};
    assert_ok(host_view_open(w, GRAIL_DTYPE_F64, HOST_READS, &v));
    const double *values = v.values;
    for (int64_t i = 0; i < matrix_count(w); i++) {
        assert_int_equal(values[i] == 0.0, r->labels[i % w.columns / u] < 0);
    }
}

LAB_TEST(every_round_lowers_the_loss)
{
    regional_training t;
    int sites = 0;
    grail_compression *c = open_training(l, 1, &t);
    assert_true(loss_of(&t) == 0.0);
    assert_ok(regional_training_decide(&t));
    for (int i = 0; i < c->request->plan.count; i++) {
        if (t.decided[i] != NULL) {
            assert_silent(&t, i);
            sites++;
        }
    }
    assert_int_equal(sites, 2);
    double loss = loss_of(&t);
    assert_true(loss > 0.0);
    for (int round = 0; round < ROUNDS; round++) {
        assert_ok(regional_training_round(&t, round));
        const double less = loss_of(&t);
        assert_true(less < loss);
        loss = less;
        assert_ok(regional_training_decide(&t));
    }
    close_training(c, &t);
}

/* The gradient of one element by differences of the loss. */
static double slope_of_loss(const regional_training *t, matrix weight, int64_t element)
{
    static const double h = 1e-5;
    move(weight, element, h);
    const double above = loss_of(t);
    move(weight, element, -2.0 * h);
    const double below = loss_of(t);
    move(weight, element, h);
    return (above - below) / (2.0 * h);
}

static double element_of(matrix m, int64_t element)
{
    OWNED(host_view) v = {0};
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_READS, &v));
    return ((const double *)v.values)[element];
}

/* With one sample a round is one step. The moments are 0.01 g^2, then 0.0199 g^2, as g hardly
 * changes. */
LAB_TEST(steps_are_those_of_rmsprop)
{
    int32_t ids[LAB_LENGTH];
    regional_training t;
    int tried = 0;
    for (int i = 0; i < LAB_LENGTH; i++) {
        ids[i] = (5 * i * i + i + 3) % VOCABULARY;
    }
    lab_write_ids(l, "ids.npy", 1, LAB_LENGTH, ids);
    grail_compression *c = open_training(l, 0, &t);
    assert_int_equal(t.region.sample_count, 1);
    assert_ok(regional_training_decide(&t));
    const int count = c->request->graph->parameter_count;
    double *slopes = NULL;
    double *before = NULL;
    assert_ok(memory_new(&slopes, (size_t)count, sizeof slopes[0]));
    assert_ok(memory_new(&before, (size_t)count, sizeof before[0]));
    for (int p = 0; p < count; p++) {
        const matrix w = t.trained->entries[p].values;
        if (matrix_exists(t.moments[p])) {
            slopes[p] = slope_of_loss(&t, w, matrix_count(w) / 2);
            before[p] = element_of(w, matrix_count(w) / 2);
        }
    }
    assert_ok(regional_training_round(&t, 0));
    assert_ok(regional_training_round(&t, 1));
    for (int p = 0; p < count; p++) {
        const matrix w = t.trained->entries[p].values;
        if (matrix_exists(t.moments[p])) {
            const double moved = element_of(w, matrix_count(w) / 2) - before[p];
            const double size = fabs(slopes[p]);
            const double steps =
                slopes[p] / (0.1 * size + 1e-8) + slopes[p] / (sqrt(0.0199) * size + 1e-8);
            assert_true(size > 1e-5);
            assert_near(moved, -rate * steps, 0.1 * rate);
            tried++;
        }
    }
    assert_int_equal(tried, 9); /* seven matrices and two norms */
    memory_free(slopes);
    memory_free(before);
    close_training(c, &t);
}

static json_t *kept_units(const char *output, size_t index)
{
    json_t *report = read_json(output, "report.json");
    json_t *entry = json_array_get(json_object_get(report, "sites"), index);
    json_t *units = json_incref(json_object_get(entry, "kept_units"));
    json_decref(report);
    assert_true(json_is_array(units));
    return units;
}

/* Both keep the same units of the first block, which has the same input for both; the weights
 * differ by no more than all steps together. */
LAB_TEST(own_keeps_the_trained_weights)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "none"));
    options.cut.selector = "wanda++";
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "own");
    options.fit.compensate = "own";
    options.fit.refit = options.fit.token_weights = NULL; /* nothing is fitted */
    assert_ok(lab_compress(&options));
    for (size_t i = 0; i < 2; i++) {
        OWNED(json_t) *plain = kept_units(lab_path(l, "none"), i);
        OWNED(json_t) *trained = kept_units(lab_path(l, "own"), i);
        assert_true(json_equal(plain, trained));
    }
    static const char *const moved[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                        "mlp.down_proj",    "input_layernorm"};
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "model.layers.0.%s.weight", moved[i]);
        assert_false(same_tensor(lab_path(l, "none"), lab_path(l, "own"), name));
    }
    assert_true(same_tensor(lab_path(l, "none"), lab_path(l, "own"), "lm_head.weight"));
    OWNED(lab_model) a;
    OWNED(lab_model) b;
    lab_read(&a, lab_path(l, "none"));
    lab_read(&b, lab_path(l, "own"));
    const lab_tensor *left = lab_find(&a, 0, "self_attn.o_proj.weight");
    const lab_tensor *right = lab_find(&b, 0, "self_attn.o_proj.weight");
    for (int64_t i = 0; i < lab_elements(left); i++) {
        const double by = fabs((double)left->values[i] - (double)right->values[i]);
        assert_true(by < ROUNDS * LAB_SAMPLES * 10.0 * rate);
    }
}

/* The training is most of what such a run takes, so a run that forgot it would tell less than half.
 */
LAB_TEST(seconds_tell_of_the_training)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    options.cut.selector = "wanda++";
    options.fit.compensate = "own";
    options.fit.refit = options.fit.token_weights = NULL;
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    const double begun = clock_seconds();
    assert_ok(grail_compression_run(c));
    const double elapsed = clock_seconds() - begun;
    const grail_compression_totals told = grail_compression_totals_get(c);
    assert_true(told.compensate_seconds > told.calibrate_seconds);
    assert_true(told.compensate_seconds + told.calibrate_seconds > elapsed / 2.0);
    assert_true(told.compensate_seconds + told.calibrate_seconds <= elapsed);
}

VISION_TEST(towers_are_trained_too)
{
    const char *model = vision_network(v, VISION_TIMM_VIT, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "none"));
    vision_cut(&options, 0.5);
    options.cut.selector = "wanda++";
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    options.output.path = vision_path(v, "own");
    options.fit.compensate = "own";
    options.fit.refit = options.fit.token_weights = NULL; /* nothing is fitted */
    assert_ok(lab_compress(&options));
    assert_false(
        same_tensor(vision_path(v, "none"), options.output.path, "blocks.0.attn.qkv.weight"));
}

static grail_status measure_once(void *context)
{
    grail_compression *c = context;
    return measure(c, 0);
}

static grail_status train_once(void *context)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = context;
    regional_training t = {0};
    TRY(init_training(c, 0, &t));
    TRY(regional_training_decide(&t));
    TRY(regional_training_round(&t, 0));
out:
    regional_training_fini(&t);
    return status;
}

LAB_TEST(every_failing_allocation_is_survived)
{
    int32_t ids[LAB_LENGTH] = {0};
    lab_write_ids(l, "ids.npy", 1, LAB_LENGTH, ids);
    OWNED(grail_compression) *c = wait_before(l, lab_golden("llama3"), 0);
    support_fail_each_allocation(measure_once, c);
    assert_ok(measure(c, 0));
    support_fail_each_allocation(train_once, c);
}

/* -- refusals ---------------------------------------------------------------------------------- */

LAB_TEST(an_open_loop_has_no_gradients)
{
    grail_compression *c = NULL;
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    options.cut.selector = "wanda++";
    options.fit.open_loop = 1;
    assert_fails(grail_compression_open(&options, &c), GRAIL_ERROR_UNSUPPORTED,
                 "site 'model.layers.0.self_attn.o_proj': selector 'wanda++' needs the gradients "
                 "of the network as narrowed so far, which an open loop does not run; use a closed "
                 "loop");
}

LAB_TEST(training_goes_with_gradients_and_without_a_fit)
{
    grail_compression *c = NULL;
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    options.amount.plan_text = "{\"grail_plan\": 1, \"compensation\": {\"enabled\": true, "
                               "\"regional_training\": true}, \"sites\": [{\"site\": "
                               "\"model.layers.0.mlp.down_proj\", \"selector\": \"wanda++\", "
                               "\"kept\": 40}]}";
    assert_fails(grail_compression_open(&options, &c), GRAIL_ERROR_ARGUMENT,
                 "regional training leaves the weights as it has trained them, so they cannot be "
                 "fitted too; set \"enabled\" or \"regional_training\" to false");
    options.amount.plan_text = "{\"grail_plan\": 1, \"compensation\": {\"enabled\": false, "
                               "\"regional_training\": true}, \"sites\": [{\"site\": "
                               "\"model.layers.0.mlp.down_proj\", \"selector\": \"wanda\", "
                               "\"kept\": 40}]}";
    assert_fails(grail_compression_open(&options, &c), GRAIL_ERROR_ARGUMENT,
                 "site 'model.layers.0.mlp.down_proj': regional training goes with a selector that "
                 "scores units by regional gradients, wanda++, but this site has 'wanda'");
}
