/* Any bytes as the results of a sweep, drawn as a page. Accepted results have sane numbers, and
 * their page has only the markup of the page itself: one script, and a tag wherever there is a '<'.
 */
#include "fuzz.h"

#include "study/page/page.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static void check_cells(const results *r)
{
    for (int i = 0; i < r->cell_count; i++) {
        const result_cell *cell = &r->cells[i];
        fuzz_require(cell->checkpoint >= 0 && cell->checkpoint < r->checkpoint_count);
        fuzz_require(cell->selector >= 0 && cell->selector < r->selector_count);
        fuzz_require(cell->sparsity >= 0.0 && cell->sparsity < 1.0);
        fuzz_require(cell->samples >= 0 && cell->seed >= 0);
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

static void check_page(const char *text)
{
    const char *script = strstr(text, "<script"); /* the page's own script, its last element */
    fuzz_require(script != NULL && strstr(script + 1, "<script") == NULL);
    fuzz_require(strcmp(strstr(script, "</script>"), "</script>\n</body>\n</html>\n") == 0);
    for (const char *at = strchr(text, '<'); at < script; at = strchr(at + 1, '<')) {
        fuzz_require(isalpha((unsigned char)at[1]) || at[1] == '/' || at[1] == '!');
    }
    for (; *text != 0; text++) {
        fuzz_require((unsigned char)*text >= 0x20 || *text == '\n' || *text == '\t');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    results r = {0};
    aggregate a = {0};
    markup page;
    int figures = 0;
    markup_init(&page, 1 << 26);
    if (results_parse("results", data, size, &r) == GRAIL_OK) {
        check_cells(&r);
        if (aggregate_results(&r, &a) == GRAIL_OK) {
            check_groups(&a);
            fuzz_require(page_write(&a, NULL, &page, &figures) == GRAIL_OK);
            check_page((const char *)page.bytes.bytes);
        }
    }
    markup_fini(&page);
    aggregate_fini(&a);
    results_fini(&r);
    return 0;
}
