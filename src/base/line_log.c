#include "base/line_log.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the name still refers to the locked file: the program that held the lock before may have
 * moved or removed the file. */
static bool is_still_there(int descriptor, int directory, const char *name)
{
    struct stat own;
    struct stat there;
    return fstat(descriptor, &own) == 0 && fstatat(directory, name, &there, 0) == 0 &&
           own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

grail_status line_log_open(int directory, const char *name, const char *path, int flags,
                           line_log *out, line_log_answer *answer)
{
    bool taken = false;
    file_identity identity = {0};
    *out = (line_log){.descriptor = -1};
    CHECK(memory_copy_string(&out->path, path));
    /* O_NONBLOCK: a pipe is refused below instead of waited for. */
    out->descriptor = file_open(directory, name, O_RDWR | O_NONBLOCK | flags);
    if (out->descriptor < 0 && errno == ENOENT && (flags & O_CREAT) == 0) {
        *answer = LINE_LOG_MISSING;
        return GRAIL_OK;
    }
    if (out->descriptor < 0) {
        return error_from_errno("cannot open", path);
    }
    CHECK(file_identify_open(out->descriptor, path, &identity));
    CHECK(file_lock(out->descriptor, path, &taken));
    taken = taken || !is_still_there(out->descriptor, directory, name);
    *answer = taken ? LINE_LOG_TAKEN : LINE_LOG_OPEN;
    return GRAIL_OK;
}

grail_status line_log_read(line_log *log, size_t maximum, buffer *text)
{
    const size_t begin = text->size;
    CHECK(file_read_open(log->descriptor, log->path, maximum, text));
    size_t end = text->size;
    while (end > begin && text->bytes[end - 1] != '\n') {
        end--;
    }
    log->size = end - begin;
    return GRAIL_OK;
}

static grail_status cut_off(const line_log *log)
{
    return ftruncate(log->descriptor, (off_t)log->size) == 0
               ? GRAIL_OK
               : error_from_errno("cannot shorten", log->path);
}

/* Removes a torn line first: a shorter line in its place would leave its end behind. */
grail_status line_log_append(line_log *log, const void *text, size_t size)
{
    grail_status status = GRAIL_OK;
    TRY(cut_off(log));
    TRY(file_write_at(log->descriptor, log->path, text, size, log->size));
    TRY(file_flush(log->descriptor, log->path));
    log->size += size;
out:
    if (status != GRAIL_OK) { /* reported in either case: a torn line does not count */
        const int ignored = ftruncate(log->descriptor, (off_t)log->size);
        (void)ignored;
    }
    return status;
}

void line_log_fini(line_log *log)
{
    if (log->path != NULL && log->descriptor >= 0) {
        close(log->descriptor);
    }
    memory_free(log->path);
    *log = (line_log){.descriptor = -1};
}
