#include "format/file_layout.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where the file system cannot reserve, the file only gets its size, and a full disk shows at a
 * later write. */
static grail_status reserve_space(int descriptor, const char *path, size_t bytes)
{
    int code = 0;
    do {
        code = posix_fallocate(descriptor, 0, (off_t)bytes);
    } while (code == EINTR);
    if ((code == EOPNOTSUPP || code == EINVAL) && ftruncate(descriptor, (off_t)bytes) == 0) {
        return GRAIL_OK;
    }
    if (code == 0) {
        return GRAIL_OK;
    }
    errno = code;
    const grail_status status = error_from_errno("cannot reserve space for", path);
    error_append(" (%zu bytes needed)", bytes);
    return status;
}

/* Makes a rename in the file's directory last. */
static grail_status sync_parent(const char *path)
{
    char *directory = NULL;
    grail_status status = memory_copy_string(&directory, path);
    if (status != GRAIL_OK) {
        return status;
    }
    char *slash = strrchr(directory, '/');
    if (slash != NULL) {
        slash[slash == directory ? 1 : 0] = 0;
    }
    status = directory_sync(slash == NULL ? "." : directory);
    memory_free(directory);
    return status;
}

static grail_status fill_new_file(const file_layout *layout, int descriptor, const char *temporary,
                                  const char *path)
{
    grail_status status = GRAIL_OK;
    TRY(reserve_space(descriptor, temporary, layout->file_size));
    for (int64_t i = 0; i < layout->piece_count; i++) {
        const layout_piece *piece = &layout->pieces[i];
        TRY(file_write_at(descriptor, temporary, layout->bytes + piece->at, piece->size,
                          piece->begin));
    }
    if (fsync(descriptor) != 0) {
        TRY(error_from_errno("cannot flush", temporary));
    }
    if (rename(temporary, path) != 0) {
        TRY(error_from_errno("cannot rename to", path));
    }
    TRY(sync_parent(path));
out:
    return status;
}

static grail_status create_file(const file_layout *layout, const char *path, int *out)
{
    char *temporary = NULL;
    grail_status status = memory_format(&temporary, "%s.tmp", path);
    if (status != GRAIL_OK) {
        return status;
    }
    const int descriptor = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        status = error_from_errno("cannot create", temporary);
    } else {
        status = fill_new_file(layout, descriptor, temporary, path);
        if (status != GRAIL_OK) {
            close(descriptor);
            unlink(temporary);
        } else {
            *out = descriptor;
        }
    }
    memory_free(temporary);
    return status;
}

static bool is_laid_out_so(const file_layout *layout, const file_map *map)
{
    if (map->size != layout->file_size) {
        return false;
    }
    for (int64_t i = 0; i < layout->piece_count; i++) {
        const layout_piece *piece = &layout->pieces[i];
        if (memcmp(map->data + piece->begin, layout->bytes + piece->at, piece->size) != 0) {
            return false;
        }
    }
    return true;
}

static grail_status continue_file(const file_layout *layout, const char *path, int *out)
{
    file_map map = {0};
    grail_status status = file_map_open(&map, path);
    if (status != GRAIL_OK) {
        return status;
    }
    const bool same = is_laid_out_so(layout, &map);
    file_map_close(&map);
    if (!same) {
        return error_set(GRAIL_ERROR_EXISTS,
                         "'%s' was laid out for other tensors and cannot be continued; remove it "
                         "to start anew",
                         path);
    }
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) {
        return error_from_errno("cannot open", path);
    }
    *out = descriptor;
    return GRAIL_OK;
}

grail_status file_layout_open(const file_layout *layout, const char *path, bool resume, int *out)
{
    if (!file_exists(path)) {
        return create_file(layout, path, out);
    }
    if (resume) {
        return continue_file(layout, path, out);
    }
    return error_set(GRAIL_ERROR_EXISTS, "'%s' already exists; remove it first", path);
}
