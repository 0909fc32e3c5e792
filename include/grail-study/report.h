#ifndef GRAIL_STUDY_REPORT_H
#define GRAIL_STUDY_REPORT_H

#include <grail/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a report was made of. */
typedef struct grail_report {
    int64_t checkpoints, cells, failed_cells;
    int64_t figures;
    size_t cut_line; /* number of a last line that was cut short and left out; 0: none */
} grail_report;

/**
 * Draws the results of a sweep, JSON lines, as one self-contained HTML page at html_path. With
 * svg_directory, which is made where it does not exist, every figure is also written there as an
 * SVG file. Older pages and figures are replaced, and empty files; anything else that lies there is
 * GRAIL_ERROR_EXISTS. A last line without a line end that is cut short is left out; any other bad
 * line is GRAIL_ERROR_FORMAT naming it. `out` may be NULL.
 */
GRAIL_API grail_status grail_report_write(const char *results_path, const char *html_path,
                                          const char *svg_directory,
                                          grail_report *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
