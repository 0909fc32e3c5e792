#include "base/record.h"

#include "base/checksum.h"
#include "base/file.h"
#include "base/output_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char log_name[] = "grail-state.jsonl";
static const char *const saved_names[] = {"grail-saved-0", "grail-saved-1"};
static const char result_name[] = "result";
static const char commit_key[] = "commit";
enum { LOG_MAXIMUM = 1 << 30 };

struct run_record {
    char *path, *partial, *result, *log_path; /* the last for messages */
    char *outcome;                        /* below the partial directory: what the commit renames */
    int directory, result_directory, log; /* descriptors; -1 without */
    uint64_t log_size;                    /* of its complete lines */
    json_t *entries;                      /* owned */
    char **names;                         /* declared, owned; [name_count] */
    size_t name_count;
    bool is_file; /* the outcome is a file */
    bool committed;
};

/* -- lines of the log -------------------------------------------------------------------------- */

static const char before[] = "{\"record\":";

enum { BEFORE = sizeof before - 1 };

grail_status record_append_line(const json_t *entry, buffer *out)
{
    CHECK(buffer_append_string(out, before));
    const size_t begin = out->size;
    CHECK(json_append_text(entry, out));
    CHECK(checksum_append_end(out, begin));
    return buffer_append_string(out, "\n");
}

/* Whether `size` bytes, without a line end, are a complete line; the entry's text stands at BEFORE
 * and has *length bytes. */
static bool is_intact(const char *line, size_t size, size_t *length)
{
    return size >= BEFORE && memcmp(line, before, BEFORE) == 0 &&
           checksum_check_end(line, size, BEFORE, length) == CHECKSUM_RIGHT;
}

static grail_status error_damaged(const char *path, size_t line)
{
    return error_set(GRAIL_ERROR_FORMAT,
                     "'%s' is damaged, or another version of grail wrote it: line %zu does not "
                     "match its checksum",
                     path, line);
}

grail_status record_parse(const char *path, const void *text, size_t size, json_t **out)
{
    grail_status status = GRAIL_OK;
    const char *next = text;
    size_t left = size;
    size_t number = 1;
    size_t length = 0;
    json_t *entries = json_array();
    if (entries == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "%s: out of memory while reading records", path);
    }
    for (; left > 0; number++) {
        json_t *entry = NULL;
        const char *end = memchr(next, '\n', left);
        if (end == NULL) {
            break;
        }
        const size_t line = (size_t)(end - next);
        TRY(is_intact(next, line, &length) ? json_parse(path, next + BEFORE, length, &entry)
                                           : error_damaged(path, number));
        TRY(json_push(entries, entry));
        next += line + 1;
        left -= line + 1;
    }
    if (left > 0 && is_intact(next, left - 1, &length)) {
        TRY(error_damaged(path, number)); /* a complete line whose line end was overwritten */
    }
    *out = entries;
    entries = NULL;
out:
    json_decref(entries);
    return status;
}

/* The line is on disk when the function returns. After a failure the log is unchanged or, if the
 * disk refuses even that, ends in a torn line, which does not count. */
static grail_status append(run_record *r, const json_t *entry)
{
    grail_status status = GRAIL_OK;
    buffer line = {0};
    buffer_init(&line, LOG_MAXIMUM);
    TRY(record_append_line(entry, &line));
    /* a shorter line in the place of a torn one would leave its end behind */
    if (ftruncate(r->log, (off_t)r->log_size) != 0) {
        TRY(error_from_errno("cannot shorten", r->log_path));
    }
    status = file_write_at(r->log, r->log_path, line.bytes, line.size, r->log_size);
    status = status == GRAIL_OK ? file_flush(r->log, r->log_path) : status;
    r->log_size += status == GRAIL_OK ? line.size : 0;
    if (status != GRAIL_OK) {
        const int ignored = ftruncate(r->log, (off_t)r->log_size);
        (void)ignored;
    }
out:
    buffer_fini(&line);
    return status;
}

