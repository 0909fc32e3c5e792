/* Which channels of networks that read images are kept, against the scores written out. */
#include "vision_sites.h"

#include <math.h>
#include <string.h>

enum { MOST = 32 };

/* squares[width] of a value's columns */
static void column_squares(const vision_values *x, double *squares)
{
    assert_true(x->width <= MOST);
    memset(squares, 0, MOST * sizeof squares[0]);
    for (int64_t i = 0; i < x->rows * x->width; i++) {
        squares[i % x->width] += x->data[i] * x->data[i];
    }
}

/* Whether `kept` are the `count` units of highest score. */
static void assert_best_are_kept(const double *scores, int64_t units, const int64_t *kept,
                                 int count)
{
    assert_true(count > 0 && count < units);
    for (int64_t j = 0; j < units; j++) {
        int better = 0;
        bool found = false;
        for (int64_t i = 0; i < units; i++) {
            better += scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
        }
        for (int k = 0; k < count; k++) {
            found = found || kept[k] == j;
        }
        assert_int_equal(found, better < count);
    }
}

/* scores_j = sum_i a_i sum_taps |W[j, i, tap]| */
static void weighted_rows(const vision_tensor *w, const double *a, double *scores)
{
    const int64_t inputs = w->shape.shape[1];
    const int64_t taps = w->shape.rank == 4 ? w->shape.shape[2] * w->shape.shape[3] : 1;
    memset(scores, 0, MOST * sizeof scores[0]);
    for (int64_t i = 0; i < vision_elements(w); i++) {
        scores[i / (inputs * taps)] += fabs((double)w->values[i]) * a[i / taps % inputs];
    }
}

/* norms[MOST] of what a node reads in the dense network; of the `count` kept channels only, or of
 * all where kept is NULL. */
static void input_norms(const vision_lab *v, const char *model, const char *name,
                        const int64_t *kept, int count, double *norms)
{
    double squares[MOST];
    vision_values x = vision_tap_input(v, model, name);
    column_squares(&x, squares);
    for (int64_t i = 0; i < MOST; i++) {
        norms[i] = kept == NULL ? sqrt(squares[i]) : 0.0;
    }
    for (int k = 0; kept != NULL && k < count; k++) {
        norms[kept[k]] = sqrt(squares[kept[k]]);
    }
    memory_free(x.data);
}

static void cut_by_wanda(const vision_lab *v, const char *model, const char *output, bool open)
{
    grail_compress_options options = vision_options(v, model, vision_path(v, output));
    options.amount.sparsity_stream = 0.5;
    options.amount.sparsity_conv = 0.5;
    options.cut.selector = "wanda";
    options.fit.open_loop = open;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
}

/* The weights of the inner channels that read removed channels of the residual stream become so
 * large that they would reverse the order of the inner channels. */
static void write_misleading(const vision_lab *v, vision_model *m, const int64_t *kept, int count)
{
    vision_tensor *conv = vision_find(m, "layer1.0.conv1.weight");
    double scores[MOST];
    double ones[MOST];
    for (int i = 0; i < MOST; i++) {
        ones[i] = 1.0;
    }
    weighted_rows(conv, ones, scores);
    for (int64_t i = 0; i < vision_elements(conv); i++) {
        const int64_t channel = i / 9 % 8;
        bool removed = true;
        for (int k = 0; k < count; k++) {
            removed = removed && kept[k] != channel;
        }
        conv->values[i] *= removed ? (float)(1e4 / pow(scores[i / (8 * 9)], 3.0)) : 1.0F;
    }
    vision_write(m, vision_path(v, "misleading"));
}

/* The stem reads pixels; the block's first convolution reads the residual stream that the stem
 * makes, of which only the kept channels count. */
VISION_TEST(wanda_weighs_rows_by_the_input_that_is_left)
{
    static const char *const outputs[] = {"closed", "open"};
    OWNED(vision_model) m;
    double norms[MOST];
    double scores[MOST];
    int64_t stream[MOST];
    int64_t kept[MOST];
    vision_make(&m, VISION_BASIC);
    const char *model = vision_network(v, VISION_BASIC, "model");
    cut_by_wanda(v, model, "first", false);
    const int count = vision_kept_units(vision_path(v, "first"), "layer1.0.conv1", stream, MOST);
    input_norms(v, model, "conv1.weight", NULL, 0, norms);
    weighted_rows(vision_find(&m, "conv1.weight"), norms, scores);
    assert_best_are_kept(scores, 8, stream, count);
    write_misleading(v, &m, stream, count);
    model = vision_path(v, "misleading");
    for (int open = 0; open < 2; open++) {
        cut_by_wanda(v, model, outputs[open], open);
        input_norms(v, model, "layer1.0.conv1.weight", stream, count, norms);
        weighted_rows(vision_find(&m, "layer1.0.conv1.weight"), norms, scores);
        const int inner =
            vision_kept_units(vision_path(v, outputs[open]), "layer1.0.conv2", kept, MOST);
        assert_best_are_kept(scores, 6, kept, inner);
    }
}

