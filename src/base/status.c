#include "base/status.h"

#include "base/message.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local bool told;

/* A text that is already a message, such as the error of another thread, is kept uncut. */
grail_status error_set(grail_status status, const char *format, ...)
{
    char text[GRAIL_ERROR_TEXT_SIZE] = "";
    va_list arguments;
    va_start(arguments, format);
    if (strcmp(format, "%s") == 0) {
        message_append(text, sizeof text, va_arg(arguments, const char *));
    } else {
        message_format(text, sizeof text, format, arguments);
    }
    va_end(arguments);
    grail_error_record(text);
    grail_error_record_fields("");
    told = false;
    return status;
}

grail_status error_about(grail_status status, const char *fields)
{
    char text[GRAIL_ERROR_TEXT_SIZE] = "";
    message_append(text, sizeof text, grail_error_fields());
    message_append(text, sizeof text, text[0] == 0 ? "" : " ");
    message_append(text, sizeof text, fields);
    grail_error_record_fields(text);
    return status;
}

static void prefix(const char *format, va_list arguments)
{
    char text[GRAIL_ERROR_TEXT_SIZE];
    message_format(text, sizeof text, format, arguments);
    message_append(text, sizeof text, ": ");
    message_append(text, sizeof text, grail_error_message());
    grail_error_record(text);
}

void error_prefix(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    prefix(format, arguments);
    va_end(arguments);
}

grail_status error_in(grail_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (status != GRAIL_OK) {
        prefix(format, arguments);
    }
    va_end(arguments);
    return status;
}

void error_append(const char *format, ...)
{
    char more[GRAIL_ERROR_TEXT_SIZE];
    char text[GRAIL_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    message_format(more, sizeof more, format, arguments);
    va_end(arguments);
    error_copy(text, sizeof text);
    message_append(text, sizeof text, more);
    grail_error_record(text);
}

void error_copy(char *text, size_t size)
{
    text[0] = 0;
    message_append(text, size, grail_error_message());
}

void error_mark_told(void)
{
    told = true;
}

bool error_is_told(void)
{
    return told;
}
