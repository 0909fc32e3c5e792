/* Comparing two networks on the same inputs, and the zero-column identity: a network pruned without
 * compensation equals the dense one whose removed consumer columns are zero. */
#include "arch/model_images.h"
#include "arch/model_text.h"
#include "base/option_values.h"
#include "eval/comparison.h"
#include "eval/forward.h"
#include "eval/image_pass.h"
#include "eval/measuring.h"
#include "eval/pooled_vectors.h"
#include "eval/zeroed_store.h"
#include "exec/compute.h"
#include "pipeline/request/calibration_record.h"

#include <math.h>
#include <stdio.h>

enum { RANDOM_WINDOWS = 4, RANDOM_LENGTH = 64, RANDOM_IMAGES = 8 };

/* The inputs of both networks: text or images, as their graphs read. */
typedef struct inputs {
    token_windows text;
    image_set *set;   /* NULL: random pixels */
    int64_t *indices; /* [images] of the set */
    float *pixels;    /* [images, height, width, channels] where there is no set */
    int64_t images;
    extent positions;             /* of an image */
    grail_eval_observer observer; /* or NULL */
    void *user;
    bool of_text;                     /* a text was given */
    grail_output_comparison *outputs; /* [outputs of the dense network] to be filled, or NULL */
} inputs;

static void inputs_fini(inputs *in)
{
    token_windows_fini(&in->text);
    image_set_close(in->set);
    memory_free(in->indices);
    memory_free(in->pixels);
}

static grail_status tell(const inputs *in, int64_t done, double passed)
{
    const bool of_text = in->text.ids != NULL;
    const grail_eval_progress now = {.done = done,
                                     .total = of_text ? in->text.count : in->images,
                                     .passed = passed,
                                     .so_far = (double)NAN};
    return observer_tell(in->observer, in->user, &now, of_text ? "windows" : "images");
}

/* -- text ------------------------------------------------------------------------------------- */

/* Windows that run through one of the two networks. */
typedef struct windows_pass {
    const inputs *in;
    int64_t first, count;
    double before; /* networks that are through: 0 or 1 */
} windows_pass;

static grail_status tell_part(void *user, double passed)
{
    const windows_pass *p = user;
    return tell(p->in, p->first,
                (double)p->first + 0.5 * (p->before + fmin(passed, 0.99)) * (double)p->count);
}

/* Outputs behind the first one. */
static grail_status compare_others(const forward_pass *a, const forward_pass *b, int64_t window,
                                   comparison_sums *sums)
{
    for (int i = 1; i < a->model->graph->output_count; i++) {
        const int64_t length = forward_length(a, i, window);
        CHECK(comparison_add(forward_output(a, i, window, 0, length),
                             forward_output(b, i, window, 0, length), &sums[i]));
    }
    return GRAIL_OK;
}

/* Hidden states are also pooled, unless `vectors` is NULL. */
static grail_status compare_window(forward_pass *a, forward_pass *b, int64_t window,
                                   pooled_vectors *vectors, comparison_sums *sums)
{
    const int64_t length = forward_length(a, 0, window);
    for (int64_t from = 0; from < length; from += FORWARD_ROWS) {
        const int64_t rows = length - from < FORWARD_ROWS ? length - from : FORWARD_ROWS;
        matrix left = {0};
        matrix right = {0};
        CHECK(forward_logits(a, window, from, rows, &left));
        CHECK(forward_logits(b, window, from, rows, &right));
        CHECK(comparison_add(left, right, sums));
        if (vectors != NULL) {
            CHECK(pooled_vectors_add(left, right, window, from, vectors));
        }
    }
    return compare_others(a, b, window, sums);
}

static grail_status compare_chunk(parameter_store *a, parameter_store *b, const inputs *in,
                                  int64_t first, int64_t count, pooled_vectors *vectors,
                                  comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    windows_pass pass = {in, first, count, 0.0};
    const forward_watch watch = {tell_part, &pass};
    forward_pass left = {.watch = &watch};
    forward_pass right = {.watch = &watch};
    TRY(forward_begin(&left, a->model, a, &in->text, first, count));
    pass.before = 1.0;
    TRY(forward_begin(&right, b->model, b, &in->text, first, count));
    for (int64_t w = first; w < first + count; w++) {
        TRY(compare_window(&left, &right, w, vectors, sums));
    }
out:
    forward_end(&left);
    forward_end(&right);
    return status;
}

