#include "format/images/image_set.h"

#include "base/hash.h"
#include "base/parallel.h"
#include "base/random.h"
#include "format/images/cifar.h"
#include "format/images/image_arrays.h"
#include "format/images/image_decode.h"
#include "format/images/image_folder.h"
#include "format/images/pixels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_TEXT = 2048, LOAD_GRAIN = 4 };

/* One of `cifar`, `folder`, `arrays` and `pixels` is open; the others are zero. */
struct grail_images {
    image_rule rule;
    bool is_cifar;
    cifar_set cifar;
    image_folder folder;
    image_arrays arrays;
    grail_pixels pixels; /* without values where they are not in memory; borrowed */
    int64_t classes;     /* of their labels */
    char hash[HASH_TEXT_SIZE];
};

static bool in_memory(const image_set *set)
{
    return set->pixels.values != NULL;
}

static bool of_arrays(const image_set *set)
{
    return set->arrays.count > 0;
}

grail_status image_set_settle(image_set *set, const grail_image_source *source, bool in_row,
                              int64_t last)
{
    const image_arrays *a = &set->arrays;
    if (!of_arrays(set)) {
        return GRAIL_OK;
    }
    CHECK(in_row ? image_arrays_lay_in_row(&set->arrays) : GRAIL_OK);
    if (last > 0) {
        image_arrays_lay_last(&set->arrays, last);
    }
    set->rule.height = a->height;
    set->rule.width = a->width;
    set->rule.channels = (int)a->channels;
    const int64_t largest =
        in_row ? (int64_t)IMAGE_LARGEST_SIDE * IMAGE_LARGEST_SIDE : IMAGE_LARGEST_SIDE;
    if (a->height > largest || a->width > largest ||
        (source->size > 0 && (a->height != source->size || a->width != source->size))) {
        const long long most = source->size > 0 ? source->size : largest;
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: the samples have %lld x %lld positions, expected %s%lld x %lld",
                         source->path, (long long)a->height, (long long)a->width,
                         source->size > 0 ? "" : "at most ", most, most);
    }
    return GRAIL_OK;
}

static grail_status open_arrays(image_set *set, const grail_image_source *source,
                                const array_layout *layouts)
{
    const image_arrays *a = &set->arrays;
    CHECK(unprepared_check(source));
    CHECK(image_arrays_open(source->path, layouts, &set->arrays));
    memcpy(set->hash, a->hash, sizeof set->hash);
    set->rule = (image_rule){.preset = IMAGE_UNPREPARED,
                             .height = a->height,
                             .width = a->width,
                             .channels = (int)a->channels};
    return GRAIL_OK;
}

static grail_status open_cifar(image_set *set, const grail_image_source *source,
                               const image_preparation *usual)
{
    CHECK(image_rule_make(source, usual, "cifar", &set->rule));
    if (source->labels != NULL) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT,
                      "'%s' holds CIFAR batches with their own labels; leave out the labels file "
                      "'%s'",
                      source->path, source->labels),
            "labels");
    }
    CHECK(cifar_open(source->path, source->split, &set->cifar));
    if (set->rule.edges == IMAGE_NOT_RESIZED &&
        (set->rule.height != CIFAR_SIDE || set->rule.width != CIFAR_SIDE)) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "%s: the images are 32 x 32, but the preset %s needs %lld x %lld; choose a preset "
                "that resizes, or leave out the size",
                source->path, set->rule.preset, (long long)set->rule.width,
                (long long)set->rule.height),
            "preset size");
    }
    /* SHA-256 over one line per batch, which holds the hash of its file */
    hash_state state;
    hash_begin(&state);
    for (int64_t b = 0; b < set->cifar.batch_count; b++) {
        const file_map *map = &set->cifar.batches[b].map;
        hash_bytes(map->data, map->size, set->hash);
        hash_add(&state, set->hash, strlen(set->hash));
        hash_add(&state, "\n", 1);
    }
    hash_end(&state, set->hash);
    return GRAIL_OK;
}

