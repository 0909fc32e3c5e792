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

int file_open(int directory, const char *path, int flags)
{
    int descriptor = -1;
    do {
        descriptor = openat(directory, path, flags | O_CLOEXEC, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0 || descriptor > STDERR_FILENO) {
        return descriptor;
    }
    const int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int code = errno;
    close(descriptor);
    errno = code;
    return higher;
}

static file_identity identity_of(const struct stat *info)
{
    return (file_identity){.device = (uint64_t)info->st_dev,
                           .inode = (uint64_t)info->st_ino,
                           .size = (int64_t)info->st_size,
                           .seconds = (int64_t)info->st_mtim.tv_sec,
                           .nanoseconds = (int64_t)info->st_mtim.tv_nsec};
}

static grail_status require_regular(const struct stat *info, const char *path)
{
    return S_ISREG(info->st_mode) ? GRAIL_OK
                                  : error_set(GRAIL_ERROR_IO, "'%s' is not a regular file", path);
}

grail_status file_identify(const char *path, file_identity *out)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return error_from_errno("cannot inspect", path);
    }
    *out = identity_of(&info);
    return require_regular(&info, path);
}

grail_status file_identify_open(int descriptor, const char *path, file_identity *out)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        return error_from_errno("cannot inspect", path);
    }
    *out = identity_of(&info);
    return require_regular(&info, path);
}

static grail_status open_regular(const char *path, int *out_descriptor, file_identity *identity)
{
    /* O_NONBLOCK: a pipe nobody writes to is refused below instead of waited for. */
    const int descriptor = file_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
    if (descriptor < 0) {
        return error_from_errno("cannot open", path);
    }
    const grail_status status = file_identify_open(descriptor, path, identity);
    if (status != GRAIL_OK) {
        close(descriptor);
        return status;
    }
    *out_descriptor = descriptor;
    return GRAIL_OK;
}

grail_status file_map_open(file_map *map, const char *path)
{
    int descriptor = -1;
    file_identity identity = {0};
    void *data = NULL;
    CHECK(open_regular(path, &descriptor, &identity));
    const size_t size = (size_t)identity.size;
    if (size > 0) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    }
    const grail_status status =
        data == MAP_FAILED ? error_from_errno("cannot map", path) : GRAIL_OK;
    close(descriptor);
    CHECK(status);
    *map = (file_map){.data = data, .size = size, .identity = identity};
    return GRAIL_OK;
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

grail_status file_read_at(int descriptor, const char *path, void *bytes, size_t size,
                          uint64_t offset)
{
    unsigned char *next = bytes;
    size_t left = size;
    while (left > 0) {
        const ssize_t got = pread(descriptor, next, left, (off_t)(offset + (size - left)));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return error_from_errno("cannot read", path);
        }
        if (got == 0) {
            return error_set(GRAIL_ERROR_IO, "'%s' ended %zu bytes before its expected end", path,
                             left);
        }
        next += got;
        left -= (size_t)got;
    }
    return GRAIL_OK;
}

grail_status file_read_open(int descriptor, const char *path, size_t maximum, buffer *out)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        return error_from_errno("cannot inspect", path);
    }
    const size_t size = (size_t)info.st_size;
    if (size > maximum) {
        return error_set(GRAIL_ERROR_FORMAT, "'%s' has %zu bytes, more than the allowed %zu", path,
                         size, maximum);
    }
    if (out->maximum < maximum) {
        out->maximum = maximum;
    }
    CHECK(buffer_reserve(out, size));
    CHECK(file_read_at(descriptor, path, out->bytes + out->size, size, 0));
    out->size += size;
    out->bytes[out->size] = 0;
    return GRAIL_OK;
}

grail_status file_read(const char *path, size_t maximum, buffer *out)
{
    int descriptor = -1;
    file_identity identity = {0};
    CHECK(open_regular(path, &descriptor, &identity));
    const grail_status status = file_read_open(descriptor, path, maximum, out);
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

/* The lock belongs to the open file description: closing another descriptor of the same file does
 * not release it. */
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
    return stat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
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

grail_status path_find(char **out, const char *directory, const char *name)
{
    *out = NULL;
    CHECK(path_join(out, directory, name));
    if (!file_exists(*out)) {
        memory_free(*out);
        *out = NULL;
    }
    return GRAIL_OK;
}

/* Without the slashes at its end, but for that of the root. */
static size_t trimmed(const char *path, size_t length)
{
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    return length;
}

grail_status path_trim(char **out, const char *path)
{
    return memory_format(out, "%.*s", (int)trimmed(path, strlen(path)), path);
}

grail_status path_parent(char **out, const char *path)
{
    size_t length = trimmed(path, strlen(path));
    while (length > 0 && path[length - 1] != '/') {
        length--;
    }
    length = trimmed(path, length);
    return length == 0 ? memory_copy_string(out, ".")
                       : memory_format(out, "%.*s", (int)length, path);
}

/* EINVAL: this file system cannot flush files of this kind, mostly directories; there is nothing
 * that could be done instead. */
grail_status file_flush(int descriptor, const char *path)
{
    int code = 0;
    do {
        code = fsync(descriptor);
    } while (code != 0 && errno == EINTR);
    return code == 0 || errno == EINVAL ? GRAIL_OK : error_from_errno("cannot flush", path);
}

grail_status path_flush_parent(const char *path)
{
    grail_status status = GRAIL_OK;
    char *parent = NULL;
    int descriptor = -1;
    TRY(path_parent(&parent, path));
    descriptor = file_open(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) {
        TRY(error_from_errno("cannot open", parent));
    }
    TRY(file_flush(descriptor, parent));
out:
    if (descriptor >= 0) {
        close(descriptor);
    }
    memory_free(parent);
    return status;
}
