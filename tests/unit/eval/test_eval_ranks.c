/* Accuracy on several ranks, which are processes that are connected by
 * sockets: the figures of one process. A rank returns its status where all went as it should. */
#include "unit/pipeline/vision_lab.h"

#include "base/hash.h"
#include "eval/accuracy.h"
#include "support/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 7, WRONG = 200, HANGS_AFTER = 60 };

/* What a rank measured. */
typedef struct figures {
    double top1, mean_nll;
    int64_t images, found, seen, calls, last;
} figures;

/* Memory that the ranks share with the test. */
typedef struct shared_test {
    char directory[LAB_PATH], network[LAB_PATH], images[LAB_PATH];
    figures of[RANKS_MOST];
    int victim;        /* the rank that has, or meets, something else; -1: none */
    const char *what;  /* that is else */
    int64_t successes; /* of the victim's allocations */
    int64_t made;
} shared_test;

/* -- images ------------------------------------------------------------------------------------ */

static int make_lab(const grail_comm *comm, void *user)
{
    shared_test *t = user;
    vision_lab v;
    vision_open(&v);
    snprintf(t->directory, sizeof t->directory, "%s", v.l.directory);
    snprintf(t->images, sizeof t->images, "%s", v.data);
    snprintf(t->network, sizeof t->network, "%s", vision_network(&v, VISION_BASIC, "network"));
    return 0;
}

static shared_test *open_lab(void)
{
    shared_test *t = ranks_shared(sizeof *t);
    t->victim = -1;
    t->what = "";
    ranks_end_with(1, make_lab, t, 0);
    return t;
}

static void close_lab(const shared_test *t)
{
    support_remove_tree(t->directory);
}

static bool is_victim(const shared_test *t, const grail_comm *comm, const char *what)
{
    return comm->rank == t->victim && strcmp(t->what, what) == 0;
}

/* What a rank measures with; freed by close_measure, also after a failure. */
typedef struct measure {
    grail_model *model;
    backend *backend;
    parameter_store *store;
    grail_images *images;
    hash_set calibrated;
} measure;

static grail_status open_measure(const shared_test *t, measure *m)
{
    static const int64_t some[] = {3, 30};
    const grail_image_source source = {
        .path = t->images, .preset = "cifar-plain", .split = "train"};
    CHECK(grail_model_open(t->network, &m->model));
    CHECK(backend_open("cpu", NULL, &m->backend));
    CHECK(parameter_store_create(m->model, m->backend, NULL, &m->store));
    CHECK(grail_images_open(m->model, &source, &m->images));
    CHECK(hash_set_init(&m->calibrated));
    CHECK(image_set_digests(m->images, 2, some, m->calibrated.hashes));
    m->calibrated.hashes[2] = 1; /* of no image */
    m->calibrated.count = 3;
    hash_set_settle(&m->calibrated);
    return GRAIL_OK;
}

static void close_measure(measure *m)
{
    hash_set_fini(&m->calibrated);
    grail_images_close(m->images);
    parameter_store_free(m->store);
    backend_close(m->backend);
    grail_model_close(m->model);
}

typedef struct watcher {
    const shared_test *t;
    const grail_comm *comm;
    figures *f;
} watcher;

static int watch(void *user, const grail_eval_progress *p)
{
    const watcher *w = user;
    w->f->calls++;
    w->f->last = p->done;
    return is_victim(w->t, w->comm, "cancels") ? 1 : 0;
}

static grail_status measure_images(shared_test *t, const grail_comm *comm, measure *m)
{
    grail_accuracy a = {0};
    figures *f = &t->of[comm->rank];
    watcher w = {.t = t, .comm = comm, .f = f};
    const accuracy_task task = {.set = m->images,
                                .images = is_victim(t, comm, "images") ? 8 : 0,
                                .batch = BATCH,
                                .calibrated = &m->calibrated,
                                .comm = comm,
                                .observer = watch,
                                .user = &w};
    *f = (figures){0};
    CHECK(accuracy_measure(m->model, m->store, &task, &a));
    f->top1 = a.top1;
    f->mean_nll = a.mean_nll;
    f->images = a.images;
    f->found = a.calibration_found;
    f->seen = a.overlap_images;
    return GRAIL_OK;
}

