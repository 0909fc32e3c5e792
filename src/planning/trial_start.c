#include "planning/trial_start.h"

#include "pipeline/network/pass.h"

grail_compress_options trial_options(const grail_compress_options *options)
{
    grail_compress_options in_memory = *options;
    in_memory.output.path = NULL;
    in_memory.run.observer = NULL;
    return in_memory;
}

static grail_status open_dense(trial_start *s)
{
    const request_purpose purpose = {.kept = s->units, .reads_samples = true, .judges = true};
    const grail_compress_options options = trial_options(s->options);
    CHECK(request_open(&options, purpose, &s->request));
    return network_create(s->request, s->options->run.memory, &s->network);
}

void trial_start_fini(trial_start *s)
{
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

/* Carries the dense network's sample stream to the begin of a block. */
static grail_status reach(trial_start *s, int block, int begin)
{
    CHECK(pass_to(s->network, begin, GRAPH_NONE));
    for (int passed = GRAPH_NONE; passed < block; passed++) {
        network_release_block(s->network, passed);
    }
    return GRAIL_OK;
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
    CHECK(reach(s, block, begin));
    CHECK(put(&s->network->current.stream, &trial->current.stream));
    return trial->has_dense_stream ? put(&s->network->current.stream, &trial->dense.stream)
                                   : GRAIL_OK;
}
