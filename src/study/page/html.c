/* From a results file to a page on disk. */
#include <grail-study/report.h>

#include "base/file.h"
#include "base/output_file.h"
#include "study/page/figure.h"
#include "study/page/page.h"

#include <errno.h>
#include <sys/stat.h>

/* The results took hours; a page must not overwrite them. */
static grail_status refuse_same_file(const char *results_path, const char *html_path)
{
    struct stat from;
    struct stat to;
    if (stat(results_path, &from) == 0 && stat(html_path, &to) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' is the results file; choose another name for the report", html_path);
    }
    return GRAIL_OK;
}

static grail_status make_directory(const char *path)
{
    if (path != NULL && mkdir(path, 0777) != 0 && (errno != EEXIST || !file_is_directory(path))) {
        return error_from_errno("cannot create directory", path);
    }
    return GRAIL_OK;
}

grail_status grail_report_write(const char *results_path, const char *html_path,
                                const char *svg_directory, grail_report *out)
{
    grail_status status = GRAIL_OK;
    results r = {0};
    aggregate a = {0};
    int figures = 0;
    markup page;
    markup_init(&page, MOST_MARKUP);
    TRY(refuse_same_file(results_path, html_path));
    TRY(page_check_place(html_path, PAGE_MARK));
    TRY(results_read(results_path, &r));
    TRY(error_in(aggregate_results(&r, &a), "%s", results_path));
    TRY(make_directory(svg_directory));
    TRY(page_write(&a, svg_directory, &page, &figures));
    TRY(output_file_write(html_path, page.bytes.bytes, page.bytes.size));
    if (out != NULL) {
        *out = (grail_report){
            .checkpoints = r.checkpoint_count,
            .cells = a.cell_count,
            .failed_cells = a.failed_count,
            .figures = figures,
            .cut_line = r.cut_line,
        };
    }
out:
    markup_fini(&page);
    aggregate_fini(&a);
    results_fini(&r);
    return status;
}
