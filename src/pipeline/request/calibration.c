#include "pipeline/request/calibration.h"

#include "arch/model_images.h"
#include "arch/model_text.h"
#include "base/file.h"
#include "base/random.h"
#include "exec/compute.h"
#include "exec/sample_stream.h"
#include "format/images/cifar.h"
#include "format/images/image_set.h"
#include "format/images/pixels.h"
#include "format/text/token_array.h"
#include "pipeline/request/calibration_record.h"
#include "pipeline/request/calibration_text.h"
#include "pipeline/request/usual_samples.h"

#include <string.h>

enum {
    BATCH_IMAGES = 32,
};

/* Each chunk costs a pass over the sums, which a few batches outweigh; so many chunks are enough
 * for as many ranks. */
enum { USUAL_CHUNKS = 16, MOST_CHUNKS = 32, CHUNK_BATCHES = 4 };

static grail_status calibration_create(calibration **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    (*out)->users = 1;
    return GRAIL_OK;
}

calibration *calibration_hold(calibration *c)
{
    c->users++;
    return c;
}

void calibration_release(calibration *c)
{
    if (c == NULL || --c->users > 0) {
        return;
    }
    token_windows_fini(&c->windows);
    hash_set_fini(&c->hashes);
    memory_free(c->pixels);
    memory_free(c->firsts);
    json_decref(c->description);
    memory_free(c);
}

/* Names the file of the hashes by what it holds; nothing where there are none, and no file. */
static grail_status describe_hashes(const hash_set *hashes, json_t *description)
{
    grail_status status = GRAIL_OK;
    char hash[HASH_TEXT_SIZE];
    buffer bytes = {0};
    if (hashes->count == 0) {
        return GRAIL_OK;
    }
    buffer_init(&bytes, SIZE_MAX / 4);
    TRY(hash_set_append(hashes, &bytes));
    hash_bytes(bytes.bytes, bytes.size, hash);
    TRY(json_put(description, "hashes", json_integer(hashes->count)));
    TRY(json_put(description, "hashes_sha256", json_text(hash)));
out:
    buffer_fini(&bytes);
    return status;
}

/* Statistics may choose the units by plain text although the samples hold conversations. */
static grail_status note_statistics(const network_statistics *s, json_t *description)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    const size_t count = json_array_size(s->origin.calibrations);
    size_t noted = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(s->origin.calibrations, i);
        noted += json_object_get(one, CALIBRATION_NOTICE_KEY) != NULL ? 1 : 0;
    }
    if (count == 0 || noted < count ||
        json_object_get(description, CALIBRATION_NOTICE_KEY) != NULL) {
        return GRAIL_OK;
    }
    TRY(memory_format(&text,
                      "the statistics of '%s' are of samples without a conversation, and the model "
                      "has a chat template; take them of conversations",
                      s->path));
    TRY(json_put(description, CALIBRATION_NOTICE_KEY, json_text(text)));
out:
    memory_free(text);
    return status;
}

/* What the statistics that a run takes from a file were calibrated on. */
static grail_status describe_statistics(const network_statistics *s, calibration *c)
{
    json_t *object = json_object();
    CHECK(json_put(c->description, CALIBRATION_STATISTICS_KEY, object));
    CHECK(json_put(object, "file", json_text(s->path)));
    if (!s->has_origin) {
        return GRAIL_OK;
    }
    CHECK(json_put(object, "samples", json_integer(s->origin.samples)));
    CHECK(json_put(object, "context", json_integer(s->origin.context)));
    CHECK(json_put(object, CALIBRATION_PARTS_KEY, json_deep_copy(s->origin.calibrations)));
    CHECK(note_statistics(s, c->description));
    return hash_set_add(&c->hashes, &s->origin.hashes);
}

