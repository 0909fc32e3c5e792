#include "pipeline/request/request.h"

#include "arch/model_text.h"
#include "base/clock.h"
#include "base/option_values.h"
#include "base/record.h"
#include "format/images/image_set.h"
#include "pipeline/request/dropped.h"
#include "pipeline/request/experts.h"
#include "pipeline/request/plan_check.h"
#include "pipeline/request/plan_options.h"
#include "pipeline/request/regions.h"
#include "pipeline/request/teacher.h"

#include <math.h>
#include <string.h>

const site *site_at(const compression_request *request, int index)
{
    return &request->sites->list.sites[index];
}

const grail_dtype *request_written_dtypes(const compression_request *request)
{
    return request->narrowed.target == NULL ? NULL : request->narrowed.target->dtypes;
}

bool request_orders_rows(const compression_request *request)
{
    return request->narrowed.target != NULL &&
           checkpoint_metadata(request->model->checkpoint) != NULL;
}

bool request_keeps_values(const compression_request *request)
{
    return !anything_is_cut(&request->plan) && request->teacher == NULL;
}

grail_dtype request_written_dtype(const compression_request *request, int parameter)
{
    const grail_dtype rounded = rounded_dtype(&request->rounded, parameter);
    return rounded == GRAIL_DTYPE_COUNT
               ? model_written_dtype(request->model, request->model->tensors[parameter])
               : rounded;
}

static grail_status use_session(const grail_compress_options *options, compression_request *request)
{
    if (options->read.session == NULL) {
        CHECK(
            grail_session_open(options->read.model, options->read.reading, &request->own_session));
    }
    request->session = options->read.session != NULL ? options->read.session : request->own_session;
    request->model = request->session->model;
    request->graph = request->model->graph;
    return GRAIL_OK;
}

/* With statistics from a file no samples are needed for what the dense network shows: where it
 * chooses the units, and for the fits of an open loop. */
static bool needs_samples(const plan *p, bool has_statistics)
{
    const bool chosen = has_statistics && plan_selects_openly(p);
    const bool fitted = has_statistics && p->loop == LOOP_OPEN;
    for (int i = 0; i < p->count; i++) {
        const bool decides =
            p->sites[i].kept_units == NULL && p->sites[i].selector->uses_data && !chosen;
        const bool measures =
            (p->compensation.enabled && !fitted) || p->compensation.regional_training || decides;
        if ((site_is_cut(p, i) && (measures || p->repair || p->sites[i].normed)) ||
            (site_is_dropped(p, i) && plan_refits(p))) {
            return true;
        }
    }
    return false;
}

/* A network in which nothing is cut is its own teacher, so there is nothing to heal. */
static bool will_heal(const compression_request *request)
{
    return heals(&request->heal) && (request->teacher != NULL || anything_is_cut(&request->plan));
}

static grail_status open_teacher(const grail_compress_options *options,
                                 compression_request *request)
{
    if (options->heal.teacher == NULL) {
        return GRAIL_OK;
    }
    if (anything_is_cut(&request->plan)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "a network cannot be healed towards '%s' and cut in one run",
                         options->heal.teacher);
    }
    return grail_model_open_with(options->heal.teacher, options->read.reading, &request->teacher);
}

/* A dry run looks at samples that are named, and does without. */
static bool names_samples(const grail_compress_options *options, const graph *g)
{
    const grail_read_options *o = &options->read;
    return g->input_kind == INPUT_IMAGES ? image_source_is_given(o->images)
                                         : text_source_is_given(&o->text) || o->part_count > 0;
}

static grail_status read_samples(const grail_compress_options *options, bool always,
                                 compression_request *request)
{
    const network_statistics *s = request->statistics;
    const bool named = options->output.dry_run == 0 || names_samples(options, request->graph);
    if (named && (always || needs_samples(&request->plan, s != NULL) || will_heal(request))) {
        CHECK(session_calibration(request->session, options, s, &request->samples));
    } else {
        CHECK(calibration_empty(request->model, s, &request->samples));
    }
    return session_note(request->session, request->samples);
}

/* A session keeps one set, so that of the statistics is read again for the next run. */
static grail_status read_healed(const grail_compress_options *options, compression_request *request)
{
    grail_compress_options healed = *options;
    healed.read.samples = -options->heal.own_samples;
    healed.read.drawn_first = request->samples->drawn;
    return options->heal.own_samples > 0 && request->samples->count > 0 && request->heal.network &&
                   will_heal(request) && options->output.dry_run == 0
               ? session_calibration(request->session, &healed, NULL, &request->healed)
               : GRAIL_OK;
}

