/* Any bytes as the results of a sweep, made into a page. Accepted results have sane numbers, and
 * the page around their data is that of any results: the data holds no character of markup, and
 * tables of figures have a line for each row.
 */
#include "fuzz.h"

#include "study/page/data.h"
#include "study/page/page.h"
#include "study/page/tsv.h"

#include <math.h>
#include <string.h>

static void check_cells(const results *r)
{
    for (int i = 0; i < r->cell_count; i++) {
        const result_cell *cell = &r->cells[i];
        fuzz_require(cell->checkpoint >= 0 && cell->checkpoint < r->checkpoint_count);
        fuzz_require(cell->selector >= 0 && cell->selector < r->selector_count);
        fuzz_require(cell->settings.sparsity >= 0.0 && cell->settings.sparsity < 1.0);
        fuzz_require(cell->settings.samples >= 0 && cell->settings.seed >= 0);
        fuzz_require(isnan(cell->measures.top1) ||
                     (cell->measures.top1 >= 0.0 && cell->measures.top1 <= 1.0));
    }
}

static void check_groups(const aggregate *a)
{
    int cells = 0;
    for (int i = 0; i < a->group_count; i++) {
        const cell_group *g = &a->groups[i];
        fuzz_require(g->top1.count <= g->count && g->gain.count <= g->count);
        fuzz_require(g->top1.count == 0 || (g->top1.least <= g->top1.most && !isnan(g->top1.mean)));
        cells += g->count;
    }
    fuzz_require(cells == a->cell_count);
    fuzz_require(cells + a->failed_count + a->superseded == a->results->cell_count);
}

static void check_page(const json_t *data)
{
    static const char begin[] = "<script id=\"data\" type=\"application/json\">";
    buffer page;
    buffer_init(&page, 1 << 27);
    fuzz_require(page_write(data, &page) == GRAIL_OK);
    const char *text = (const char *)page.bytes;
    const char *at = strstr(text, begin);
    fuzz_require(at != NULL && strlen(text) == page.size);
    at += strlen(begin);
    at += strcspn(at, "<>&");
    fuzz_require(strncmp(at, "</script>\n<script>", 18) == 0);
    for (; *text != 0; text++) {
        fuzz_require((unsigned char)*text >= 0x20 || *text == '\n');
    }
    buffer_fini(&page);
}

static void check_tables(const json_t *data)
{
    const json_t *figures = json_object_get(data, "figures");
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *figure = json_array_get(figures, i);
        size_t lines = 0;
        buffer text;
        buffer_init(&text, 1 << 27);
        fuzz_require(tsv_of_figure(data, figure, &text) == GRAIL_OK);
        for (size_t j = 0; j < text.size; j++) {
            lines += text.bytes[j] == '\n' ? 1 : 0;
        }
        fuzz_require(lines == 1 + json_array_size(json_object_get(figure, "rows")));
        buffer_fini(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    results r = {0};
    aggregate a = {0};
    json_t *shown = NULL;
    if (results_parse("results", data, size, &r) == GRAIL_OK) {
        check_cells(&r);
        if (aggregate_results(&r, &a) == GRAIL_OK) {
            check_groups(&a);
            fuzz_require(page_data(&a, &shown) == GRAIL_OK);
            check_page(shown);
            check_tables(shown);
        }
    }
    json_decref(shown);
    aggregate_fini(&a);
    results_fini(&r);
    return 0;
}
