#include "eval/accuracy.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/option_values.h"
#include "base/wilson.h"
#include "eval/image_pass.h"
#include "eval/measuring.h"
#include "pipeline/request/calibration_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOP = 5 };

/* What the images of a batch give. */
typedef struct batch_result {
    accuracy_sums sums;
    int64_t seen; /* that are calibration images */
} batch_result;

/* The state of one measurement. Ranks take the batches in turns. */
typedef struct measurement {
    const accuracy_task *task;
    image_pass pass;
    int64_t *indices; /* [images] of the set, owned */
    int64_t images, classes;
    extent positions;       /* of an image */
    int64_t batch, batches; /* images of a batch, but the last one; batches */
    int32_t *labels;        /* [images], owned */
    batch_result *of;       /* [batches], owned */
    accuracy_sums own;      /* of the batches of this rank so far */
    double *hits;           /* [batch] of the last batch, owned */
    uint64_t *digests;      /* [batch], owned */
    bool *marked; /* [HASH_SET_MOST], of the digests that are looked for, those that were met; owned
                   */
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

grail_status accuracy_add(matrix logits, const int32_t *labels, int64_t first, accuracy_sums *sums,
                          double *hits)
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
                 (long long)(first + r));
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
    if (model->graph->input_kind != INPUT_IMAGES) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' reads text, not images; measure its perplexity on a text instead",
                         model->path);
    }
    if (model->graph->classes < 2) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "'%s' gives features, not classes: accuracy needs a checkpoint with a classification "
            "head",
            model->path);
    }
    return GRAIL_OK;
}

static grail_status read_labels(measurement *m)
{
    CHECK(memory_new(&m->labels, (size_t)m->images, sizeof m->labels[0]));
    for (int64_t i = 0; i < m->images; i++) {
        const int64_t label = image_set_label(m->task->set, m->indices[i]);
        if (label < 0) {
            return error_about(
                error_set(GRAIL_ERROR_ARGUMENT,
                          "%s has no label, and accuracy needs the class of each image; put the "
                          "images into one folder per class, or measure with grail eval, which "
                          "reads their classes from a CSV file",
                          image_set_name(m->task->set, m->indices[i])),
                "labels");
        }
        if (label >= m->classes) {
            return error_set(
                GRAIL_ERROR_ARGUMENT,
                "%s has label %lld, but the network has only %lld classes, numbered from 0",
                image_set_name(m->task->set, m->indices[i]), (long long)label,
                (long long)m->classes);
        }
        m->labels[i] = (int32_t)label;
    }
    return GRAIL_OK;
}

/* -- batches ----------------------------------------------------------------------------------- */

static int64_t count_of(const measurement *m, int64_t batch)
{
    const int64_t left = m->images - batch * m->batch;
    return left < m->batch ? left : m->batch;
}

static void add_sums(const accuracy_sums *part, accuracy_sums *into)
{
    into->images += part->images;
    into->top1 += part->top1;
    into->top5 += part->top5;
    into->nll += part->nll;
}

/* Looks for images that were calibrated on, whose files were read a moment ago, and at what the
 * network makes of all. */
static grail_status run_batch(measurement *m, int64_t batch, const float *pixels)
{
    matrix logits = {0};
    const hash_set *set = m->task->calibrated;
    const int64_t first = batch * m->batch;
    const int64_t count = count_of(m, batch);
    if (set != NULL && set->count > 0) {
        CHECK(image_set_digests(m->task->set, count, m->indices + first, m->digests));
        for (int64_t i = 0; i < count; i++) {
            m->of[batch].seen += hash_set_has(set, m->digests[i]) ? 1 : 0;
            (void)hash_set_mark(set, m->digests[i], m->marked);
        }
    }
    CHECK(image_pass_run(&m->pass, count, pixels, &logits));
    if (logits.rows != count || logits.columns != m->classes) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "the network returned %lld x %lld outputs, expected %lld images x %lld classes",
            (long long)logits.rows, (long long)logits.columns, (long long)count,
            (long long)m->classes);
    }
    CHECK(accuracy_add(logits, m->labels + first, first, &m->of[batch].sums, m->hits));
    add_sums(&m->of[batch].sums, &m->own);
    return GRAIL_OK;
}