static grail_status compare_on_text(parameter_store *a, parameter_store *b, const inputs *in,
                                    pooled_vectors *vectors, comparison_sums *sums)
{
    const token_windows *windows = &in->text;
    const int64_t chunk = forward_chunk(a->model, a->backend, windows->length, (forward_limit){0});
    for (int64_t first = 0; first < windows->count; first += chunk) {
        const int64_t left = windows->count - first;
        const int64_t count = left < chunk ? left : chunk;
        CHECK(compare_chunk(a, b, in, first, count, vectors, sums));
        CHECK(tell(in, first + count, (double)(first + count)));
    }
    return GRAIL_OK;
}

static grail_status read_text(const grail_model *model, const grail_text_source *source,
                              int64_t most, token_windows *out)
{
    char hash[65];
    if (!text_source_is_given(source)) {
        const bool is_short = model->context < RANDOM_LENGTH;
        return random_windows(model, RANDOM_WINDOWS, is_short ? model->context : RANDOM_LENGTH,
                              out);
    }
    CHECK(model_read_first_windows(model, source, most, out, hash));
    out->count = most > 0 && most < out->count ? most : out->count;
    if (graph_gives_features(model->graph) && out->count > POOLED_MOST_NEIGHBOURS) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "%s: looking for the nearest of %lld windows takes too long; "
                                     "measure at most %d of them",
                                     text_source_place(source), (long long)out->count,
                                     POOLED_MOST_NEIGHBOURS),
                           "windows");
    }
    return windows_sort(out);
}

static void fill_text(const token_windows *w, grail_comparison *out)
{
    out->context = w->length;
    out->documents = w->starts != NULL ? 1 : 0;
    out->full_documents = windows_full(w);
}

/* -- images ----------------------------------------------------------------------------------- */

static grail_status compare_batch(image_pass *a, image_pass *b, int64_t images, const float *pixels,
                                  comparison_sums *sums)
{
    matrix left = {0};
    matrix right = {0};
    CHECK(image_pass_run(a, images, pixels, &left));
    CHECK(image_pass_run(b, images, pixels, &right));
    return comparison_add_outputs(a->run, b->run, sums);
}

static grail_status compare_on_images(parameter_store *a, parameter_store *b, const inputs *in,
                                      comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    image_pass left = {0};
    image_pass right = {0};
    image_loader *loader = NULL;
    const float *pixels = in->pixels;
    int64_t count = in->images;
    TRY(image_pass_begin(&left, a, in->positions));
    TRY(image_pass_begin(&right, b, in->positions));
    if (in->set == NULL) {
        TRY(compare_batch(&left, &right, count, pixels, sums));
        goto out;
    }
    TRY(image_loader_open(in->set, in->images, in->indices, left.batch, &loader));
    TRY(image_loader_next(loader, &pixels, &count));
    for (int64_t done = count; count > 0; done += count) {
        TRY(compare_batch(&left, &right, count, pixels, sums));
        TRY(tell(in, done, (double)done));
        TRY(image_loader_next(loader, &pixels, &count));
    }
out:
    image_loader_close(loader);
    image_pass_end(&left);
    image_pass_end(&right);
    return status;
}

static grail_status read_images(const grail_model *model, const grail_image_source *source,
                                int64_t most, inputs *out)
{
    if (!image_source_is_given(source)) {
        out->positions = model_image_extent(model);
        out->images = RANDOM_IMAGES;
        return random_pixels(model->graph, out->images, out->positions, &out->pixels);
    }
    CHECK(grail_images_open(model, source, &out->set));
    const int64_t all = image_set_count(out->set);
    out->positions = (extent){image_set_rule(out->set)->height, image_set_rule(out->set)->width};
    out->images = most > 0 && most < all ? most : all;
    CHECK(memory_new(&out->indices, (size_t)out->images, sizeof out->indices[0]));
    return image_set_sample(out->set, out->images, 0, out->indices);
}