/* The description, with what the model was calibrated on before. */
static grail_status complete(const grail_model *model, const network_statistics *statistics,
                             calibration *c)
{
    if (c->hashes.hashes == NULL) {
        CHECK(hash_set_init(&c->hashes));
    }
    if (statistics != NULL) {
        CHECK(describe_statistics(statistics, c));
    }
    CHECK(calibration_record_inherit(model, &c->hashes, c->description));
    return describe_hashes(&c->hashes, c->description);
}

grail_status calibration_empty(const grail_model *model, const network_statistics *statistics,
                               calibration **out)
{
    CHECK(calibration_create(out));
    (*out)->description = json_object();
    CHECK(json_put((*out)->description, "samples", json_integer(0)));
    return complete(model, statistics, *out);
}

static json_t *text_or_null(const char *text)
{
    return text == NULL ? json_null() : json_text(text);
}

static grail_status push_numbers(json_t *list, const double *numbers)
{
    for (int i = 0; numbers != NULL && i < IMAGE_CHANNELS; i++) {
        CHECK(json_push(list, json_real(numbers[i])));
    }
    return GRAIL_OK;
}

static grail_status image_key(const grail_image_source *source, json_t *key)
{
    CHECK(json_push(key, text_or_null(source->path)));
    if (source->pixels != NULL) {
        char hash[HASH_TEXT_SIZE];
        pixels_hash(source->pixels, hash);
        CHECK(json_push(key, json_text(hash)));
    }
    CHECK(json_push(key, text_or_null(source->preset)));
    CHECK(json_push(key, text_or_null(source->split)));
    CHECK(json_push(key, text_or_null(source->labels)));
    CHECK(json_push(key, json_integer(source->size)));
    CHECK(push_numbers(key, image_values(&source->mean, NULL)));
    return push_numbers(key, image_values(&source->deviation, NULL));
}

static grail_status text_key(const grail_text_source *source, json_t *key)
{
    CHECK(json_push(key, text_or_null(source->path)));
    if (source->tokens != NULL) {
        char hash[HASH_TEXT_SIZE];
        tokens_hash(source->tokens, hash);
        CHECK(json_push(key, json_text(hash)));
    }
    CHECK(json_push(key, text_or_null(source->field)));
    CHECK(json_push(key, text_or_null(source->protocol)));
    CHECK(json_push(key, json_integer(source->context)));
    CHECK(json_push(key, json_boolean(source->renderer != NULL)));
    return json_push(key, json_boolean(source->window_bos));
}

static int64_t batch_rows(const grail_compress_options *o)
{
    return backend_batch_rows(compute_backend(&(grail_compute){.backend = o->run.backend}));
}

grail_status calibration_key(const grail_compress_options *o, const network_statistics *statistics,
                             json_t *key)
{
    if (statistics != NULL) {
        const file_identity *f = &statistics->identity;
        CHECK(json_push(key, json_text(statistics->path)));
        CHECK(json_push(key, json_pack("[I,I,I]", (json_int_t)f->size, (json_int_t)f->seconds,
                                       (json_int_t)f->nanoseconds)));
    }
    CHECK(json_push(key, json_integer(batch_rows(o))));
    CHECK(json_push(key, json_integer(o->read.samples)));
    CHECK(json_push(key, json_sprintf("%llu", (unsigned long long)o->read.seed)));
    CHECK(text_key(&o->read.text, key));
    CHECK(text_parts_key(&o->read, key));
    CHECK(json_push(key, text_or_null(o->heal.teacher))); /* which may draw them */
    CHECK(json_push(key, json_integer(o->read.drawn_first)));
    CHECK(json_push(key, json_boolean(text_parts_draw(&o->read) && o->output.dry_run != 0)));
    if (o->read.images == NULL) {
        return GRAIL_OK;
    }
    CHECK(json_push(key, json_boolean(o->output.dry_run != 0)));
    return image_key(o->read.images, key);
}

/* Makes at least four batches of four samples or more, so that some can be held out; of documents
 * of many lengths there are fewer in each. */
