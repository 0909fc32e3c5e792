#include "study/page/draw.h"

#include "base/child_output.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/temporary_directory.h"

#include <string.h>
#include <unistd.h>

enum { MOST_SVG = 512 << 20, MOST_SECONDS = 300 };

/* Takes the script, the style and the data out of the page (its input) as a browser does, and
 * prints what the script's drawFiles returns. */
static const char run_in_node[] =
    "const page = require('fs').readFileSync(0, 'utf8');\n"
    "const part = (begin, end) => {\n"
    "  const from = page.indexOf(begin) + begin.length;\n"
    "  return page.slice(from, page.indexOf(end, from));\n"
    "};\n"
    "const script = part('<script>', '</script>') + '\\nreturn drawFiles;';\n"
    "const data = JSON.parse(part('<script id=\"data\" type=\"application/json\">', "
    "'</script>'));\n"
    "process.stdout.write(new Function(script)()(data, part('<style>', '</style>')));\n";

static bool is_node(const char *program)
{
    const char *name = strrchr(program, '/');
    return name != NULL && strncmp(name, "/node", strlen("/node")) == 0;
}

grail_status draw_find_program(char **out)
{
    static const char *const names[] = {"node", "nodejs", "chromium", "chromium-browser",
                                        "google-chrome"};
    *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && *out == NULL; i++) {
        CHECK(child_find(names[i], out));
    }
    return *out != NULL
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "SVG files are drawn by the page's script, which needs node or "
                           "chromium in a directory of PATH, and neither is there; install "
                           "one, or write the page without SVG files");
}

/* Chromium prints the document that the script leaves for this address. It refuses to isolate
 * itself where root runs it; the page loads nothing and its texts cannot become script. */
static grail_status show_in_chromium(const char *program, const char *path, buffer *out)
{
    grail_status status = GRAIL_OK;
    char *address = NULL;
    TRY(memory_format(&address, "file://%s#svg-files", path));
    const char *const command[] = {program,
                                   "--headless",
                                   "--disable-gpu",
                                   "--dump-dom",
                                   geteuid() == 0 ? "--no-sandbox" : "--incognito",
                                   address,
                                   NULL};
    TRY(child_output(command, NULL, MOST_SECONDS, out));
out:
    memory_free(address);
    return status;
}

/* Chromium takes only a file of this ending as a page. */
static grail_status run_chromium(const char *program, const buffer *page, buffer *out)
{
    grail_status status = GRAIL_OK;
    char *directory = NULL;
    char *path = NULL;
    TRY(temporary_directory("grail-report", &directory));
    TRY(path_join(&path, directory, "page.html"));
    TRY(output_file_write(path, page->bytes, page->size));
    TRY(show_in_chromium(program, path, out));
out:
    temporary_directory_remove(directory);
    memory_free(path);
    memory_free(directory);
    return status;
}

static grail_status run(const char *program, const buffer *page, buffer *out)
{
    if (!is_node(program)) {
        return run_chromium(program, page, out);
    }
    const char *const command[] = {program, "-e", run_in_node, NULL};
    return child_output(command, page, MOST_SECONDS, out);
}

static bool is_file_name(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t length = strlen(name);
    return length > 4 && name[0] != '.' && strspn(name, plain) == length &&
           strcmp(name + length - 4, ".svg") == 0;
}

/* The object in what was printed: Chromium puts elements around it. */
static grail_status read_figures(const char *program, const buffer *printed, json_t **out)
{
    grail_status status = GRAIL_OK;
    const char *text = (const char *)printed->bytes;
    const char *begin = printed->size == 0 ? NULL : strchr(text, '{');
    const char *end = begin == NULL ? NULL : strrchr(text, '}');
    json_t *figures = NULL;
    const char *name = NULL;
    json_t *svg = NULL;
    if (end == NULL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "%s did not run the script that draws SVG files; write the "
             "page without them, or try another release of it",
             program);
    }
    TRY(json_parse(program, begin, (size_t)(end - begin) + 1, &figures));
    json_object_foreach (figures, name, svg) {
        const char *drawn = json_string_value(svg);
        if (!is_file_name(name) || drawn == NULL || strstr(drawn, FIGURE_MARK) == NULL) {
            FAIL(GRAIL_ERROR_FORMAT, "%s drew something else than SVG files", program);
        }
    }
    *out = figures;
    figures = NULL;
out:
    json_decref(figures);
    return status;
}

grail_status draw_figures(const char *program, const buffer *page, json_t **out)
{
    grail_status status = GRAIL_OK;
    buffer printed = {0};
    buffer_init(&printed, MOST_SVG);
    TRY(run(program, page, &printed));
    TRY(read_figures(program, &printed, out));
out:
    buffer_fini(&printed);
    return status;
}