static grail_status open_statistics(const grail_compress_options *options,
                                    compression_request *request)
{
    if (options->cut.statistics == NULL) {
        return GRAIL_OK;
    }
    CHECK(network_statistics_open(options->cut.statistics, &request->statistics));
    return network_statistics_check(request->statistics, request->model, request->backend);
}

/* Whether the rows of a consumer are cut too. Then its narrow tensor lacks rows that the
 * calibration network needs, so it cannot be restored from it. */
static bool is_read_by_a_producer(const compression_request *request, const site *s)
{
    for (int k = 0; k < s->consumer_count; k++) {
        const int weight = request->graph->nodes[s->consumers[k].node].weight;
        if (request->cuts[weight].rows.site != GRAPH_NONE) {
            return true;
        }
    }
    return false;
}

/* Whether blocks can only be finished with the entire network: when a cut site spans blocks or is
 * outside all blocks, with REPAIR, and in an open loop. */
static bool finishes_with_network(const compression_request *request)
{
    const graph *g = request->graph;
    const plan *p = &request->plan;
    for (int i = 0; i < p->count; i++) {
        const site *s = site_at(request, i);
        const bool outside = s->block == GRAPH_NONE || s->block == g->block_count;
        if (site_is_cut(p, i) &&
            (outside || site_waits_for_network(g, s) || is_read_by_a_producer(request, s))) {
            return true;
        }
    }
    return p->loop == LOOP_OPEN || (p->repair && anything_is_cut(p));
}

bool request_judges_batch(const compression_request *request, int64_t batch)
{
    return calibration_judges(request->samples, request->judges, batch);
}

static void set_widths(const int64_t *kept, plan *p)
{
    for (int i = 0; kept != NULL && i < p->count; i++) {
        p->sites[i].kept = kept[i];
    }
}

/* The precision of the interrupted run that goes on, NULL without one. */
static const char *precision_before(const grail_compute *compute, const json_t *first_record)
{
    const char *name = json_string_value(json_object_get(first_record, "backend"));
    return name != NULL && strcmp(name, compute_backend(compute)) == 0
               ? json_string_value(json_object_get(first_record, "precision"))
               : NULL;
}

/* auto is the precision of the interrupted run where one goes on. */
static grail_status open_backend(const grail_compress_options *options, compression_request *r)
{
    grail_status status = GRAIL_OK;
    run_record *left = NULL;
    const json_t *first = NULL;
    grail_compute compute = {.backend = options->run.backend, .precision = options->run.precision};
    if (options->run.precision != NULL && strcmp(options->run.precision, "auto") == 0) {
        if (options->output.resume != 0 && options->output.path != NULL) {
            TRY(record_look(options->output.path, &left));
            first = record_first(left);
        }
        const char *before = precision_before(&compute, first);
        compute.precision = before != NULL ? before : options->run.precision;
    }
    status = session_backend(r->session, &compute, options->run.scratch, &r->backend);
    if (status != GRAIL_OK && first != NULL && compute.precision != NULL) {
        error_append("; the interrupted run of '%s' computed in %s", options->output.path,
                     compute.precision);
    }
out:
    record_close(left);
    return status;
}

/* What the ranks share out are passes over the sample streams whose sums are made in chunks. */
static grail_status check_ranks(const compression_request *r)
{
    const plan *p = &r->plan;
    const char *what = p->compensation.regional_training ? "regional training" : NULL;
    for (int v = 0; what == NULL && v < r->graph->value_count; v++) {
        what = r->graph->routes[v] != GRAPH_NONE ? "a network with experts" : NULL;
    }
    for (int i = 0; what == NULL && i < p->count; i++) {
        const unsigned needs = site_decision_needs(p, i, site_at(r, i));
        what = (needs & NEEDS_GRADIENTS) != 0 ? "a selector that needs gradients" : NULL;
    }
    return what == NULL || !comm_is_shared(r->comm)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "%s cannot be shared out over ranks yet, and there are %d; start one "
                           "process, or leave it out",
                           what, comm_size(r->comm));
}