/* -- both ------------------------------------------------------------------------------------- */

/* sums[outputs]. Windows are pooled in `vectors` besides, unless it is NULL. */
static grail_status compare_stores(parameter_store *a, parameter_store *b, const inputs *in,
                                   pooled_vectors *vectors, comparison_sums *sums)
{
    return a->model->graph->input_kind == INPUT_IMAGES ? compare_on_images(a, b, in, sums)
                                                       : compare_on_text(a, b, in, vectors, sums);
}

static grail_status check_identity(parameter_store *dense, parameter_store *narrow,
                                   const inputs *in, grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    const int outputs = dense->model->graph->output_count;
    parameter_store *zeroed = NULL;
    comparison_sums *sums = NULL;
    bool norm_is_cut = false;
    TRY(memory_new(&sums, (size_t)outputs, sizeof sums[0]));
    TRY(zeroed_store_create(dense, narrow->model, true, &norm_is_cut, &zeroed));
    out->norm_is_cut = norm_is_cut ? 1 : 0;
    if (zeroed != NULL) {
        TRY(compare_stores(zeroed, narrow, in, NULL, sums));
        out->identity_checked = 1;
        for (int i = 0; i < outputs; i++) {
            out->identity_max_abs = fmax(out->identity_max_abs, sums[i].max_abs);
        }
    }
out:
    memory_free(sums);
    parameter_store_free(zeroed);
    return status;
}

/* The worst of several outputs stands for all. */
static void fill_outputs(const graph *g, const comparison_sums *sums, const inputs *in,
                         grail_comparison *out)
{
    for (int i = 0; i < g->output_count; i++) {
        const grail_output_comparison one = comparison_of_output(g, i, &sums[i]);
        if (in->outputs != NULL) {
            in->outputs[i] = one;
        }
        out->max_abs = fmax(out->max_abs, one.max_abs);
        if (i == 0 || one.relative_error > out->relative_error) {
            out->relative_error = one.relative_error;
            out->worst = one.name;
        }
    }
}

/* Which of the images `recorded` was calibrated on. */
static grail_status find_calibrated(const grail_model *recorded, const inputs *in,
                                    grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    json_t *record = NULL;
    hash_set calibrated = {0};
    uint64_t *digests = NULL;
    TRY(calibration_record_read(recorded, &record));
    TRY(calibration_record_hashes(recorded, record, &calibrated));
    out->is_calibration =
        calibration_record_is(record, "images_sha256", image_set_hash(in->set)) ? 1 : 0;
    out->calibration_runs = calibrated.count;
    if (calibrated.count > 0) {
        TRY(memory_new(&digests, (size_t)in->images, sizeof digests[0]));
        TRY(image_set_digests(in->set, in->images, in->indices, digests));
    }
    for (int64_t i = 0; digests != NULL && i < in->images; i++) {
        out->overlap_runs += hash_set_has(&calibrated, digests[i]) ? 1 : 0;
    }
out:
    memory_free(digests);
    hash_set_fini(&calibrated);
    json_decref(record);
    return status;
}

/* `recorded` is what was calibrated. */
static grail_status compare_outputs(parameter_store *left, parameter_store *right,
                                    const grail_model *recorded, const inputs *in,
                                    grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = left->model->graph;
    const bool pools = graph_gives_features(g) && g->input_kind == INPUT_TOKENS;
    pooled_vectors vectors = {0};
    comparison_sums *sums = NULL;
    TRY(memory_new(&sums, (size_t)g->output_count, sizeof sums[0]));
    if (pools) {
        TRY(pooled_vectors_init(left->model, right->model, in->text.count, &vectors));
    }
    TRY(compare_stores(left, right, in, pools ? &vectors : NULL, sums));
    grail_comparison result = comparison_result(&sums[0]);
    fill_outputs(g, sums, in, &result);
    result.compared = g->input_kind == INPUT_IMAGES ? in->images : result.compared;
    fill_text(&in->text, &result);
    TRY(in->set == NULL ? GRAIL_OK : find_calibrated(recorded, in, &result));
    if (pools) {
        text_overlap overlap = {0};
        TRY(pooled_vectors_compare(&vectors, &in->text, in->of_text, &result));
        TRY(in->of_text ? text_overlap_find(recorded, &in->text, &overlap) : GRAIL_OK);
        result.overlap_runs = overlap.found;
        result.calibration_runs = overlap.recorded;
        result.is_calibration = overlap.is_calibration ? 1 : 0;
    }
    if (graph_gives_features(g)) { /* which are no logits */
        result.mean_kl = result.max_kl = result.top1_agreement = (double)NAN;
    }
    *out = result;
out:
    memory_free(sums);
    pooled_vectors_fini(&vectors);
    return status;
}

