#include "pipeline/request/teacher.h"

static grail_status check_input(const graph *narrow, const graph *teacher, const char *path)
{
    if (narrow->input_kind != teacher->input_kind) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot heal towards '%s': one network reads text, "
                         "the other one images",
                         path);
    }
    if (narrow->vocabulary != teacher->vocabulary) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot heal towards '%s': its vocabulary has %lld tokens, expected %lld",
                         path, (long long)teacher->vocabulary, (long long)narrow->vocabulary);
    }
    if (narrow->image.height != teacher->image.height ||
        narrow->image.width != teacher->image.width) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot heal towards '%s': it reads images of %lld pixels, expected %lld",
                         path, (long long)teacher->image.height, (long long)narrow->image.height);
    }
    return GRAIL_OK;
}

/* The width of the one value that is live before a node; 0 where there are several. */
static int64_t stream_width(const graph *g, const int64_t *widths, int *live, int position)
{
    return graph_live_values(g, position, live) == 1 ? widths[live[0]] : 0;
}

/* Of one network: widths[value_count], and room for live[value_count]. */
typedef struct measured {
    const graph *g;
    int64_t *widths;
    int *live;
} measured;

static grail_status measure(const graph *g, measured *out)
{
    grail_status status = GRAIL_OK;
    out->g = g;
    TRY(memory_new(&out->widths, (size_t)g->value_count, sizeof out->widths[0]));
    TRY(memory_new(&out->live, (size_t)g->value_count, sizeof out->live[0]));
    TRY(graph_widths(g, out->widths));
out:
    return status;
}

static void measured_fini(measured *m)
{
    memory_free(m->widths);
    memory_free(m->live);
}

static grail_status check_blocks(const measured *narrow, const measured *teacher, const char *path)
{
    if (narrow->g->block_count != teacher->g->block_count) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot heal blocks towards '%s': it has %d blocks, expected %d; heal the "
                         "model instead",
                         path, teacher->g->block_count, narrow->g->block_count);
    }
    for (int block = 0; block < narrow->g->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(narrow->g, block, &begin, &end);
        const int64_t here = stream_width(narrow->g, narrow->widths, narrow->live, end);
        graph_block_range(teacher->g, block, &begin, &end);
        const int64_t there = stream_width(teacher->g, teacher->widths, teacher->live, end);
        if (here == 0 || here != there) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "cannot heal blocks towards '%s': its stream behind block %d has %lld "
                             "channels, expected %lld; heal the model instead",
                             path, block, (long long)there, (long long)here);
        }
    }
    return GRAIL_OK;
}

grail_status teacher_check(const grail_model *narrow, const grail_model *teacher,
                           const heal_options *heal)
{
    grail_status status = GRAIL_OK;
    measured n = {0};
    measured t = {0};
    TRY(check_input(narrow->graph, teacher->graph, teacher->path));
    TRY(measure(narrow->graph, &n));
    TRY(measure(teacher->graph, &t));
    const int64_t here = n.widths[n.g->output];
    const int64_t there = t.widths[t.g->output];
    if (here != there) {
        FAIL(GRAIL_ERROR_ARGUMENT, "cannot heal towards '%s': it has %lld outputs, expected %lld",
             teacher->path, (long long)there, (long long)here);
    }
    if (heal->blocks) {
        TRY(check_blocks(&n, &t, teacher->path));
    }
out:
    measured_fini(&n);
    measured_fini(&t);
    return status;
}
