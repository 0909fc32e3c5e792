/* The error text of a thread. Several libraries of one program may contain the code that formats
 * messages. Only libgrail contains this file, so each thread has one text. */
#include <grail/status.h>

#include <string.h>

enum { FIELDS_SIZE = 256 };

static _Thread_local char error_text[GRAIL_ERROR_TEXT_SIZE];
static _Thread_local char error_fields[FIELDS_SIZE];

const char *grail_status_text(grail_status status)
{
    static const char *const texts[] = {
#define STATUS_TEXT(code, text) [code] = text,
        GRAIL_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    const size_t count = sizeof texts / sizeof texts[0];
    return (size_t)status < count ? texts[status] : "unknown status";
}

const char *grail_error_message(void)
{
    return error_text;
}

const char *grail_error_fields(void)
{
    return error_fields;
}

static void record(const char *text, char *out, size_t size)
{
    const size_t length = strnlen(text, size - 1);
    memmove(out, text, length); /* `text` may be what was recorded before */
    out[length] = 0;
}

void grail_error_record(const char *text)
{
    record(text, error_text, sizeof error_text);
}

void grail_error_record_fields(const char *fields)
{
    record(fields, error_fields, sizeof error_fields);
}
