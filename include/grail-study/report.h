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

/** Where a report is written. */
typedef struct grail_report_files {
    const char *html_path;     /* required */
    const char *tsv_directory; /* NULL: none */
    const char *svg_directory; /* NULL: none */
} grail_report_files;

/**
 * Writes the results of a sweep, JSON lines, as one self-contained HTML page that draws them in the
 * browser. With tsv_directory, the data of every figure is also written to that directory as
 * tab-separated values; with svg_directory, every figure is drawn as an SVG file by the script of
 * the page, in node or Chromium: GRAIL_ERROR_UNSUPPORTED where PATH has neither. The directories
 * are created if they do not exist. The report replaces older pages, tables and figures, and empty
 * files; any other file in the way is GRAIL_ERROR_EXISTS. An incomplete last line, without a line
 * end, is left out; any other bad line is GRAIL_ERROR_FORMAT naming it. `out` may be NULL.
 */
GRAIL_API grail_status grail_report_write(const char *results_path, const grail_report_files *files,
                                          grail_report *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