/* The status, or WRONG where the message does not name the rank that failed. */
static int ended(const shared_test *t, const grail_comm *comm, grail_status status)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d of %d: ", t->victim, comm->size);
    const bool named = strstr(grail_error_message(), name) != NULL;
    const bool fits = status == GRAIL_OK || named == (comm->rank != t->victim);
    if (!fits) {
        fprintf(stderr, "rank %d: %s\n", comm->rank, grail_error_message());
    }
    return fits ? (int)status : WRONG;
}

static int take_images(const grail_comm *comm, void *user)
{
    shared_test *t = user;
    measure m = {0};
    alarm(HANGS_AFTER);
    grail_status status = open_measure(t, &m);
    if (status != GRAIL_OK) {
        return WRONG;
    }
    memory_fail_after(is_victim(t, comm, "memory") ? t->successes : -1);
    status = measure_images(t, comm, &m);
    if (is_victim(t, comm, "memory")) {
        t->made = memory_allocation_count();
    }
    memory_fail_after(-1);
    close_measure(&m);
    return ended(t, comm, status);
}

TEST(any_number_of_ranks_has_the_same_accuracy)
{
    shared_test *t = open_lab();
    figures alone = {0};
    for (int size = 1; size <= 5; size += size < 3 ? 1 : 2) {
        ranks_end_with(size, take_images, t, GRAIL_OK);
        alone = size == 1 ? t->of[0] : alone;
        int64_t calls = 0;
        for (int rank = 0; rank < size; rank++) {
            const figures *f = &t->of[rank];
            assert_int_equal(f->images, VISION_IMAGES);
            assert_true(f->top1 == alone.top1 && f->mean_nll == alone.mean_nll);
            assert_int_equal(f->found, 2);
            assert_int_equal(f->seen, alone.seen);
            calls += f->calls;
        }
        assert_int_equal(calls, (VISION_IMAGES + BATCH - 1) / BATCH);
    }
    assert_true(alone.mean_nll > 0.0 && alone.seen >= 2);
    assert_int_equal(alone.last, VISION_IMAGES);
    close_lab(t);
}

TEST(a_rank_that_measures_otherwise_ends_all)
{
    shared_test *t = open_lab();
    t->victim = 1;
    t->what = "images";
    ranks_end_with(3, take_images, t, GRAIL_ERROR_ARGUMENT);
    t->what = "cancels";
    ranks_end_with(3, take_images, t, GRAIL_ERROR_CANCELLED);
    t->victim = 0;
    ranks_end_with(2, take_images, t, GRAIL_ERROR_CANCELLED);
    close_lab(t);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Whatever allocation of one rank fails, all end, with its error. */
static void walk(shared_test *t, int (*take)(const grail_comm *comm, void *user))
{
    t->what = "memory";
    for (t->victim = 0; t->victim < 2; t->victim++) {
        int status[RANKS_MOST] = {GRAIL_ERROR_MEMORY, GRAIL_ERROR_MEMORY};
        for (t->successes = 0; status[t->victim] != GRAIL_OK;
             t->successes += 1 + t->successes / (support_walks_failures() ? 6 : 3)) {
            ranks_run(2, take, t, status);
            assert_int_equal(status[0], status[1]);
            assert_int_equal(status[t->victim],
                             t->made > t->successes ? GRAIL_ERROR_MEMORY : GRAIL_OK);
        }
    }
}

TEST(a_rank_that_lacks_memory_ends_all)
{
    shared_test *t = open_lab();
    walk(t, take_images);
    close_lab(t);
}
