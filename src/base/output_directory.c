#include "base/output_directory.h"

#include "base/file.h"
#include "base/line_log.h"
#include "base/output_file.h"
#include "base/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char state_name[] = "grail-state.jsonl";
static const char *const saved_names[] = {"grail-saved-0", "grail-saved-1"};
static const char result_name[] = "result";
static const char commit_key[] = "commit";
enum { STATE_MAXIMUM = 1 << 30 };

struct output_directory {
    char *path, *partial, *result;
    int directory, result_directory; /* descriptors of the partial and of its result; -1 without */
    line_log log;
    json_t *records; /* owned */
    char **names;    /* declared, owned; [name_count] */
    size_t name_count;
    bool committed;
};

/* -- the partial ------------------------------------------------------------------------------- */

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static grail_status error_output_exists(const output_directory *o)
{
    const grail_status status = error_set(
        GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it", o->path);
    if (json_array_size(o->records) > 0) {
        error_append(" ('%s' holds an interrupted run)", o->partial);
    }
    return status;
}

static grail_status error_taken(const output_directory *o)
{
    return error_set(GRAIL_ERROR_EXISTS,
                     "another run is writing to '%s'; wait until it ends, or choose another output",
                     o->partial);
}

/* *out is to be closed after a failure, too. */
static grail_status begin(const char *path, output_directory **out)
{
    output_directory *o = NULL;
    CHECK(memory_new(&o, 1, sizeof *o));
    *out = o;
    o->directory = -1;
    o->result_directory = -1;
    if (path[0] == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "no output directory was given");
    }
    CHECK(path_trim(&o->path, path));
    CHECK(memory_format(&o->partial, "%s.partial", o->path));
    return path_join(&o->result, o->partial, result_name);
}

/* Does not follow a link, because its target belongs to somebody else. */
static grail_status open_partial(output_directory *o, bool *made)
{
    *made = mkdir(o->partial, 0777) == 0;
    if (!*made && errno != EEXIST) {
        return error_from_errno("cannot create", o->partial);
    }
    o->directory = file_open(AT_FDCWD, o->partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (o->directory < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        return error_set(
            GRAIL_ERROR_EXISTS,
            "'%s' is not a directory, and the run needs a directory of this name; delete it",
            o->partial);
    }
    return o->directory < 0 ? error_from_errno("cannot open", o->partial) : GRAIL_OK;
}

/* Finds a name in the partial directory other than that of the state; *name is owned, NULL where
 * there is none. */
static grail_status find_other(const output_directory *o, char **name)
{
    grail_status status = GRAIL_OK;
    const int again = file_open(o->directory, ".", O_RDONLY | O_DIRECTORY);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    const struct dirent *entry = NULL;
    if (list == NULL) {
        status = error_from_errno("cannot list", o->partial);
        if (again >= 0) {
            close(again);
        }
        return status;
    }
    while (*name == NULL && status == GRAIL_OK && (entry = readdir(list)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, state_name) != 0) {
            status = memory_copy_string(name, entry->d_name);
        }
    }
    closedir(list);
    return status;
}

/* A run writes a record before anything else, so without a record there can be no other file. */
static grail_status require_nothing_else(const output_directory *o)
{
    char *other = NULL;
    grail_status status = find_other(o, &other);
    if (status == GRAIL_OK && other != NULL) {
        status = error_set(GRAIL_ERROR_EXISTS,
                           "'%s' does not come from an interrupted run: it holds '%s' but no "
                           "record of a run; move it away, or choose another output",
                           o->partial, other);
    }
    memory_free(other);
    return status;
}

static grail_status open_log(output_directory *o, const char *path, bool create,
                             line_log_answer *answer)
{
    line_log_fini(&o->log);
    return line_log_open(o->directory, state_name, path, O_NOFOLLOW | (create ? O_CREAT : 0),
                         &o->log, answer);
}

/* Two runs that begin at once both get here, and the lock decides. *made becomes true when there
 * was no state. */
