#include "eval/accuracy.h"
#include "exec/compute.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/option_values.h"
#include "base/wilson.h"
#include "eval/image_pass.h"
#include "eval/zeroed_store.h"
#include "pipeline/request/calibration_record.h"

#include <math.h>
#include <stdio.h>

enum { TOP = 5 };

/* The state of one measurement. */
typedef struct measurement {
    const image_set *set;
    image_pass pass;
    const int64_t *indices; /* [images] of the set */
    int64_t images, side, classes;
    int32_t *labels; /* [images], owned */
    accuracy_sums sums;
    double *hits;               /* [batch] of the last batch, owned */
    const hash_set *calibrated; /* digests of images; NULL: none are looked for */
    bool marked[HASH_SET_MOST]; /* of these, the ones that were met */
    uint64_t *digests;          /* [batch], owned */
    int64_t found, seen;        /* digests that were met, images that have them */
} measurement;

/* Rank of the label's output among `outputs`; 0 for the largest. */
static int64_t rank_of_label(const float *outputs, int64_t classes, int64_t label)
{
    int64_t rank = 0;
    for (int64_t c = 0; c < classes; c++) {
        rank += outputs[c] > outputs[label] || (outputs[c] == outputs[label] && c < label) ? 1 : 0;
    }
    return rank;
}

grail_status accuracy_add(matrix logits, const int32_t *labels, accuracy_sums *sums, double *hits)
{
    grail_status status = GRAIL_OK;
    const int64_t classes = logits.columns;
    entropy_sums *entropy = NULL;
    host_view outputs = {0};
    TRY(memory_new_unset(&entropy, (size_t)logits.rows, sizeof entropy[0]));
    TRY(matrix_cross_entropy(logits, 0, labels, entropy));
    TRY(host_view_open(logits, GRAIL_DTYPE_F32, HOST_READS, &outputs));
    for (int64_t r = 0; r < logits.rows; r++) {
        const double nll = entropy_of(&entropy[r]);
        if (!isfinite(nll)) { /* nothing is larger than a NaN: it would count as a hit */
            FAIL(GRAIL_ERROR_NUMERIC, "the outputs of image %lld are NaN or infinite",
                 (long long)(sums->images + r));
        }
        const float *row = (const float *)outputs.values + r * classes;
        const int64_t rank = rank_of_label(row, classes, labels[r]);
        hits[r] = rank == 0 ? 1.0 : 0.0;
        sums->top1 += rank == 0 ? 1 : 0;
        sums->top5 += rank < TOP ? 1 : 0;
        sums->nll += nll;
    }
    sums->images += logits.rows;
out:
    memory_free(entropy);
    host_view_drop(&outputs);
    return status;
}

grail_status accuracy_check_model(const grail_model *model)
{
    grail_model_facts facts = {0};
    CHECK(grail_model_describe(model, &facts));
    if (facts.reads_images == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' reads text, not images; measure its perplexity on a text instead",
                         facts.directory);
    }
    if (facts.classes < 2) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "'%s' gives features, not classes: accuracy needs a checkpoint with a classification "
            "head",
            facts.directory);
    }
    return GRAIL_OK;
}

static grail_status read_labels(measurement *m)
{
    CHECK(memory_new(&m->labels, (size_t)m->images, sizeof m->labels[0]));
    for (int64_t i = 0; i < m->images; i++) {
        const int64_t label = image_set_label(m->set, m->indices[i]);
        if (label < 0) {
            return error_set(
                GRAIL_ERROR_ARGUMENT,
                "%s has no label; put the images into one folder per class, or give their labels "
                "in a CSV file",
                image_set_name(m->set, m->indices[i]));
        }
        if (label >= m->classes) {
            return error_set(
                GRAIL_ERROR_ARGUMENT,
                "%s has label %lld, but the network has only %lld classes, numbered from 0",
                image_set_name(m->set, m->indices[i]), (long long)label, (long long)m->classes);
        }
        m->labels[i] = (int32_t)label;
    }
    return GRAIL_OK;
}

static grail_status check_outputs(const measurement *m, int64_t rows, matrix logits)
{
    if (logits.rows != rows || logits.columns != m->classes) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "the network returned %lld x %lld outputs, expected %lld images x %lld classes",
            (long long)logits.rows, (long long)logits.columns, (long long)rows,
            (long long)m->classes);
    }
    return GRAIL_OK;
}

/* Of the `count` images of a batch, whose files were read a moment ago. */
static grail_status look_for_calibrated(measurement *m, const int64_t *indices, int64_t count)
{
    if (m->calibrated == NULL || m->calibrated->count == 0) {
        return GRAIL_OK;
    }
    CHECK(memory_resize(&m->digests, (size_t)count, sizeof m->digests[0]));
    CHECK(image_set_digests(m->set, count, indices, m->digests));
    for (int64_t i = 0; i < count; i++) {
        m->seen += hash_set_has(m->calibrated, m->digests[i]) ? 1 : 0;
        m->found += hash_set_mark(m->calibrated, m->digests[i], m->marked);
    }
    return GRAIL_OK;
}

static grail_status run_batch(measurement *m, const float *pixels, int64_t count)
{
    matrix logits = {0};
    CHECK(look_for_calibrated(m, m->indices + m->sums.images, count));
    CHECK(image_pass_run(&m->pass, count, pixels, &logits));
    CHECK(check_outputs(m, count, logits));
    CHECK(memory_resize(&m->hits, (size_t)count, sizeof m->hits[0]));
    return accuracy_add(logits, m->labels + m->sums.images, &m->sums, m->hits);
}

