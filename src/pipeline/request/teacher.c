#include "pipeline/request/teacher.h"

#include "arch/model_images.h"
#include "arch/model_preparation.h"
#include "arch/model_text.h"
#include "pipeline/request/calibration_text.h"

#include <stdlib.h>
#include <string.h>

/* Messages speak of the model and the teacher; teacher_check puts both paths before them. */

/* One network's widths[value_count] and extents[value_count], and room for live[value_count]. */
typedef struct measured {
    const graph *g;
    int64_t *widths;
    extent *extents;
    int *live;
} measured;

static grail_status measure(const grail_model *model, extent input, measured *out)
{
    const graph *g = model->graph;
    out->g = g;
    CHECK(memory_new(&out->widths, (size_t)g->value_count, sizeof out->widths[0]));
    CHECK(memory_new(&out->extents, (size_t)g->value_count, sizeof out->extents[0]));
    CHECK(memory_new(&out->live, (size_t)g->value_count, sizeof out->live[0]));
    CHECK(graph_widths(g, out->widths));
    return graph_extents(g, input, out->extents);
}

static void measured_fini(measured *m)
{
    memory_free(m->widths);
    memory_free(m->extents);
    memory_free(m->live);
}

/* -- what both read and give ------------------------------------------------------------------- */

static const char *input_name(const graph *g)
{
    return g->input_kind == INPUT_IMAGES ? "images" : "text";
}

/* An image network that takes any size has none here. */
static grail_status check_input(const graph *narrow, const graph *teacher)
{
    const extent here = narrow->image;
    const extent there = teacher->image;
    if (narrow->input_kind != teacher->input_kind) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model reads %s, the teacher %s",
                         input_name(narrow), input_name(teacher));
    }
    if (narrow->channels != teacher->channels) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model reads %lld channels, the teacher %lld",
                         (long long)narrow->channels, (long long)teacher->channels);
    }
    if (narrow->vocabulary != teacher->vocabulary) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the model has a vocabulary of %lld tokens, the teacher one of %lld",
                         (long long)narrow->vocabulary, (long long)teacher->vocabulary);
    }
    if (here.height > 0 && there.height > 0 &&
        (here.height != there.height || here.width != there.width)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the model reads images of %lld x %lld pixels, the teacher of %lld x %lld",
                         (long long)here.height, (long long)here.width, (long long)there.height,
                         (long long)there.width);
    }
    return GRAIL_OK;
}

static grail_status check_output(const measured *narrow, const measured *teacher, int i)
{
    const int64_t here = narrow->widths[narrow->g->outputs[i].value];
    const int64_t there = teacher->widths[teacher->g->outputs[i].value];
    const bool head = narrow->g->outputs[i].is_logits;
    const char *logits = narrow->g->input_kind == INPUT_IMAGES ? "classes" : "logits";
    if (head != teacher->g->outputs[i].is_logits) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model gives %s, the teacher %s",
                         head ? logits : "features", head ? "features" : logits);
    }
    if (here != there) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model has %lld %s, the teacher %lld",
                         (long long)here, head ? logits : "outputs", (long long)there);
    }
    return GRAIL_OK;
}

static grail_status check_outputs(const measured *narrow, const measured *teacher)
{
    const int count = narrow->g->output_count;
    if (count != teacher->g->output_count) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model has %d outputs, the teacher %d", count,
                         teacher->g->output_count);
    }
    for (int i = 0; i < count; i++) {
        CHECK(check_output(narrow, teacher, i));
    }
    return GRAIL_OK;
}

/* -- blocks ------------------------------------------------------------------------------------ */

/* The one value that is live behind a block; GRAPH_NONE where there are several. */
static int value_behind(const measured *m, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(m->g, block, &begin, &end);
    return graph_live_values(m->g, end, m->live) == 1 ? m->live[0] : GRAPH_NONE;
}

static int64_t rows_of(const measured *m, int value)
{
    return m->extents[value].height * m->extents[value].width;
}

static grail_status check_block(const measured *narrow, const measured *teacher, int block)
{
    const int here = value_behind(narrow, block);
    const int there = value_behind(teacher, block);
    if (here == GRAPH_NONE || there == GRAPH_NONE) {
        return error_set(GRAIL_ERROR_ARGUMENT, "several values leave block %d of the %s", block + 1,
                         here == GRAPH_NONE ? "model" : "heal.teacher");
    }
    if (narrow->widths[here] != teacher->widths[there]) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "behind block %d the model's residual stream has %lld channels, the teacher's %lld",
            block + 1, (long long)narrow->widths[here], (long long)teacher->widths[there]);
    }
    if (rows_of(narrow, here) != rows_of(teacher, there)) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "behind block %d the model's residual stream has %lld positions, the teacher's %lld",
            block + 1, (long long)rows_of(narrow, here), (long long)rows_of(teacher, there));
    }
    return GRAIL_OK;
}

static grail_status check_blocks(const measured *narrow, const measured *teacher)
{
    grail_status status = GRAIL_OK;
    if (narrow->g->block_count != teacher->g->block_count) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the model has %d block%s, the teacher %d",
             narrow->g->block_count, narrow->g->block_count == 1 ? "" : "s",
             teacher->g->block_count);
    }
    for (int block = 0; block < narrow->g->block_count; block++) {
        TRY(check_block(narrow, teacher, block));
    }
out:
    if (status != GRAIL_OK) {
        error_append("; heal the whole model instead of its blocks");
        (void)error_about(status, "heal.what");
    }
    return status;
}

/* -- samples, which are read as the model reads them ------------------------------------------- */