/* -- the partial ------------------------------------------------------------------------------- */

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static grail_status error_output_exists(const run_record *r)
{
    const grail_status status = error_set(
        GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it", r->path);
    if (json_array_size(r->entries) > 0) {
        error_append(" ('%s' holds an interrupted run)", r->partial);
    }
    return status;
}

/* *out is to be closed after a failure, too. */
static grail_status begin(const char *path, const char *only, run_record **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    run_record *r = *out;
    r->directory = r->result_directory = r->log = -1;
    r->is_file = only != NULL;
    if (path[0] == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "no output directory was given");
    }
    CHECK(path_trim(&r->path, path));
    CHECK(memory_format(&r->partial, "%s.partial", r->path));
    CHECK(path_join(&r->log_path, r->partial, log_name));
    CHECK(path_join(&r->result, r->partial, result_name));
    CHECK(only == NULL ? memory_copy_string(&r->outcome, result_name)
                       : path_join(&r->outcome, result_name, only));
    return only == NULL ? GRAIL_OK : record_declare(r, only);
}

/* Does not follow a link, because its target belongs to somebody else. */
static grail_status open_partial(run_record *r, bool *made)
{
    *made = mkdir(r->partial, 0777) == 0;
    if (!*made && errno != EEXIST) {
        return error_from_errno("cannot create", r->partial);
    }
    r->directory = file_open(AT_FDCWD, r->partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (r->directory < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        return error_set(
            GRAIL_ERROR_EXISTS,
            "'%s' is not a directory, and the run needs a directory of this name; delete it",
            r->partial);
    }
    return r->directory < 0 ? error_from_errno("cannot open", r->partial) : GRAIL_OK;
}

/* Finds a name in the partial directory other than that of the log; *name is owned, NULL where
 * there is none. */
static grail_status find_other(const run_record *r, char **name)
{
    grail_status status = GRAIL_OK;
    const int again = file_open(r->directory, ".", O_RDONLY | O_DIRECTORY);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    const struct dirent *entry = NULL;
    if (list == NULL) {
        status = error_from_errno("cannot list", r->partial);
        if (again >= 0) {
            close(again);
        }
        return status;
    }
    while (*name == NULL && status == GRAIL_OK && (entry = readdir(list)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, log_name) != 0) {
            status = memory_copy_string(name, entry->d_name);
        }
    }
    closedir(list);
    return status;
}

/* A run writes an entry before anything else, so without one there can be no other file. */
static grail_status require_nothing_else(const run_record *r)
{
    char *other = NULL;
    grail_status status = find_other(r, &other);
    if (status == GRAIL_OK && other != NULL) {
        status = error_set(GRAIL_ERROR_EXISTS,
                           "'%s' does not come from an interrupted run: it holds '%s' but no "
                           "record of a run; move it away, or choose another output",
                           r->partial, other);
    }
    memory_free(other);
    return status;
}

/* Whether the name still refers to the locked file: the program that held the lock before may have
 * moved or removed the file. */
static bool is_still_there(const run_record *r)
{
    struct stat own;
    struct stat there;
    return fstat(r->log, &own) == 0 && fstatat(r->directory, log_name, &there, 0) == 0 &&
           own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

/* Two runs that begin at once both get here, and the lock decides. *made becomes true when there
 * was no log. */
static grail_status lock_log(run_record *r, bool *made)
{
    bool taken = false;
    file_identity identity = {0};
    /* O_NONBLOCK: a pipe is refused below instead of waited for. */
    const int flags = O_RDWR | O_NONBLOCK | O_NOFOLLOW;
    r->log = file_open(r->directory, log_name, flags | (*made ? O_CREAT : 0));
    if (r->log < 0 && errno == ENOENT && !*made) {
        CHECK(require_nothing_else(r));
        *made = true;
        r->log = file_open(r->directory, log_name, flags | O_CREAT);
    }
    if (r->log < 0) {
        return error_from_errno("cannot open", r->log_path);
    }
    CHECK(file_identify_open(r->log, r->log_path, &identity));
    CHECK(file_lock(r->log, r->log_path, &taken));
    return !taken && is_still_there(r)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_EXISTS,
                           "another run is writing to '%s'; wait until it ends, or choose another "
                           "output",
                           r->partial);
}

static grail_status read_log(run_record *r)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    TRY(file_read_open(r->log, r->log_path, LOG_MAXIMUM, &text));
    r->log_size = text.size;
    while (r->log_size > 0 && text.bytes[r->log_size - 1] != '\n') {
        r->log_size--;
    }
    status = record_parse(r->log_path, text.bytes, text.size, &r->entries);
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; delete '%s' and start anew", r->partial);
    }
out:
    buffer_fini(&text);
    return status;
}

/* -- what an earlier run left ------------------------------------------------------------------ */

/* Identifies this result after a crash: by its inode, and, because inodes are reused, by the time
 * when it, or its entries, last changed. */
