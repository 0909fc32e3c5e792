#include "base/scratch.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file without a name. File systems that know none give one that is removed at once. */
static grail_status open_nameless(const char *directory, int *out)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    *out = file_open(AT_FDCWD, directory, O_RDWR | O_TMPFILE);
    if (*out >= 0) {
        return GRAIL_OK;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
        return error_from_errno("cannot create a scratch file in", directory);
    }
    TRY(path_join(&name, directory, ".grail-scratch-XXXXXX"));
    *out = mkstemp(name);
    if (*out < 0) {
        TRY(error_from_errno("cannot create a scratch file in", directory));
    }
    unlink(name);
out:
    memory_free(name);
    return status;
}

static grail_status take_room(int descriptor, const char *directory, size_t bytes)
{
    const int code = posix_fallocate(descriptor, 0, (off_t)bytes);
    if (code == 0) {
        return GRAIL_OK;
    }
    errno = code;
    return error_from_errno("cannot take room for a scratch file in", directory);
}

grail_status scratch_map(const char *directory, size_t bytes, void **out)
{
    grail_status status = GRAIL_OK;
    int descriptor = -1;
    if (bytes > INT64_MAX) {
        FAIL(GRAIL_ERROR_MEMORY, "a scratch file of %zu bytes is too large", bytes);
    }
    TRY(open_nameless(directory, &descriptor));
    TRY(take_room(descriptor, directory, bytes));
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        TRY(error_from_errno("cannot map a scratch file in", directory));
    }
    *out = memory;
out:
    if (descriptor >= 0) {
        close(descriptor);
    }
    return status;
}

grail_status scratch_check(const char *directory)
{
    enum { SOME = 1 << 20 };
    void *memory = NULL;
    const grail_status status = scratch_map(directory, SOME, &memory);
    scratch_unmap(memory, SOME);
    return status;
}

void scratch_unmap(void *memory, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, bytes);
    }
}
