#include "base/status.h"

#include "base/message.h"

#include <stdarg.h>
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

/* A text that is a message already, such as one that a thread left, is taken as a whole. */
grail_status error_set(grail_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (strcmp(format, "%s") == 0) {
        error_text[0] = 0;
        message_append(error_text, sizeof error_text, va_arg(arguments, const char *));
    } else {
        message_format(error_text, sizeof error_text, format, arguments);
    }
    va_end(arguments);
    return status;
}

void error_prefix(const char *format, ...)
{
    char previous[ERROR_TEXT_MAX];
    memcpy(previous, error_text, sizeof previous);
    va_list arguments;
    va_start(arguments, format);
    message_format(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    message_append(error_text, sizeof error_text, ": ");
    message_append(error_text, sizeof error_text, previous);
}

void error_append(const char *format, ...)
{
    char more[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    message_format(more, sizeof more, format, arguments);
    va_end(arguments);
    message_append(error_text, sizeof error_text, more);
}

void error_copy(char *text, size_t size)
{
    text[0] = 0;
    message_append(text, size, error_text);
}
