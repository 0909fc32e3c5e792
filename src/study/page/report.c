/* From a results file to a page on disk, and the files beside it. */
#include <grail-study/report.h>

#include "base/file.h"
#include "base/json.h"
#include "base/name_list.h"
#include "base/output_file.h"
#include "study/page/data.h"
#include "study/page/draw.h"
#include "study/page/page.h"
#include "study/page/tsv.h"

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
    if (mkdir(path, 0777) != 0 && (errno != EEXIST || !file_is_directory(path))) {
        return error_from_errno("cannot create directory", path);
    }
    return GRAIL_OK;
}

static grail_status write_beside(const char *directory, const char *name, const char *mark,
                                 const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(path_join(&path, directory, name));
    TRY(page_check_place(path, mark));
    TRY(output_file_write(path, bytes, size));
out:
    memory_free(path);
    return status;
}

static grail_status write_table(const json_t *data, const json_t *figure, const char *directory)
{
    grail_status status = GRAIL_OK;
    const char *file = json_string_value(json_object_get(figure, "file"));
    char *name = NULL;
    buffer text = {0};
    buffer_init(&text, MOST_PAGE);
    TRY(memory_format(&name, "%s.tsv", file));
    TRY(tsv_of_figure(data, figure, &text));
    TRY(write_beside(directory, name, TSV_MARK, text.bytes, text.size));
out:
    buffer_fini(&text);
    memory_free(name);
    return status;
}

static grail_status write_tables(const json_t *data, const char *directory)
{
    const json_t *figures = json_object_get(data, "figures");
    CHECK(make_directory(directory));
    for (size_t i = 0; i < json_array_size(figures); i++) {
        CHECK(write_table(data, json_array_get(figures, i), directory));
    }
    return GRAIL_OK;
}

static grail_status write_drawings(const char *program, const buffer *page, const char *directory)
{
    grail_status status = GRAIL_OK;
    json_t *figures = NULL;
    json_t *svg = NULL;
    const char *name = NULL;
    TRY(make_directory(directory));
    TRY(draw_figures(program, page, &figures));
    json_object_foreach (figures, name, svg) {
        TRY(write_beside(directory, name, FIGURE_MARK, json_string_value(svg),
                         json_string_length(svg)));
    }
out:
    json_decref(figures);
    return status;
}

/* The page last, so that it is there only when the rest is. */
static grail_status write_files(const json_t *data, const grail_report_files *files)
{
    grail_status status = GRAIL_OK;
    char *program = NULL;
    buffer page = {0};
    buffer_init(&page, MOST_PAGE);
    if (files->svg_directory != NULL) {
        TRY(draw_find_program(&program));
    }
    TRY(page_write(data, &page));
    if (files->tsv_directory != NULL) {
        TRY(write_tables(data, files->tsv_directory));
    }
    if (files->svg_directory != NULL) {
        TRY(write_drawings(program, &page, files->svg_directory));
    }
    TRY(output_file_write(files->html_path, page.bytes, page.size));
out:
    memory_free(program);
    buffer_fini(&page);
    return status;
}

grail_status grail_report_write(const char *results_path, const grail_report_files *files,
                                grail_report *out)
{
    grail_status status = GRAIL_OK;
    results r = {0};
    aggregate a = {0};
    json_t *data = NULL;
    TRY(refuse_same_file(results_path, files->html_path));
    TRY(name_check_ending(files->html_path, "a page", ".html"));
    TRY(page_check_place(files->html_path, PAGE_MARK));
    TRY(results_read(results_path, &r));
    TRY(error_in(aggregate_results(&r, &a), "%s", results_path));
    TRY(page_data(&a, &data));
    TRY(write_files(data, files));
    if (out != NULL) {
        *out = (grail_report){
            .checkpoints = aggregate_networks(&a),
            .cells = aggregate_lines(a.cells, a.cell_count),
            .failed_cells = aggregate_lines(a.failed, a.failed_count),
            .figures = (int64_t)json_array_size(json_object_get(data, "figures")),
            .cut_line = r.cut_line,
        };
    }
out:
    json_decref(data);
    aggregate_fini(&a);
    results_fini(&r);
    return status;
}
