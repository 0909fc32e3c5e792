/* Samples that judge give no statistics: what they hold changes no bit of a result, where it does
 * when they do not judge. */
#include "plans.h"

#include "../pipeline/vision_lab.h"

#include "base/hash.h"
#include "pipeline/compression.h"
#include "pipeline/network/pass.h"
#include "planning/loss_curves.h"

#include <string.h>

/* -- samples that change ----------------------------------------------------------------------- */

/* Makes each batch that would judge a bright image of one colour, or a text of one token. */
static void change_samples(calibration *c)
{
    const int64_t size = c->positions.height * c->positions.width;
    for (int64_t i = 0; i < c->count * size; i++) {
        if (calibration_batch_of(c, i / size) % 4 != 1) {
            continue;
        }
        if (c->pixels == NULL) {
            c->windows.ids[i] = 3;
        } else {
            c->pixels[3 * i] = 40.0F;
            c->pixels[3 * i + 1] = c->pixels[3 * i + 2] = 0.0F;
        }
    }
}

typedef struct place {
    lab text;
    vision_lab images;
    const char *network; /* a residual network */
} place;

static void place_open(place *p)
{
    lab_open(&p->text);
    vision_open(&p->images);
    p->network = vision_network(&p->images, VISION_BASIC, "network");
}

static void place_close(place *p)
{
    vision_close(&p->images);
    lab_close(&p->text);
}

#define PLACE_TEST(name) TEST_OF(place, p, place_open, place_close, name)

/* -- whole runs -------------------------------------------------------------------------------- */

/* A reader of samples, alone as far as that can be. What is NULL is "none", or "closed". */
typedef struct reader {
    const char *name, *selector, *compensate, *refit, *select;
    double conv, stream, ffn;
    bool open_loop, repair, of_text;
} reader;

static const reader readers[] = {
    {.name = "norms of channels", .selector = "wanda", .conv = 0.5},
    {.name = "norms, open loop", .selector = "wanda", .conv = 0.5, .open_loop = true},
    {.name = "norms in the dense network", .selector = "wanda", .conv = 0.5, .select = "open"},
    {.name = "selection of a residual stream", .selector = "obs", .stream = 0.5},
    {.name = "selection at a consumer", .selector = "obs", .ffn = 0.5, .of_text = true},
    {.name = "that in the dense network",
     .selector = "obs",
     .select = "open",
     .ffn = 0.5,
     .of_text = true},
    {.name = "mixed rows of a folding",
     .selector = "fold",
     .compensate = "full",
     .conv = 0.5,
     .stream = 0.5},
    {.name = "closed loop",
     .selector = "magnitude-l2",
     .compensate = "grail",
     .conv = 0.5,
     .stream = 0.5},
    {.name = "REPAIR", .selector = "magnitude-l2", .conv = 0.5, .repair = true},
    {.name = "REPAIR, open loop",
     .selector = "magnitude-l2",
     .conv = 0.5,
     .stream = 0.5,
     .open_loop = true,
     .repair = true},
    {.name = "regional training",
     .selector = "wanda++",
     .compensate = "own",
     .ffn = 0.5,
     .of_text = true},
};

static const reader of_open_loop = {.name = "open loop",
                                    .selector = "magnitude-l2",
                                    .compensate = "grail",
                                    .conv = 0.5,
                                    .stream = 0.5,
                                    .open_loop = true};

static const reader of_refits = {.name = "refits",
                                 .selector = "magnitude-l2",
                                 .compensate = "full",
                                 .refit = "all",
                                 .conv = 0.5};

static const char *name_or(const char *name, const char *usual)
{
    return name == NULL ? usual : name;
}

static grail_compress_options options_of(const place *p, const reader *r)
{
    grail_compress_options o = r->of_text ? lab_options(&p->text, lab_golden("llama3"), NULL)
                                          : vision_options(&p->images, p->network, NULL);
    o.cut.selector = r->selector;
    o.fit.compensate = name_or(r->compensate, "none");
    o.fit.refit = name_or(r->refit, "none");
    if (strcmp(o.fit.compensate, "own") == 0) {
        o.fit.refit = o.fit.token_weights = NULL; /* nothing is fitted */
    }
    o.cut.select = name_or(r->select, "closed");
    o.amount.sparsity_conv = r->conv;
    o.amount.sparsity_stream = r->stream;
    o.amount.sparsity_ffn = r->ffn;
    o.amount.sparsity_heads = 0.0;
    o.fit.open_loop = r->open_loop;
    o.fit.repair = r->repair;
    return o;
}

