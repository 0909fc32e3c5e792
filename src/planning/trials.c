#include "planning/trials.h"

#include "base/clock.h"
#include "graph/operators.h"
#include "pipeline/compression.h"
#include "pipeline/network/pass.h"
#include "pipeline/ranks.h"
#include "planning/shared.h"

grail_status trials_check_batches(const calibration *samples)
{
    if (trials_can_judge(samples)) {
        return GRAIL_OK;
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT,
                  "the budget search keeps a quarter of the samples apart to judge widths, but "
                  "%lld samples make only "
                  "%lld batches, expected 4 or more; give more samples, or another budget",
                  (long long)samples->count, (long long)samples->batch_count);
    return error_about(status, "read.samples budget");
}

bool trials_can_judge(const calibration *samples)
{
    return samples->batch_count >= JUDGING_ONE_IN;
}

/* -- where trials begin ------------------------------------------------------------------------ */

static grail_compress_options trial_options(const grail_compress_options *options)
{
    grail_compress_options in_memory = *options;
    in_memory.output.path = NULL;
    in_memory.run.observer = NULL;
    return in_memory;
}

static grail_status open_dense(trial_start *s)
{
    const request_purpose purpose = {
        .kept = s->units, .reads_samples = true, .judges = JUDGES_CHOICES};
    const grail_compress_options options = trial_options(s->options);
    CHECK(request_open(&options, purpose, &s->request));
    CHECK(network_create(s->request, s->options->run.memory, &s->network));
    return dense_record_take(s->network, &s->record);
}

void trial_start_fini(trial_start *s)
{
    dense_record_fini(&s->record);
    network_free(s->network);
    request_close(s->request);
    *s = (trial_start){0};
}

/* The first block that is cut; GRAPH_NONE where the trial needs the samples before node 0. */
static int first_block(const compression_request *trial)
{
    int first = trial->graph->block_count;
    for (int i = 0; i < trial->plan.count; i++) {
        const site *s = site_at(trial, i);
        if (site_is_cut(&trial->plan, i)) {
            const bool waits =
                site_is_chosen_openly(&trial->plan, i, s) || site_spans_blocks(trial->graph, s);
            first = waits ? GRAPH_NONE : s->block < first ? s->block : first;
        }
    }
    return trial->plan.loop == LOOP_CLOSED && first < trial->graph->block_count ? first
                                                                                : GRAPH_NONE;
}

static grail_status put(const sample_stream *from, sample_stream *to)
{
    sample_stream_fini(to);
    return sample_stream_copy(from, to);
}

grail_status trial_start_give(trial_start *s, calibration_network *trial)
{
    int begin = 0;
    int end = 0;
    const int block = first_block(trial->request);
    if (block < 0 || s->options->read.session == NULL) {
        return GRAIL_OK;
    }
    if (s->request == NULL) {
        CHECK(open_dense(s));
    }
    graph_block_range(s->request->graph, block, &begin, &end);
    if (begin < s->network->current.stream.position) {
        return GRAIL_OK;
    }
    CHECK(pass_to(&s->network->passes, begin, GRAPH_NONE));
    for (int passed = GRAPH_NONE; passed < block; passed++) {
        network_release_block(s->network, passed);
    }
    CHECK(put(&s->network->current.stream, &trial->current.stream));
    return trial->passes.has_dense_stream ? put(&s->network->current.stream, &trial->dense.stream)
                                          : GRAIL_OK;
}

/* -- a trial ----------------------------------------------------------------------------------- */

/* What a rank does by itself, up to the network that is run; *known tells that the session has the
 * divergence, which needs none. The caller closes both and frees *out, also after a failure. */
static grail_status open_trial(const grail_compress_options *options, request_purpose purpose,
                               char key[HASH_TEXT_SIZE], grail_compression *c, bool *known,
                               divergence *out)
{
    CHECK(request_open(options, purpose, &c->request));
    CHECK(trials_check_batches(c->request->samples));
    CHECK(divergence_init(c->request, out));
    CHECK(shared_trial_key(c->request, options, key));
    *known = shared_divergence_find(c->request, key, out);
    return *known ? GRAIL_OK : network_create(c->request, options->run.memory, &c->network);
}

static grail_status run_trial(grail_compression *c, const char *key, trial_start *start,
                              divergence *out)
{
    CHECK(ranks_begin(c));
    if (start != NULL) {
        CHECK(comm_settle(c->request->comm, trial_start_give(start, c->network)));
    }
    CHECK(grail_compression_run(c));
    CHECK(judge_divergence(c->network, start == NULL ? NULL : &start->record, out));
    return shared_divergence_keep(c->request, key, out);
}

grail_status judge_widths(const grail_compress_options *options, const int64_t *kept, judging which,
                          trial_start *start, divergence *out)
{
    grail_status status = GRAIL_OK;
    grail_compression c = {.state = RUN_OPEN};
    const request_purpose purpose = {.kept = kept, .reads_samples = true, .judges = which};
    const grail_compress_options in_memory = trial_options(options);
    char key[HASH_TEXT_SIZE];
    bool known = false;
    TRY(comm_settle(options->run.comm, open_trial(&in_memory, purpose, key, &c, &known, out)));
    TRY(known ? GRAIL_OK : run_trial(&c, key, start, out));
out:
    network_free(c.network);
    request_close(c.request);
    return status;
}

grail_status trials_tell(const grail_plan_options *options, double began,
                         const grail_plan_trial *trial, bool *stopped)
{
    unsigned char ends = 0;
    if (options->observer != NULL && options->observer(options->observer_user, trial) != 0) {
        ends = 1;
    }
    if (options->seconds > 0.0 && clock_seconds() - began >= options->seconds) {
        ends = 1;
    }
    CHECK(comm_broadcast(options->compress.run.comm, 0, &ends, sizeof ends));
    *stopped = *stopped || ends != 0;
    return GRAIL_OK;
}
