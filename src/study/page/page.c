#include "study/page/page.h"

#include "base/file.h"

#include <string.h>
#include <sys/stat.h>

/* Compiled in: page.html with its style and its script, and the place of the data in it. */
extern const unsigned char page_template[];
extern const unsigned long page_template_size;
static const char place[] = "@data@";

grail_status page_check_place(const char *path, const char *mark)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    struct stat info;
    if (lstat(path, &info) != 0) {
        return GRAIL_OK; /* other problems show when the file is written */
    }
    if (!S_ISREG(info.st_mode)) {
        FAIL(GRAIL_ERROR_EXISTS,
             "'%s' is %s, and a report can replace only a regular file; choose another name", path,
             S_ISDIR(info.st_mode)   ? "a directory"
             : S_ISLNK(info.st_mode) ? "a symbolic link"
                                     : "a device or a pipe");
    }
    TRY(file_map_open(&map, path));
    const size_t head = map.size < PLACE_HEAD ? map.size : PLACE_HEAD;
    if (map.size > 0 && memmem(map.data, head, mark, strlen(mark)) == NULL) {
        FAIL(GRAIL_ERROR_EXISTS,
             "'%s' exists and was not written by grail report; choose another name or delete the "
             "file",
             path);
    }
out:
    file_map_close(&map);
    return status;
}

/* These characters occur in JSON only within strings, where an escape stands for them. */
static grail_status append_escaped(const char *json, size_t size, buffer *out)
{
    static const char special[] = "<>&";
    for (const char *end = json + size; json < end;) {
        const size_t plain = strcspn(json, special);
        CHECK(buffer_append(out, json, plain));
        json += plain;
        if (json < end) {
            CHECK(buffer_format(out, "\\u%04x", (unsigned)*json++));
        }
    }
    return GRAIL_OK;
}

static grail_status append_data(const json_t *data, buffer *out)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, MOST_PAGE);
    TRY(json_append_line(data, &text));
    TRY(append_escaped((const char *)text.bytes, text.size, out));
out:
    buffer_fini(&text);
    return status;
}

grail_status page_write(const json_t *data, buffer *out)
{
    const unsigned char *end = page_template + page_template_size;
    const unsigned char *at = memmem(page_template, page_template_size, place, strlen(place));
    if (at == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "the template of the page has no place for its data");
    }
    CHECK(buffer_append(out, page_template, (size_t)(at - page_template)));
    CHECK(append_data(data, out));
    at += strlen(place);
    return buffer_append(out, at, (size_t)(end - at));
}
