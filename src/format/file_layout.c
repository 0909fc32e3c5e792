#include "format/file_layout.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* If the file system cannot reserve space, the file only gets its size, and a full disk shows at a
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

static grail_status write_piece(const file_layout *layout, const layout_piece *piece,
                                int descriptor, const char *path)
{
    return file_write_at(descriptor, path, layout->bytes + piece->at, piece->size, piece->begin);
}

static grail_status lay_out(const file_layout *layout, int descriptor, const char *path)
{
    CHECK(reserve_space(descriptor, path, layout->file_size));
    for (int64_t i = 0; i < layout->piece_count; i++) {
        CHECK(write_piece(layout, &layout->pieces[i], descriptor, path));
    }
    return file_flush(descriptor, path);
}

static grail_status check_piece(const file_layout *layout, const layout_piece *piece,
                                int descriptor, const char *path, bool *same)
{
    grail_status status = GRAIL_OK;
    unsigned char *found = NULL;
    TRY(memory_new_unset(&found, piece->size, 1));
    TRY(file_read_at(descriptor, path, found, piece->size, piece->begin));
    *same = memcmp(found, layout->bytes + piece->at, piece->size) == 0;
out:
    memory_free(found);
    return status;
}

static grail_status check_layout(const file_layout *layout, int descriptor, const char *path)
{
    bool same = lseek(descriptor, 0, SEEK_END) == (off_t)layout->file_size;
    for (int64_t i = 0; same && i < layout->piece_count; i++) {
        CHECK(check_piece(layout, &layout->pieces[i], descriptor, path, &same));
    }
    if (!same) {
        return error_set(
            GRAIL_ERROR_EXISTS,
            "cannot continue '%s': it is damaged, or was prepared for other tensors; remove it to "
            "start anew",
            path);
    }
    return GRAIL_OK;
}

grail_status file_layout_open(const file_layout *layout, const char *path, layout_start start,
                              int *out)
{
    const int creates = start == LAYOUT_NEW ? O_CREAT | O_EXCL : 0;
    const int follows = start == LAYOUT_EMPTY ? 0 : O_NOFOLLOW; /* a way to a file without a name */
    const int descriptor = file_open(AT_FDCWD, path, O_RDWR | follows | creates);
    if (descriptor < 0) {
        return errno == EEXIST
                   ? error_set(GRAIL_ERROR_EXISTS, "'%s' already exists; remove it first", path)
                   : error_from_errno(start == LAYOUT_NEW ? "cannot create" : "cannot open", path);
    }
    const grail_status status = start == LAYOUT_CONTINUED ? check_layout(layout, descriptor, path)
                                                          : lay_out(layout, descriptor, path);
    if (status != GRAIL_OK) {
        close(descriptor);
        if (start == LAYOUT_NEW) {
            unlink(path);
        }
        return status;
    }
    *out = descriptor;
    return GRAIL_OK;
}

grail_status file_layout_seal(const file_layout *layout, int descriptor, const char *path)
{
    CHECK(file_flush(descriptor, path));
    CHECK(write_piece(layout, &layout->seal, descriptor, path));
    return file_flush(descriptor, path);
}
