#include "print.h"

#include "pace.h"
#include "shared_options.h"

#include <grail/escape.h>
#include <grail/machine.h>

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The escaped text, which the caller frees; NULL when memory runs out. */
static char *escaped(grail_escape_use use, const char *text)
{
    const size_t size = grail_escape(use, text, NULL, 0) + 1;
    char *out = malloc(size);
    if (out != NULL) {
        grail_escape(use, text, out, size);
    }
    return out;
}

static void report_memory(void)
{
    fputs("grail: out of memory while printing\n", stderr);
}

static void print_part(FILE *stream, const char *text)
{
    char *safe = escaped(GRAIL_ESCAPE_LINE, text);
    if (safe == NULL) {
        report_memory();
        return;
    }
    fputs(safe, stream);
    free(safe);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text != 0; text++) {
        count += *text == '\n' ? 1 : 0;
    }
    return count;
}

static size_t count_last_lines(const char *text)
{
    size_t count = 0;
    for (size_t length = strlen(text); count < length && text[length - 1 - count] == '\n';) {
        count++;
    }
    return count;
}

/* Line ends that an inserted text brings are escaped. When there are any, only those at the
 * beginning and the end of the format are certain to be its own. */
static void print_lines(FILE *stream, const char *format, char *text)
{
    const bool all_own = count_lines(text) == count_lines(format);
    char *end = text + strlen(text) - count_last_lines(format);
    char *rest = text + strspn(format, "\n");
    if (rest > end) {
        rest = end; /* the format is line ends only */
    }
    fwrite(text, 1, (size_t)(rest - text), stream);
    const char last = *end;
    *end = 0;
    for (char *line = all_own ? strsep(&rest, "\n") : rest; line != NULL;) {
        print_part(stream, line);
        line = all_own ? strsep(&rest, "\n") : NULL;
        fputs(line == NULL ? "" : "\n", stream);
    }
    *end = last;
    fputs(end, stream);
}

static void GRAIL_PRINTF(2, 0) print_to(FILE *stream, const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        report_memory();
        return;
    }
    print_lines(stream, format, text);
    free(text);
}

static int own_rank, rank_count = 1;

void print_as_rank(int rank, int size)
{
    own_rank = rank;
    rank_count = size;
}

void print_out(const char *format, ...)
{
    va_list arguments;
    if (own_rank > 0) {
        return;
    }
    va_start(arguments, format);
    print_to(stdout, format, arguments);
    va_end(arguments);
}

enum { LOG_SECONDS = 60 }; /* between two lines of progress in a log */

static bool progress_stands; /* on the current line of standard error */
static pace progress_pace;
static double begun; /* what print_while tells of */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void print_start(void)
{
    progress_pace = pace_start(seconds_now());
}

void print_error(const char *format, ...)
{
    va_list arguments;
    if (own_rank > 0) {
        return;
    }
    print_progress_end();
    pace_note(&progress_pace, seconds_now());
    va_start(arguments, format);
    print_to(stderr, format, arguments);
    va_end(arguments);
}

static const char *command_name = "";

void print_as_command(const char *name)
{
    command_name = name;
}

/* In one piece, so that no other process's words come between. */
static void GRAIL_PRINTF(1, 0)
    print_with_name(const char *format, va_list arguments, const char *before_help)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
        report_memory();
    } else if (before_help == NULL) {
        print_error("grail %s: %s\n", command_name, text);
    } else {
        print_error("grail %s: %s%s see grail %s --help\n", command_name, text, before_help,
                    command_name);
    }
    free(text);
}

void print_command_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_with_name(format, arguments, NULL);
    va_end(arguments);
}

int print_misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_with_name(format, arguments, format[strlen(format) - 1] == '?' ? "" : ";");
    va_end(arguments);
    return EXIT_USAGE;
}

void append_text(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    const size_t used = strlen(text);
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void print_error_of_rank(const char *format, ...)
{
    va_list arguments;
    print_progress_end();
    if (own_rank > 0) {
        sleep(1); /* in which the first one may end them all */
        fprintf(stderr, "rank %d of %d: ", own_rank, rank_count);
    }
    va_start(arguments, format);
    print_to(stderr, format, arguments);
    va_end(arguments);
}

void print_progress(double share, const char *format, ...)
{
    va_list arguments;
    char time[HUMAN_SIZE];
    const bool on_terminal = isatty(STDERR_FILENO) != 0;
    const double now = seconds_now();
    const double left = pace_left(&progress_pace, now, share);
    if (own_rank > 0 || asked.quiet ||
        (!on_terminal && !pace_is_due(&progress_pace, now, LOG_SECONDS))) {
        return;
    }
    fputs(on_terminal ? "\r\033[K" : "", stderr); /* what stood there may be longer */
    progress_stands = on_terminal;
    va_start(arguments, format);
    print_to(stderr, format, arguments);
    va_end(arguments);
    if (!isnan(left)) {
        fprintf(stderr, ", about %s left", human_seconds(left, time));
    }
    fputs(on_terminal ? " " : "\n", stderr);
}

static int tell_time(void *what)
{
    char time[HUMAN_SIZE];
    print_progress((double)NAN, "%s: %s so far", (const char *)what,
                   human_seconds(seconds_now() - begun, time));
    return 0;
}

void print_while(const char *what)
{
    begun = seconds_now();
    grail_set_stop(what == NULL ? NULL : tell_time, (void *)(uintptr_t)what);
    print_progress_end();
}

void print_progress_end(void)
{
    if (progress_stands) {
        progress_stands = false;
        fputs("\r\033[K", stderr);
    }
}

int print_failure(grail_status status)
{
    char options[256];
    options_of_fields(grail_error_fields(), options, sizeof options);
    print_error_of_rank("grail: %s%s\n", grail_error_message(), options);
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

void print_full_documents(int64_t count, int64_t context)
{
    if (count > 0) {
        print_out(
            "  %lld of them have the %lld tokens of the context; what is longer was cut off\n",
            (long long)count, (long long)context);
    }
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

json_t *json_text(const char *bytes)
{
    char *name = bytes == NULL ? NULL : escaped(GRAIL_ESCAPE_NAME, bytes);
    json_t *value = bytes == NULL ? json_null() : name == NULL ? NULL : json_string(name);
    free(name);
    return value;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_truth(bool value)
{
    return json_boolean(value);
}

json_t *json_count(int64_t value)
{
    return json_integer(value);
}

json_t *json_of(const char *key, ...)
{
    va_list more;
    bool complete = true;
    json_t *object = json_object();
    va_start(more, key);
    for (; key != NULL; key = va_arg(more, const char *)) {
        complete = json_object_set_new(object, key, va_arg(more, json_t *)) == 0 && complete;
    }
    va_end(more);
    if (!complete) {
        json_decref(object);
    }
    return complete ? object : NULL;
}

int print_json(json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    char *safe = text == NULL ? NULL : escaped(GRAIL_ESCAPE_JSON, text);
    if (safe == NULL) {
        print_error("grail: out of memory while writing JSON\n");
    } else if (own_rank == 0) {
        fputs(safe, stdout);
        fputs("\n", stdout);
    }
    const int code = safe == NULL ? EXIT_FAILED : EXIT_OK;
    free(safe);
    free(text);
    json_decref(value);
    return code;
}
