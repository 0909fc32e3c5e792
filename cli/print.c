#include "print.h"

#include "options.h"

#include <math.h>

int print_failure(grail_status status)
{
    fprintf(stderr, "grail: %s\n", grail_error_message());
    return status == GRAIL_ERROR_NUMERIC ? EXIT_NUMERIC : EXIT_FAILED;
}

static const char *human_scaled(double value, const char *unit, char *text)
{
    static const char *const scales[] = {"", "k", "M", "G", "T", "P"};
    size_t scale = 0;
    while (value >= 1000.0 && scale + 1 < sizeof scales / sizeof scales[0]) {
        value /= 1000.0;
        scale++;
    }
    const int digits = scale == 0 ? 0 : value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
    const char *space = scales[scale][0] != 0 || unit[0] != 0 ? " " : "";
    snprintf(text, HUMAN_SIZE, "%.*f%s%s%s", digits, value, space, scales[scale], unit);
    return text;
}

const char *human_count(double value, char *text)
{
    return human_scaled(value, "", text);
}

const char *human_bytes(double value, char *text)
{
    return human_scaled(value, "B", text);
}

const char *human_seconds(double seconds, char *text)
{
    if (!(seconds >= 0.0)) {
        snprintf(text, HUMAN_SIZE, "?");
    } else if (seconds < 60.0) {
        snprintf(text, HUMAN_SIZE, "%.1f s", seconds);
    } else if (seconds < 3600.0) {
        snprintf(text, HUMAN_SIZE, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    } else {
        snprintf(text, HUMAN_SIZE, "%d h %02d min", (int)seconds / 3600, (int)seconds / 60 % 60);
    }
    return text;
}

int print_json(json_t *value)
{
    if (value == NULL || json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0) {
        if (ferror(stdout) == 0) { /* else main tells */
            fprintf(stderr, "grail: out of memory while writing JSON\n");
        }
        json_decref(value);
        return EXIT_FAILED;
    }
    printf("\n");
    json_decref(value);
    return EXIT_OK;
}

json_t *json_number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
