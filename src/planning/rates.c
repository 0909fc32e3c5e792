/* What the kinds of work of a run take here, measured on a part of it. */
#include "planning/rates.h"
#include "arch/model_text.h"
#include "backend/cpu/probe.h"
#include "base/clock.h"
#include "base/random.h"
#include "format/images/image_set.h"
#include "pipeline/forecast.h"
#include "pipeline/network/part_input.h"
#include "pipeline/request/calibration_text.h"
#include "pipeline/request/options.h"

#include <grail/machine.h>

#include <math.h>
#include <string.h>

/* What a pilot takes: samples enough for whole batches, of which some are held out; at least so
 * long; and steps of healing where it goes through all blocks. */
enum { PILOT_WINDOWS = 16, PILOT_IMAGES = 64, FEWER_IMAGES = 16, PILOT_STEPS = 4 };
static const double pilot_seconds = 1.0;

typedef struct pilot {
    const grail_compress_options *asked;
    grail_compression *run;
    double begun;
    profile until; /* the end of block `end` */
    double ended;  /* by the clock, likewise */
    int end;       /* block; GRAPH_NONE: none has ended yet */
    bool may_stop, stopped;
} pilot;

/* Behind each block. */
static int watch(void *user, const grail_site_report *report, int block, int blocks, double left)
{
    pilot *p = user;
    (void)blocks;
    (void)left;
    if (report != NULL) {
        return 0;
    }
    profile_read(p->run->profile);
    p->until = *p->run->profile;
    p->ended = clock_seconds();
    p->end = block;
    p->stopped = p->may_stop && p->ended - p->begun >= pilot_seconds;
    return p->stopped ? 1 : 0;
}

static int watch_steps(void *user, int block, int blocks, double done)
{
    const pilot *p = user;
    const grail_run_options *run = &p->asked->run;
    return run->step_observer == NULL ? 0
                                      : run->step_observer(run->observer_user, block, blocks, done);
}

static bool names_samples(const grail_read_options *o)
{
    return text_source_is_given(&o->text) || o->part_count > 0 || image_source_is_given(o->images);
}

grail_status samples_at_most(const grail_compress_options *options, int64_t most,
                             named_samples *out)
{
    grail_compress_options o = *options;
    calibration *samples = NULL;
    o.read.samples = most > 0 ? -most : o.read.samples;
    o.output.dry_run = 1;
    *out = (named_samples){.count = most};
    if (names_samples(&o.read)) {
        CHECK(session_calibration(o.read.session, &o, NULL, &samples));
        *out = (named_samples){
            .count = samples->count, .drawn = samples->drawn, .length = samples->windows.length};
    }
    calibration_release(samples);
    return GRAIL_OK;
}

static grail_compress_options pilot_options(const grail_compress_options *asked, int64_t samples,
                                            pilot *p)
{
    grail_compress_options o = *asked;
    o.read.samples = samples;
    o.output = (grail_output_options){0};
    o.heal.what = o.heal.what != NULL && strstr(o.heal.what, "model") != NULL ? "model" : "none";
    o.heal.steps = PILOT_STEPS;
    o.heal.own_samples = 0;
    o.heal.time = 0.0;
    o.run.time = 0.0;
    o.run.profile = 1;
    o.run.observer = watch;
    o.run.heal_observer = NULL;
    o.run.step_observer = watch_steps;
    o.run.observer_user = p;
    return o;
}

/* The rate of a kind that the pilot has shown. */
static void take(double seconds, double count, double *rate)
{
    if (seconds > 0.0 && count > 0.0) {
        *rate = seconds / count;
    }
}

/* The same of work on matrices. Those of the first blocks may be so small that they say nothing of
 * large ones: where the pilot has seen little of all work, the rest counts at half of the machine's
 * rate, which *rate holds. */
static void take_solves(double seconds, double count, double all, double *rate)
{
    static const double enough = 0.02;
    static const double reached = 0.5;
    if (count >= enough * all) {
        take(seconds, count, rate);
    } else {
        *rate = (seconds + (all - count) * *rate / reached) / all;
    }
}

/* What belongs to no kind is memory that is cleared when it is used first, and samples that are
 * read: it grows with these, and all blocks of the run together have as much as the pilot's. */
