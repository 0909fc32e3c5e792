/* What selectors may need: rules that are made up here and put into a plan get what they declare,
 * no more, at sites of every kind. */
#include "vision_lab.h"

#include "pipeline/compression.h"
#include "reduce/scores.h"

#include <math.h>
#include <string.h>

enum { MOST_SITES = 64, MOST_UNITS = 512, MOST_CONSUMERS = 8 };

/* What the rule is to need, and what it saw, by the number of the site. */
static struct {
    unsigned needs;
    int decided;
    int inputs[MOST_SITES];
    double diagonals[MOST_SITES][MOST_CONSUMERS]; /* of feature 0 of each consumer's input */
} seen;

static unsigned declared(const site *s)
{
    return seen.needs;
}

static void check_input(const site_view *v, const input_statistics *in)
{
    assert_int_equal(in->diagonal != NULL, (seen.needs & NEEDS_DIAGONAL) != 0);
    assert_int_equal(matrix_exists(in->gram), (seen.needs & NEEDS_GRAM) != 0);
    assert_int_equal(in->means != NULL, (seen.needs & NEEDS_MEANS) != 0);
    assert_int_equal(in->width % v->site->units, 0);
    assert_true(in->weight > 0.0);
    host_view gram = {0};
    if (matrix_exists(in->gram)) {
        assert_ok(host_view_open(in->gram, GRAIL_DTYPE_F64, HOST_READS, &gram));
    }
    const double *sums = gram.values;
    for (int64_t i = 0; i < in->width; i++) {
        if (sums != NULL && in->diagonal != NULL) {
            assert_near(sums[i * in->width + i], in->diagonal[i], 0.0);
        }
        if (in->means != NULL && in->diagonal != NULL) { /* the mean's square is at most this */
            const double mean_square = in->diagonal[i] / in->weight;
            assert_true(in->means[i] * in->means[i] <= mean_square * (1.0 + 1e-9));
        }
    }
    host_view_drop(&gram);
}

/* Keeps the units of the largest activations, or the first ones where none are known. */
static grail_status keep_largest(const site_view *v, grail_reducer **out)
{
    double scores[MOST_UNITS];
    const int64_t units = v->site->units;
    const double *diagonal = v->input_count > 0 ? v->inputs[0].diagonal : NULL;
    assert_true(units <= MOST_UNITS && v->stream < MOST_SITES);
    assert_int_equal(v->input_norms != NULL, (seen.needs & NEEDS_INPUT_NORMS) != 0);
    assert_true(v->input_count <= MOST_CONSUMERS);
    for (int k = 0; k < v->input_count; k++) {
        const double *one = v->inputs[k].diagonal;
        check_input(v, &v->inputs[k]);
        seen.diagonals[v->stream][k] = one == NULL ? 0.0 : one[0];
    }
    for (int64_t j = 0; j < units; j++) {
        scores[j] = diagonal == NULL ? -(double)j : diagonal[j * v->inputs[0].width / units];
    }
    seen.inputs[v->stream] = v->input_count;
    seen.decided++;
    return select_best(units, v->kept, v->site->groups, scores, out);
}

static const selector made_up = {
    .name = "made-up", .summary = "", .uses_data = true, .needs = declared, .decide = keep_largest};

static int inputs_expected(const site *s, unsigned needs)
{
    if ((needs & NEEDS_ALL_CONSUMERS) != 0) {
        return s->consumer_count;
    }
    return (needs & NEEDS_OF_CONSUMERS) != 0 ? 1 : 0;
}

/* Runs with the made-up rule in place of the plan's selectors. */
static void run_with(const grail_compress_options *options, unsigned needs)
{
    int cut = 0;
    memset(&seen, 0, sizeof seen);
    seen.needs = needs;
    OPENED(grail_compression, c, grail_compression_open(options, &c));
    for (int i = 0; i < c->request->plan.count; i++) {
        c->request->plan.sites[i].selector = &made_up;
    }
    assert_ok(grail_compression_run(c));
    for (int i = 0; i < c->request->plan.count; i++) {
        if (site_is_cut(&c->request->plan, i)) {
            assert_int_equal(seen.inputs[i], inputs_expected(site_at(c->request, i), needs));
            cut++;
        }
    }
    assert_true(cut > 2);
    assert_int_equal(seen.decided, cut);
}

static const unsigned sets[] = {
    0,
    NEEDS_INPUT_NORMS,
    NEEDS_DIAGONAL,
    NEEDS_DIAGONAL | NEEDS_GRAM | NEEDS_MEANS,
    NEEDS_DIAGONAL | NEEDS_MEANS | NEEDS_ALL_CONSUMERS,
    NEEDS_INPUT_NORMS | NEEDS_GRAM | NEEDS_ALL_CONSUMERS,
};
enum { SETS = sizeof sets / sizeof sets[0] };

LAB_TEST(heads_and_gated_neurons_get_what_is_declared)
{
    for (int i = 0; i < 3 * SETS; i++) {
        grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
        options.fit.open_loop = i % 3 == 1;
        options.cut.select = i % 3 == 2 ? "open" : NULL;
        run_with(&options, sets[i / 3]);
    }
}

VISION_TEST(channels_streams_and_plain_neurons_get_what_is_declared)
{
    static const vision_family families[] = {VISION_BASIC, VISION_TIMM_VIT};
    for (int f = 0; f < 2; f++) {
        const char *model = vision_network(v, families[f], vision_family_name(families[f]));
        for (int i = 0; i < 3 * SETS; i++) {
            grail_compress_options options = vision_options(v, model, NULL);
            vision_cut(&options, 0.5);
            options.fit.open_loop = i % 3 == 1;
            options.cut.select = i % 3 == 2 ? "open" : NULL;
            run_with(&options, sets[i / 3]);
        }
    }
}

/* Before the first cut the narrowed network is the dense one, so both say the same of its site. */
LAB_TEST(dense_statistics_are_those_before_the_first_cut)
{
    const grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    run_with(&options, NEEDS_DIAGONAL);
    const double first = seen.diagonals[0][0];
    const double last = seen.diagonals[3][0];
    run_with(&options, NEEDS_DIAGONAL | NEEDS_ALL_CONSUMERS);
    assert_true(first > 0.0 && last > 0.0);
    assert_near(seen.diagonals[0][0], first, 1e-9 * first);
    assert_true(fabs(seen.diagonals[3][0] - last) > 1e-9 * last);
}

/* The projection that begins the next stage included. */
VISION_TEST(a_stream_is_seen_by_all_its_readers_in_the_dense_network)
{
    static const char *const readers[] = {"layer1.0.conv1.weight", "layer1.1.conv1.weight",
                                          "layer2.0.conv1.weight", "layer2.0.downsample.0.weight"};
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, NULL);
    vision_cut(&options, 0.5);
    options.fit.compensate = "none";   /* one feature for all taps of a channel */
    options.cut.selector = "leverage"; /* the run is prepared for one that looks at all readers */
    run_with(&options, NEEDS_DIAGONAL | NEEDS_ALL_CONSUMERS);
    for (int k = 0; k < 4; k++) {
        vision_values x = vision_tap_input(v, model, readers[k]);
        double square = 0.0;
        double nearest = (double)INFINITY;
        for (int64_t t = 0; t < x.rows; t++) {
            square += x.data[t * x.width] * x.data[t * x.width];
        }
        for (int i = 0; i < MOST_SITES; i++) {
            nearest = seen.inputs[i] == 4 ? fabs(seen.diagonals[i][k] - square) : nearest;
        }
        assert_true(square > 0.0 && nearest < 1e-5 * square);
        memory_free(x.data);
    }
}
