#include "pipeline/inputs/copies.h"

#include "base/temporary_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors are few; files of which there are many are small. */
enum { LEAST_HELD = 1 << 23, MOST_HELD = 256 };

/* -- removing ---------------------------------------------------------------------------------- */

/* All copies of the process. A signal handler walks over them, on whatever thread it runs; so what
 * leaves the list is freed once nobody walks. */
static _Atomic(grail_shared_inputs *) all;
static atomic_int walkers;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* Async-signal-safe. */
static void remove_made(const grail_shared_inputs *s)
{
    for (size_t i = s->made_count; i > 0; i--) {
        const char *path = s->made[i - 1];
        if (path != NULL && unlink(path) != 0) {
            (void)rmdir(path);
        }
    }
}

void grail_shared_inputs_remove_all(void)
{
    const int code = errno;
    atomic_fetch_add(&walkers, 1);
    for (const grail_shared_inputs *s = atomic_load(&all); s != NULL; s = s->next) {
        remove_made(s);
    }
    atomic_fetch_sub(&walkers, 1);
    errno = code;
}

static void enter(grail_shared_inputs *s)
{
    pthread_mutex_lock(&changing);
    s->next = atomic_load(&all);
    atomic_store(&all, s);
    pthread_mutex_unlock(&changing);
}

static void leave(const grail_shared_inputs *s)
{
    pthread_mutex_lock(&changing);
    grail_shared_inputs *at = atomic_load(&all);
    if (at == s) {
        atomic_store(&all, s->next);
    }
    for (; at != NULL; at = at->next) {
        at->next = at->next == s ? s->next : at->next;
    }
    pthread_mutex_unlock(&changing);
    while (atomic_load(&walkers) > 0) {
        sched_yield();
    }
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; texts != NULL && i < count; i++) {
        memory_free(texts[i]);
    }
    memory_free(texts);
}

void grail_shared_inputs_close(grail_shared_inputs *s)
{
    if (s == NULL) {
        return;
    }
    remove_made(s);
    leave(s);
    for (int i = 0; i < s->held_count; i++) {
        close(s->held[i]);
    }
    memory_free(s->held);
    free_texts(s->made, s->made_count);
    free_texts(s->roots, (size_t)s->count);
    free_texts(s->paths, (size_t)s->count);
    memory_free(s);
}

/* -- making ------------------------------------------------------------------------------------ */

/* The next entry to be made is "directory/name"; its name is known before it is. */
static grail_status add(const char *directory, const char *name, grail_shared_inputs *s)
{
    CHECK(path_join(&s->made[s->made_count], directory, name));
    s->made_count++;
    return GRAIL_OK;
}

/* The directory of a file, where it lies in another one than the file before it. */
static grail_status add_directory(const char *root, const char *name, const char *before,
                                  grail_shared_inputs *s)
{
    grail_status status = GRAIL_OK;
    char *own = NULL;
    const char *slash = strrchr(name, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - name) + 1;
    if (length == 0 || (before != NULL && strncmp(before, name, length) == 0)) {
        return GRAIL_OK;
    }
    TRY(memory_format(&own, "%.*s", (int)length - 1, name));
    TRY(add(root, own, s));
out:
    memory_free(own);
    return status;
}

static grail_status add_input(const char *directory, const file_list *list, int i,
                              grail_shared_inputs *s)
{
    const char *before = NULL;
    CHECK(memory_format(&s->roots[i], "%s/%d", directory, i));
    CHECK(list->opens == NULL ? memory_copy_string(&s->paths[i], s->roots[i])
                              : path_join(&s->paths[i], s->roots[i], list->opens));
    CHECK(memory_copy_string(&s->made[s->made_count], s->roots[i]));
    s->made_count++;
    for (size_t f = 0; f < list->count; f++) {
        CHECK(add_directory(s->roots[i], list->files[f].name, before, s));
        CHECK(add(s->roots[i], list->files[f].name, s));
        before = list->files[f].name;
    }
    return GRAIL_OK;
}