/* The site before `consumer` is scored by the rows of `producer`, weighted by the dense norms of
 * its input, of which the site before `reader` (or nothing, NULL) has been cut. */
static void assert_scored_by_weighted(const vision_lab *v, vision_model *m, const char *model,
                                      const char *output, const char *consumer,
                                      const char *producer, const char *reader)
{
    double norms[MOST];
    double scores[MOST];
    int64_t before[MOST];
    int64_t kept[MOST];
    char weight[LAB_PATH];
    snprintf(weight, sizeof weight, "%s.weight", producer);
    const vision_tensor *w = vision_find(m, weight);
    const int left = reader == NULL ? 0 : vision_kept_units(output, reader, before, MOST);
    const int count = vision_kept_units(output, consumer, kept, MOST);
    input_norms(v, model, weight, reader == NULL ? NULL : before, left, norms);
    weighted_rows(w, norms, scores);
    assert_best_are_kept(scores, w->shape.shape[0], kept, count);
}

/* As the paper's code does it: in the dense network the last convolution of a stage's first block
 * has run. */
VISION_TEST(wanda_scores_the_branch_by_the_dense_network)
{
    OWNED(vision_model) m;
    const char *model = vision_network(v, VISION_BASIC, "model");
    vision_make(&m, VISION_BASIC);
    for (int open = 0; open < 2; open++) {
        grail_compress_options options =
            vision_options(v, model, vision_path(v, open ? "loop" : "select"));
        vision_cut(&options, 0.5);
        options.cut.selector = "wanda";
        options.cut.stream_score = "branch";
        options.fit.open_loop = open;
        options.cut.select = open ? NULL : "open";
        options.fit.compensate = "grail";
        assert_ok(lab_compress(&options));
        const char *output = options.output.path;
        assert_scored_by_weighted(v, &m, model, output, "layer1.0.conv1", "conv1", NULL);
        assert_scored_by_weighted(v, &m, model, output, "layer1.0.conv2", "layer1.0.conv1",
                                  "layer1.0.conv1");
        assert_scored_by_weighted(v, &m, model, output, "layer2.0.conv2", "layer2.0.conv1",
                                  "layer1.0.conv1");
        assert_scored_by_weighted(v, &m, model, output, "fc", "layer2.0.conv2", "layer2.0.conv2");
    }
}

/* scores_j += sum |W_j|^p */
static void add_rows(const vision_tensor *w, double power, double *scores)
{
    const int64_t width = vision_elements(w) / w->shape.shape[0];
    for (int64_t i = 0; i < vision_elements(w); i++) {
        scores[i / width] += pow(fabs((double)w->values[i]), power);
    }
}

VISION_TEST(a_stream_is_scored_by_its_first_producer_or_by_all)
{
    static const char *const producers[] = {"conv1.weight", "layer1.0.conv2.weight",
                                            "layer1.1.conv2.weight"};
    static const char *const selectors[] = {"magnitude-l1", "magnitude-l2"};
    OWNED(vision_model) m;
    int64_t kept[2][MOST];
    const char *model = vision_network(v, VISION_BASIC, "model");
    vision_make(&m, VISION_BASIC);
    for (int s = 0; s < 2; s++) {
        for (int all = 0; all < 2; all++) {
            double scores[MOST] = {0.0};
            char output[32];
            snprintf(output, sizeof output, "out-%d-%d", s, all);
            grail_compress_options options = vision_options(v, model, vision_path(v, output));
            options.amount.sparsity_stream = 0.5;
            options.cut.selector = selectors[s];
            options.cut.stream_score = all ? "all" : "first";
            options.fit.compensate = "none";
            assert_ok(lab_compress(&options));
            for (int p = 0; p < (all ? 3 : 1); p++) {
                add_rows(vision_find(&m, producers[p]), s + 1.0, scores);
            }
            const int count =
                vision_kept_units(options.output.path, "layer1.0.conv1", kept[all], MOST);
            assert_best_are_kept(scores, 8, kept[all], count);
        }
        assert_memory_not_equal(kept[0], kept[1], 4 * sizeof kept[0][0]);
    }
}

