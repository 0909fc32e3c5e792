#include "study/results/line_text.h"

#include "base/checksum.h"

/* Files of later versions are refused by their header. */
enum { VERSION_WITH_CHECKSUMS = 2 };

grail_status line_append_text(const json_t *document, buffer *out)
{
    const size_t begin = out->size;
    CHECK(json_append_line(document, out));
    out->size -= sizeof "}\n" - 1;
    CHECK(checksum_append_end(out, begin));
    return buffer_append_string(out, "\n");
}

grail_status line_parse_text(const char *where, const char *text, size_t size, int64_t *version,
                             json_t **out)
{
    grail_status status = GRAIL_OK;
    size_t length = 0;
    json_t *document = NULL;
    const checksum_end end = checksum_check_end(text, size, 0, &length);
    if (end == CHECKSUM_WRONG) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: does not match its checksum; it was damaged or edited",
             where);
    }
    TRY(json_parse(where, text, size, &document));
    if (*version == 0) {
        *version = json_integer_value(json_object_get(document, "grail_results"));
    }
    if (end == CHECKSUM_ABSENT && *version == VERSION_WITH_CHECKSUMS) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: has no checksum; it was damaged or edited", where);
    }
    *out = document;
    document = NULL;
out:
    json_decref(document);
    return status;
}

bool line_lost_its_end(const char *text, size_t size)
{
    size_t length = 0;
    return size > 0 && checksum_check_end(text, size - 1, 0, &length) == CHECKSUM_RIGHT;
}