grail_status image_set_open_as(const grail_image_source *source, const image_preparation *usual,
                               const array_layout *layouts, image_set **out)
{
    grail_status status = GRAIL_OK;
    image_set *set = NULL;
    if (!image_source_is_given(source)) {
        FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT, "no path to images was given");
    }
    TRY(memory_new(&set, 1, sizeof *set));
    bool are_arrays = false;
    if (source->pixels == NULL) {
        TRY(image_arrays_recognise(source->path, &are_arrays));
        TRY(are_arrays ? GRAIL_OK : cifar_recognise(source->path, &set->is_cifar));
    }
    if (source->pixels != NULL) {
        TRY(pixels_check(source, source->size, &set->classes));
        pixels_hash(source->pixels, set->hash);
        set->rule = (image_rule){.preset = IMAGE_UNPREPARED,
                                 .height = source->pixels->side,
                                 .width = source->pixels->side,
                                 .channels = (int)pixels_channels(source->pixels)};
        set->pixels = *source->pixels;
    } else if (are_arrays) {
        TRY(open_arrays(set, source, layouts));
    } else if (set->is_cifar) {
        TRY(open_cifar(set, source, usual));
    } else {
        TRY(image_rule_make(source, usual, "imagenet", &set->rule));
        if (source->split != NULL) {
            FAIL_ABOUT("split", GRAIL_ERROR_ARGUMENT,
                       "'%s' holds no CIFAR-10 batches, so it has no split '%s'; give the folder "
                       "of that split",
                       source->path, source->split);
        }
        TRY(image_folder_open(source->path, source->labels, &set->folder));
        memcpy(set->hash, set->folder.hash, sizeof set->hash);
    }
    *out = set;
    set = NULL;
out:
    image_set_close(set);
    return status;
}

bool image_source_is_given(const grail_image_source *source)
{
    return source != NULL && (source->path != NULL || source->pixels != NULL);
}

grail_status image_source_is_unprepared(const grail_image_source *source, bool *out)
{
    *out = source->pixels != NULL;
    return *out || source->path == NULL ? GRAIL_OK : image_arrays_recognise(source->path, out);
}

const char *image_source_place(const grail_image_source *source)
{
    return source->pixels != NULL ? PIXELS_PLACE : source->path;
}

grail_status image_set_open(const grail_image_source *source, image_set **out)
{
    return image_set_open_as(source, NULL, NULL, out);
}

grail_status image_set_name_classes(image_set *set, const char *const *names, int64_t count)
{
    if (set->is_cifar || in_memory(set) || of_arrays(set)) {
        return GRAIL_OK;
    }
    const grail_status status = image_folder_name_classes(&set->folder, names, count);
    memcpy(set->hash, set->folder.hash, sizeof set->hash);
    return status;
}

const char *image_set_class_notice(const image_set *set)
{
    return set->folder.class_notice;
}

void image_set_close(image_set *set)
{
    if (set != NULL) {
        cifar_close(&set->cifar);
        image_folder_close(&set->folder);
        image_arrays_close(&set->arrays);
        memory_free(set);
    }
}

int64_t image_set_count(const image_set *set)
{
    return in_memory(set)   ? set->pixels.count
           : of_arrays(set) ? set->arrays.count
           : set->is_cifar  ? set->cifar.count
                            : set->folder.count;
}

grail_status image_set_fit(image_set *set, int64_t height, int64_t width, int64_t channels)
{
    return in_memory(set) ? GRAIL_OK : image_rule_fit(&set->rule, height, width, channels);
}

const image_rule *image_set_rule(const image_set *set)
{
    return &set->rule;
}

int64_t image_set_label(const image_set *set, int64_t i)
{
    if (in_memory(set)) {
        return set->pixels.labels == NULL ? -1 : set->pixels.labels[i];
    }
    if (of_arrays(set)) {
        return -1;
    }
    if (!set->is_cifar) {
        return set->folder.files[i].label;
    }
    int64_t index = 0;
    const cifar_batch *batch = cifar_find(&set->cifar, i, &index);
    return batch->labels[index];
}

int64_t image_set_classes(const image_set *set)
{
    return in_memory(set) ? set->classes : set->is_cifar ? CIFAR_CLASSES : set->folder.classes;
}

const char *image_set_name(const image_set *set, int64_t i)
{
    static _Thread_local char name[LONGEST_TEXT];
    if (in_memory(set)) {
        snprintf(name, sizeof name, "image %lld in memory", (long long)i);
        return name;
    }
    int64_t index = 0;
    if (of_arrays(set)) {
        const char *path = image_arrays_place(&set->arrays, i, &index);
        snprintf(name, sizeof name, "%s: sample %lld", path, (long long)index);
        return name;
    }
    if (!set->is_cifar) {
        snprintf(name, sizeof name, "%s/%s", set->folder.path, set->folder.files[i].name);
        return name;
    }
    const cifar_batch *batch = cifar_find(&set->cifar, i, &index);
    snprintf(name, sizeof name, "%s image %lld", batch->path, (long long)index);
    return name;
}

const char *image_set_preset(const image_set *set)
{
    return set->rule.preset;
}

const char *image_set_hash(const image_set *set)
{
    return set->hash;
}

/* [3, 32, 32] of image i of the batches. */
static const unsigned char *cifar_planes(const image_set *set, int64_t i)
{
    int64_t index = 0;
    const cifar_batch *batch = cifar_find(&set->cifar, i, &index);
    return batch->pixels + (size_t)index * batch->stride;
}