/* With `cut` what the cut alone leaves of the dense network, instead of the narrow one. */
static grail_status compare_models(const grail_model *dense, const grail_model *narrow, bool cut,
                                   const inputs *in, backend *b, grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    parameter_store *left = NULL;
    parameter_store *right = NULL;
    grail_comparison result = {0};
    TRY(parameter_store_create(dense, b, NULL, &left));
    if (cut) {
        TRY(zeroed_store_of_cut(left, narrow, &right));
    } else {
        TRY(parameter_store_create(narrow, b, NULL, &right));
    }
    TRY(compare_outputs(left, right, narrow, in, &result));
    if (!cut) {
        TRY(check_identity(left, right, in, &result));
    }
    *out = result;
out:
    parameter_store_free(right); /* before the one that it may lie over */
    parameter_store_free(left);
    return status;
}

static grail_status check_widths(const grail_model *dense, const grail_model *narrow)
{
    int64_t of_dense = 0;
    int64_t of_narrow = 0;
    if (dense->graph->channels != narrow->graph->channels) {
        return error_set(GRAIL_ERROR_SHAPE, "'%s' reads %lld channels, '%s' %lld", dense->path,
                         (long long)dense->graph->channels, narrow->path,
                         (long long)narrow->graph->channels);
    }
    if (dense->graph->output_count != narrow->graph->output_count) {
        return error_set(GRAIL_ERROR_SHAPE, "'%s' has %d outputs, '%s' has %d", dense->path,
                         dense->graph->output_count, narrow->path, narrow->graph->output_count);
    }
    CHECK(graph_output_width(dense->graph, &of_dense));
    CHECK(graph_output_width(narrow->graph, &of_narrow));
    return of_dense == of_narrow
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "the networks have different numbers of outputs: '%s' has %lld, '%s' "
                           "has %lld",
                           dense->path, (long long)of_dense, narrow->path, (long long)of_narrow);
}

/* What both networks read and give must be alike. */
static grail_status check_pair(const grail_model *dense, const grail_model *narrow,
                               input_kind expected)
{
    const graph *a = dense->graph;
    const graph *b = narrow->graph;
    const bool reads_images = a->input_kind == INPUT_IMAGES;
    const bool gives_features = graph_gives_features(a);
    if (a->input_kind != b->input_kind) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot compare a text network with an image network: '%s' reads text, "
                         "'%s' reads images",
                         reads_images ? narrow->path : dense->path,
                         reads_images ? dense->path : narrow->path);
    }
    if (a->input_kind != expected) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' and '%s' read %s; expected networks that read %s", dense->path,
                         narrow->path, reads_images ? "images" : "text",
                         reads_images ? "text" : "images");
    }
    if (!reads_images && a->vocabulary != b->vocabulary) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "the networks have different vocabularies: '%s' has %lld tokens, '%s' has %lld",
            checkpoint_path(dense->checkpoint), (long long)a->vocabulary,
            checkpoint_path(narrow->checkpoint), (long long)b->vocabulary);
    }
    if (!reads_images && gives_features != graph_gives_features(b)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot compare logits with hidden states: '%s' is an encoder, '%s' "
                         "predicts tokens",
                         gives_features ? dense->path : narrow->path,
                         gives_features ? narrow->path : dense->path);
    }
    return check_widths(dense, narrow);
}

