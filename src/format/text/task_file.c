#include "format/text/task_file.h"

#include "base/file.h"
#include "base/names.h"
#include "format/text/corpus.h"
#include "format/text/task_forms.h"
#include "format/text/text_limits.h"

grail_status task_check_name(const char *name)
{
    if (task_form_find(name) != NULL) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(
        GRAIL_ERROR_ARGUMENT,
        "unknown task '%s'; give a .jsonl file of lines with \"context\", \"choices\" and "
        "\"answer\", or one of",
        name);
    error_append_known(name, task_names);
    return error_about(status, "tasks");
}

/* Beyond `limit` a document is checked and left out. */
static grail_status add_document(const task_form *form, const json_t *object, int64_t line,
                                 int64_t limit, task_documents *d)
{
    const size_t text = d->text.size;
    task_document document = {.first = d->choice_count, .line = line};
    d->context.size = 0;
    if (!json_is_object(object)) {
        return error_set(GRAIL_ERROR_FORMAT, "expected an object, found something else");
    }
    CHECK(form->read(object, d, &document.gold));
    document.count = d->choice_count - document.first;
    if (limit > 0 && d->count == limit) {
        d->choice_count = document.first;
        d->text.size = text;
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&d->documents, (size_t)d->count + 1, sizeof d->documents[0]));
    d->documents[d->count++] = document;
    return GRAIL_OK;
}

static grail_status read_lines(corpus *c, int64_t limit, task_documents *d)
{
    const task_form *form = task_form_find(d->name);
    const json_t *object = NULL;
    int64_t line = 0;
    CHECK(corpus_next_object(c, &object, &line));
    while (object != NULL) {
        CHECK(error_in(add_document(form, object, line, limit, d), "%s: line %lld", d->path,
                       (long long)line));
        CHECK(corpus_next_object(c, &object, &line));
    }
    return corpus_finish(c, d->hash);
}

/* -- files ------------------------------------------------------------------------------------- */

/* *out stays NULL where there is no such file. */
static grail_status find_one(const char *directory, const char *name, const char *ending,
                             char **out)
{
    char *file = NULL;
    CHECK(memory_format(&file, "%s%s", name, ending));
    const grail_status status = path_find(out, directory, file);
    memory_free(file);
    return status;
}

static grail_status lacks_file(const char *directory, const char *name, const task_form *form)
{
    if (form->name == NULL) {
        return error_set(GRAIL_ERROR_IO, "%s: has no file '%s'", directory, name);
    }
    return error_set(GRAIL_ERROR_IO,
                     "%s: has no '%s.jsonl' or '%s.jsonl.gz'%s%s%s; write the %s split of the data "
                     "set there, with to_json of the Python package datasets for example",
                     directory, name, name, form->other_file == NULL ? "" : " or '",
                     form->other_file == NULL ? "" : form->other_file,
                     form->other_file == NULL ? "" : "'", form->split);
}

static grail_status find_file(const char *directory, const char *name, const task_form *form,
                              char **out)
{
    const char *const names[] = {name, name, form->name == NULL ? name : form->other_file};
    const char *const endings[] = {".jsonl", ".jsonl.gz", ""};
    for (int i = form->name == NULL ? 2 : 0; i < 3 && *out == NULL; i++) {
        CHECK(names[i] == NULL ? GRAIL_OK : find_one(directory, names[i], endings[i], out));
    }
    return *out != NULL ? GRAIL_OK : error_about(lacks_file(directory, name, form), "directory");
}

static grail_status begin(const char *name, task_documents *d)
{
    CHECK(task_check_name(name));
    buffer_init(&d->text, TEXT_LARGEST_DOCUMENT);
    buffer_init(&d->context, TEXT_LARGEST_DOCUMENT);
    buffer_init(&d->scratch, TEXT_LARGEST_DOCUMENT);
    d->normalised = task_form_find(name)->normalised;
    return memory_copy_string(&d->name, name);
}

static grail_status open_file(const char *directory, task_documents *d, corpus **c)
{
    CHECK(find_file(directory, d->name, task_form_find(d->name), &d->path));
    return corpus_open(d->path, NULL, c);
}

static grail_status open_bytes(const char *path, const void *bytes, size_t size, task_documents *d,
                               corpus **c)
{
    CHECK(memory_copy_string(&d->path, path));
    return corpus_open_bytes(path, NULL, bytes, size, c);
}

/* Reads where everything was opened, and gives up what is not handed out. */
static grail_status finish(grail_status opened, corpus *c, int64_t limit, task_documents *d,
                           task_documents *out)
{
    const grail_status status = opened == GRAIL_OK ? read_lines(c, limit, d) : opened;
    corpus_close(c);
    if (status == GRAIL_OK) {
        *out = *d;
    } else {
        task_documents_fini(d);
    }
    return status;
}

grail_status task_documents_read(const char *directory, const char *name, int64_t limit,
                                 task_documents *out)
{
    corpus *c = NULL;
    task_documents d = {0};
    grail_status status = begin(name, &d);
    status = status == GRAIL_OK ? open_file(directory, &d, &c) : status;
    return finish(status, c, limit, &d, out);
}

grail_status task_documents_parse(const char *path, const char *name, const void *bytes,
                                  size_t size, task_documents *out)
{
    corpus *c = NULL;
    task_documents d = {0};
    grail_status status = begin(name, &d);
    status = status == GRAIL_OK ? open_bytes(path, bytes, size, &d, &c) : status;
    return finish(status, c, 0, &d, out);
}
