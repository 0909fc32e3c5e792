#include "format/image_set.h"

#include "base/hash.h"
#include "base/parallel.h"
#include "base/random.h"
#include "format/cifar.h"
#include "format/image_preset.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_TEXT = 2048, LOAD_GRAIN = 4 };

struct image_set {
    image_rule rule;
    cifar_set cifar;
    char hash[HASH_TEXT_SIZE];
};

/* sha256 over the lines "hash of the file" of all batches. */
static grail_status hash_cifar(const cifar_set *cifar, char hash[HASH_TEXT_SIZE])
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, (size_t)cifar->batch_count * (HASH_TEXT_SIZE + 1));
    for (int64_t b = 0; b < cifar->batch_count; b++) {
        char line[HASH_TEXT_SIZE];
        hash_bytes(cifar->batches[b].map.data, cifar->batches[b].map.size, line);
        TRY(buffer_format(&text, "%s\n", line));
    }
    hash_bytes(text.bytes, text.size, hash);
out:
    buffer_fini(&text);
    return status;
}

static grail_status open_cifar(image_set *set, const grail_image_source *source)
{
    grail_status status = GRAIL_OK;
    TRY(image_rule_resolve(source, "cifar", &set->rule));
    if (source->labels != NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "'%s' has labels of its own; leave out '%s'", source->path,
             source->labels);
    }
    TRY(cifar_open(source->path, source->split, &set->cifar));
    if (set->rule.resize != 0 || set->rule.side != CIFAR_SIDE) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "%s: images are 32 x 32, the preset %s asks for %lld x %lld; take a preset that "
             "resizes, or leave out the size",
             source->path, set->rule.preset, (long long)set->rule.side, (long long)set->rule.side);
    }
    TRY(hash_cifar(&set->cifar, set->hash));
out:
    return status;
}

grail_status image_set_open(const grail_image_source *source, image_set **out)
{
    grail_status status = GRAIL_OK;
    image_set *set = NULL;
    bool is_cifar = false;
    if (source->path == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no path of images is given");
    }
    TRY(memory_new(&set, 1, sizeof *set));
    TRY(cifar_recognise(source->path, &is_cifar));
    if (is_cifar) {
        TRY(open_cifar(set, source));
    } else {
        FAIL(GRAIL_ERROR_IO, "'%s' holds no images", source->path);
    }
    *out = set;
    set = NULL;
out:
    image_set_close(set);
    return status;
}

void image_set_close(image_set *set)
{
    if (set != NULL) {
        cifar_close(&set->cifar);
        memory_free(set);
    }
}

int64_t image_set_count(const image_set *set)
{
    return set->cifar.count;
}

int64_t image_set_side(const image_set *set)
{
    return set->rule.side;
}

int64_t image_set_label(const image_set *set, int64_t i)
{
    int64_t index = 0;
    const cifar_batch *batch = cifar_find(&set->cifar, i, &index);
    return batch->labels[index];
}

int64_t image_set_classes(const image_set *set)
{
    (void)set;
    return CIFAR_CLASSES;
}

const char *image_set_name(const image_set *set, int64_t i)
{
    static _Thread_local char name[LONGEST_TEXT];
    int64_t index = 0;
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

/* out[y, x, c] <- the value of planes[c, y, x]. */
static void spread_planes(const image_rule *rule, const unsigned char *planes, float *out)
{
    for (size_t p = 0; p < CIFAR_PLANE; p++) {
        for (size_t c = 0; c < 3; c++) {
            out[3 * p + c] = rule->table[c][planes[c * CIFAR_PLANE + p]];
        }
    }
}

static grail_status load_image(const image_set *set, int64_t i, float *out)
{
    int64_t index = 0;
    const cifar_batch *batch = cifar_find(&set->cifar, i, &index);
    spread_planes(&set->rule, batch->pixels + (size_t)index * batch->stride, out);
    return GRAIL_OK;
}

/* One call of image_set_load. Error texts belong to the thread that failed, so the one of the first
 * image that failed is carried over, whatever the order in which threads get there. */
typedef struct load_job {
    const image_set *set;
    const int64_t *indices;
    float *out;
    pthread_mutex_t mutex; /* of what follows */
    grail_status status;
    int64_t failed;
    char text[LONGEST_TEXT];
} load_job;

static void record_failure(load_job *job, int64_t i, grail_status status)
{
    pthread_mutex_lock(&job->mutex);
    if (job->status == GRAIL_OK || i < job->failed) {
        job->status = status;
        job->failed = i;
        snprintf(job->text, sizeof job->text, "%s", grail_error_message());
    }
    pthread_mutex_unlock(&job->mutex);
}

static void load_pieces(int64_t begin, int64_t end, void *context)
{
    load_job *job = context;
    const size_t size = (size_t)(job->set->rule.side * job->set->rule.side * 3);
    for (int64_t i = begin; i < end; i++) {
        const grail_status status =
            load_image(job->set, job->indices[i], job->out + (size_t)i * size);
        if (status != GRAIL_OK) {
            record_failure(job, i, status);
        }
    }
}

grail_status image_set_load(const image_set *set, int64_t count, const int64_t *indices, float *out)
{
    load_job job = {.set = set, .indices = indices, .out = out};
    pthread_mutex_init(&job.mutex, NULL);
    parallel_for(count, LOAD_GRAIN, load_pieces, &job);
    pthread_mutex_destroy(&job.mutex);
    return job.status == GRAIL_OK ? GRAIL_OK : error_set(job.status, "%s", job.text);
}

static int compare_indices(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

grail_status image_set_sample(const image_set *set, int64_t count, uint64_t seed, int64_t *indices)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    random_state random;
    const int64_t total = image_set_count(set);
    if (count < 1 || count > total) {
        FAIL(GRAIL_ERROR_ARGUMENT, "%lld images were asked for, the data holds %lld",
             (long long)count, (long long)total);
    }
    TRY(memory_new_unset(&order, (size_t)total, sizeof order[0]));
    random_seed(&random, seed, 0);
    random_permutation(&random, total, order);
    qsort(order, (size_t)count, sizeof order[0], compare_indices);
    memcpy(indices, order, (size_t)count * sizeof order[0]);
out:
    memory_free(order);
    return status;
}