static void hash_network(const calibration_network *n, char hash[HASH_TEXT_SIZE])
{
    hash_state state;
    hash_begin(&state);
    for (int i = 0; i < n->request->graph->parameter_count; i++) {
        int64_t count = 0;
        OPENED(float, values, parameter_store_read_f32(n->current.parameters, i, &values, &count));
        hash_add(&state, values, (size_t)count * sizeof values[0]);
    }
    hash_end(&state, hash);
}

/* All parameters of the narrowed network. */
static void hash_run(const place *p, const reader *r, bool judges, bool changed,
                     char hash[HASH_TEXT_SIZE])
{
    const grail_compress_options o = options_of(p, r);
    OPENED(grail_compression, c, grail_compression_open(&o, &c));
    assert_true(c->request->samples->batch_count >= 4);
    c->request->judges = judges;
    c->network->passes.judges = judges;
    if (changed) {
        change_samples(c->request->samples);
    }
    assert_ok(grail_compression_run(c));
    hash_network(c->network, hash);
}

static void assert_sees_none_that_judge(const place *p, const reader *r)
{
    char first[HASH_TEXT_SIZE];
    char second[HASH_TEXT_SIZE];
    for (int judges = 0; judges < 2; judges++) {
        hash_run(p, r, judges == 1, false, first);
        hash_run(p, r, judges == 1, true, second);
        if ((strcmp(first, second) == 0) != (judges == 1)) {
            fail_msg("%s: samples that %s", r->name,
                     judges == 1 ? "judge were seen" : "do not judge were not seen");
        }
    }
}

PLACE_TEST(no_reader_sees_the_samples_that_judge)
{
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        assert_sees_none_that_judge(p, &readers[i]);
    }
    assert_sees_none_that_judge(p, &of_open_loop);
    assert_sees_none_that_judge(p, &of_refits);
}

/* Statistics that a session keeps are of a run that judges, or of one that does not. */
PLACE_TEST(a_session_keeps_apart_what_was_counted)
{
    char hashes[3][HASH_TEXT_SIZE];
    grail_compress_options o = options_of(p, &of_open_loop);
    assert_ok(grail_session_open(o.read.model, o.read.reading, &o.read.session));
    for (int run = 0; run < 3; run++) {
        OPENED(grail_compression, c, grail_compression_open(&o, &c));
        c->request->judges = run == 1;
        c->network->passes.judges = run == 1;
        assert_ok(grail_compression_run(c));
        hash_network(c->network, hashes[run]);
    }
    assert_string_equal(hashes[0], hashes[2]);
    assert_string_not_equal(hashes[0], hashes[1]);
    grail_session_close(o.read.session);
}

/* -- plans ------------------------------------------------------------------------------------- */

static void hash_curves(const grail_compress_options *o, bool judges, bool changed,
                        char hash[HASH_TEXT_SIZE])
{
    compression_request *request = NULL;
    calibration_network *network = NULL;
    loss_curves curves = {0};
    loss_times times;
    const request_purpose purpose = {.reads_samples = true, .judges = judges};
    assert_ok(request_open(o, purpose, &request));
    if (changed) {
        change_samples(request->samples);
    }
    assert_ok(network_create(request, 0, &network));
    assert_ok(loss_curves_init(&request->sites->list, &curves));
    assert_ok(loss_curves_collect(network, &times, &curves));
    hash_bytes(curves.numbers, curves.count * sizeof curves.numbers[0], hash);
    loss_curves_fini(&curves);
    network_free(network);
    request_close(request);
}

PLACE_TEST(loss_curves_are_without_the_samples_that_judge)
{
    for (int of_text = 0; of_text < 2; of_text++) {
        const reader nothing = {
            .selector = "obs", .compensate = "full", .refit = "none", .of_text = of_text == 1};
        const grail_compress_options o = options_of(p, &nothing);
        for (int judges = 0; judges < 2; judges++) {
            char first[HASH_TEXT_SIZE];
            char second[HASH_TEXT_SIZE];
            hash_curves(&o, judges == 1, false, first);
            hash_curves(&o, judges == 1, true, second);
            assert_int_equal(strcmp(first, second) == 0, judges);
        }
    }
}