static grail_status run_batches(measurement *m, int64_t batch, grail_eval_observer observer,
                                void *user)
{
    grail_status status = GRAIL_OK;
    image_loader *loader = NULL;
    const float *pixels = NULL;
    int64_t loaded = 0;
    TRY(image_loader_open(m->set, m->images, m->indices, batch, &loader));
    TRY(image_loader_next(loader, &pixels, &loaded));
    while (loaded > 0) {
        TRY(run_batch(m, pixels, loaded));
        const grail_eval_progress now = {.done = m->sums.images,
                                         .total = m->images,
                                         .so_far = (double)m->sums.top1 / (double)m->sums.images,
                                         .results = m->hits,
                                         .count = loaded};
        if (observer != NULL && observer(user, &now) != 0) {
            FAIL(GRAIL_ERROR_CANCELLED, "cancelled after %lld of %lld images",
                 (long long)m->sums.images, (long long)m->images);
        }
        TRY(image_loader_next(loader, &pixels, &loaded));
    }
out:
    image_loader_close(loader);
    return status;
}

static void fill_result(const grail_model *model, const measurement *m, double seconds,
                        grail_accuracy *out)
{
    const accuracy_sums *s = &m->sums;
    const double count = (double)s->images;
    *out = (grail_accuracy){
        .top1 = (double)s->top1 / count,
        .top5 = m->classes > TOP ? (double)s->top5 / count : (double)NAN,
        .mean_nll = s->nll / count,
        .images = s->images,
        .classes = m->classes,
        .data_classes = image_set_classes(m->set),
        .side = m->side,
        .seconds = seconds,
        .images_per_second = count / seconds,
        .calibration_images = m->calibrated == NULL ? 0 : m->calibrated->count,
        .calibration_found = m->found,
        .overlap_images = m->seen,
    };
    wilson_interval((double)s->top1, count, &out->low, &out->high);
    out->interval = 0.5 * (out->high - out->low);
    snprintf(out->preset, sizeof out->preset, "%s", image_set_preset(m->set));
    snprintf(out->data_sha256, sizeof out->data_sha256, "%s", image_set_hash(m->set));
    snprintf(out->dtype, sizeof out->dtype, "%s", grail_dtype_name(model_usual_dtype(model)));
}

grail_status accuracy_measure(const grail_model *model, parameter_store *store,
                              const image_set *set, int64_t images, int64_t batch,
                              const hash_set *calibrated, grail_eval_observer observer, void *user,
                              grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    int64_t *indices = NULL;
    grail_model_facts facts = {0};
    measurement m = {.set = set, .side = image_set_side(set), .calibrated = calibrated};
    TRY(option_integer("count", "the number of images", images, 0));
    TRY(grail_model_describe(model, &facts));
    m.classes = facts.classes;
    m.images = images == 0 ? image_set_count(set) : images;
    if (m.images < 1 || m.images > image_set_count(set)) {
        FAIL_ABOUT("count", GRAIL_ERROR_ARGUMENT,
                   "%lld images were requested, but the data holds %lld", (long long)m.images,
                   (long long)image_set_count(set));
    }
    TRY(memory_new(&indices, (size_t)m.images, sizeof indices[0]));
    TRY(image_set_sample(set, m.images, 0, indices));
    m.indices = indices;
    TRY(read_labels(&m));
    TRY(image_pass_begin(&m.pass, store, m.side));
    const double begin = clock_seconds();
    TRY(run_batches(&m, batch > 0 ? batch : m.pass.batch, observer, user));
    fill_result(model, &m, clock_seconds() - begin, out);
    snprintf(out->precision, sizeof out->precision, "%s", backend_precision(store->backend));
out:
    image_pass_end(&m.pass);
    memory_free(m.hits);
    memory_free(m.digests);
    memory_free(m.labels);
    memory_free(indices);
    return status;
}

/* `narrow` NULL: of `model` itself; else of what `narrow` kept of it. */
static grail_status measure(const grail_model *model, const grail_model *narrow,
                            const grail_images *images, int64_t count, const grail_compute *compute,
                            grail_eval_observer observer, void *user, grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    backend *b = NULL;
    parameter_store *store = NULL;
    parameter_store *cut = NULL;
    json_t *record = NULL;
    hash_set calibrated = {0};
    TRY(compute_open(compute, model, &b));
    TRY(accuracy_check_model(model));
    TRY(parameter_store_create(model, b, NULL, &store));
    if (narrow != NULL) {
        TRY(zeroed_store_of_cut(store, narrow, &cut));
    }
    TRY(calibration_record_read(narrow == NULL ? model : narrow, &record));
    TRY(calibration_record_hashes(narrow == NULL ? model : narrow, record, &calibrated));
    TRY(accuracy_measure(model, cut == NULL ? store : cut, images, count, 0, &calibrated, observer,
                         user, out));
    out->is_calibration =
        calibration_record_is(record, "images_sha256", image_set_hash(images)) ? 1 : 0;
out:
    hash_set_fini(&calibrated);
    json_decref(record);
    parameter_store_free(cut);
    parameter_store_free(store);
    backend_close(b);
    return status;
}

grail_status grail_accuracy_measure(const grail_model *model, const grail_images *images,
                                    int64_t count, const grail_compute *compute,
                                    grail_eval_observer observer, void *user, grail_accuracy *out)
{
    return measure(model, NULL, images, count, compute, observer, user, out);
}

grail_status grail_accuracy_of_cut(const grail_model *dense, const grail_model *narrow,
                                   const grail_images *images, int64_t count,
                                   const grail_compute *compute, grail_eval_observer observer,
                                   void *user, grail_accuracy *out)
{
    return measure(dense, narrow, images, count, compute, observer, user, out);
}