static grail_status plan_batches(calibration *c, int64_t most_rows)
{
    const int64_t quarter = (c->count + 3) / 4;
    CHECK(memory_new(&c->firsts, (size_t)c->count + 1, sizeof c->firsts[0]));
    for (int64_t first = 0; first < c->count; first = c->firsts[c->batch_count]) {
        const bool of_text = c->windows.ids != NULL;
        const int64_t most = most_rows / (of_text ? window_size(&c->windows, first) : 1);
        const int64_t fit =
            of_text ? windows_of_one_size(&c->windows, first, c->count) : c->count - first;
        const int64_t wanted = most > quarter ? quarter : most;
        const int64_t size = wanted > 1 ? wanted : 1;
        c->firsts[++c->batch_count] = first + (size < fit ? size : fit);
    }
    return GRAIL_OK;
}

static grail_status read_text(const grail_model *model, const grail_compress_options *o,
                              drawn_windows *kept, calibration *c)
{
    CHECK(text_parts_read(model, o, kept, &c->windows, &c->drawn, &c->hashes, c->tokenizer_hash,
                          &c->description));
    CHECK(text_parts_notice(model, &o->read, &c->windows, c->description));
    c->count = c->windows.count;
    c->positions = (extent){.height = windows_mean_size(&c->windows), .width = 1};
    return plan_batches(c, batch_rows(o));
}

static grail_status put_numbers(json_t *object, const char *key, const double *numbers)
{
    json_t *list = json_array();
    CHECK(json_put(object, key, list));
    return push_numbers(list, numbers);
}

/* What a file of the checkpoint says, {"origin": its name, ...}. */
static grail_status preprocessing_to_json(const grail_preprocessing *p, json_t *object)
{
    CHECK(json_put(object, "origin", json_text(p->origin)));
    CHECK(json_put(object, "edges", text_or_null(p->edges)));
    CHECK(json_put(object, "resize", json_integer(p->resize)));
    CHECK(json_put(object, "interpolation", text_or_null(p->interpolation)));
    CHECK(json_put(object, "rescale", json_real(p->rescale)));
    CHECK(put_numbers(object, "mean", p->mean));
    return put_numbers(object, "std", p->deviation);
}

static grail_status describe_preprocessing(const grail_model *model, json_t *description)
{
    grail_preprocessing p = {0};
    CHECK(grail_model_preprocessing(model, &p));
    if (p.origin == NULL || strcmp(p.preset, IMAGE_OF_CHECKPOINT) != 0) {
        return GRAIL_OK;
    }
    json_t *object = json_object();
    CHECK(json_put(description, "preprocessing", object));
    return preprocessing_to_json(&p, object);
}

static grail_status describe_images(const grail_model *model, calibration *c,
                                    const grail_image_source *source, const image_set *set)
{
    c->description = json_object();
    CHECK(json_put(c->description, "images", json_text(image_source_place(source))));
    CHECK(json_put(c->description, "images_sha256", json_text(image_set_hash(set))));
    CHECK(json_put(c->description, "preset", json_text(image_set_preset(set))));
    CHECK(json_put(c->description, "side", json_integer(image_set_rule(set)->height)));
    if (image_set_rule(set)->width != image_set_rule(set)->height) {
        CHECK(json_put(c->description, "width", json_integer(image_set_rule(set)->width)));
    }
    const bool is_prepared = source->preset != NULL || source->pixels != NULL ||
                             strcmp(image_set_preset(set), IMAGE_UNPREPARED) == 0;
    if (!is_prepared && model->preparation != NULL) {
        CHECK(describe_preprocessing(model, c->description));
    }
    return json_put(c->description, "samples", json_integer(c->count));
}

/* Shuffles the images. A set lists them by class, and batches are held out as units, so without
 * this the held-out batches would show other classes than the fitted ones. */