static grail_status read_rates(const pilot *p, const grail_compress_options *options, double ended,
                               grail_rates *out)
{
    run_work work = {0};
    run_work all = {0};
    const double *s = p->until.seconds;
    CHECK(run_work_count(p->run, options, p->end, &work));
    CHECK(run_work_count(p->run, options, p->run->request->graph->block_count, &all));
    const double *w = work.closed;
    const double once = w[PROFILE_ELEMENTWISE] / fmax(all.closed[PROFILE_ELEMENTWISE], 1.0);
    if (work.uses_data) {
        take(s[PROFILE_PRODUCTS], w[PROFILE_PRODUCTS], &out->products);
        take(s[PROFILE_ATTENTION], w[PROFILE_ATTENTION], &out->attention);
        take(s[PROFILE_ELEMENTWISE] + s[PROFILE_WAITING] + s[PROFILE_REST] * once,
             w[PROFILE_ELEMENTWISE], &out->elementwise);
        take(s[PROFILE_STATISTICS], w[PROFILE_STATISTICS], &out->statistics);
        take_solves(s[PROFILE_SELECTION], w[PROFILE_SELECTION], all.closed[PROFILE_SELECTION],
                    &out->selection);
        take_solves(s[PROFILE_FITS], w[PROFILE_FITS], all.closed[PROFILE_FITS], &out->fits);
        take(s[PROFILE_WEIGHTS], w[PROFILE_WEIGHTS], &out->weights);
    }
    if (!p->stopped && heals(&p->run->request->heal)) {
        take(ended - p->ended, run_work_seconds(work.healing, out), &out->healing);
    }
    return GRAIL_OK;
}

/* A run that looks at the whole network before it cuts shows nothing of one block alone. */
static bool goes_by_block(const compression_request *r)
{
    return r->plan.loop == LOOP_CLOSED && !plan_selects_openly(&r->plan);
}

/* The values of one sample on its way through the dense network. */
static grail_status run_sample(const grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const compression_request *r = c->request;
    const network_run *dense = &c->network->dense;
    const int64_t first = 0;
    const sample_part part = {.samples = &first, .count = 1};
    part_input input = {0};
    TRY(part_input_copy(r->samples, &part, 0, 0, &input));
    TRY(execution_begin(dense->execution, part_shape(r->samples, &part), part_input_batch(&input)));
    TRY(execution_run(dense->execution, dense->parameters, 0, dense->graph->node_count));
out:
    part_input_fini(&input);
    return backend_settle(r->backend, status);
}

/* A run that cuts nothing shows what trainings do: its second sample, which finds the weights
 * loaded. */
static grail_status measure_forward(const pilot *p, const grail_compress_options *options,
                                    grail_rates *out)
{
    run_work work = {0};
    profile seen;
    CHECK(run_work_count(p->run, options, p->run->request->graph->block_count, &work));
    CHECK(run_sample(p->run));
    profile_start(&seen);
    profile *before = profile_use(&seen);
    const grail_status status = run_sample(p->run);
    profile_read(&seen);
    profile_use(before);
    const double *w = work.sample;
    take(seen.seconds[PROFILE_PRODUCTS], w[PROFILE_PRODUCTS], &out->products);
    take(seen.seconds[PROFILE_ATTENTION], w[PROFILE_ATTENTION], &out->attention);
    take(seen.seconds[PROFILE_ELEMENTWISE] + seen.seconds[PROFILE_REST], w[PROFILE_ELEMENTWISE],
         &out->elementwise);
    return status;
}

/* A large network gets fewer images, so that the pilot goes beyond its first blocks, whose maps are
 * the largest and have the fewest channels. */
static grail_status pilot_samples(const grail_compress_options *asked, const grail_rates *machine,
                                  named_samples *out)
{
    static const double share = 0.25; /* of the pilot's seconds, for all products */
    grail_model_facts facts = {0};
    const grail_model *model = asked->read.session->model;
    CHECK(grail_model_describe(model, &facts));
    const double each = 2.0 * (double)facts.macs_per_token * machine->products;
    const int64_t most = model->graph->input_kind != INPUT_IMAGES      ? PILOT_WINDOWS
                         : each * PILOT_IMAGES > share * pilot_seconds ? FEWER_IMAGES
                                                                       : PILOT_IMAGES;
    const int64_t wanted = asked->read.samples;
    const bool fewer = wanted == 0 || wanted > most;
    *out = (named_samples){.count = wanted};
    return fewer || text_parts_draw(&asked->read) ? samples_at_most(asked, fewer ? most : 0, out)
                                                  : GRAIL_OK;
}

