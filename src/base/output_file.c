#include "base/output_file.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 16 };

int rename_to_new(int from_directory, const char *from, int to_directory, const char *to)
{
    if (renameat2(from_directory, from, to_directory, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    struct stat there;
    if (fstatat(to_directory, to, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(from_directory, from, to_directory, to);
}

static grail_status error_exists(const char *path)
{
    return error_set(GRAIL_ERROR_EXISTS, "'%s' exists; remove it or give another name", path);
}

/* Finds where the file must appear. A symbolic link is followed, so that it stays a link. */
static grail_status resolve_path(const char *path, bool replaces, char **out)
{
    struct stat info;
    char *resolved = NULL;
    grail_status status = GRAIL_OK;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? memory_copy_string(out, path)
                               : error_from_errno("cannot inspect", path);
    }
    if (!replaces) {
        return error_exists(path);
    }
    resolved = realpath(path, NULL);
    if (resolved == NULL || stat(resolved, &info) != 0) {
        TRY(error_from_errno("cannot follow the link", path));
    }
    if (!S_ISREG(info.st_mode)) {
        FAIL(GRAIL_ERROR_EXISTS,
             "'%s' is not a regular file, so it cannot be replaced; give another name", path);
    }
    TRY(memory_copy_string(out, resolved));
out:
    free(resolved); /* realpath's own allocator */
    return status;
}

static grail_status temporary_name(const char *directory, char **out)
{
    unsigned char random[8];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return error_from_errno("cannot name a temporary file in", directory);
    }
    char name[48];
    int used = snprintf(name, sizeof name, ".grail-");
    for (size_t i = 0; i < sizeof random; i++) {
        used += snprintf(name + used, sizeof name - (size_t)used, "%02x", random[i]);
    }
    snprintf(name + used, sizeof name - (size_t)used, ".tmp");
    return path_join(out, directory, name);
}

static grail_status create_temporary(output_file *f)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    char *name = NULL;
    TRY(path_parent(&directory, f->path));
    for (int i = 0; f->descriptor < 0 && i < ATTEMPTS; i++) {
        memory_free(name);
        name = NULL;
        TRY(temporary_name(directory, &name));
        f->descriptor = file_open(AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
        if (f->descriptor < 0 && errno != EEXIST) {
            break;
        }
    }
    if (f->descriptor < 0) {
        TRY(error_from_errno("cannot create", f->path));
    }
    f->temporary = name;
    name = NULL;
out:
    memory_free(directory);
    memory_free(name);
    return status;
}

grail_status output_file_open(const char *path, bool replaces, output_file *out)
{
    *out = (output_file){.descriptor = -1, .replaces = replaces};
    CHECK(resolve_path(path, replaces, &out->path));
    return create_temporary(out);
}

static void let_go(output_file *f)
{
    if (f->descriptor >= 0) {
        close(f->descriptor);
        f->descriptor = -1;
    }
    memory_free(f->temporary);
    f->temporary = NULL;
}

grail_status output_file_commit(output_file *f)
{
    CHECK(file_flush(f->descriptor, f->path));
    const int failed = f->replaces ? rename(f->temporary, f->path)
                                   : rename_to_new(AT_FDCWD, f->temporary, AT_FDCWD, f->path);
    if (failed != 0) {
        CHECK(errno == EEXIST && !f->replaces ? error_exists(f->path)
                                              : error_from_errno("cannot rename to", f->path));
    }
    let_go(f);
    return path_flush_parent(f->path);
}

void output_file_fini(output_file *f)
{
    if (f->temporary != NULL) {
        unlink(f->temporary);
    }
    let_go(f);
    memory_free(f->path);
    f->path = NULL;
}

grail_status output_file_write(const char *path, const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    output_file f = {.descriptor = -1};
    TRY(output_file_open(path, true, &f));
    TRY(file_write_at(f.descriptor, f.path, bytes, size, 0));
    TRY(output_file_commit(&f));
out:
    output_file_fini(&f);
    return status;
}