enum { TRIALS = 2 };

typedef struct trials {
    double cost[TRIALS], divergence[TRIALS];
    int count;
} trials;

static int note_trial(void *user, const grail_plan_trial *trial)
{
    trials *t = user;
    assert_true(t->count < TRIALS);
    t->cost[t->count] = trial->cost;
    t->divergence[t->count++] = trial->divergence;
    return 0;
}

/* The widths that a search tries: uniform ones, and those that follow from the curves. */
static trials search(const grail_compress_options *run, bool changed)
{
    trials t = {0};
    calibration *samples = NULL;
    grail_plan_options o = plan_for(run, "search", 0.8);
    o.tries = TRIALS;
    o.observer = note_trial;
    o.observer_user = &t;
    assert_ok(grail_session_open(run->read.model, NULL, &o.compress.read.session));
    assert_ok(session_calibration(o.compress.read.session, &o.compress, NULL, &samples));
    if (changed) {
        change_samples(samples);
    }
    grail_plan_free(made(&o));
    calibration_release(samples);
    grail_session_close(o.compress.read.session);
    assert_int_equal(t.count, TRIALS);
    return t;
}

/* Units of different convolutions cost differently, so other widths have another cost. */
PLACE_TEST(a_search_judges_by_samples_that_its_curves_do_not_know)
{
    const grail_compress_options run = vision_options(&p->images, p->network, NULL);
    const trials first = search(&run, false);
    const trials second = search(&run, true);
    for (int i = 0; i < TRIALS; i++) {
        assert_true(first.cost[i] == second.cost[i]);
        assert_true(first.divergence[i] != second.divergence[i]);
    }
}

/* -- passes ------------------------------------------------------------------------------------ */

typedef struct visits {
    const sample_passes *passes;
    int64_t batches;
} visits;

static grail_status count_batch(const execution *e, void *user)
{
    visits *v = user;
    assert_true(e == v->passes->current->execution || e == v->passes->dense->execution);
    assert_true(e->shape.samples > 0);
    v->batches++;
    return GRAIL_OK;
}

static void assert_holds_every_batch(const sample_stream *s)
{
    assert_true(s->live_count > 0);
    for (int64_t i = 0; i < s->batch_count * s->live_count; i++) {
        assert_true(matrix_exists(s->held[i]));
    }
}

/* No visitor sees them, and the sample streams carry them on for the judgement. */
PLACE_TEST(samples_that_judge_are_carried_without_a_visit)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        grail_compress_options o = options_of(p, &of_refits);
        o.run.memory = keeps == 1 ? 0 : 1;
        OPENED(grail_compression, c, grail_compression_open(&o, &c));
        sample_passes *passes = &c->network->passes;
        passes->judges = true;
        const int64_t seen = c->request->samples->batch_count * 3 / 4;
        const int end = network_dense_end(c->network, 0);
        visits v = {.passes = passes};
        const visitor counts = {.add = count_batch, .user = &v};
        assert_ok(pass_visit(passes, end - 1, GRAPH_NONE, counts));
        assert_int_equal(v.batches, seen);
        assert_ok(pass_visit(passes, end, end, counts));
        assert_int_equal(v.batches, 2 * seen);
        assert_holds_every_batch(&c->network->current.stream);
        assert_holds_every_batch(&c->network->dense.stream);
        v.batches = 0;
        const int last = c->request->graph->node_count;
        const visitor at_last = {.node = last, .add = count_batch, .user = &v};
        pass p_dense = {.run = &c->network->dense, .end = last, .stays = true};
        p_dense.visitors = &at_last;
        p_dense.visitor_count = 1;
        for (int judges = 0; judges < 2; judges++) {
            v.batches = 0;
            p_dense.judges = judges == 1;
            p_dense.in_order = judges == 1;
            assert_ok(pass_run(passes, &p_dense));
            assert_int_equal(v.batches, judges == 1 ? c->request->samples->batch_count / 4 : seen);
            assert_int_equal(c->network->dense.stream.position, end);
        }
        p_dense.stays = false;
        p_dense.judges = false;
        assert_ok(pass_run(passes, &p_dense));
        assert_int_equal(c->network->dense.stream.position, last);
        assert_holds_every_batch(&c->network->dense.stream);
    }
}
