#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

grail_status error_from_errno(const char *action, const char *path)
{
    const int code = errno;
    grail_status status = GRAIL_ERROR_IO;
    if (code == ENOSPC || code == EDQUOT || code == EFBIG) {
        status = GRAIL_ERROR_SPACE;
    } else if (code == ENOMEM) {
        status = GRAIL_ERROR_MEMORY;
    } else if (code == EEXIST || code == ENOTEMPTY) {
        status = GRAIL_ERROR_EXISTS;
    }
    char text[128];
    const char *reason = strerror_r(code, text, sizeof text);
    return error_set(status, "%s '%s': %s", action, path, reason);
}

static grail_status open_regular(const char *path, int *out_descriptor, size_t *out_size)
{
    /* O_NONBLOCK: a pipe nobody writes to is refused below instead of waited for. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return error_from_errno("cannot open", path);
    }
    struct stat info;
    grail_status status = GRAIL_OK;
    if (fstat(descriptor, &info) != 0) {
        status = error_from_errno("cannot inspect", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = error_set(GRAIL_ERROR_IO, "'%s' is not a regular file", path);
    }
    if (status != GRAIL_OK) {
        close(descriptor);
        return status;
    }
    *out_descriptor = descriptor;
    *out_size = (size_t)info.st_size;
    return GRAIL_OK;
}

grail_status file_map_open(file_map *map, const char *path)
{
    int descriptor = -1;
    size_t size = 0;
    grail_status status = open_regular(path, &descriptor, &size);
    if (status != GRAIL_OK) {
        return status;
    }
    void *data = NULL;
    if (size > 0) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED) {
            status = error_from_errno("cannot map", path);
        }
    }
    close(descriptor);
    if (status == GRAIL_OK) {
        *map = (file_map){.data = data, .size = size};
    }
    return status;
}

void file_map_close(file_map *map)
{
    if (map->data != NULL) {
        union {
            const unsigned char *read_only;
            void *any;
        } address = {.read_only = map->data};
        munmap(address.any, map->size);
    }
    *map = (file_map){0};
}

void file_map_release(const file_map *map, size_t offset, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t begin = (offset + page - 1) / page * page;
    const size_t end = (offset + size) / page * page;
    if (map->data != NULL && begin < end && end <= map->size) {
        union {
            const unsigned char *read_only;
            void *any;
        } address = {.read_only = map->data + begin};
        madvise(address.any, end - begin, MADV_DONTNEED);
    }
}

static grail_status read_all(int descriptor, const char *path, buffer *out, size_t size)
{
    const grail_status status = buffer_reserve(out, size);
    size_t done = 0;
    while (status == GRAIL_OK && done < size) {
        const ssize_t got = read(descriptor, out->bytes + out->size, size - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return error_from_errno("cannot read", path);
        }
        if (got == 0) {
            return error_set(GRAIL_ERROR_IO, "'%s' ended %zu bytes early", path, size - done);
        }
        done += (size_t)got;
        out->size += (size_t)got;
        out->bytes[out->size] = 0;
    }
    return status;
}

grail_status file_read(const char *path, size_t maximum, buffer *out)
{
    int descriptor = -1;
    size_t size = 0;
    grail_status status = open_regular(path, &descriptor, &size);
    if (status != GRAIL_OK) {
        return status;
    }
    if (size > maximum) {
        status = error_set(GRAIL_ERROR_FORMAT, "'%s' has %zu bytes, more than the allowed %zu",
                           path, size, maximum);
    } else {
        if (out->maximum < maximum) {
            out->maximum = maximum;
        }
        status = read_all(descriptor, path, out, size);
    }
    close(descriptor);
    return status;
}

grail_status file_write_at(int descriptor, const char *path, const void *bytes, size_t size,
                           uint64_t offset)
{
    const unsigned char *next = bytes;
    size_t left = size;
    while (left > 0) {
        const ssize_t wrote = pwrite(descriptor, next, left, (off_t)(offset + (size - left)));
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return error_from_errno("cannot write", path);
        }
        next += wrote;
        left -= (size_t)wrote;
    }
    return GRAIL_OK;
}

static grail_status write_new_file(const char *path, const void *bytes, size_t size)
{
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        return error_from_errno("cannot create", path);
    }
    grail_status status = file_write_at(descriptor, path, bytes, size, 0);
    if (status == GRAIL_OK && fsync(descriptor) != 0) {
        status = error_from_errno("cannot flush", path);
    }
    if (close(descriptor) != 0 && status == GRAIL_OK) {
        status = error_from_errno("cannot close", path);
    }
    return status;
}

grail_status file_write_atomic(const char *path, const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    char *temporary = NULL;
    TRY(memory_format(&temporary, "%s.tmp", path));
    TRY(write_new_file(temporary, bytes, size));
    if (rename(temporary, path) != 0) {
        TRY(error_from_errno("cannot rename to", path));
    }
out:
    if (status != GRAIL_OK && temporary != NULL) {
        unlink(temporary);
    }
    memory_free(temporary);
    return status;
}

grail_status file_copy(const char *from, const char *to)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    TRY(file_map_open(&map, from));
    TRY(write_new_file(to, map.data, map.size));
out:
    file_map_close(&map);
    return status;
}

/* Of the open file description: reading the file by another one does not give it up. A file system
 * that has no locks keeps nobody out, as without this. */
grail_status file_lock(int descriptor, const char *path, bool *taken)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *taken = false;
    if (fcntl(descriptor, F_OFD_SETLK, &all) == 0) {
        return GRAIL_OK;
    }
    *taken = errno == EACCES || errno == EAGAIN;
    const bool without = errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS;
    return *taken || without ? GRAIL_OK : error_from_errno("cannot lock", path);
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

grail_status path_join(char **out, const char *directory, const char *name)
{
    const size_t length = strlen(directory);
    const char *slash = length > 0 && directory[length - 1] == '/' ? "" : "/";
    return memory_format(out, "%s%s%s", directory, slash, name);
}

grail_status directory_sync(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        return error_from_errno("cannot open", path);
    }
    grail_status status = GRAIL_OK;
    if (fsync(descriptor) != 0) {
        status = error_from_errno("cannot flush", path);
    }
    close(descriptor);
    return status;
}