/* buffer_fini frees *bytes, after an error too. */
static grail_status read_file(const image_set *set, int64_t i, buffer *bytes)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(path_join(&path, set->folder.path, set->folder.files[i].name));
    TRY(file_read(path, IMAGE_LARGEST_FILE, bytes));
out:
    memory_free(path);
    return status;
}

/* One call for many images. An error text belongs to the thread that failed. The text of the first
 * image that failed, by index and not by time, is copied for the caller. */
typedef struct image_job {
    const image_set *set;
    const int64_t *indices;
    /* Does what the call is for with image indices[i]. */
    grail_status (*run)(const struct image_job *job, int64_t i);
    float *pixels;         /* of image_set_load */
    uint64_t *digests;     /* of image_set_digests */
    pthread_mutex_t mutex; /* guards the members below */
    grail_status status;
    int64_t failed;
    char text[LONGEST_TEXT];
} image_job;

static grail_status load_image(const image_job *job, int64_t i)
{
    grail_status status = GRAIL_OK;
    const image_set *set = job->set;
    const int64_t index = job->indices[i];
    float *out =
        job->pixels + (size_t)(i * set->rule.height * set->rule.width * set->rule.channels);
    image picture = {0};
    buffer bytes = {0};
    if (in_memory(set)) {
        pixels_copy(&set->pixels, index, out);
        return GRAIL_OK;
    }
    if (of_arrays(set)) {
        return image_arrays_load(&set->arrays, index, out);
    }
    if (set->is_cifar) {
        const unsigned char *planes = cifar_planes(set, index);
        TRY(image_new(IMAGE_RGB, CIFAR_SIDE, CIFAR_SIDE, &picture));
        for (size_t p = 0; p < CIFAR_PLANE; p++) {
            for (size_t c = 0; c < 3; c++) {
                picture.pixels[3 * p + c] = planes[c * CIFAR_PLANE + p];
            }
        }
    } else {
        TRY(read_file(set, index, &bytes));
        TRY(image_decode(bytes.bytes, bytes.size, IMAGE_MOST_PIXELS, &picture));
    }
    TRY(image_prepare(&set->rule, &picture, out));
out:
    buffer_fini(&bytes);
    image_fini(&picture);
    return status;
}

static grail_status digest_image(const image_job *job, int64_t i)
{
    grail_status status = GRAIL_OK;
    const image_set *set = job->set;
    buffer bytes = {0};
    if (in_memory(set)) {
        job->digests[i] = pixels_digest(&set->pixels, job->indices[i]);
    } else if (of_arrays(set)) {
        job->digests[i] = image_arrays_digest(&set->arrays, job->indices[i]);
    } else if (set->is_cifar) {
        job->digests[i] = hash_short(cifar_planes(set, job->indices[i]), CIFAR_BYTES);
    } else {
        TRY(read_file(set, job->indices[i], &bytes));
        job->digests[i] = hash_short(bytes.bytes, bytes.size);
    }
out:
    buffer_fini(&bytes);
    return status;
}

static void run_pieces(int64_t begin, int64_t end, void *context)
{
    image_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        const grail_status status = job->run(job, i);
        if (status != GRAIL_OK) {
            error_prefix("%s", image_set_name(job->set, job->indices[i]));
            pthread_mutex_lock(&job->mutex);
            if (job->status == GRAIL_OK || i < job->failed) {
                job->status = status;
                job->failed = i;
                error_copy(job->text, sizeof job->text);
            }
            pthread_mutex_unlock(&job->mutex);
        }
    }
}

static grail_status run_job(image_job *job, int64_t count)
{
    pthread_mutex_init(&job->mutex, NULL);
    parallel_for(count, LOAD_GRAIN, run_pieces, job);
    pthread_mutex_destroy(&job->mutex);
    return job->status == GRAIL_OK ? GRAIL_OK : error_set(job->status, "%s", job->text);
}

grail_status image_set_load(const image_set *set, int64_t count, const int64_t *indices, float *out)
{
    image_job job = {.set = set, .indices = indices, .run = load_image, .pixels = out};
    return run_job(&job, count);
}

grail_status image_set_digests(const image_set *set, int64_t count, const int64_t *indices,
                               uint64_t *digests)
{
    image_job job = {.set = set, .indices = indices, .run = digest_image, .digests = digests};
    return run_job(&job, count);
}

grail_status image_set_sample(const image_set *set, int64_t count, uint64_t seed, int64_t *indices)
{
    int64_t *sample = NULL;
    const int64_t total = image_set_count(set);
    if (count < 1 || count > total) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "%lld images were requested, but the data holds only %lld",
                         (long long)count, (long long)total);
    }
    CHECK(random_sample(seed, total, count, &sample));
    memcpy(indices, sample, (size_t)count * sizeof sample[0]);
    memory_free(sample);
    return GRAIL_OK;
}
