/* Networks that run on samples in memory. */
#include <grail/runner.h>

#include "arch/model_images.h"
#include "arch/model_text.h"
#include "eval/image_pass.h"
#include "eval/measuring.h"
#include "eval/token_losses.h"
#include "format/images/pixels.h"
#include "format/text/token_array.h"

#include <math.h>
#include <string.h>

struct grail_runner {
    const grail_model *model;
    measured_network network;
    image_pass images; /* of `images.positions`, where it has run on images */
    int64_t outputs;
};

grail_status grail_runner_open(const grail_model *model, const grail_compute *compute,
                               grail_runner **out)
{
    grail_status status = GRAIL_OK;
    grail_runner *r = NULL;
    TRY(memory_new(&r, 1, sizeof *r));
    r->model = model;
    TRY(graph_output_width(model->graph, &r->outputs));
    TRY(measured_open(model, NULL, compute, &r->network));
    *out = r;
    r = NULL;
out:
    grail_runner_close(r);
    return status;
}

void grail_runner_close(grail_runner *r)
{
    if (r != NULL) {
        image_pass_end(&r->images);
        measured_close(&r->network);
        memory_free(r);
    }
}

int64_t grail_runner_outputs(const grail_runner *runner)
{
    return runner->outputs;
}

/* -- tokens ------------------------------------------------------------------------------------ */

/* Windows of one length that one pass takes. */
typedef struct token_chunk {
    token_windows read;   /* what the network reads of them; owned ids */
    const int32_t *given; /* [read.count, size] all of their ids, borrowed */
    int64_t size;
    int64_t first;  /* number of the first one in the array */
    int64_t stride; /* tokens of a row of the array */
} token_chunk;

/* Does the work of a call with a chunk whose windows have passed the blocks. */
typedef grail_status (*chunk_work)(const grail_runner *r, forward_pass *f, const token_chunk *c,
                                   void *context);

static grail_status run_chunk(const grail_runner *r, token_chunk *c, chunk_work work, void *context)
{
    grail_status status = GRAIL_OK;
    forward_pass f = {0};
    const int64_t length = c->read.length;
    TRY(memory_new_unset(&c->read.ids, (size_t)(c->read.count * length), sizeof c->read.ids[0]));
    for (int64_t w = 0; w < c->read.count; w++) {
        memcpy(c->read.ids + w * length, c->given + w * c->size,
               (size_t)length * sizeof c->read.ids[0]);
    }
    TRY(forward_begin(&f, r->model, r->network.store, &c->read, 0, c->read.count));
    TRY(work(r, &f, c, context));
out:
    forward_end(&f);
    token_windows_fini(&c->read);
    return status;
}

/* The network does not read the last `unread` tokens of a window. */
static grail_status run_tokens(const grail_runner *r, const grail_tokens *tokens, int64_t unread,
                               chunk_work work, void *context)
{
    grail_status status = GRAIL_OK;
    token_windows all = {0};
    TRY(model_read_tokens(r->model, tokens, unread, &all));
    for (int64_t first = 0; first < all.count;) {
        const int64_t size = window_size(&all, first);
        const int64_t most = forward_chunk(r->model, r->network.backend, size, (forward_limit){0});
        const int64_t alike = windows_of_one_size(&all, first, all.count);
        token_chunk c = {.read = {.count = alike < most ? alike : most, .length = size - unread},
                         .given = all.ids + window_start(&all, first),
                         .size = size,
                         .first = first,
                         .stride = tokens->length};
        first += c.read.count;
        if (size > unread) {
            TRY(run_chunk(r, &c, work, context));
        }
    }
out:
    token_windows_fini(&all);
    return status;
}

/* Where logits go: [windows, positions, outputs]. */
typedef struct logits_place {
    float *out;
    bool last; /* of each window the last position alone */
} logits_place;