/* Tokenizers may be written differently, and make the same tokens. */
static grail_status check_windows(const grail_model *teacher, const grail_compress_options *options,
                                  const calibration *samples, int64_t context)
{
    grail_status status = GRAIL_OK;
    const int64_t length = samples->windows.length;
    grail_compress_options own = *options;
    char hash[65] = "";
    json_t *description = NULL;
    token_windows theirs = {0};
    hash_set hashes = {0};
    int64_t drawn_count = 0;
    if (length > teacher->context) {
        FAIL_ABOUT("context", GRAIL_ERROR_ARGUMENT,
                   "a window has %lld tokens; the model reads %lld, the teacher %lld; give a "
                   "smaller context",
                   (long long)length, (long long)context, (long long)teacher->context);
    }
    if (samples->tokenizer_hash[0] != 0) { /* it may be token ids */
        TRY(model_tokenizer_hash(teacher, hash));
    }
    if (hash[0] == 0 || strcmp(samples->tokenizer_hash, hash) == 0) {
        goto out;
    }
    own.read.text.context = length;
    own.read.samples = samples->windows.count;
    /* a text that is too short for the samples has other tokens */
    const grail_status drawn =
        text_parts_read(teacher, &own, NULL, &theirs, &drawn_count, &hashes, hash, &description);
    if (drawn != GRAIL_OK && drawn != GRAIL_ERROR_ARGUMENT) {
        TRY(drawn);
    }
    if (drawn != GRAIL_OK || !windows_equal(&theirs, &samples->windows)) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "their tokenizers differ: of '%s' that of the model (sha256 %.12s) and that of the "
             "teacher (sha256 %.12s) make other tokens",
             own.read.part_count > 0 ? own.read.parts[0].path : text_source_place(&own.read.text),
             samples->tokenizer_hash, hash);
    }
out:
    json_decref(description);
    token_windows_fini(&theirs);
    hash_set_fini(&hashes);
    return status;
}

/* What a teacher's files say of images counts; what is only usual in its family does not. */
static grail_status check_preparation(const grail_model *narrow, const grail_model *teacher,
                                      const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    char *here = NULL;
    char *there = NULL;
    bool is_unprepared = false;
    CHECK(image_source_is_unprepared(options->read.images, &is_unprepared));
    if (is_unprepared || options->read.images->preset != NULL || teacher->preparation == NULL ||
        narrow->preparation == NULL ||
        (teacher->preparation->origin == NULL && teacher->preparation->failure_text == NULL)) {
        return GRAIL_OK;
    }
    TRY(model_describe_images(narrow, options->read.images, &here));
    TRY(model_describe_images(teacher, options->read.images, &there));
    if (strcmp(here, there) != 0) {
        FAIL_ABOUT("preset", GRAIL_ERROR_ARGUMENT,
                   "the model's images are prepared as %s, the teacher's as %s; name the preset "
                   "that both were trained with",
                   here, there);
    }
out:
    memory_free(here);
    memory_free(there);
    return status;
}

static grail_status check_images(const grail_model *narrow, const grail_model *teacher,
                                 const grail_compress_options *options, extent input)
{
    const extent there = teacher->graph->image;
    if (there.height > 0 && (input.height != there.height || input.width != there.width)) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT,
                      "the model's images are prepared with %lld x %lld pixels, and the teacher "
                      "reads %lld x %lld; give that size",
                      (long long)input.height, (long long)input.width, (long long)there.height,
                      (long long)there.width),
            "size");
    }
    return options->read.images == NULL ? GRAIL_OK : check_preparation(narrow, teacher, options);
}

static grail_status check_samples(const grail_model *narrow, const grail_model *teacher,
                                  const grail_compress_options *options, const calibration *samples,
                                  extent input)
{
    if (narrow->graph->input_kind == INPUT_IMAGES) {
        return check_images(narrow, teacher, options, input);
    }
    return samples->count == 0 ? GRAIL_OK
                               : check_windows(teacher, options, samples, narrow->context);
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status check_paths(const grail_model *narrow, const grail_model *teacher)
{
    char *here = realpath(narrow->path, NULL);
    char *there = realpath(teacher->path, NULL);
    const bool same = here != NULL && there != NULL && strcmp(here, there) == 0;
    free(here);  /* realpath's own allocator */
    free(there); /* realpath's own allocator */
    return !same ? GRAIL_OK
                 : error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                         "both are the same model; name the dense network that it "
                                         "was narrowed from"),
                               "heal.teacher");
}

/* The positions of one sample; those for which costs are counted in a run without samples. */
static extent input_of(const grail_model *model, const calibration *samples)
{
    return samples->count > 0 ? samples->positions : model_usual_positions(model);
}

grail_status teacher_check(const grail_model *narrow, const grail_model *teacher,
                           const grail_compress_options *options, const heal_options *heal,
                           const calibration *samples)
{
    grail_status status = GRAIL_OK;
    measured n = {0};
    measured t = {0};
    const extent input = input_of(narrow, samples);
    TRY(check_paths(narrow, teacher));
    TRY(check_input(narrow->graph, teacher->graph));
    TRY(check_samples(narrow, teacher, options, samples, input));
    TRY(measure(narrow, input, &n));
    TRY(measure(teacher, input, &t));
    TRY(check_outputs(&n, &t));
    if (heal->blocks) {
        TRY(check_blocks(&n, &t));
    }
out:
    measured_fini(&n);
    measured_fini(&t);
    return error_in(status, "cannot heal '%s' towards '%s'", narrow->path, teacher->path);
}