/* Tells of the batches of this rank as a part of those of all. */
static grail_status tell(const measurement *m, int64_t batch)
{
    const accuracy_task *task = m->task;
    const int64_t passed = (batch - comm_rank(task->comm) + comm_size(task->comm)) * m->batch;
    const grail_eval_progress now = {.done = passed < m->images ? passed : m->images,
                                     .total = m->images,
                                     .passed =
                                         passed < m->images ? (double)passed : (double)m->images,
                                     .so_far = (double)m->own.top1 / (double)m->own.images,
                                     .results = m->hits,
                                     .count = count_of(m, batch)};
    return observer_tell(task->observer, task->user, &now, "images");
}

static grail_status measure_own(measurement *m)
{
    grail_status status = GRAIL_OK;
    const int own = comm_rank(m->task->comm);
    const int step = comm_size(m->task->comm);
    image_loader *loader = NULL;
    int64_t *indices = NULL; /* of this rank's batches, one batch after another */
    int64_t count = 0;
    TRY(memory_new(&indices, (size_t)m->images, sizeof indices[0]));
    for (int64_t b = own; b < m->batches; b += step) {
        for (int64_t i = 0; i < count_of(m, b); i++) {
            indices[count++] = m->indices[b * m->batch + i];
        }
    }
    TRY(image_loader_open(m->task->set, count, indices, m->batch, &loader));
    for (int64_t b = own; b < m->batches; b += step) {
        const float *pixels = NULL;
        int64_t loaded = 0; /* all of the batch */
        TRY(image_loader_next(loader, &pixels, &loaded));
        TRY(run_batch(m, b, pixels));
        TRY(tell(m, b));
    }
out:
    image_loader_close(loader);
    memory_free(indices);
    return status;
}

/* -- all --------------------------------------------------------------------------------------- */

/* *found becomes how many of the digests that are looked for any rank has met. */
static grail_status count_found(const measurement *m, int64_t *found)
{
    bool met[HASH_SET_MOST] = {false};
    *found = 0;
    for (int rank = 0; rank < comm_size(m->task->comm); rank++) {
        bool theirs[HASH_SET_MOST];
        memcpy(theirs, m->marked, sizeof theirs);
        CHECK(comm_broadcast_next(m->task->comm, rank, theirs, sizeof theirs));
        for (int i = 0; i < HASH_SET_MOST; i++) {
            *found += theirs[i] && !met[i] ? 1 : 0;
            met[i] = met[i] || theirs[i];
        }
    }
    return GRAIL_OK;
}

static void fill_data(const grail_model *model, const measurement *m, grail_accuracy *out)
{
    const image_set *set = m->task->set;
    out->images = m->images;
    out->classes = m->classes;
    out->data_classes = image_set_classes(set);
    out->side = m->positions.height;
    out->width = m->positions.width;
    snprintf(out->preset, sizeof out->preset, "%s", image_set_preset(set));
    snprintf(out->class_notice, sizeof out->class_notice, "%s", image_set_class_notice(set));
    snprintf(out->data_sha256, sizeof out->data_sha256, "%s", image_set_hash(set));
    snprintf(out->dtype, sizeof out->dtype, "%s", grail_dtype_name(model_usual_dtype(model)));
}

static void fill_result(const grail_model *model, const measurement *m, const batch_result *all,
                        double seconds, grail_accuracy *out)
{
    const accuracy_sums *s = &all->sums;
    const double count = (double)s->images;
    *out = (grail_accuracy){
        .top1 = (double)s->top1 / count,
        .top5 = m->classes > TOP ? (double)s->top5 / count : (double)NAN,
        .mean_nll = s->nll / count,
        .seconds = seconds,
        .images_per_second = count / seconds,
        .calibration_images = m->task->calibrated == NULL ? 0 : m->task->calibrated->count,
        .overlap_images = all->seen,
    };
    wilson_interval((double)s->top1, count, &out->low, &out->high);
    out->interval = 0.5 * (out->high - out->low);
    fill_data(model, m, out);
}

static grail_status list_images(const grail_model *model, measurement *m)
{
    const int64_t held = image_set_count(m->task->set);
    m->classes = model->graph->classes;
    m->positions =
        (extent){image_set_rule(m->task->set)->height, image_set_rule(m->task->set)->width};
    CHECK(option_integer("count", "the number of images", m->task->images, 0));
    m->images = m->task->images == 0 ? held : m->task->images;
    if (m->images < 1 || m->images > held) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "%lld images were requested, but the data holds %lld",
                                     (long long)m->images, (long long)held),
                           "count");
    }
    CHECK(memory_new(&m->indices, (size_t)m->images, sizeof m->indices[0]));
    CHECK(image_set_sample(m->task->set, m->images, 0, m->indices));
    return read_labels(m);
}