/* Kept units of a stream that this producer's rows score by magnitude-l1. */
static void assert_scored_by(const vision_lab *v, vision_model *m, const char *output,
                             const char *stream, const char *producer)
{
    double scores[MOST] = {0.0};
    int64_t kept[MOST];
    const vision_tensor *w = vision_find(m, producer);
    const int count = vision_kept_units(vision_path(v, output), stream, kept, MOST);
    add_rows(w, 1.0, scores);
    assert_best_are_kept(scores, (int)w->shape.shape[0], kept, count);
}

VISION_TEST(the_branch_scores_where_a_projection_begins_a_stream)
{
    static const char *const outputs[] = {"first", "branch"};
    static const char *const producers[] = {"layer2.0.downsample.0.weight",
                                            "layer2.0.conv2.weight"};
    OWNED(vision_model) m;
    const char *model = vision_network(v, VISION_BASIC, "model");
    vision_make(&m, VISION_BASIC);
    for (int i = 0; i < 2; i++) {
        grail_compress_options options = vision_options(v, model, vision_path(v, outputs[i]));
        options.amount.sparsity_stream = 0.5;
        options.cut.selector = "magnitude-l1";
        options.cut.stream_score = outputs[i];
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        assert_scored_by(v, &m, outputs[i], "layer1.0.conv1", "conv1.weight");
        assert_scored_by(v, &m, outputs[i], "fc", producers[i]);
    }
    assert_false(same_tensor(vision_path(v, "first"), vision_path(v, "branch"), "fc.weight"));
}

VISION_TEST(neurons_are_scored_by_rows_or_by_what_the_consumer_makes_of_them)
{
    OWNED(vision_model) m;
    double squares[MOST];
    double scores[MOST] = {0.0};
    int64_t kept[MOST];
    const char *model = vision_network(v, VISION_HUGGING_FACE_VIT, "model");
    vision_make(&m, VISION_HUGGING_FACE_VIT);
    grail_compress_options options = vision_options(v, model, vision_path(v, "l1"));
    options.amount.sparsity_ffn = 0.5;
    options.cut.selector = "magnitude-l1";
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    add_rows(vision_find(&m, "vit.encoder.layer.1.intermediate.dense.weight"), 1.0, scores);
    int count =
        vision_kept_units(options.output.path, "vit.encoder.layer.1.output.dense", kept, MOST);
    assert_best_are_kept(scores, 20, kept, count);
    options.output.path = vision_path(v, "wanda");
    options.cut.selector = "wanda";
    assert_ok(lab_compress(&options));
    const vision_tensor *down = vision_find(&m, "vit.encoder.layer.0.output.dense.weight");
    vision_values x = vision_tap_input(v, model, down->shape.name);
    column_squares(&x, squares);
    memset(scores, 0, sizeof scores);
    for (int64_t i = 0; i < vision_elements(down); i++) {
        scores[i % x.width] += fabs((double)down->values[i]) * sqrt(squares[i % x.width]);
    }
    memory_free(x.data);
    count = vision_kept_units(options.output.path, "vit.encoder.layer.0.output.dense", kept, MOST);
    assert_best_are_kept(scores, 20, kept, count);
}

/* One draw per stage, others at other sites, and others for another seed. */
VISION_TEST(random_channels_are_drawn_for_every_site)
{
    int64_t kept[3][MOST];
    const char *model = vision_network(v, VISION_BASIC, "model");
    for (int seed = 0; seed < 2; seed++) {
        grail_compress_options options =
            vision_options(v, model, vision_path(v, seed == 0 ? "zero" : "one"));
        vision_cut(&options, 0.5);
        options.cut.selector = "random";
        options.read.seed = (uint64_t)seed;
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        assert_int_equal(vision_kept_units(options.output.path, "layer1.0.conv1", kept[seed], MOST),
                         4);
    }
    assert_memory_not_equal(kept[0], kept[1], 4 * sizeof kept[0][0]);
    assert_int_equal(vision_kept_units(vision_path(v, "zero"), "layer1.0.conv2", kept[0], MOST), 3);
    assert_int_equal(vision_kept_units(vision_path(v, "zero"), "layer1.1.conv2", kept[1], MOST), 3);
    assert_memory_not_equal(kept[0], kept[1], 3 * sizeof kept[0][0]);
}
