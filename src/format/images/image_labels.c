/* The class of each file of a folder, from a CSV. */
#include "base/file.h"
#include "format/images/image_folder.h"
#include "format/images/image_limits.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_CLASS = 999999 };

/* A line split at its last comma, since names may hold commas. Both parts are without surrounding
 * spaces and quotes. */
typedef struct label_line {
    int64_t number;
    char *file;
    char *label; /* NULL when there is no comma */
} label_line;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && is_blank(text[length - 1])) {
        length--;
    }
    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text++;
        length -= 2;
    }
    text[length] = 0;
    return text;
}

static void split_line(char *text, label_line *line)
{
    char *comma = strrchr(text, ',');
    line->label = NULL;
    if (comma != NULL) {
        *comma = 0;
        line->label = trim(comma + 1);
    }
    line->file = trim(text);
}

static bool parse_class(const char *text, int64_t *out)
{
    int64_t value = 0;
    if (*text == 0) {
        return false;
    }
    for (; *text >= '0' && *text <= '9' && value <= LARGEST_CLASS; text++) {
        value = value * 10 + (*text - '0');
    }
    *out = value;
    return *text == 0 && value <= LARGEST_CLASS;
}

static int compare_file(const void *name, const void *file)
{
    return strcmp(name, ((const image_file *)file)->name);
}

static grail_status apply_line(const label_line *line, image_folder *folder)
{
    int64_t label = 0;
    image_file *file = bsearch(line->file, folder->files, (size_t)folder->count,
                               sizeof folder->files[0], compare_file);
    if (line->label == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "line %lld has no comma, expected \"file,class index\"",
                         (long long)line->number);
    }
    const bool valid = parse_class(line->label, &label);
    if (line->number == 1 && file == NULL && !valid) {
        return GRAIL_OK; /* the header line */
    }
    if (file == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "line %lld names '%s', which is not in '%s'",
                         (long long)line->number, line->file, folder->path);
    }
    if (!valid) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "line %lld has class '%s', expected an integer from 0 to %d",
                         (long long)line->number, line->label, LARGEST_CLASS);
    }
    if (file->label >= 0) {
        return error_set(GRAIL_ERROR_FORMAT, "line %lld names '%s' a second time",
                         (long long)line->number, line->file);
    }
    file->label = label;
    folder->classes = label >= folder->classes ? label + 1 : folder->classes;
    return GRAIL_OK;
}

static grail_status apply_text(char *text, image_folder *folder)
{
    label_line line = {0};
    char *rest = text;
    while (rest != NULL) {
        char *start = strsep(&rest, "\n");
        line.number++;
        split_line(start, &line);
        if (*line.file == 0 && line.label == NULL) {
            continue;
        }
        CHECK(apply_line(&line, folder));
    }
    for (int64_t i = 0; i < folder->count; i++) {
        if (folder->files[i].label < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "has no line for '%s'", folder->files[i].name);
        }
    }
    return GRAIL_OK;
}

grail_status image_labels_read(const char *path, image_folder *folder)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    grail_status status = GRAIL_OK;
    buffer text = {0};
    TRY(file_read(path, IMAGE_LARGEST_LABELS, &text));
    TRY(buffer_append(&text, "", 1));
    char *start = (char *)text.bytes;
    if (strlen(start) + 1 != text.size) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: holds a zero byte, so it is not a CSV file", path);
    }
    start += strncmp(start, byte_order_mark, 3) == 0 ? 3 : 0;
    TRY(error_in(apply_text(start, folder), "%s", path));
out:
    buffer_fini(&text);
    return status;
}