/* -- samples that the network draws ------------------------------------------------------------ */

/* What stands for samples in a pilot where drawing them would take longer than it does: tokens at
 * random, which take as long as others. */
typedef struct stand_in {
    int32_t *ids; /* owned */
    grail_tokens tokens;
} stand_in;

static grail_status stand_in_for(const named_samples *named, grail_compress_options *o, stand_in *s)
{
    random_state random;
    const int64_t ids = named->count * named->length;
    const int64_t vocabulary = o->read.session->model->graph->vocabulary;
    random_seed(&random, o->read.seed, 0);
    CHECK(memory_new_unset(&s->ids, (size_t)ids, sizeof s->ids[0]));
    for (int64_t i = 0; i < ids; i++) {
        s->ids[i] = (int32_t)random_below(&random, vocabulary);
    }
    s->tokens = (grail_tokens){.ids = s->ids, .windows = named->count, .length = named->length};
    o->read.text = (grail_text_source){.tokens = &s->tokens};
    o->read.parts = NULL;
    o->read.part_count = 0;
    return GRAIL_OK;
}

/* For as many windows as the run may draw. */
static grail_status measure_drawing(const grail_compress_options *asked, grail_rates *out)
{
    named_samples all = {0};
    drawing_times times = {0};
    if (!text_parts_draw(&asked->read)) {
        return GRAIL_OK;
    }
    CHECK(samples_at_most(asked, 0, &all));
    CHECK(drawn_text_measure(asked->read.session->model, asked, all.drawn, all.length, &times));
    out->draw_place = times.step;
    out->draw_token = times.window;
    out->draw_windows = times.at_once;
    return GRAIL_OK;
}

static grail_status run_pilot(const grail_compress_options *asked, grail_rates *out)
{
    grail_status status = GRAIL_OK;
    pilot p = {.asked = asked, .end = GRAPH_NONE};
    named_samples named = {0};
    stand_in drawn = {0};
    CHECK(pilot_samples(asked, out, &named));
    grail_compress_options options = pilot_options(asked, named.count, &p);
    TRY(named.drawn > 0 ? stand_in_for(&named, &options, &drawn) : GRAIL_OK);
    TRY(compression_open(&options, (request_purpose){.kept = NULL}, &p.run));
    if (asked->heal.teacher != NULL) {
        TRY(measure_forward(&p, &options, out));
        goto out;
    }
    p.may_stop = goes_by_block(p.run->request);
    p.begun = clock_seconds();
    status = p.run->request->samples->count > 0 ? grail_compression_run(p.run) : GRAIL_OK;
    if (status == GRAIL_ERROR_CANCELLED && p.stopped) {
        status = GRAIL_OK;
    }
    if (status == GRAIL_OK && p.end != GRAPH_NONE) {
        status = read_rates(&p, &options, clock_seconds(), out);
    }
out:
    grail_compression_close(p.run);
    memory_free(drawn.ids);
    return status;
}

static grail_status measure(const grail_compress_options *asked, grail_rates *out)
{
    CHECK(run_pilot(asked, out));
    return measure_drawing(asked, out);
}

grail_status grail_rates_measure(const grail_compress_options *options, grail_rates *out)
{
    const double seconds = 0.1; /* two products of each kind */
    grail_machine machine = {0};
    cpu_speed speed = {0};
    CHECK(cpu_measure_speed(seconds, &speed));
    machine.sgemm_gflops = speed.sgemm_gflops;
    machine.dgemm_gflops = speed.dgemm_gflops;
    machine.bf16_gflops = speed.bf16_gflops;
    const char *precision = options->run.precision == NULL ? "f32" : options->run.precision;
    *out = grail_rates_of_machine(&machine, precision);
    grail_compress_options with = *options;
    grail_session *own = NULL;
    if (!names_samples(&options->read)) {
        return GRAIL_OK;
    }
    if (with.read.session == NULL) {
        CHECK(grail_session_open(with.read.model, with.read.reading, &own));
        with.read.session = own;
    }
    const grail_status status = error_in(measure(&with, out), "measuring how fast this machine is");
    grail_session_close(own);
    return status;
}