static grail_status choose_rounding(const grail_compress_options *options, compression_request *r)
{
    const rounded_subject subject = {.model = r->model,
                                     .sites = &r->sites->list,
                                     .plan = &r->plan,
                                     .heal = &r->heal,
                                     .narrowed = r->narrowed.graph,
                                     .target = r->narrowed.target,
                                     .is_shared = comm_is_shared(r->comm)};
    CHECK(
        rounded_types_choose(options->output.quantize, &subject, r->narrowed.config, &r->rounded));
    if (r->rounded.name != NULL && r->narrowed.target == NULL) {
        judge_packed_weights(r->narrowed.verdicts);
    }
    return GRAIL_OK;
}

static grail_status describe_result(const grail_compress_options *options,
                                    const request_purpose *purpose, compression_request *r)
{
    grail_gguf_options file = {.table_type = purpose->table_type};
    CHECK(rounded_type_of_file(options->output.quantize, &file.type));
    const bool is_file = file.type != NULL;
    const grail_status status = narrowed_describe(r->model, &r->sites->list, &r->plan, r->cuts,
                                                  is_file ? &file : NULL, &r->narrowed);
    CHECK(is_file && !purpose->is_file ? error_about(status, "output.quantize") : status);
    return choose_rounding(options, r);
}

/* Channels of which whole groups go are none of those that were to be cut by themselves. */
static void settle_groups(const site_list *sites, plan *p)
{
    for (int i = 0; i < sites->count; i++) {
        const site *whole = sites->sites[i].whole;
        if (whole != NULL && site_is_cut(p, (int)(whole - sites->sites))) {
            plan_site_leave(&p->sites[i]);
        }
    }
}

grail_status request_open(const grail_compress_options *options, request_purpose purpose,
                          compression_request **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    compression_request *r = *out;
    r->observer = options->run.observer;
    r->heal_observer = options->run.heal_observer;
    r->step_observer = options->run.step_observer;
    r->observer_user = options->run.observer_user;
    r->judges = purpose.judges;
    r->is_file = purpose.is_file;
    r->comm = options->run.comm;
    r->deadline = options->run.time > 0.0 ? clock_seconds() + options->run.time : (double)INFINITY;
    CHECK(use_session(options, r));
    CHECK(open_backend(options, r));
    CHECK(option_about("cut.statistics", open_statistics(options, r)));
    CHECK(plan_from_options(r->model, options, &r->sites, &r->plan));
    r->plan.auto_is_fisher = gradients_choose_better(r->graph) && !plan_selects_openly(&r->plan) &&
                             grail_model_region_at(r->model, 0).node == NULL;
    set_widths(purpose.kept, &r->plan);
    CHECK(experts_settle(r->graph, &r->sites->list, &r->plan));
    dropped_settle(r->graph, &r->sites->list, &r->plan);
    CHECK(cuts_map(r->graph, &r->sites->list, &r->plan, &r->cuts));
    r->cut =
        (cutting){.graph = r->graph, .sites = &r->sites->list, .plan = &r->plan, .axes = r->cuts};
    CHECK(plan_check(r->model, &r->sites->list, &r->plan));
    settle_groups(&r->sites->list, &r->plan);
    CHECK(heal_options_read(&options->heal, r->graph, &r->heal));
    CHECK(open_teacher(options, r));
    CHECK(describe_result(options, &purpose, r));
    const bool rounds = r->rounded.name != NULL;
    r->drifts_by_rounding = rounds && !anything_is_cut(&r->plan);
    CHECK(read_samples(options, purpose.reads_samples || rounds, r));
    CHECK(option_about("heal.own_samples", read_healed(options, r)));
    if (r->teacher != NULL) {
        CHECK(teacher_check(r->model, r->teacher, options, &r->heal, r->samples));
    }
    /* a result that stays in memory is complete at the end alone */
    const bool stays = options->output.path == NULL && r->judges == JUDGES_NOTHING;
    if (!will_heal(r)) {
        r->heal.blocks = false;
        r->heal.network = false;
    }
    CHECK(
        regions_check(&r->cut, &r->heal, r->judges != JUDGES_NOTHING, r->samples->batch_count > 0));
    r->finishes_with_network = stays || finishes_with_network(r);
    r->finishes_with_head = r->narrowed.target != NULL;
    return check_ranks(r);
}

void request_close(compression_request *request)
{
    if (request == NULL) {
        return;
    }
    calibration_release(request->samples);
    calibration_release(request->healed);
    network_statistics_close(request->statistics);
    rounded_types_fini(&request->rounded);
    narrowed_fini(&request->narrowed);
    memory_free(request->cuts);
    plan_fini(&request->plan);
    grail_site_list_free(request->sites);
    grail_model_close(request->teacher);
    grail_session_close(request->own_session);
    memory_free(request);
}