static grail_status lock_state(output_directory *o, bool *made)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    line_log_answer answer = LINE_LOG_TAKEN;
    TRY(path_join(&path, o->partial, state_name));
    TRY(open_log(o, path, *made, &answer));
    if (answer == LINE_LOG_MISSING) {
        TRY(require_nothing_else(o));
        TRY(open_log(o, path, true, &answer));
        *made = true;
    }
    if (answer == LINE_LOG_TAKEN) {
        TRY(error_taken(o));
    }
out:
    memory_free(path);
    return status;
}

static grail_status read_records(output_directory *o)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    TRY(line_log_read(&o->log, STATE_MAXIMUM, &text));
    status = records_parse(o->log.path, text.bytes, text.size, &o->records);
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; delete '%s' and start anew", o->partial);
    }
out:
    buffer_fini(&text);
    return status;
}

/* -- what an earlier run left -------------------------------------------------------------------
 */

/* Identifies this result after a crash: by its inode, and, because inodes are reused, by the time
 * when its entries last changed. */
static json_t *describe_directory(const struct stat *info)
{
    return json_pack("[I, I, I, I]", (json_int_t)info->st_dev, (json_int_t)info->st_ino,
                     (json_int_t)info->st_mtim.tv_sec, (json_int_t)info->st_mtim.tv_nsec);
}

/* The last record's commit, or NULL where it is another record. */
static const json_t *last_commit(const output_directory *o)
{
    const size_t count = json_array_size(o->records);
    return count == 0 ? NULL : json_object_get(json_array_get(o->records, count - 1), commit_key);
}

static grail_status is_of_commit(const output_directory *o, const struct stat *there, bool *out)
{
    json_t *description = describe_directory(there);
    if (description == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "%s: out of memory", o->partial);
    }
    *out = json_equal(description, last_commit(o)) == 1;
    json_decref(description);
    return GRAIL_OK;
}