/* On a text or on images, `most` windows or images of them; NULL: random ones. */
typedef struct samples {
    input_kind kind;
    const grail_text_source *text;
    const grail_image_source *images;
    int64_t most;
} samples;

/* With `cut` what the cut alone leaves of the dense network. */
static grail_status verify(const grail_model *dense, const grail_model *narrow, bool cut,
                           samples from, const grail_compute *compute, inputs *in,
                           grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    backend *b = NULL;
    const bool of_images = from.kind == INPUT_IMAGES;
    in->of_text = !of_images && text_source_is_given(from.text);
    TRY(option_integer(of_images ? "images" : "windows",
                       of_images ? "the number of images" : "the number of windows", from.most, 0));
    TRY(check_pair(dense, narrow, from.kind));
    TRY(compute_open(compute, dense, &b));
    TRY(of_images ? read_images(dense, from.images, from.most, in)
                  : read_text(dense, from.text, from.most, &in->text));
    TRY(compare_models(dense, narrow, cut, in, b, out));
out:
    inputs_fini(in);
    backend_close(b);
    return status;
}

grail_status grail_verify(const grail_model *dense, const grail_model *narrow,
                          const grail_text_source *source, int64_t windows,
                          const grail_compute *compute, grail_eval_observer observer, void *user,
                          grail_comparison *out)
{
    inputs in = {.observer = observer, .user = user};
    return verify(dense, narrow, false, (samples){INPUT_TOKENS, source, NULL, windows}, compute,
                  &in, out);
}

grail_status grail_verify_of_cut(const grail_model *dense, const grail_model *narrow,
                                 const grail_text_source *source, int64_t windows,
                                 const grail_compute *compute, grail_eval_observer observer,
                                 void *user, grail_comparison *out)
{
    inputs in = {.observer = observer, .user = user};
    return verify(dense, narrow, true, (samples){INPUT_TOKENS, source, NULL, windows}, compute, &in,
                  out);
}

grail_status grail_verify_images(const grail_model *dense, const grail_model *narrow,
                                 const grail_image_source *source, int64_t images,
                                 const grail_compute *compute, grail_eval_observer observer,
                                 void *user, grail_comparison *out)
{
    inputs in = {.observer = observer, .user = user};
    return verify(dense, narrow, false, (samples){INPUT_IMAGES, NULL, source, images}, compute, &in,
                  out);
}

grail_status grail_verify_outputs(const grail_model *dense, const grail_model *narrow, int of_cut,
                                  const grail_image_source *source, int64_t images,
                                  const grail_compute *compute, grail_eval_observer observer,
                                  void *user, grail_output_comparison *outputs,
                                  grail_comparison *out)
{
    inputs in = {.observer = observer, .user = user, .outputs = outputs};
    return verify(dense, narrow, of_cut != 0, (samples){INPUT_IMAGES, NULL, source, images},
                  compute, &in, out);
}

grail_status grail_verify_describe(const grail_model *model, const grail_text_source *source,
                                   int64_t windows, grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    const comparison_sums none = {.rows = 1};
    token_windows w = {0};
    sentence_pooling pooling = {0};
    grail_comparison result = comparison_result(&none);
    TRY(option_integer("windows", "the number of windows", windows, 0));
    TRY(read_text(model, source, windows, &w));
    if (windows > w.count) {
        FAIL_ABOUT("windows", GRAIL_ERROR_ARGUMENT,
                   "%lld windows were requested, but the text holds %lld", (long long)windows,
                   (long long)w.count);
    }
    TRY(sentence_pooling_read(checkpoint_directory(model->checkpoint), &pooling));
    fill_text(&w, &result);
    result.pooled = w.count;
    result.compared = 0;
    snprintf(result.pooling, sizeof result.pooling, "%s", sentence_pooling_name(&pooling));
    snprintf(result.pooling_notice, sizeof result.pooling_notice, "%s", pooling.notice);
    *out = result;
out:
    token_windows_fini(&w);
    return status;
}
