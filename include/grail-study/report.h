#ifndef GRAIL_STUDY_REPORT_H
#define GRAIL_STUDY_REPORT_H

#include <grail/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a report shows. */
typedef struct grail_report {
    int64_t checkpoints, cells, failed_cells;
    int64_t figures;
    size_t cut_line; /* number of an incomplete last line that was left out; 0: none */
} grail_report;

/**
 * Draws the results of a sweep, JSON lines, as one self-contained HTML page at html_path. With
 * svg_directory, every figure is also written to that directory as an SVG file; the directory is
 * created if it does not exist. The report replaces older pages and figures, and empty files; any
 * other file in the way is GRAIL_ERROR_EXISTS. An incomplete last line, without a line end, is left
 * out; any other bad line is GRAIL_ERROR_FORMAT naming it. `out` may be NULL.
 */
GRAIL_API grail_status grail_report_write(const char *results_path, const char *html_path,
                                          const char *svg_directory,
                                          grail_report *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