static bool has_result(const output_directory *o)
{
    struct stat info;
    return fstatat(o->directory, result_name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A run that ended between the commit and the removal of its state left only the state. If its
 * result is gone, there is nothing to continue. */
static grail_status judge_commit(output_directory *o)
{
    struct stat there;
    if (last_commit(o) == NULL || has_result(o)) {
        return GRAIL_OK;
    }
    if (lstat(o->path, &there) == 0) {
        CHECK(is_of_commit(o, &there, &o->committed));
    }
    if (!o->committed) {
        json_array_clear(o->records);
        o->log.size = 0;
    }
    return GRAIL_OK;
}

/* Callers need not see commit records, finished or not. */
static void drop_commits(output_directory *o)
{
    while (last_commit(o) != NULL) {
        json_array_remove(o->records, json_array_size(o->records) - 1);
    }
}

static grail_status open_result(output_directory *o)
{
    if (mkdirat(o->directory, result_name, 0777) != 0 && errno != EEXIST) {
        return error_from_errno("cannot create", o->result);
    }
    o->result_directory = file_open(o->directory, result_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return o->result_directory < 0 ? error_from_errno("cannot open", o->result) : GRAIL_OK;
}

grail_status output_directory_error_begun(const output_directory *o)
{
    return error_about(error_set(GRAIL_ERROR_EXISTS,
                                 "'%s' holds an interrupted run; resume it or delete it",
                                 o->partial),
                       "resume");
}

static grail_status judge_partial(output_directory *o, bool resume)
{
    CHECK(judge_commit(o));
    drop_commits(o);
    const bool begun = json_array_size(o->records) > 0;
    if (is_there(o->path) && !(o->committed && resume)) {
        return error_output_exists(o);
    }
    if (begun && !resume) {
        return output_directory_error_begun(o);
    }
    if (!begun) {
        CHECK(require_nothing_else(o));
    } else if (!o->committed) {
        CHECK(open_result(o));
    }
    return GRAIL_OK;
}

/* Returns the name of a file that cannot be removed, with errno, or NULL. The records come last:
 * while there are some, a continued run removes the rest. */
static const char *remove_files(const output_directory *o)
{
    const char *const names[] = {saved_names[0], saved_names[1], state_name};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (unlinkat(o->directory, names[i], 0) != 0 && errno != ENOENT) {
            return names[i];
        }
    }
    return NULL;
}

/* Removes a partial directory without records: it holds only the state file. */
static void remove_beginning(const output_directory *o)
{
    if (remove_files(o) == NULL) {
        rmdir(o->partial);
    }
}

grail_status output_directory_open(const char *path, bool resume, output_directory **out)
{
    grail_status status = GRAIL_OK;
    output_directory *o = NULL;
    bool made = false;
    TRY(begin(path, &o));
    if (is_there(o->path) && !(resume && is_there(o->partial))) {
        TRY(error_output_exists(o));
    }
    TRY(open_partial(o, &made));
    TRY(lock_state(o, &made));
    TRY(read_records(o));
    status = judge_partial(o, resume);
    if (status != GRAIL_OK && made) {
        remove_beginning(o);
    }
    TRY(status);
    *out = o;
    o = NULL;
out:
    output_directory_close(o);
    return status;
}

grail_status output_directory_look(const char *path, output_directory **out)
{
    grail_status status = GRAIL_OK;
    output_directory *o = NULL;
    buffer text = {0};
    char *state = NULL;
    TRY(begin(path, &o));
    TRY(path_join(&state, o->partial, state_name));
    status = file_read(state, STATE_MAXIMUM, &text);
    if (status == GRAIL_OK) {
        status = records_parse(state, text.bytes, text.size, &o->records);
    }
    if (status == GRAIL_OK && last_commit(o) != NULL) {
        json_array_clear(o->records);
    }
    TRY(status == GRAIL_ERROR_MEMORY ? status : GRAIL_OK);
    *out = o;
    o = NULL;
out:
    buffer_fini(&text);
    memory_free(state);
    output_directory_close(o);
    return status;
}

const json_t *output_directory_records(const output_directory *o)
{
    return o->records;
}

bool output_directory_is_committed(const output_directory *o)
{
    return o->committed;
}

const char *output_directory_path(const output_directory *o)
{
    return o->path;
}

const char *output_directory_partial(const output_directory *o)
{
    return o->partial;
}

const char *output_directory_result(const output_directory *o)
{
    return o->result;
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

grail_status output_directory_declare(output_directory *o, const char *name)
{
    place own;
    if (!find_place(name, &own)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "'%s' is not the name of a file", name);
    }
    CHECK(memory_reserve(&o->names, o->name_count + 1, sizeof o->names[0]));
    CHECK(memory_copy_string(&o->names[o->name_count], name));
    o->name_count++;
    return GRAIL_OK;
}

static grail_status append_record(output_directory *o, const json_t *record)
{
    grail_status status = GRAIL_OK;
    buffer line = {0};
    buffer_init(&line, STATE_MAXIMUM);
    TRY(record_append_line(record, &line));
    TRY(line_log_append(&o->log, line.bytes, line.size));
out:
    buffer_fini(&line);
    return status;
}

grail_status output_directory_record(output_directory *o, const json_t *record)
{
    CHECK(append_record(o, record));
    return json_push(o->records, json_deep_copy(record));
}

grail_status output_directory_begin(output_directory *o, const json_t *record)
{
    CHECK(output_directory_record(o, record));
    CHECK(open_result(o));
    CHECK(file_flush(o->directory, o->partial));
    return path_flush_parent(o->partial);
}

/* The directory of a place; of a folder a descriptor that is the caller's to close. */
static int open_place(const output_directory *o, const place *own)
{
    return own->folder[0] == 0
               ? o->result_directory
               : file_open(o->result_directory, own->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
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

grail_status output_directory_write(output_directory *o, const char *name, const void *bytes,
                                    size_t size)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    place own = {0};
    int directory = -1;
    (void)find_place(name, &own);
    TRY(path_join(&path, o->result, name));
    if (own.folder[0] != 0 && mkdirat(o->result_directory, own.folder, 0777) != 0 &&
        errno != EEXIST) {
        TRY(error_from_errno("cannot create the folder of", path));
    }
    directory = open_place(o, &own);
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

grail_status output_directory_open_saved(output_directory *o, int which, bool write,
                                         int *descriptor, char **path)
{
    const char *name = saved_names[which];
    CHECK(path_join(path, o->partial, name));
    *descriptor = file_open(o->directory, name,
                            O_NOFOLLOW | (write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY));
    if (*descriptor < 0) {
        return error_from_errno(write ? "cannot create" : "cannot open", *path);
    }
    return GRAIL_OK;
}

/* A folder goes with the last of its files. */
static void remove_declared(const output_directory *o, const char *name)
{
    place own = {0};
    (void)find_place(name, &own);
    const int directory = open_place(o, &own);
    if (directory >= 0) {
        unlinkat(directory, own.name, 0);
    }
    close_place(&own, directory);
    if (own.folder[0] != 0) {
        unlinkat(o->result_directory, own.folder, AT_REMOVEDIR);
    }
}

void output_directory_clear(output_directory *o)
{
    for (size_t i = 0; o->result_directory >= 0 && i < o->name_count; i++) {
        remove_declared(o, o->names[i]);
    }
}

/* -- the end ----------------------------------------------------------------------------------- */

static grail_status record_commit(output_directory *o)
{
    grail_status status = GRAIL_OK;
    struct stat info;
    json_t *record = json_object();
    if (fstat(o->result_directory, &info) != 0) {
        TRY(error_from_errno("cannot inspect", o->result));
    }
    TRY(json_put(record, commit_key, describe_directory(&info)));
    TRY(append_record(o, record));
out:
    json_decref(record);
    return status;
}

static grail_status rename_result(output_directory *o)
{
    CHECK(file_flush(o->result_directory, o->result));
    CHECK(record_commit(o));
    if (rename_to_new(o->directory, result_name, AT_FDCWD, o->path) != 0) {
        if (errno == EEXIST) {
            return error_set(GRAIL_ERROR_EXISTS, "'%s' appeared during the run; move it away",
                             o->path);
        }
        return error_from_errno("cannot rename to", o->path);
    }
    o->committed = true;
    CHECK(path_flush_parent(o->path));
    return file_flush(o->directory, o->partial);
}

/* The partial directory stays when it holds files of somebody else. A crash may undo its removal;
 * the state that reappears is still true. */
static grail_status remove_state(output_directory *o)
{
    const char *left = remove_files(o);
    if (left != NULL) {
        return error_in(error_from_errno("cannot remove", left), "%s", o->partial);
    }
    if (rmdir(o->partial) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
        return error_from_errno("cannot remove", o->partial);
    }
    return GRAIL_OK;
}

grail_status output_directory_commit(output_directory *o)
{
    grail_status status = o->committed ? GRAIL_OK : rename_result(o);
    status = status == GRAIL_OK ? remove_state(o) : status;
    if (status != GRAIL_OK && o->committed) {
        error_append("; the result is complete in '%s'", o->path);
    }
    return status;
}

void output_directory_abandon(output_directory *o)
{
    if (o->committed) {
        return;
    }
    output_directory_clear(o);
    if (unlinkat(o->directory, result_name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        remove_beginning(o);
    }
}

void output_directory_close(output_directory *o)
{
    if (o == NULL) {
        return;
    }
    if (o->directory >= 0) {
        close(o->directory);
    }
    if (o->result_directory >= 0) {
        close(o->result_directory);
    }
    line_log_fini(&o->log);
    json_decref(o->records);
    for (size_t i = 0; i < o->name_count; i++) {
        memory_free(o->names[i]);
    }
    memory_free(o->names);
    memory_free(o->path);
    memory_free(o->partial);
    memory_free(o->result);
    memory_free(o);
}
