#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

grail_status error_set(grail_status status, const char *format, ...)
{
    char text[GRAIL_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    grail_error_record(text);
    return status;
}

void error_prefix(const char *format, ...)
{
    char text[GRAIL_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (written >= 0 && (size_t)written < sizeof text) {
        snprintf(text + written, sizeof text - (size_t)written, ": %s", grail_error_message());
    }
    grail_error_record(text);
}

void error_append(const char *format, ...)
{
    char text[GRAIL_ERROR_TEXT_SIZE];
    const int used = snprintf(text, sizeof text, "%s", grail_error_message());
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    va_end(arguments);
    grail_error_record(text);
}
