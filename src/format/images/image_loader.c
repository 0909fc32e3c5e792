/* Decodes ahead of the caller: a thread fills one batch while the caller uses the other. */
#include "base/parallel.h"
#include "format/images/image_set.h"

#include <pthread.h>
#include <string.h>

enum { LONGEST_TEXT = 2048 };

typedef enum loader_state {
    LOADER_DECODING, /* the thread owns `ahead` */
    LOADER_READY,    /* `ahead` holds a batch, or the end, or a failure */
    LOADER_CLOSING
} loader_state;

struct image_loader {
    const image_set *set;
    const int64_t *indices;
    int64_t count;
    int64_t batch;
    int threads;      /* for parallel_for: the caller's setting, which new threads do not inherit */
    int64_t next;     /* first index of the batch that is decoded */
    float *pixels[2]; /* [batch, side, side, channels] each */
    int ahead;        /* which of them is decoded */
    int64_t loaded;   /* images in pixels[ahead] */
    grail_status status;
    char text[LONGEST_TEXT];
    loader_state state;
    bool started;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards state; state says who owns next, ahead, loaded, status, text */
    pthread_cond_t changed;
};

static void decode_batch(image_loader *loader)
{
    const int64_t left = loader->count - loader->next;
    loader->loaded = left < loader->batch ? left : loader->batch;
    loader->status = parallel_start();
    if (loader->status == GRAIL_OK) {
        loader->status = image_set_load(loader->set, loader->loaded, loader->indices + loader->next,
                                        loader->pixels[loader->ahead]);
    }
    if (loader->status != GRAIL_OK) {
        error_copy(loader->text, sizeof loader->text);
    }
    loader->next += loader->loaded;
}

static void *run_loader(void *context)
{
    image_loader *loader = context;
    parallel_set_threads(loader->threads);
    pthread_mutex_lock(&loader->mutex);
    while (loader->state != LOADER_CLOSING) {
        if (loader->state == LOADER_READY) {
            pthread_cond_wait(&loader->changed, &loader->mutex);
            continue;
        }
        pthread_mutex_unlock(&loader->mutex);
        decode_batch(loader);
        pthread_mutex_lock(&loader->mutex);
        if (loader->state == LOADER_DECODING) {
            loader->state = LOADER_READY;
            pthread_cond_broadcast(&loader->changed);
        }
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

grail_status image_loader_open(const image_set *set, int64_t count, const int64_t *indices,
                               int64_t batch, image_loader **out)
{
    grail_status status = GRAIL_OK;
    image_loader *loader = NULL;
    if (count < 0 || batch < 1) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "cannot load %lld images in batches of %lld; expected 0 or more images in batches of "
             "at least 1",
             (long long)count, (long long)batch);
    }
    TRY(memory_new(&loader, 1, sizeof *loader));
    *loader = (image_loader){.set = set,
                             .indices = indices,
                             .count = count,
                             .batch = batch < count ? batch : count,
                             .threads = parallel_threads()};
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->changed, NULL);
    const image_rule *rule = image_set_rule(set);
    const int64_t values = rule->height * rule->width * rule->channels;
    for (int i = 0; i < 2; i++) {
        TRY(memory_new_unset(&loader->pixels[i], (size_t)loader->batch,
                             (size_t)values * sizeof(float)));
    }
    const int code = pthread_create(&loader->thread, NULL, run_loader, loader);
    if (code != 0) {
        FAIL(GRAIL_ERROR_MEMORY, "cannot start a thread that decodes images: %s",
             strerrordesc_np(code));
    }
    loader->started = true;
    *out = loader;
    loader = NULL;
out:
    image_loader_close(loader);
    return status;
}

grail_status image_loader_next(image_loader *loader, const float **pixels, int64_t *loaded)
{
    grail_status status = GRAIL_OK;
    pthread_mutex_lock(&loader->mutex);
    while (loader->state == LOADER_DECODING) {
        pthread_cond_wait(&loader->changed, &loader->mutex);
    }
    if (loader->status != GRAIL_OK) {
        status = error_set(loader->status, "%s", loader->text);
    } else {
        *pixels = loader->pixels[loader->ahead];
        *loaded = loader->loaded;
        loader->ahead = 1 - loader->ahead;
        loader->state = LOADER_DECODING;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->mutex);
    return status;
}

void image_loader_close(image_loader *loader)
{
    if (loader == NULL) {
        return;
    }
    if (loader->started) {
        pthread_mutex_lock(&loader->mutex);
        loader->state = LOADER_CLOSING;
        pthread_cond_broadcast(&loader->changed);
        pthread_mutex_unlock(&loader->mutex);
        pthread_join(loader->thread, NULL);
    }
    pthread_mutex_destroy(&loader->mutex);
    pthread_cond_destroy(&loader->changed);
    memory_free(loader->pixels[0]);
    memory_free(loader->pixels[1]);
    memory_free(loader);
}
