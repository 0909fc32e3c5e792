#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_TEXT_MAX = 2048 };

static _Thread_local char error_text[ERROR_TEXT_MAX];

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

grail_status error_set(grail_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return status;
}

void error_prefix(const char *format, ...)
{
    char previous[ERROR_TEXT_MAX];
    memcpy(previous, error_text, sizeof previous);
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    if (written >= 0 && (size_t)written < sizeof error_text) {
        error_append(": %s", previous);
    }
}

void error_append(const char *format, ...)
{
    const size_t used = strlen(error_text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text + used, sizeof error_text - used, format, arguments);
    va_end(arguments);
}