static grail_status take_logits(const grail_runner *r, forward_pass *f, const token_chunk *c,
                                void *context)
{
    const logits_place *place = context;
    const int64_t length = forward_length(f, 0, 0);
    const int64_t begin = place->last ? length - 1 : 0;
    const int64_t stride = place->last ? 1 : c->stride;
    for (int64_t w = 0; w < c->read.count; w++) {
        float *out = place->out + (c->first + w) * stride * r->outputs;
        for (int64_t from = begin; from < length; from += FORWARD_ROWS) {
            const int64_t left = length - from;
            matrix logits = {0};
            CHECK(forward_logits(f, w, from, left < FORWARD_ROWS ? left : FORWARD_ROWS, &logits));
            CHECK(matrix_download_f32(logits, out + (from - begin) * r->outputs));
        }
        memset(out + (length - begin) * r->outputs, 0,
               (size_t)((place->last ? 0 : c->stride - length) * r->outputs) * sizeof out[0]);
    }
    return GRAIL_OK;
}

grail_status grail_runner_tokens(grail_runner *runner, const grail_tokens *tokens, int last,
                                 float *out)
{
    logits_place place = {.out = out, .last = last != 0};
    return run_tokens(runner, tokens, 0, take_logits, &place);
}

typedef struct losses_place {
    double *losses;
    unsigned char *largest; /* or NULL */
} losses_place;

static grail_status take_losses(const grail_runner *r, forward_pass *f, const token_chunk *c,
                                void *context)
{
    (void)r;
    grail_status status = GRAIL_OK;
    const losses_place *place = context;
    const int64_t each = c->read.length;
    const token_targets targets = {.ids = c->given + 1, .stride = c->size, .count = each};
    entropy_sums *sums = NULL;
    TRY(memory_new_unset(&sums, (size_t)(c->read.count * each), sizeof sums[0]));
    TRY(token_losses(f, targets, 0, sums));
    for (int64_t i = 0; i < c->read.count * each; i++) {
        const int64_t out = (c->first + i / each) * (c->stride - 1) + i % each;
        place->losses[out] = entropy_of(&sums[i]);
        if (place->largest != NULL) {
            place->largest[out] = sums[i].target >= sums[i].largest ? 1 : 0;
        }
    }
out:
    memory_free(sums);
    return status;
}

grail_status grail_runner_losses(grail_runner *runner, const grail_tokens *tokens, double *losses,
                                 unsigned char *largest)
{
    losses_place place = {.losses = losses, .largest = largest};
    CHECK(model_check_next_token(runner->model, "losses are made of"));
    CHECK(tokens_check(tokens));
    for (int64_t i = 0; i < tokens->windows * (tokens->length - 1); i++) { /* no window reaches */
        losses[i] = (double)NAN;
        if (largest != NULL) {
            largest[i] = 0;
        }
    }
    return run_tokens(runner, tokens, 1, take_losses, &place);
}

/* -- images ------------------------------------------------------------------------------------ */

grail_status grail_runner_pixels(grail_runner *r, const grail_pixels *pixels, float *out)
{
    grail_status status = GRAIL_OK;
    grail_image_source source = {.pixels = pixels};
    int64_t classes = 0;
    float *room = NULL;
    TRY(model_image_source(r->model, &source));
    TRY(pixels_check(&source, source.size, &classes));
    if (pixels_channels(pixels) != r->model->graph->channels) {
        FAIL(GRAIL_ERROR_SHAPE, "the images in memory have %lld channels, the network reads %lld",
             (long long)pixels_channels(pixels), (long long)r->model->graph->channels);
    }
    if (r->images.positions.height != pixels->side) {
        image_pass_end(&r->images);
        TRY(image_pass_begin(&r->images, r->network.store,
                             (extent){.height = pixels->side, .width = pixels->side}));
    }
    const int64_t batch = r->images.batch < pixels->count ? r->images.batch : pixels->count;
    const int64_t values = pixels->side * pixels->side * pixels_channels(pixels);
    TRY(memory_new_unset(&room, (size_t)(batch * values), sizeof room[0]));
    for (int64_t first = 0; first < pixels->count; first += batch) {
        const int64_t left = pixels->count - first;
        const int64_t count = left < batch ? left : batch;
        matrix outputs = {0};
        for (int64_t i = 0; i < count; i++) {
            pixels_copy(pixels, first + i, room + i * values);
        }
        TRY(image_pass_run(&r->images, count, room, &outputs));
        if (outputs.rows != count || r->model->graph->output_count > 1) {
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "'%s' gives a map, or several outputs, for an image; a runner gives one row",
                 r->model->path);
        }
        TRY(matrix_download_f32(outputs, out + first * r->outputs));
    }
out:
    memory_free(room);
    return status;
}
