#include "base/output_file.h"

#include "base/file.h"

#include <dirent.h>
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

grail_status output_file_check_free(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 ? error_exists(path) : GRAIL_OK;
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

static const char temporary_begin[] = ".grail-";
static const char temporary_end[] = ".tmp";
enum { RANDOM_BYTES = 8 };

static grail_status temporary_name(const char *directory, char **out)
{
    unsigned char random[RANDOM_BYTES];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return error_from_errno("cannot name a temporary file in", directory);
    }
    char name[sizeof temporary_begin + 2 * RANDOM_BYTES + sizeof temporary_end];
    int used = snprintf(name, sizeof name, "%s", temporary_begin);
    for (size_t i = 0; i < sizeof random; i++) {
        used += snprintf(name + used, sizeof name - (size_t)used, "%02x", random[i]);
    }
    snprintf(name + used, sizeof name - (size_t)used, "%s", temporary_end);
    return path_join(out, directory, name);
}

static bool is_temporary_name(const char *name)
{
    const size_t begin = sizeof temporary_begin - 1;
    return strncmp(name, temporary_begin, begin) == 0 &&
           strspn(name + begin, "0123456789abcdef") == (size_t)2 * RANDOM_BYTES &&
           strcmp(name + begin + (size_t)2 * RANDOM_BYTES, temporary_end) == 0;
}

/* Removes a file that a run left when it was killed. A run that lives has locked its own
 * (file_lock); where locks are missing, none is removed. */
static void remove_if_left(int directory, const char *name)
{
    struct stat info;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int descriptor = file_open(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) {
        return;
    }
    if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
        fcntl(descriptor, F_OFD_SETLK, &all) == 0) {
        (void)unlinkat(directory, name, 0);
    }
    (void)close(descriptor);
}

static void remove_left(const char *path)
{
    DIR *list = opendir(path);
    if (list == NULL) {
        return; /* creating the file tells why */
    }
    for (const struct dirent *e = readdir(list); e != NULL; e = readdir(list)) {
        if (is_temporary_name(e->d_name)) {
            remove_if_left(dirfd(list), e->d_name);
        }
    }
    (void)closedir(list);
}

static void drop_descriptor(output_file *f)
{
    (void)close(f->descriptor);
    f->descriptor = -1;
}

/* A file without a name, of which no end of the program leaves anything; f->descriptor stays -1
 * where the file system, or the system, has none that could get a name. */
static grail_status create_nameless(const char *directory, output_file *f)
{
    f->descriptor = file_open(AT_FDCWD, directory, O_RDWR | O_TMPFILE);
    if (f->descriptor < 0) {
        return GRAIL_OK;
    }
    CHECK(memory_format(&f->temporary, "/proc/self/fd/%d", f->descriptor));
    f->is_nameless = access(f->temporary, F_OK) == 0;
    if (!f->is_nameless) {
        drop_descriptor(f);
        memory_free(f->temporary);
        f->temporary = NULL;
    }
    return GRAIL_OK;
}

/* Whether the file still has its name: another run may have removed it before it was locked. */
static bool has_name(int descriptor)
{
    struct stat info;
    return fstat(descriptor, &info) == 0 && info.st_nlink > 0;
}

static grail_status create_named(const char *directory, output_file *f)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    bool taken = false;
    for (int i = 0; f->descriptor < 0 && i < ATTEMPTS; i++) {
        memory_free(name);
        name = NULL;
        TRY(temporary_name(directory, &name));
        f->descriptor = file_open(AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
        if (f->descriptor < 0 && errno != EEXIST) {
            break;
        }
        if (f->descriptor >= 0) {
            status = file_lock(f->descriptor, f->path, &taken);
            if (status == GRAIL_OK && !has_name(f->descriptor)) {
                drop_descriptor(f);
                errno = EEXIST;
            }
            TRY(status);
        }
    }
    if (f->descriptor < 0) {
        TRY(error_from_errno("cannot create", f->path));
    }
    f->temporary = name;
    name = NULL;
out:
    if (name != NULL && f->descriptor >= 0) {
        (void)unlink(name);
    }
    memory_free(name);
    return status;
}

grail_status output_file_open(const char *path, bool replaces, output_file *out)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    *out = (output_file){.descriptor = -1, .replaces = replaces};
    TRY(resolve_path(path, replaces, &out->path));
    TRY(path_parent(&directory, out->path));
    remove_left(directory);
    TRY(create_nameless(directory, out));
    if (out->descriptor < 0) {
        TRY(create_named(directory, out));
    }
out:
    memory_free(directory);
    return status;
}

static void let_go(output_file *f)
{
    if (f->descriptor >= 0) {
        drop_descriptor(f);
    }
    memory_free(f->temporary);
    f->temporary = NULL;
}

static int link_to(const output_file *f, const char *name)
{
    return linkat(AT_FDCWD, f->temporary, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* Gives the file a temporary name, from which it can take the place of another one; locked, so that
 * no other run takes it for one that was left. */
static grail_status give_temporary_name(output_file *f)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    char *name = NULL;
    bool taken = false;
    int failure = EEXIST;
    TRY(path_parent(&directory, f->path));
    TRY(file_lock(f->descriptor, f->path, &taken));
    for (int i = 0; failure == EEXIST && i < ATTEMPTS; i++) {
        memory_free(name);
        name = NULL;
        TRY(temporary_name(directory, &name));
        failure = link_to(f, name) == 0 ? 0 : errno;
    }
    if (failure != 0) {
        errno = failure;
        TRY(error_from_errno("cannot create", f->path));
    }
    memory_free(f->temporary);
    f->temporary = name;
    f->is_nameless = false;
    name = NULL;
out:
    memory_free(directory);
    memory_free(name);
    return status;
}

/* 0, or -1 with errno. */
static int appear(const output_file *f)
{
    if (f->is_nameless) {
        return link_to(f, f->path);
    }
    return f->replaces ? rename(f->temporary, f->path)
                       : rename_to_new(AT_FDCWD, f->temporary, AT_FDCWD, f->path);
}

grail_status output_file_commit(output_file *f)
{
    CHECK(file_flush(f->descriptor, f->path));
    if (f->is_nameless && f->replaces) {
        CHECK(give_temporary_name(f));
    }
    if (appear(f) != 0) {
        CHECK(errno == EEXIST && !f->replaces ? error_exists(f->path)
                                              : error_from_errno("cannot rename to", f->path));
    }
    let_go(f);
    return path_flush_parent(f->path);
}

void output_file_fini(output_file *f)
{
    if (f->temporary != NULL && !f->is_nameless) {
        unlink(f->temporary);
    }
    let_go(f);
    memory_free(f->path);
    f->path = NULL;
}