static json_t *describe(const struct stat *info)
{
    return json_pack("[I, I, I, I]", (json_int_t)info->st_dev, (json_int_t)info->st_ino,
                     (json_int_t)info->st_mtim.tv_sec, (json_int_t)info->st_mtim.tv_nsec);
}

/* The last entry's commit, or NULL where it is another entry. */
static const json_t *last_commit(const run_record *r)
{
    const size_t count = json_array_size(r->entries);
    return count == 0 ? NULL : json_object_get(json_array_get(r->entries, count - 1), commit_key);
}

/* Callers need not see commits, finished or not. */
static void drop_commits(run_record *r)
{
    while (last_commit(r) != NULL) {
        json_array_remove(r->entries, json_array_size(r->entries) - 1);
    }
}

/* Removes the empty directory of the result and what was saved. Returns the name of what cannot be
 * removed, with errno, or NULL. */
static const char *remove_kept(const run_record *r)
{
    const char *const names[] = {result_name, saved_names[0], saved_names[1]};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int flags = names[i] == result_name ? AT_REMOVEDIR : 0;
        if (unlinkat(r->directory, names[i], flags) != 0 && errno != ENOENT) {
            return names[i];
        }
    }
    return NULL;
}

/* A run that ended between the commit and the removal of its state left only the state, and of a
 * result that is a file the directory where it was made. If the result is gone, there is nothing to
 * continue. */