static grail_status mix(uint64_t seed, int64_t count, int64_t *indices)
{
    grail_status status = GRAIL_OK;
    enum { STREAM = 1 }; /* not the sequence that draws the sample */
    random_state random;
    int64_t *order = NULL;
    int64_t *sorted = NULL;
    TRY(memory_new_unset(&order, (size_t)count, sizeof order[0]));
    TRY(memory_new_unset(&sorted, (size_t)count, sizeof sorted[0]));
    memcpy(sorted, indices, (size_t)count * sizeof sorted[0]);
    random_seed(&random, seed, STREAM);
    random_permutation(&random, count, order);
    for (int64_t i = 0; i < count; i++) {
        indices[i] = sorted[order[i]];
    }
out:
    memory_free(order);
    memory_free(sorted);
    return status;
}

/* The images have a random order, so the first ones stand for all where the set takes no more. */
static grail_status hash_sample(const image_set *set, const int64_t *indices, calibration *c)
{
    const int64_t count = c->count < HASH_SET_MOST ? c->count : HASH_SET_MOST;
    CHECK(hash_set_init(&c->hashes));
    CHECK(image_set_digests(set, count, indices, c->hashes.hashes));
    c->hashes.count = count;
    hash_set_settle(&c->hashes);
    return GRAIL_OK;
}

/* A dry run (`listed`) looks at the files, and decodes none. */
static grail_status load_sample(const image_set *set, uint64_t seed, bool listed, calibration *c)
{
    grail_status status = GRAIL_OK;
    int64_t *indices = NULL;
    const image_rule *rule = image_set_rule(set);
    size_t pixels = (size_t)rule->channels;
    if (!size_multiply(pixels, (size_t)(rule->height * rule->width), &pixels) ||
        !size_multiply(pixels, (size_t)c->count, &pixels)) {
        FAIL(GRAIL_ERROR_MEMORY,
             "%lld images of %lld x %lld pixels are too large to address; use fewer samples",
             (long long)c->count, (long long)rule->width, (long long)rule->height);
    }
    TRY(memory_new(&indices, (size_t)c->count, sizeof indices[0]));
    TRY(image_set_sample(set, c->count, seed, indices));
    TRY(mix(seed, c->count, indices));
    if (!listed) {
        TRY(memory_new_unset(&c->pixels, pixels, sizeof c->pixels[0]));
        TRY(image_set_load(set, c->count, indices, c->pixels));
    }
    TRY(hash_sample(set, indices, c));
    c->positions = (extent){.height = rule->height, .width = rule->width};
    c->channels = rule->channels;
out:
    memory_free(indices);
    return status;
}

/* CIFAR batches are calibrated on the training images unless the source names a split. */
static grail_status choose_split(grail_image_source *source)
{
    bool batches = false;
    grail_status status = GRAIL_OK;
    if (source->split == NULL && source->path != NULL && file_is_directory(source->path)) {
        status = cifar_recognise(source->path, &batches);
        source->split = batches ? "train" : NULL;
    }
    return status;
}

static grail_status read_images(const grail_model *model, const grail_compress_options *o,
                                calibration *c)
{
    grail_status status = GRAIL_OK;
    image_set *set = NULL;
    grail_image_source source = *o->read.images;
    TRY(model_image_source(model, &source));
    TRY(choose_split(&source));
    TRY(grail_images_open(model, &source, &set));
    const int64_t available = image_set_count(set);
    const int64_t usual = o->read.samples < 0 ? -o->read.samples : usual_samples(model->graph, 1);
    const int64_t most = available < usual ? available : usual;
    c->count = o->read.samples <= 0 ? most : o->read.samples;
    if (c->count < 1 || c->count > available) {
        FAIL(GRAIL_ERROR_ARGUMENT, "'%s' has %lld images, but %lld samples were requested",
             image_source_place(&source), (long long)available, (long long)c->count);
    }
    TRY(load_sample(set, o->read.seed, o->output.dry_run != 0, c));
    TRY(plan_batches(c, BATCH_IMAGES));
    TRY(describe_images(model, c, &source, set));
out:
    image_set_close(set);
    return status;
}