/* What this rank can do by itself. */
static grail_status begin(const grail_model *model, parameter_store *store, measurement *m)
{
    CHECK(list_images(model, m));
    CHECK(image_pass_begin(&m->pass, store, m->positions));
    m->batch = m->task->batch > 0 ? m->task->batch : m->pass.batch;
    m->batches = (m->images + m->batch - 1) / m->batch;
    CHECK(memory_new(&m->of, (size_t)m->batches, sizeof m->of[0]));
    CHECK(memory_new(&m->hits, (size_t)m->batch, sizeof m->hits[0]));
    CHECK(memory_new(&m->digests, (size_t)m->batch, sizeof m->digests[0]));
    return memory_new(&m->marked, HASH_SET_MOST, sizeof m->marked[0]);
}

static void measurement_fini(measurement *m)
{
    image_pass_end(&m->pass);
    memory_free(m->of);
    memory_free(m->hits);
    memory_free(m->digests);
    memory_free(m->marked);
    memory_free(m->labels);
    memory_free(m->indices);
}

grail_status accuracy_measure(const grail_model *model, parameter_store *store,
                              const accuracy_task *task, grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    measurement m = {.task = task};
    batch_result all = {0};
    int64_t found = 0;
    char what[160];
    TRY(comm_settle(task->comm, begin(model, store, &m)));
    snprintf(what, sizeof what, "%s %s %lld %lld", image_set_hash(task->set),
             image_set_preset(task->set), (long long)m.images, (long long)m.batch);
    TRY(agreement_check(task->comm, model, store->backend, "images", what, strlen(what)));
    const double begun = clock_seconds();
    TRY(comm_settle(task->comm, measure_own(&m)));
    for (int64_t b = 0; b < m.batches; b++) { /* in their order, whoever measured them */
        batch_result *part = &m.of[b];
        TRY(comm_broadcast_next(task->comm, (int)(b % comm_size(task->comm)), part, sizeof *part));
        add_sums(&part->sums, &all.sums);
        all.seen += part->seen;
    }
    TRY(count_found(&m, &found));
    fill_result(model, &m, &all, clock_seconds() - begun, out);
    out->calibration_found = found;
    snprintf(out->precision, sizeof out->precision, "%s", backend_precision(store->backend));
out:
    measurement_fini(&m);
    return status;
}

/* What a measurement runs on, and what it looks for. */
typedef struct opened_task {
    measured_network network;
    json_t *record;
    hash_set calibrated;
} opened_task;

static grail_status open_task(const grail_model *model, const grail_model *narrow,
                              const grail_compute *compute, opened_task *t)
{
    const grail_model *recorded = narrow == NULL ? model : narrow;
    CHECK(accuracy_check_model(model));
    CHECK(measured_open_alone(model, narrow, compute, &t->network));
    CHECK(calibration_record_read(recorded, &t->record));
    return calibration_record_hashes(recorded, t->record, &t->calibrated);
}

grail_status grail_accuracy_of_cut(const grail_model *dense, const grail_model *narrow,
                                   const grail_images *images, int64_t count,
                                   const grail_compute *compute, grail_eval_observer observer,
                                   void *user, grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    opened_task t = {0};
    const accuracy_task task = {.set = images,
                                .images = count,
                                .calibrated = &t.calibrated,
                                .comm = compute == NULL ? NULL : compute->comm,
                                .observer = observer,
                                .user = user};
    CHECK(comm_check(task.comm));
    TRY(comm_settle(task.comm, open_task(dense, narrow, compute, &t)));
    TRY(accuracy_measure(dense, t.network.store, &task, out));
    out->is_calibration =
        calibration_record_is(t.record, "images_sha256", image_set_hash(images)) ? 1 : 0;
out:
    hash_set_fini(&t.calibrated);
    json_decref(t.record);
    measured_close(&t.network);
    return status;
}

grail_status grail_accuracy_measure(const grail_model *model, const grail_images *images,
                                    int64_t count, const grail_compute *compute,
                                    grail_eval_observer observer, void *user, grail_accuracy *out)
{
    return grail_accuracy_of_cut(model, NULL, images, count, compute, observer, user, out);
}

grail_status grail_accuracy_describe(const grail_model *model, const grail_images *images,
                                     int64_t count, grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    const accuracy_task task = {.set = images, .images = count};
    measurement m = {.task = &task};
    TRY(accuracy_check_model(model));
    TRY(list_images(model, &m));
    *out = (grail_accuracy){.high = 1.0};
    fill_data(model, &m, out);
out:
    measurement_fini(&m);
    return status;
}