static grail_status judge_commit(run_record *r)
{
    struct stat there;
    if (last_commit(r) == NULL ||
        fstatat(r->directory, r->outcome, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        return GRAIL_OK;
    }
    if (lstat(r->path, &there) == 0) {
        json_t *description = describe(&there);
        if (description == NULL) {
            return error_set(GRAIL_ERROR_MEMORY, "%s: out of memory", r->partial);
        }
        r->committed = json_equal(description, last_commit(r)) == 1;
        json_decref(description);
    }
    if (!r->committed) {
        json_array_clear(r->entries);
        r->log_size = 0;
        (void)remove_kept(r);
    }
    return GRAIL_OK;
}

static grail_status open_result(run_record *r)
{
    if (mkdirat(r->directory, result_name, 0777) != 0 && errno != EEXIST) {
        return error_from_errno("cannot create", r->result);
    }
    r->result_directory = file_open(r->directory, result_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return r->result_directory < 0 ? error_from_errno("cannot open", r->result) : GRAIL_OK;
}

grail_status record_error_begun(const run_record *r)
{
    return error_about(error_set(GRAIL_ERROR_EXISTS,
                                 "'%s' holds an interrupted run; resume it or delete it",
                                 r->partial),
                       "resume");
}

static grail_status judge_partial(run_record *r, bool resume)
{
    CHECK(judge_commit(r));
    drop_commits(r);
    const bool begun = json_array_size(r->entries) > 0;
    if (is_there(r->path) && !(r->committed && resume)) {
        return error_output_exists(r);
    }
    if (begun && !resume) {
        return record_error_begun(r);
    }
    if (!begun) {
        return require_nothing_else(r);
    }
    return r->committed ? GRAIL_OK : open_result(r);
}

/* The same of all; the log comes last, since a continued run removes the rest while it is there. */
static const char *remove_state(const run_record *r)
{
    const char *left = remove_kept(r);
    if (left == NULL && unlinkat(r->directory, log_name, 0) != 0 && errno != ENOENT) {
        left = log_name;
    }
    return left;
}

grail_status record_open(const char *path, const char *only, bool resume, run_record **out)
{
    grail_status status = GRAIL_OK;
    run_record *r = NULL;
    bool made = false;
    TRY(begin(path, only, &r));
    if (is_there(r->path) && !(resume && is_there(r->partial))) {
        TRY(error_output_exists(r));
    }
    TRY(open_partial(r, &made));
    TRY(lock_log(r, &made));
    TRY(read_log(r));
    status = judge_partial(r, resume);
    if (status != GRAIL_OK && made && remove_state(r) == NULL) {
        rmdir(r->partial);
    }
    TRY(status);
    *out = r;
    r = NULL;
out:
    record_close(r);
    return status;
}

grail_status record_check(const char *path, bool resume)
{
    grail_status status = GRAIL_OK;
    run_record *r = NULL;
    run_record *left = NULL;
    TRY(begin(path, NULL, &r));
    if (is_there(r->path) && !(resume && is_there(r->partial))) {
        TRY(error_output_exists(r));
    }
    if (is_there(r->log_path)) {
        TRY(record_open(path, NULL, resume, &left));
    }
out:
    record_close(left);
    record_close(r);
    return status;
}

grail_status record_look(const char *path, run_record **out)
{
    grail_status status = GRAIL_OK;
    run_record *r = NULL;
    buffer text = {0};
    char *outcome = NULL;
    TRY(begin(path, NULL, &r));
    status = file_read(r->log_path, LOG_MAXIMUM, &text);
    if (status == GRAIL_OK) {
        status = record_parse(r->log_path, text.bytes, text.size, &r->entries);
    }
    TRY(status == GRAIL_ERROR_MEMORY ? status : GRAIL_OK);
    if (last_commit(r) != NULL) { /* the rename may have failed */
        TRY(path_join(&outcome, r->partial, r->outcome));
        if (is_there(r->path) || !is_there(outcome)) {
            json_array_clear(r->entries);
        }
        drop_commits(r);
    }
    *out = r;
    r = NULL;
out:
    memory_free(outcome);
    buffer_fini(&text);
    record_close(r);
    return status;
}

const json_t *record_first(const run_record *r)
{
    return json_array_get(r->entries, 0);
}

const json_t *record_get(const run_record *r, const char *key, const int *number)
{
    for (size_t i = json_array_size(r->entries); i-- > 1;) {
        const json_t *entry = json_array_get(r->entries, i);
        const json_t *found = json_object_get(entry, key);
        const bool same =
            number == NULL || (json_is_integer(found) && json_integer_value(found) == *number);
        if (found != NULL && same) {
            return entry;
        }
    }
    return NULL;
}

bool record_is_committed(const run_record *r)
{
    return r->committed;
}

const char *record_path(const run_record *r)
{
    return r->path;
}

const char *record_partial(const run_record *r)
{
    return r->partial;
}

const char *record_result(const run_record *r)
{
    return r->result;
}

/* -- making the result ------------------------------------------------------------------------- */

static bool is_base_name(const char *name)
{
    return name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* The folder of a declared name, which is "" without one, and the name in it. */
typedef struct place {
    char folder[256];
    const char *name;
} place;

static bool find_place(const char *name, place *out)
{
    const char *slash = strchr(name, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - name);
    *out = (place){.name = slash == NULL ? name : slash + 1};
    if (length >= sizeof out->folder) {
        return false;
    }
    memcpy(out->folder, name, length);
    return is_base_name(out->name) && (slash == NULL || is_base_name(out->folder));
}

grail_status record_declare(run_record *r, const char *name)
{
    place own;
    if (!find_place(name, &own)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "'%s' is not the name of a file", name);
    }
    CHECK(memory_reserve(&r->names, r->name_count + 1, sizeof r->names[0]));
    CHECK(memory_copy_string(&r->names[r->name_count], name));
    r->name_count++;
    return GRAIL_OK;
}

grail_status record_put(run_record *r, const json_t *entry)
{
    if (r->result_directory >= 0) { /* names of files that the entry speaks of */
        CHECK(file_flush(r->result_directory, r->result));
    }
    CHECK(append(r, entry));
    CHECK(json_push(r->entries, json_deep_copy(entry)));
    if (r->result_directory >= 0) {
        return GRAIL_OK;
    }
    CHECK(open_result(r));
    CHECK(file_flush(r->directory, r->partial));
    return path_flush_parent(r->partial);
}

/* The directory of a place; of a folder a descriptor that is the caller's to close. */
static int open_place(const run_record *r, const place *own)
{
    return own->folder[0] == 0
               ? r->result_directory
               : file_open(r->result_directory, own->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

static void close_place(const place *own, int directory)
{
    if (own->folder[0] != 0 && directory >= 0) {
        close(directory);
    }
}

static grail_status write_file(int directory, const char *name, const char *path, const void *bytes,
                               size_t size)
{
    grail_status status = GRAIL_OK;
    int descriptor = -1;
    if (unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
        TRY(error_from_errno("cannot remove", path));
    }
    descriptor = file_open(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (descriptor < 0) {
        TRY(error_from_errno("cannot create", path));
    }
    TRY(file_write_at(descriptor, path, bytes, size, 0));
    TRY(file_flush(descriptor, path));
out:
    if (descriptor >= 0) {
        close(descriptor);
    }
    return status;
}

grail_status record_write(run_record *r, const char *name, const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    place own = {0};
    int directory = -1;
    (void)find_place(name, &own);
    TRY(path_join(&path, r->result, name));
    if (own.folder[0] != 0 && mkdirat(r->result_directory, own.folder, 0777) != 0 &&
        errno != EEXIST) {
        TRY(error_from_errno("cannot create the folder of", path));
    }
    directory = open_place(r, &own);
    if (directory < 0) {
        TRY(error_from_errno("cannot open the folder of", path));
    }
    TRY(write_file(directory, own.name, path, bytes, size));
    if (own.folder[0] != 0) {
        TRY(file_flush(directory, path));
    }
out:
    close_place(&own, directory);
    memory_free(path);
    return status;
}

grail_status record_open_saved(const run_record *r, int which, bool write, int *descriptor,
                               char **path)
{
    const char *name = saved_names[which];
    CHECK(path_join(path, r->partial, name));
    *descriptor = file_open(r->directory, name,
                            O_NOFOLLOW | (write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY));
    if (*descriptor < 0) {
        return error_from_errno(write ? "cannot create" : "cannot open", *path);
    }
    /* the name, before an entry speaks of it */
    return write ? file_flush(r->directory, r->partial) : GRAIL_OK;
}

/* A folder goes with the last of its files. */
void record_clear(run_record *r)
{
    for (size_t i = 0; r->result_directory >= 0 && i < r->name_count; i++) {
        place own = {0};
        (void)find_place(r->names[i], &own);
        const int directory = open_place(r, &own);
        if (directory >= 0) {
            unlinkat(directory, own.name, 0);
        }
        close_place(&own, directory);
        if (own.folder[0] != 0) {
            unlinkat(r->result_directory, own.folder, AT_REMOVEDIR);
        }
    }
}

/* -- the end ----------------------------------------------------------------------------------- */

static grail_status put_commit(run_record *r)
{
    grail_status status = GRAIL_OK;
    struct stat info;
    json_t *entry = json_object();
    if (fstatat(r->directory, r->outcome, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        TRY(error_from_errno("cannot inspect", r->result));
    }
    TRY(json_put(entry, commit_key, describe(&info)));
    TRY(append(r, entry));
out:
    json_decref(entry);
    return status;
}

static grail_status rename_result(run_record *r)
{
    CHECK(file_flush(r->result_directory, r->result));
    CHECK(put_commit(r));
    if (rename_to_new(r->directory, r->outcome, AT_FDCWD, r->path) != 0) {
        if (errno == EEXIST) {
            return error_set(GRAIL_ERROR_EXISTS, "'%s' appeared during the run; move it away",
                             r->path);
        }
        return error_from_errno("cannot rename to", r->path);
    }
    r->committed = true;
    CHECK(path_flush_parent(r->path));
    return file_flush(r->is_file ? r->result_directory : r->directory, r->partial);
}

/* The partial directory stays when it holds files of somebody else. A crash may undo its removal;
 * the state that reappears is still true. */
static grail_status leave_partial(run_record *r)
{
    const char *left = remove_state(r);
    if (left != NULL) {
        return error_in(error_from_errno("cannot remove", left), "%s", r->partial);
    }
    if (rmdir(r->partial) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
        return error_from_errno("cannot remove", r->partial);
    }
    return GRAIL_OK;
}

grail_status record_commit(run_record *r)
{
    grail_status status = r->committed ? GRAIL_OK : rename_result(r);
    status = status == GRAIL_OK ? leave_partial(r) : status;
    if (status != GRAIL_OK && r->committed) {
        error_append("; the result is complete in '%s'", r->path);
    }
    return status;
}

void record_abandon(run_record *r)
{
    if (r->committed) {
        return;
    }
    record_clear(r);
    if (remove_state(r) == NULL) {
        rmdir(r->partial);
    }
}

void record_close(run_record *r)
{
    if (r == NULL) {
        return;
    }
    const int descriptors[] = {r->directory, r->result_directory, r->log};
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
        if (descriptors[i] >= 0) {
            close(descriptors[i]);
        }
    }
    json_decref(r->entries);
    for (size_t i = 0; i < r->name_count; i++) {
        memory_free(r->names[i]);
    }
    memory_free(r->names);
    memory_free(r->outcome);
    memory_free(r->log_path);
    memory_free(r->path);
    memory_free(r->partial);
    memory_free(r->result);
    memory_free(r);
}