grail_status calibration_read(const grail_model *model, const grail_compress_options *options,
                              const network_statistics *statistics, drawn_windows *kept,
                              calibration **out)
{
    grail_status status = GRAIL_OK;
    calibration *c = NULL;
    TRY(calibration_create(&c));
    if (model->graph->input_kind == INPUT_IMAGES) {
        if (options->read.images == NULL) {
            FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT,
                       "this network reads images; give a directory of images, CIFAR batches or "
                       "arrays (.npy) to calibrate on");
        }
        if (text_is_drawn(options->read.images->path)) {
            FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT,
                       "a network that reads images draws no samples; give a directory of images "
                       "('./" DRAWN_PLACE "' where it has this name)");
        }
        TRY(read_images(model, options, c));
    } else {
        const bool given =
            text_source_is_given(&options->read.text) || options->read.part_count > 0;
        if (!given && options->heal.teacher != NULL) {
            FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT, "healing needs calibration text");
        }
        if (!given) {
            FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT,
                       "selector '%s' with this compensation needs calibration text",
                       options->cut.selector);
        }
        TRY(read_text(model, options, kept, c));
    }
    TRY(complete(model, statistics, c));
    *out = c;
    c = NULL;
out:
    calibration_release(c);
    return status;
}

extent calibration_positions(const calibration *c, int64_t sample)
{
    return c->windows.ids == NULL
               ? c->positions
               : (extent){.height = window_size(&c->windows, sample), .width = 1};
}

int64_t calibration_batch_of(const calibration *c, int64_t sample)
{
    return batch_of_sample(c->firsts, c->batch_count, sample);
}

batch_shape calibration_shape(const calibration *c, int64_t batch)
{
    return (batch_shape){
        .samples = c->firsts[batch + 1] - c->firsts[batch],
        .positions = calibration_positions(c, c->firsts[batch]),
    };
}

batch_input calibration_input(const calibration *c, int64_t batch)
{
    const int64_t first = c->firsts[batch];
    const int64_t pixels = first * c->positions.height * c->positions.width * c->channels;
    return (batch_input){
        .ids = c->windows.ids == NULL ? NULL : c->windows.ids + window_start(&c->windows, first),
        .pixels = c->pixels == NULL ? NULL : c->pixels + pixels,
    };
}

bool calibration_holds_out(const calibration *c, int64_t batch)
{
    if (c->batch_count < 4) {
        return c->batch_count > 1 && batch == c->batch_count - 1;
    }
    return batch % 4 == 3;
}

bool calibration_judges(const calibration *c, judging which, int64_t batch)
{
    const int place = which == JUDGES_CHOICES ? 1 : 2;
    return which != JUDGES_NOTHING && c->batch_count >= JUDGING_ONE_IN &&
           batch % JUDGING_ONE_IN == place;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Few batches are 16 chunks; more are chunks of 4 batches until there are 32. */
static int64_t chunk_batches(const calibration *c)
{
    const int64_t few = divide_up(c->batch_count, USUAL_CHUNKS);
    const int64_t many = divide_up(c->batch_count, MOST_CHUNKS);
    const int64_t size = few < CHUNK_BATCHES ? few : CHUNK_BATCHES;
    return size > many ? size : many;
}

int64_t calibration_chunk_count(const calibration *c)
{
    return c->batch_count == 0 ? 0 : divide_up(c->batch_count, chunk_batches(c));
}

calibration_chunk calibration_chunk_at(const calibration *c, int64_t chunk)
{
    const int64_t size = chunk_batches(c);
    const int64_t end = (chunk + 1) * size;
    return (calibration_chunk){.first = chunk * size,
                               .end = end < c->batch_count ? end : c->batch_count};
}
