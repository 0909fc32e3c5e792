/* The error text of a thread. Several libraries of one program may contain the code that formats
 * messages. Only libgrail contains this file, so each thread has one text. */
#include <grail/status.h>

#include <string.h>

static _Thread_local char error_text[GRAIL_ERROR_TEXT_SIZE];

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

void grail_error_record(const char *text)
{
    const size_t length = strnlen(text, sizeof error_text - 1);
    memmove(error_text, text, length); /* `text` may be what was recorded before */
    error_text[length] = 0;
}
