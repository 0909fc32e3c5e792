#include "pipeline/output/state.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char state_name[] = "grail-state.jsonl";
enum { STATE_MAXIMUM = 1 << 30 };

static grail_status state_path(const char *directory, char **out)
{
    return path_join(out, directory, state_name);
}

grail_status state_append(const run_state *s, const json_t *record)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer line = {0};
    int descriptor = -1;
    buffer_init(&line, STATE_MAXIMUM);
    TRY(state_path(s->directory, &path));
    TRY(json_append_text(record, &line));
    TRY(buffer_append_string(&line, "\n"));
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        TRY(error_from_errno("cannot open", path));
    }
    const off_t end = lseek(descriptor, 0, SEEK_END);
    TRY(file_write_at(descriptor, path, line.bytes, line.size, (uint64_t)end));
    if (fsync(descriptor) != 0) {
        TRY(error_from_errno("cannot flush", path));
    }
out:
    if (descriptor >= 0) {
        close(descriptor);
    }
    buffer_fini(&line);
    memory_free(path);
    return status;
}

void state_unlock(run_state *s)
{
    if (s->lock >= 0) {
        close(s->lock);
        s->lock = -1;
    }
}

/* Whether the locked file is still the one at `path`: its run may have ended meanwhile, and have
 * moved or removed it. */
static bool is_at(int descriptor, const char *path)
{
    struct stat own;
    struct stat there;
    return fstat(descriptor, &own) == 0 && stat(path, &there) == 0 && own.st_ino == there.st_ino &&
           own.st_dev == there.st_dev;
}

grail_status state_lock(run_state *s, bool create)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    bool taken = false;
    state_unlock(s);
    TRY(state_path(s->directory, &path));
    s->lock = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
    if (s->lock < 0 && (create || errno != ENOENT)) {
        TRY(error_from_errno("cannot open", path));
    }
    if (s->lock >= 0) {
        TRY(file_lock(s->lock, path, &taken));
        taken = taken || !is_at(s->lock, path);
    }
    if (taken) {
        FAIL(GRAIL_ERROR_EXISTS,
             "another run is working in '%s'; let it end, or choose another output", s->directory);
    }
out:
    memory_free(path);
    return status;
}

/* Cuts a torn tail off so that the next record begins on a line of its own. */
static grail_status trim_state(const char *path, const buffer *text)
{
    size_t size = text->size;
    while (size > 0 && text->bytes[size - 1] != '\n') {
        size--;
    }
    if (size < text->size && truncate(path, (off_t)size) != 0) {
        return error_from_errno("cannot shorten", path);
    }
    return GRAIL_OK;
}

/* Up to the first line that is no record: it was torn by a crash, and what it would have recorded
 * is done again. */
static grail_status parse_records(const char *name, const buffer *text, json_t *records)
{
    grail_status status = GRAIL_OK;
    size_t offset = 0;
    while (offset < text->size) {
        const unsigned char *start = text->bytes + offset;
        const unsigned char *newline = memchr(start, '\n', text->size - offset);
        json_t *record = NULL;
        if (newline == NULL ||
            json_parse(name, start, (size_t)(newline - start), &record) != GRAIL_OK) {
            break;
        }
        offset += (size_t)(newline - start) + 1;
        TRY(json_push(records, record));
    }
out:
    return status;
}

grail_status state_read(const run_state *s, json_t *records)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer text = {0};
    TRY(state_path(s->directory, &path));
    if (file_exists(path)) {
        TRY(file_read(path, STATE_MAXIMUM, &text));
        TRY(trim_state(path, &text));
        TRY(parse_records(s->directory, &text, records));
    }
out:
    buffer_fini(&text);
    memory_free(path);
    return status;
}

grail_status state_remove(const char *directory)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(state_path(directory, &path));
    if (unlink(path) != 0) {
        TRY(error_from_errno("cannot remove", path));
    }
out:
    memory_free(path);
    return status;
}

void state_discard(const run_state *s)
{
    static const char *const endings[] = {"", ".tmp"};
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        char *path = NULL;
        if (memory_format(&path, "%s/%s%s", s->directory, state_name, endings[e]) == GRAIL_OK) {
            unlink(path);
        }
        memory_free(path);
    }
}