/* Names all that will be made, so that a signal from here on finds it. */
static grail_status name_all(const file_list *lists, const bool *wanted, grail_shared_inputs *s)
{
    size_t most = 1;
    char *directory = NULL;
    for (int i = 0; i < s->count; i++) {
        most += wanted[i] ? 1 + 2 * lists[i].count : 0; /* a directory for each file at most */
    }
    CHECK(memory_new(&s->made, most, sizeof s->made[0]));
    CHECK(memory_new(&s->held, MOST_HELD, sizeof s->held[0]));
    CHECK(memory_new(&s->roots, (size_t)s->count, sizeof s->roots[0]));
    CHECK(memory_new(&s->paths, (size_t)s->count, sizeof s->paths[0]));
    CHECK(temporary_directory("grail-inputs", &directory));
    s->made[s->made_count++] = directory;
    for (int i = 0; i < s->count; i++) {
        CHECK(wanted[i] ? add_input(directory, &lists[i], i, s) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* The file at `path`, open as `descriptor`, loses its name to a link that leads to it, until it is
 * closed. *held: whether it has; without /proc it keeps the name. */
static grail_status hold_file(const char *path, int descriptor, bool *held)
{
    char target[40];
    snprintf(target, sizeof target, "/proc/self/fd/%d", descriptor);
    *held = access(target, F_OK) == 0;
    if (!*held) {
        return GRAIL_OK;
    }
    return unlink(path) == 0 && symlink(target, path) == 0 ? GRAIL_OK
                                                           : error_from_errno("cannot link", path);
}

static grail_status make_file(const char *path, int64_t size, grail_shared_inputs *s)
{
    grail_status status = GRAIL_OK;
    bool held = false;
    const int descriptor = file_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL);
    if (descriptor < 0) {
        return error_from_errno("cannot create", path);
    }
    const int code = size == 0 ? 0 : posix_fallocate(descriptor, 0, (off_t)size);
    errno = code;
    TRY(code == 0 ? GRAIL_OK : error_from_errno("cannot take room for", path));
    if (size >= LEAST_HELD && s->held_count < MOST_HELD) {
        TRY(hold_file(path, descriptor, &held));
    }
out:
    if (held) {
        s->held[s->held_count++] = descriptor;
    } else {
        close(descriptor);
    }
    return status;
}

static grail_status make_directory(const char *path)
{
    return mkdir(path, S_IRWXU) == 0 ? GRAIL_OK : error_from_errno("cannot create", path);
}

/* Makes an input, whose entries begin at made[*at]. */
static grail_status make_input(const file_list *list, grail_shared_inputs *s, int i, size_t *at)
{
    const size_t below = strlen(s->roots[i]) + 1;
    CHECK(make_directory(s->made[(*at)++]));
    for (size_t f = 0; f < list->count; f++) {
        if (strcmp(s->made[*at] + below, list->files[f].name) != 0) {
            CHECK(make_directory(s->made[(*at)++]));
        }
        CHECK(make_file(s->made[(*at)++], list->files[f].identity.size, s));
    }
    return GRAIL_OK;
}

static int64_t bytes_of(const file_list *lists, const bool *wanted, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        for (size_t f = 0; wanted[i] && f < lists[i].count; f++) {
            bytes += lists[i].files[f].identity.size;
        }
    }
    return bytes;
}

static grail_status make_all(const file_list *lists, const bool *wanted, grail_shared_inputs *s)
{
    size_t at = 1;
    grail_status status = GRAIL_OK;
    for (int i = 0; i < s->count && status == GRAIL_OK; i++) {
        status = wanted[i] ? make_input(&lists[i], s, i, &at) : GRAIL_OK;
    }
    if (status == GRAIL_ERROR_SPACE) {
        error_append("; copies of the inputs take %lld bytes: give TMPDIR a directory with that "
                     "much room, or put the inputs where this rank reads them itself",
                     (long long)bytes_of(lists, wanted, s->count));
    }
    return status;
}

grail_status copies_make(const file_list *lists, const bool *wanted, int count,
                         grail_shared_inputs **out)
{
    grail_shared_inputs *s = NULL;
    CHECK(memory_new(&s, 1, sizeof *s));
    s->count = count;
    *out = s;
    CHECK(name_all(lists, wanted, s));
    enter(s);
    return make_all(lists, wanted, s);
}

grail_status copy_set_times(int descriptor, const char *path, const file_identity *of)
{
    const struct timespec time = {.tv_sec = (time_t)of->seconds, .tv_nsec = (long)of->nanoseconds};
    const struct timespec times[] = {time, time};
    return futimens(descriptor, times) == 0 ? GRAIL_OK
                                            : error_from_errno("cannot set the times of", path);
}
